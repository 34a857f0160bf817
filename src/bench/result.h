/* SPDX-License-Identifier: GPL-2.0-only */
/* What was measured, and what follows from it. As JSON it is docs/json.md, "Bench". */
#ifndef BLKHIST_BENCH_RESULT_H
#define BLKHIST_BENCH_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/stats.h"
#include "core/buf.h"
#include "core/error.h"

#define OBSERVERS_MAX 32
#define UNKNOWN (-1.0)

enum quantile { P50, P99, P99_9, QUANTILES };
extern const char *const quantile_names[QUANTILES];

/* One observer in one round. What is not known is UNKNOWN. */
struct sample {
	unsigned int observer; /* index */
	unsigned int round;    /* from 1 on */
	unsigned int place;    /* in the round, likewise */
	double value;          /* in the unit of the workload */
	double ios;
	double seconds;
	double cpu_s;    /* of the whole machine */
	double switches; /* of contexts, likewise */
	double bytes;    /* that the observer has written */
	double dropped;  /* events that it has lost */
	double latency_ns[QUANTILES];
	double threads[3];      /* lowest, average, highest value of a thread */
	double transferred_min; /* bytes, of the thread with the fewest */
};

struct result_observer {
	char *name;
	char *reason; /* why it cannot run here; or NULL */
};

struct result {
	char *kernel, *version, *time, *fio;
	double cpus, load;
	char *workload, *unit;
	char *details; /* what it does to which devices */
	bool more_is_better;
	bool interrupted;
	char *failed;              /* why the workload did, and the rounds ended; or NULL */
	char *not_undone;          /* a sentence, or NULL; not in JSON */
	unsigned int rounds, trim; /* as asked for */
	uint64_t seed;
	struct result_observer observers[OBSERVERS_MAX]; /* the first is the baseline */
	unsigned int n_observers;
	struct sample *samples; /* as they were taken */
	unsigned int n_samples;
	/* Where they are by observer and round, plus one; 0 if there is none. */
	unsigned short place[OBSERVERS_MAX][STATS_ROUNDS_MAX];
};
void result_deinit(struct result *r);

/* Of a round that is not more than STATS_ROUNDS_MAX; the first of an observer in a round counts. */
void result_add(struct result *r, const struct sample *s);

/* What observers are compared by. */
enum metric { METRIC_VALUE, METRIC_CPU, METRIC_NR };

/* CPU time is in microseconds per I/O, or in seconds where nobody counts I/Os. */
const char *result_unit(const struct result *r, enum metric m);
bool result_more_is_better(const struct result *r, enum metric m);

/* Of one observer, from the rounds that all observers have ended. */
struct analysis {
	unsigned int n;         /* rounds */
	double *values;         /* by round */
	double *costs;          /* in shares of the baseline's in the round */
	struct summary summary; /* if n > 2 * trim */
	bool has_summary;
	struct interval interval;
	bool has_interval; /* there are enough rounds, and it is not the baseline */
};
void analysis_deinit(struct analysis *a);
void result_analyse(const struct result *r, enum metric m, unsigned int observer,
		    struct analysis *ret);

/* The mean of a member of struct sample over the rounds that have it; UNKNOWN if none has. */
double result_mean(const struct result *r, unsigned int observer, size_t member);

void result_text(const struct result *r, struct buf *out);
/* With a newline. */
void result_json(const struct result *r, struct buf *out);
struct error *result_read(const char *path, struct result *ret) must_check;
void result_plot(const struct result *r, struct buf *out);

#endif
