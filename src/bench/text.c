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

static void cell(struct buf *out, int width, const char *fmt, double value)
{
	cleanup_free char *text = NULL;

	if (value < 0)
		text = xstrdup("-");
	else if (!strcmp(fmt, "time") || !strcmp(fmt, "size")) {
		char unit[UNIT_TEXT_MAX];

		unit_format_short(*fmt == 't' ? DIM_TIME : DIM_SIZE, (int64_t)llround(value), unit);
		text = xstrdup(unit);
	} else
		text = xasprintf("%.1f", value);
	buf_printf(out, " %*s", width, text);
}

/* Averages of what is not compared. */
static void beside(const struct result *r, struct buf *out)
{
	static const struct {
		const char *head, *format;
		size_t member;
	} columns[] = {
		{ "p50", "time", offsetof(struct sample, latency_ns[P50]) },
		{ "p99", "time", offsetof(struct sample, latency_ns[P99]) },
		{ "p99.9", "time", offsetof(struct sample, latency_ns[P99_9]) },
		{ "thread min", "", offsetof(struct sample, threads[0]) },
		{ "thread max", "", offsetof(struct sample, threads[2]) },
		{ "least", "size", offsetof(struct sample, transferred_min) },
		{ "switches", "", offsetof(struct sample, switches) },
		{ "written", "size", offsetof(struct sample, bytes) },
		{ "dropped", "", offsetof(struct sample, dropped) },
	};
	int width = name_width(r);
	bool used[ARRAY_SIZE(columns)] = {};

	for (size_t c = 0; c < ARRAY_SIZE(columns); c++)
		for (unsigned int i = 0; i < r->n_observers; i++)
			used[c] |= result_mean(r, i, columns[c].member) >= 0;
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
				cell(out, 11, columns[c].format,
				     result_mean(r, i, columns[c].member));
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
	buf_printf(out,
		   "%u of %u rounds, each in random order (seed %" PRIu64
		   "); not in the tables: the "
		   "%u highest and %u lowest values\n",
		   baseline.n, r->rounds, r->seed, r->trim, r->trim);
	if (r->interrupted)
		buf_puts(out, "It was interrupted.\n");
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
			buf_puts(out, "\nCannot run here\n");
		heading = true;
		buf_printf(out, "%-*s %s\n", width, r->observers[i].name, r->observers[i].reason);
	}
}
