// SPDX-License-Identifier: GPL-2.0-only
#include "bench/stats.h"

#include <math.h>
#include <string.h>

#include "core/util.h"

/* Of each tail */
#define TAIL 0.025

static int compare_doubles(const void *a, const void *b)
{
	return COMPARE(*(const double *)a, *(const double *)b);
}

static void sort(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
}

struct summary summary_of(const double *values, unsigned int n, unsigned int trim)
{
	cleanup_free double *sorted = xcalloc(n, sizeof(*sorted));
	unsigned int left = n - 2 * trim;
	double sum = 0, squares = 0;

	memcpy(sorted, values, n * sizeof(*sorted));
	sort(sorted, n);
	for (unsigned int i = trim; i < n - trim; i++)
		sum += sorted[i];
	for (unsigned int i = trim; i < n - trim; i++)
		squares += (sorted[i] - sum / left) * (sorted[i] - sum / left);
	return (struct summary){
		.min = sorted[trim],
		.avg = sum / left,
		.max = sorted[n - trim - 1],
		.stddev = left > 1 ? sqrt(squares / (left - 1)) : 0,
	};
}

/*
 * How many of the sorted means, counted from an end, lie outside of the interval. It is the number
 * of rank sums whose chance together is at most TAIL, if each round's sign were as good as the
 * other.
 */
static size_t means_outside(unsigned int n)
{
	size_t n_sums = (size_t)n * (n + 1) / 2 + 1;
	cleanup_free double *chance = xcalloc(n_sums, sizeof(*chance));
	double sum = 0;
	size_t outside = 0;

	chance[0] = 1;
	for (unsigned int rank = 1; rank <= n; rank++)
		for (size_t s = n_sums; s-- > 0;)
			chance[s] = (chance[s] + (s >= rank ? chance[s - rank] : 0)) / 2;
	while ((sum += chance[outside]) <= TAIL)
		outside++;
	return outside;
}

bool interval_of(const double *differences, unsigned int n, struct interval *ret)
{
	size_t n_means = (size_t)n * (n + 1) / 2, k = 0, outside;
	cleanup_free double *means = NULL;

	if (n < STATS_ROUNDS_MIN)
		return false;
	means = xcalloc(n_means, sizeof(*means));
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int j = i; j < n; j++)
			means[k++] = (differences[i] + differences[j]) / 2;
	sort(means, n_means);
	outside = means_outside(n);
	ret->estimate = (means[(n_means - 1) / 2] + means[n_means / 2]) / 2;
	ret->low = means[outside - 1];
	ret->high = means[n_means - outside];
	return true;
}

double cost_of(double value, double baseline, bool more_is_better)
{
	double rise = value / baseline - 1;

	return more_is_better ? -rise : rise;
}

void verdict(const struct interval *i, struct buf *out)
{
	double middle = (i->low + i->high) * 50, half = (i->high - i->low) * 50;

	if (i->low <= 0 && i->high >= 0)
		buf_printf(out, "no difference at this resolution (±%.1f %%)",
			   fmax(-i->low, i->high) * 100);
	else
		buf_printf(out, "%s %.1f %% ± %.1f %%", i->low > 0 ? "costs" : "gains",
			   fabs(middle), half);
}

/* splitmix64 */
static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

void shuffle(unsigned int *order, unsigned int n, uint64_t *seed)
{
	for (unsigned int i = n; i > 1; i--) {
		unsigned int k = (unsigned int)(random_next(seed) % i), kept = order[i - 1];

		order[i - 1] = order[k];
		order[k] = kept;
	}
}
