/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the rounds say. Every observer is measured once in every round, so that each has its own
 * baseline near in time: differences are taken within the round. Their interval is that of
 * Wilcoxon's signed-rank test, of all rounds: it takes nothing of their distribution for granted
 * but symmetry, keeps its 95 % with few rounds, and from 12 on a single disturbed round does not
 * widen it.
 */
#ifndef BLKHIST_BENCH_STATS_H
#define BLKHIST_BENCH_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"

/* With fewer rounds no interval has 95 %. With more the exact distribution takes too long. */
#define STATS_ROUNDS_MIN 6
#define STATS_ROUNDS_MAX 200

struct summary {
	double min, avg, max;
	double stddev; /* of the sample; 0 for a single value */
};
/* Of @values without the @trim highest and lowest; @n > 2 * @trim. */
struct summary summary_of(const double *values, unsigned int n, unsigned int trim);

/* Shares of the baseline; what is above 0 is a cost. */
struct interval {
	double estimate; /* Hodges and Lehmann's: the median of the means of all pairs */
	double low, high;
};
/* False if there are too few. */
bool interval_of(const double *differences, unsigned int n, struct interval *ret);

/* The cost of @value in shares of @baseline, which is not 0. */
double cost_of(double value, double baseline, bool more_is_better);

/*
 * In words: "costs 7.4 % ± 1.1 %", which is the interval; or, if 0 is in it, "no difference at this
 * resolution (±0.9 %)", where what is beyond that is excluded.
 */
void verdict(const struct interval *i, struct buf *out);

/* The same order for the same seed, on every machine. */
void shuffle(unsigned int *order, unsigned int n, uint64_t *seed);

#endif
