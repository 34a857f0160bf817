// SPDX-License-Identifier: GPL-2.0-only
#include "bench/result.h"

#include <string.h>

#include "core/util.h"

const char *const quantile_names[QUANTILES] = { [P50] = "p50", [P99] = "p99", [P99_9] = "p99.9" };

void result_deinit(struct result *r)
{
	free(r->kernel), free(r->version), free(r->time), free(r->fio);
	free(r->workload), free(r->unit), free(r->details);
	free(r->failed), free(r->not_undone);
	for (unsigned int i = 0; i < r->n_observers; i++)
		free(r->observers[i].name), free(r->observers[i].reason);
	free(r->samples);
	*r = (struct result){};
}

void result_add(struct result *r, const struct sample *s)
{
	r->samples = xreallocarray(r->samples, r->n_samples + 1, sizeof(*r->samples));
	r->samples[r->n_samples++] = *s;
	if (!r->place[s->observer][s->round - 1])
		r->place[s->observer][s->round - 1] = (unsigned short)r->n_samples;
}

static bool counts_ios(const struct result *r)
{
	for (unsigned int i = 0; i < r->n_samples; i++)
		if (r->samples[i].ios <= 0)
			return false;
	return r->n_samples;
}

const char *result_unit(const struct result *r, enum metric m)
{
	if (m == METRIC_VALUE)
		return r->unit;
	return counts_ios(r) ? "CPU us per I/O" : "CPU seconds";
}

bool result_more_is_better(const struct result *r, enum metric m)
{
	return m == METRIC_VALUE && r->more_is_better;
}

static const struct sample *find(const struct result *r, unsigned int observer, unsigned int round)
{
	unsigned int place = r->place[observer][round - 1];

	return place ? &r->samples[place - 1] : NULL;
}

/* Of all observers that can run */
static bool round_is_whole(const struct result *r, unsigned int round)
{
	for (unsigned int i = 0; i < r->n_observers; i++)
		if (!r->observers[i].reason && !find(r, i, round))
			return false;
	return true;
}

static double metric(const struct sample *s, enum metric m, bool per_io)
{
	if (m == METRIC_VALUE)
		return s->value;
	return per_io ? s->cpu_s * 1e6 / s->ios : s->cpu_s;
}

void analysis_deinit(struct analysis *a)
{
	free(a->values), free(a->costs);
	*a = (struct analysis){};
}

void result_analyse(const struct result *r, enum metric m, unsigned int observer,
		    struct analysis *ret)
{
	bool more = result_more_is_better(r, m), per_io = counts_ios(r), comparable = true;
	struct analysis a = {
		.values = xcalloc(r->rounds, sizeof(double)),
		.costs = xcalloc(r->rounds, sizeof(double)),
	};

	for (unsigned int round = 1; round <= r->rounds && !r->observers[observer].reason;
	     round++) {
		const struct sample *none = find(r, 0, round), *own = find(r, observer, round);

		if (!none || !own || !round_is_whole(r, round))
			continue;

		double base = metric(none, m, per_io), value = metric(own, m, per_io);

		comparable &= base > 0;
		a.values[a.n] = value;
		a.costs[a.n] = base > 0 ? cost_of(value, base, more) : 0;
		a.n++;
	}
	a.has_summary = a.n > 2 * r->trim;
	if (a.has_summary)
		a.summary = summary_of(a.values, a.n, r->trim);
	a.has_interval = observer && comparable && interval_of(a.costs, a.n, &a.interval);
	*ret = a;
}

double result_mean(const struct result *r, unsigned int observer, size_t member)
{
	double sum = 0;
	unsigned int n = 0;

	for (unsigned int i = 0; i < r->n_samples; i++) {
		double value;

		memcpy(&value, (const char *)&r->samples[i] + member, sizeof(value));
		if (r->samples[i].observer != observer || value < 0)
			continue;
		sum += value;
		n++;
	}
	return n ? sum / n : UNKNOWN;
}
