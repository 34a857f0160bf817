// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "bench/result.h"
#include "core/units.h"
#include "core/util.h"

static int name_width(const struct result *r)
{
	size_t width = strlen("Observer");

	for (unsigned int i = 0; i < r->n_observers; i++)
		if (strlen(r->observers[i].name) > width)
			width = strlen(r->observers[i].name);
	return (int)width;
}

/* As many digits as make sense of a value of this magnitude. */
static int decimals(double value)
{
	return value >= 1000 ? 0 : value >= 10 ? 2 : 4;
}

static void table(const struct result *r, enum metric m, struct buf *out)
{
	int width = name_width(r);

	buf_printf(out, "\n%s (%s is better)\n%-*s %12s %12s %12s %12s\n", result_unit(r, m),
		   result_more_is_better(r, m) ? "more" : "less", width, "Observer", "Min val",
		   "Avg val", "Max val", "Std Dev");
	for (unsigned int i = 0; i < r->n_observers; i++) {
		cleanup(analysis_deinit) struct analysis a = {};
		const struct summary *s = &a.summary;
		int digits;

		result_analyse(r, m, i, &a);
		if (!a.has_summary)
			continue;
		digits = decimals(s->avg);
		buf_printf(out, "%-*s %12.*f %12.*f %12.*f %12.*f\n", width, r->observers[i].name,
			   digits, s->min, digits, s->avg, digits, s->max, digits, s->stddev);
	}
}

static void verdicts(const struct result *r, enum metric m, struct buf *out)
{
	int width = name_width(r);

	buf_printf(out, "\n%s, compared with %s\n", result_unit(r, m), r->observers[0].name);
	for (unsigned int i = 1; i < r->n_observers; i++) {
		cleanup(analysis_deinit) struct analysis a = {};

		if (r->observers[i].reason)
			continue;
		result_analyse(r, m, i, &a);
		buf_printf(out, "%-*s ", width, r->observers[i].name);
		if (a.has_interval)
			verdict(&a.interval, out);
		else if (a.n < STATS_ROUNDS_MIN)
			buf_printf(out, "%u whole rounds are too few for an interval", a.n);
		else
			buf_puts(out, "not comparable: the baseline is 0");
		buf_puts(out, "\n");
	}
}

enum form { NUMBER, TIME, SIZE };

struct column {
	const char *head;
	size_t member; /* of struct sample */
	enum form form;
	bool per_io;
};

static double mean(const struct result *r, unsigned int observer, const struct column *c)
{
	double value = result_mean(r, observer, c->member);
	double ios = result_mean(r, observer, offsetof(struct sample, ios));

	return !c->per_io ? value : ios > 0 && value >= 0 ? value / ios : UNKNOWN;
}

static void cell(struct buf *out, int width, const struct column *c, double value)
{
	char text[UNIT_TEXT_MAX];

	if (value < 0)
		buf_printf(out, " %*s", width, "-");
	else if (c->form == NUMBER)
		buf_printf(out, " %*.*f", width, c->per_io ? 3 : 1, value);
	else {
		unit_format_short(c->form == TIME ? DIM_TIME : DIM_SIZE, (int64_t)llround(value),
				  text);
		buf_printf(out, " %*s", width, text);
	}
}

/* Averages of what is not compared. */
static void beside(const struct result *r, struct buf *out)
{
	static const struct column columns[] = {
		{ "p50", offsetof(struct sample, latency_ns[P50]), TIME, false },
		{ "p99", offsetof(struct sample, latency_ns[P99]), TIME, false },
		{ "p99.9", offsetof(struct sample, latency_ns[P99_9]), TIME, false },
		{ "thread min", offsetof(struct sample, threads[0]), NUMBER, false },
		{ "thread max", offsetof(struct sample, threads[2]), NUMBER, false },
		{ "least", offsetof(struct sample, transferred_min), SIZE, false },
		{ "switches", offsetof(struct sample, switches), NUMBER, false },
		{ "per I/O", offsetof(struct sample, switches), NUMBER, true },
		{ "written", offsetof(struct sample, bytes), SIZE, false },
		{ "dropped", offsetof(struct sample, dropped), NUMBER, false },
	};
	int width = name_width(r);
	bool used[ARRAY_SIZE(columns)] = {};

	for (size_t c = 0; c < ARRAY_SIZE(columns); c++)
		for (unsigned int i = 0; i < r->n_observers; i++)
			used[c] |= mean(r, i, &columns[c]) >= 0;
	buf_printf(out, "\nA round on average\n%-*s", width, "Observer");
	for (size_t c = 0; c < ARRAY_SIZE(columns); c++)
		if (used[c])
			buf_printf(out, " %11s", columns[c].head);
	for (unsigned int i = 0; i < r->n_observers; i++) {
		if (r->observers[i].reason)
			continue;
		buf_printf(out, "\n%-*s", width, r->observers[i].name);
		for (size_t c = 0; c < ARRAY_SIZE(columns); c++)
			if (used[c])
				cell(out, 11, &columns[c], mean(r, i, &columns[c]));
	}
	buf_puts(out, "\n");
}

void result_text(const struct result *r, struct buf *out)
{
	int width = name_width(r);
	bool heading = false;
	cleanup(analysis_deinit) struct analysis baseline = {};

	result_analyse(r, METRIC_VALUE, 0, &baseline);
	buf_printf(out, "%s, Linux %s, %.0f CPUs, load %.2f, blkhist %s%s%s\n", r->time, r->kernel,
		   r->cpus, r->load, r->version, *r->fio ? ", " : "", r->fio);
	buf_printf(out, "%s: %s\n", r->workload, r->details);
	buf_printf(out, "%u of %u rounds, each in random order (seed %" PRIu64 ")", baseline.n,
		   r->rounds, r->seed);
	if (r->trim)
		buf_printf(out, "; tables without the highest and lowest values (--trim %u)",
			   r->trim);
	buf_puts(out, "\n");
	if (r->interrupted)
		buf_puts(out, "It was interrupted.\n");
	if (r->failed)
		buf_printf(out, "It ended early: %s\n", r->failed);
	for (enum metric m = 0; baseline.has_summary && m < METRIC_NR; m++)
		table(r, m, out);
	for (enum metric m = 0; m < METRIC_NR; m++)
		verdicts(r, m, out);
	buf_puts(out, "Intervals of 95 %: Wilcoxon's signed-rank test of the differences within "
		      "each round, all rounds.\n");
	if (r->n_samples)
		beside(r, out);
	for (unsigned int i = 0; i < r->n_observers; i++) {
		if (!r->observers[i].reason)
			continue;
		if (!heading)
			buf_puts(out, "\nNot measured\n");
		heading = true;
		buf_printf(out, "%-*s %s\n", width, r->observers[i].name, r->observers[i].reason);
	}
}
