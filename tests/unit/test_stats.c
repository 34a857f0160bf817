// SPDX-License-Identifier: GPL-2.0-only
/* The statistics of blkhist bench. */
#include "unit.h"

#include <math.h>

#include "bench/stats.h"

#define N_MAX 30

static void assert_near(double got, double expected)
{
	if (fabs(got - expected) > 1e-9 * fmax(1, fabs(expected))) {
		print_error("got %.12g, should be %.12g\n", got, expected);
		fail();
	}
}

static double random_unit(uint64_t *state)
{
	return (double)(random_u64(state) >> 11) / 9007199254740992.0;
}

/* Near enough to a normal distribution of deviation 1 */
static double random_normal(uint64_t *state)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += random_unit(state);
	return sum;
}

static void test_summary(void **state)
{
	const double values[] = { 7, 1, 100, 4, 5, 2, -50, 8, 3, 6 };
	struct summary s = summary_of(values, ARRAY_SIZE(values), 1);

	(void)state;
	/* Of 1..8 */
	assert_near(s.min, 1);
	assert_near(s.max, 8);
	assert_near(s.avg, 4.5);
	assert_near(s.stddev, sqrt(6));
	s = summary_of(values, ARRAY_SIZE(values), 0);
	assert_near(s.min, -50);
	assert_near(s.max, 100);
	assert_near(s.avg, 8.6);
	s = summary_of(values, 3, 1);
	assert_near(s.avg, 7);
	assert_near(s.stddev, 0);
}

static int compare(const void *a, const void *b)
{
	return COMPARE(*(const double *)a, *(const double *)b);
}

/* Critical values of the signed-rank sum for 5 %, both tails, as tables have them. */
static void test_interval_has_the_rank_of_the_tables(void **state)
{
	static const struct {
		unsigned int n, critical;
	} table[] = {
		{ 6, 0 },   { 7, 2 },   { 8, 3 },   { 9, 5 },   { 10, 8 },   { 11, 10 },
		{ 12, 13 }, { 13, 17 }, { 14, 21 }, { 15, 25 }, { 16, 29 },  { 17, 34 },
		{ 18, 40 }, { 19, 46 }, { 20, 52 }, { 25, 89 }, { 30, 137 },
	};
	double values[N_MAX], means[N_MAX * (N_MAX + 1) / 2];

	(void)state;
	for (size_t t = 0; t < ARRAY_SIZE(table); t++) {
		unsigned int n = table[t].n, k = 0;
		struct interval i;

		/* All means of two are different. */
		for (unsigned int v = 0; v < n; v++)
			values[v] = ldexp(v % 2 ? 1 : -1, (int)v);
		for (unsigned int a = 0; a < n; a++)
			for (unsigned int b = a; b < n; b++)
				means[k++] = (values[a] + values[b]) / 2;
		qsort(means, k, sizeof(*means), compare);
		assert_true(interval_of(values, n, &i));
		assert_near(i.low, means[table[t].critical]);
		assert_near(i.high, means[k - 1 - table[t].critical]);
	}
}

static void test_interval_wants_six_rounds(void **state)
{
	const double values[] = { 1, 2, 3, 4, 5, 6 };
	struct interval i = { .low = 42 };

	(void)state;
	assert_false(interval_of(values, 5, &i));
	assert_near(i.low, 42);
	assert_true(interval_of(values, 6, &i));
	assert_near(i.low, 1);
	assert_near(i.high, 6);
	assert_near(i.estimate, 3.5);
}

/* As often as it says: 95 %, for any number of rounds; of 4,000 trials, some 4 deviations. */
static void test_interval_holds_as_often_as_it_says(void **state)
{
	static const unsigned int rounds[] = { 6, 8, 10, 20, 40 };
	uint64_t seed = 7;

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(rounds); k++) {
		unsigned int held = 0;

		for (unsigned int trial = 0; trial < 4000; trial++) {
			double values[40];
			struct interval i;

			for (unsigned int r = 0; r < rounds[k]; r++)
				values[r] = 0.07 + 0.02 * random_normal(&seed);
			assert_true(interval_of(values, rounds[k], &i));
			held += i.low <= 0.07 && i.high >= 0.07;
		}
		/* With six rounds there is nothing between 93.75 % and 96.9 %. */
		if (held < 3750 || held > 3950) {
			print_error("%u rounds: %u of 4000\n", rounds[k], held);
			fail();
		}
	}
}

/* A round in which something else ran: from 12 on it is outside, before it is seen in the interval.
 */
static void test_one_disturbed_round(void **state)
{
	double values[] = { 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.10, 0.11, 1000 };
	struct interval i;

	(void)state;
	assert_true(interval_of(values, 12, &i));
	assert_true(i.low > 0 && i.high < 0.13);
	assert_true(i.estimate < 0.08);
	assert_true(interval_of(values + 2, 10, &i));
	assert_true(i.low > 0 && i.high > 100);
	assert_true(i.estimate < 0.10);
}

static void check_verdict(double low, double high, const char *expected)
{
	const struct interval i = { .estimate = (low + high) / 2, .low = low, .high = high };
	cleanup(buf_deinit) struct buf out = {};

	verdict(&i, &out);
	assert_string_equal(out.str, expected);
}

static void test_verdict(void **state)
{
	(void)state;
	check_verdict(0.063, 0.085, "costs 7.4 % ± 1.1 %");
	check_verdict(-0.085, -0.063, "gains 7.4 % ± 1.1 %");
	check_verdict(-0.004, 0.009, "no difference at this resolution (±0.9 %)");
	check_verdict(-0.009, 0.004, "no difference at this resolution (±0.9 %)");
	check_verdict(0, 0.009, "no difference at this resolution (±0.9 %)");
}

static void test_cost(void **state)
{
	(void)state;
	assert_near(cost_of(110, 100, false), 0.1);
	assert_near(cost_of(110, 100, true), -0.1);
	assert_near(cost_of(90, 100, true), 0.1);
}

/* Every order is a permutation; the same seed gives the same; each place is as likely as others. */
static void test_shuffle(void **state)
{
	unsigned int places[5][5] = {};
	uint64_t seed = 1, same = 1;

	(void)state;
	for (unsigned int trial = 0; trial < 10000; trial++) {
		unsigned int order[5] = { 0, 1, 2, 3, 4 }, again[5] = { 0, 1, 2, 3, 4 }, seen = 0;

		shuffle(order, 5, &seed);
		shuffle(again, 5, &same);
		assert_memory_equal(order, again, sizeof(order));
		for (unsigned int i = 0; i < 5; i++) {
			seen |= 1u << order[i];
			places[i][order[i]]++;
		}
		assert_int_equal(seen, 31);
	}
	for (unsigned int i = 0; i < 25; i++)
		assert_in_range(places[i / 5][i % 5], 1800, 2200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_interval_has_the_rank_of_the_tables),
		cmocka_unit_test(test_interval_wants_six_rounds),
		cmocka_unit_test(test_interval_holds_as_often_as_it_says),
		cmocka_unit_test(test_one_disturbed_round),
		cmocka_unit_test(test_verdict),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_shuffle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
