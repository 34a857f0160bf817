// SPDX-License-Identifier: GPL-2.0-only
#include "unit.h"

#include "core/hist.h"

static void ladder(enum dimension dim, const char *spec, struct ladder *ret)
{
	assert_ok(ladder_parse(dim, spec, ret));
}

/* A timed histogram of 3 rows, and for all kinds of arithmetic any 64 bits in each cell. */
struct fixture {
	struct ladder time, sizes;
	struct hist a, b, c;
};

static struct hist random_hist(uint64_t *seed, const struct fixture *f)
{
	struct hist h = { .kind = KIND_REQUEST };

	hist_init(&h, &f->time, &f->sizes);
	for (unsigned int i = 0; i < h.n_rows * h.n_cols; i++)
		h.counts[i] = random_u64(seed);
	for (unsigned int i = 0; i < h.n_rows; i++)
		h.sums[i] = (int64_t)random_u64(seed);
	h.bytes = random_u64(seed);
	return h;
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	uint64_t seed = 4;

	ladder(DIM_TIME, "native:1,1ms..16s", &f->time);
	ladder(DIM_SIZE, "4KiB,64KiB", &f->sizes);
	f->a = random_hist(&seed, f);
	f->b = random_hist(&seed, f);
	f->c = random_hist(&seed, f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	hist_deinit(&f->a);
	hist_deinit(&f->b);
	hist_deinit(&f->c);
	free(f);
	return 0;
}

/* The sum of two, as a new histogram. */
static struct hist added(const struct hist *a, const struct hist *b)
{
	struct hist h = { .kind = a->kind };

	hist_init(&h, a->ladder, a->sizes);
	hist_merge(&h, a);
	hist_merge(&h, b);
	return h;
}

static void assert_same(const struct hist *a, const struct hist *b)
{
	assert_true(hist_same_shape(a, b));
	assert_memory_equal(a->counts, b->counts, sizeof(*a->counts) * a->n_rows * a->n_cols);
	assert_memory_equal(a->sums, b->sums, sizeof(*a->sums) * a->n_rows);
	assert_true(a->bytes == b->bytes);
}

static void init(void **state)
{
	struct fixture *f = *state;
	cleanup(hist_deinit) struct hist timed = { .kind = KIND_QUEUE };
	cleanup(hist_deinit) struct hist flush = { .kind = KIND_QUEUE };

	hist_init(&timed, &f->time, &f->sizes);
	assert_int_equal(timed.n_cols, f->time.n + 1);
	assert_int_equal(timed.n_rows, 3);
	assert_true(hist_count(&timed) == 0);
	assert_true(hist_sum(&timed) == 0);
	assert_ptr_equal(hist_row(&timed, 2), timed.counts + 2 * timed.n_cols);
	hist_init(&flush, &f->time, NULL);
	assert_int_equal(flush.n_rows, 1);
	hist_deinit(&flush);
	assert_null(flush.counts);
	assert_null(flush.sums);
}

static void merge_adds(void **state)
{
	struct fixture *f = *state;
	cleanup(hist_deinit) struct hist sum = added(&f->a, &f->b);

	for (unsigned int i = 0; i < sum.n_rows * sum.n_cols; i++)
		assert_true(sum.counts[i] == f->a.counts[i] + f->b.counts[i]);
	for (unsigned int i = 0; i < sum.n_rows; i++)
		assert_true((uint64_t)sum.sums[i] ==
			    (uint64_t)f->a.sums[i] + (uint64_t)f->b.sums[i]);
}

static void merge_commutes(void **state)
{
	struct fixture *f = *state;
	cleanup(hist_deinit) struct hist ab = added(&f->a, &f->b);
	cleanup(hist_deinit) struct hist ba = added(&f->b, &f->a);

	assert_same(&ab, &ba);
}

static void merge_associates(void **state)
{
	struct fixture *f = *state;
	cleanup(hist_deinit) struct hist ab = added(&f->a, &f->b), bc = added(&f->b, &f->c);
	cleanup(hist_deinit) struct hist left = added(&ab, &f->c), right = added(&f->a, &bc);

	assert_same(&left, &right);
}

static void zero_is_neutral(void **state)
{
	struct fixture *f = *state;
	cleanup(hist_deinit) struct hist zero = { .kind = KIND_REQUEST };

	hist_init(&zero, &f->time, &f->sizes);

	cleanup(hist_deinit) struct hist sum = added(&f->a, &zero);

	assert_same(&sum, &f->a);
	hist_subtract(&sum, &zero);
	assert_same(&sum, &f->a);
	hist_subtract(&sum, &f->a);
	assert_same(&sum, &zero);
}

static void subtract_undoes_merge(void **state)
{
	struct fixture *f = *state;
	cleanup(hist_deinit) struct hist h = added(&f->a, &f->b);

	hist_subtract(&h, &f->b);
	assert_same(&h, &f->a);
	hist_subtract(&h, &f->c);
	hist_merge(&h, &f->c);
	assert_same(&h, &f->a);
}

static void shapes(void **state)
{
	struct fixture *f = *state;
	struct ladder time_copy = f->time, size_copy = f->sizes, other_time, other_sizes;
	struct hist a = { .kind = KIND_REQUEST, .ladder = &f->time, .sizes = &f->sizes };
	struct hist b = { .kind = KIND_REQUEST, .ladder = &time_copy, .sizes = &size_copy };

	ladder(DIM_TIME, "native:1,2ms..16s", &other_time);
	ladder(DIM_SIZE, "4KiB,128KiB", &other_sizes);
	assert_true(hist_same_shape(&a, &b)); /* equal bounds count, not the same pointers */
	b.kind = KIND_SERVICE;
	assert_false(hist_same_shape(&a, &b));
	b.kind = KIND_REQUEST;
	b.ladder = &other_time;
	assert_false(hist_same_shape(&a, &b));
	b.ladder = &f->time;
	b.sizes = &other_sizes;
	assert_false(hist_same_shape(&a, &b));
	b.sizes = NULL;
	assert_false(hist_same_shape(&a, &b));
	assert_false(hist_same_shape(&b, &a));
	a.sizes = NULL;
	assert_true(hist_same_shape(&a, &b));
}

/* ceil(@total * @permille / 1000), at least 1 */
static uint64_t rank_of(uint64_t total, unsigned int permille)
{
	unsigned __int128 rank = ((unsigned __int128)total * permille + 999) / 1000;

	return rank ? (uint64_t)rank : 1;
}

static int compare_int(const void *pa, const void *pb)
{
	return *(const int *)pa - *(const int *)pb;
}

#define SAMPLES_MAX 1500

/*
 * @n samples in 20 buckets, each counted @weight times. Sorted, sample i stands for the ranks
 * i * @weight + 1 .. (i + 1) * @weight.
 */
static void check_quantiles(uint64_t *seed, unsigned int n, uint64_t weight)
{
	static const unsigned int permilles[] = { 0, 1, 10, 250, 500, 501, 900, 990, 999, 1000 };
	uint64_t counts[20] = {};
	int sorted[SAMPLES_MAX];

	for (unsigned int i = 0; i < n; i++) {
		/* Few buckets or many, and some without any count between them. */
		sorted[i] = (int)(random_u64(seed) % 20 & random_u64(seed) % 20);
		counts[sorted[i]] += weight;
	}
	qsort(sorted, n, sizeof(sorted[0]), compare_int);
	for (size_t p = 0; p < ARRAY_SIZE(permilles); p++) {
		uint64_t rank = rank_of(n * weight, permilles[p]);

		assert_int_equal(hist_quantile(counts, ARRAY_SIZE(counts), permilles[p]),
				 sorted[(rank - 1) / weight]);
	}
}

static void quantiles(void **state)
{
	/* From 2^40 on, total * 1000 would overflow 64 bits; 2^53 * 1500 just fits into them. */
	static const uint64_t weights[] = { 1, 3, 1000, (1ull << 40) - 1, 1ull << 40, 1ull << 53 };
	uint64_t seed = 5;

	(void)state;
	for (size_t w = 0; w < ARRAY_SIZE(weights); w++)
		for (int i = 0; i < 200; i++)
			check_quantiles(&seed, 1 + random_u64(&seed) % SAMPLES_MAX, weights[w]);
	for (unsigned int n = 1; n <= 20; n++)
		check_quantiles(&seed, n, 1);
}

static void quantiles_by_hand(void **state)
{
	static const uint64_t thousand[] = { 500, 400, 90, 9, 1 };
	static const uint64_t more[] = { 500, 400, 90, 9, 2 };
	static const uint64_t one[] = { 0, 0, 1, 0 };
	static const uint64_t none[3];

	(void)state;
	assert_int_equal(hist_quantile(thousand, 5, 500), 0);
	assert_int_equal(hist_quantile(thousand, 5, 900), 1);
	assert_int_equal(hist_quantile(thousand, 5, 990), 2);
	assert_int_equal(hist_quantile(thousand, 5, 999), 3);
	assert_int_equal(hist_quantile(thousand, 5, 1000), 4);
	/* 1001 samples: ranks are rounded up. */
	assert_int_equal(hist_quantile(more, 5, 500), 1);
	assert_int_equal(hist_quantile(more, 5, 999), 4); /* 999.999 */
	assert_int_equal(hist_quantile(one, 4, 0), 2);
	assert_int_equal(hist_quantile(one, 4, 1000), 2);
	assert_int_equal(hist_quantile(none, 3, 500), -1);
	assert_int_equal(hist_quantile(none, 0, 500), -1);
}

static void stats_of_nothing(void **state)
{
	struct fixture *f = *state;
	cleanup(hist_deinit) struct hist h = { .kind = KIND_REQUEST };
	struct hist_stats s;

	hist_init(&h, &f->time, &f->sizes);
	hist_row(&h, 1)[4] = 7;
	h.sums[1] = 70;
	for (unsigned int to = 0; to <= 1; to++) {
		memset(&s, 0x5a, sizeof(s));
		hist_stats(&h, 0, to, &s);
		assert_true(s.count == 0);
		assert_true(s.sum == 0);
		assert_int_equal(s.p50, -1);
		assert_int_equal(s.p90, -1);
		assert_int_equal(s.p99, -1);
		assert_int_equal(s.p999, -1);
		assert_int_equal(s.max, -1);
	}
}

static int highest(const uint64_t *counts, unsigned int n)
{
	while (n && !counts[n - 1])
		n--;
	return (int)n - 1;
}

/* Rows are taken together as if they were one. */
static void stats_of_rows(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = 6;

	for (int round = 0; round < 100; round++) {
		cleanup(hist_deinit) struct hist h = { .kind = KIND_REQUEST };

		hist_init(&h, &f->time, &f->sizes);
		for (unsigned int i = 0; i < h.n_rows * h.n_cols; i++)
			h.counts[i] = random_magnitude(&seed, 40);
		for (unsigned int i = 0; i < h.n_rows; i++)
			h.sums[i] = (int64_t)random_magnitude(&seed, 60);
		for (unsigned int from = 0; from < h.n_rows; from++)
			for (unsigned int to = from + 1; to <= h.n_rows; to++) {
				cleanup_free uint64_t *cols = xcalloc(h.n_cols, sizeof(*cols));
				uint64_t count = 0;
				int64_t sum = 0;
				struct hist_stats s;

				for (unsigned int i = from * h.n_cols; i < to * h.n_cols; i++) {
					cols[i % h.n_cols] += h.counts[i];
					count += h.counts[i];
				}
				for (unsigned int i = from; i < to; i++)
					sum += h.sums[i];
				hist_stats(&h, from, to, &s);
				assert_true(s.count == count);
				assert_true(s.sum == sum);
				assert_int_equal(s.p50, hist_quantile(cols, h.n_cols, 500));
				assert_int_equal(s.p90, hist_quantile(cols, h.n_cols, 900));
				assert_int_equal(s.p99, hist_quantile(cols, h.n_cols, 990));
				assert_int_equal(s.p999, hist_quantile(cols, h.n_cols, 999));
				assert_int_equal(s.max, highest(cols, h.n_cols));
			}

		struct hist_stats all;

		hist_stats(&h, 0, h.n_rows, &all);
		assert_true(all.count == hist_count(&h));
		assert_true(all.sum == hist_sum(&h));
	}
}

static void stats_tell_quantiles_apart(void **state)
{
	struct fixture *f = *state;
	cleanup(hist_deinit) struct hist h = { .kind = KIND_REQUEST };
	static const uint64_t counts[] = { 500, 400, 90, 9, 1 };
	struct hist_stats s;

	hist_init(&h, &f->time, NULL);
	memcpy(h.counts + 2, counts, sizeof(counts));
	hist_stats(&h, 0, 1, &s);
	assert_int_equal(s.p50, 2);
	assert_int_equal(s.p90, 3);
	assert_int_equal(s.p99, 4);
	assert_int_equal(s.p999, 5);
	assert_int_equal(s.max, 6);
}

/* Sums are whole numbers; a double would lose the ones from 2^53 on. */
static void sums_are_exact(void **state)
{
	struct fixture *f = *state;
	cleanup(hist_deinit) struct hist timed = { .kind = KIND_REQUEST };
	cleanup(hist_deinit) struct hist seek = { .kind = KIND_SEEK };
	struct hist_stats s;
	struct ladder seeks;

	hist_init(&timed, &f->time, &f->sizes);
	timed.sums[0] = (1ll << 60) + 1;
	timed.sums[1] = (1ll << 54) + 1;
	timed.sums[2] = 1;
	assert_true(hist_sum(&timed) == (1ll << 60) + (1ll << 54) + 3);
	hist_stats(&timed, 0, 3, &s);
	assert_true(s.sum == (1ll << 60) + (1ll << 54) + 3);
	hist_stats(&timed, 1, 3, &s);
	assert_true(s.sum == (1ll << 54) + 2);

	ladder(DIM_SECTORS, "log2", &seeks);
	hist_init(&seek, &seeks, NULL);
	for (int i = 0; i < 3; i++) {
		int64_t distance = -(1ll << 53) - i;

		hist_row(&seek, 0)[ladder_bucket(&seeks, distance)]++;
		seek.sums[0] += distance;
	}
	assert_true(hist_sum(&seek) == -3 * (1ll << 53) - 3);
	hist_stats(&seek, 0, 1, &s);
	assert_true(s.count == 3);
	assert_true(s.sum == -3 * (1ll << 53) - 3);
	assert_int_equal(s.max, 0);

	cleanup(hist_deinit) struct hist twice = added(&seek, &seek);

	assert_true(hist_sum(&twice) == -6 * (1ll << 53) - 6);
	hist_subtract(&twice, &seek);
	assert_true(hist_sum(&twice) == -3 * (1ll << 53) - 3);
}

/* Every column shows the member that its name says. */
static void columns(void **state)
{
	static const struct hist_stats s = {
		.p50 = 50,
		.p90 = 90,
		.p99 = 99,
		.p999 = 999,
		.max = 1000,
	};
	static const struct {
		const char *name;
		int type, value;
	} expected[] = {
		{ "count", STAT_COUNT, 0 },   { "mean", STAT_MEAN, 0 },
		{ "p50", STAT_BUCKET, 50 },   { "p90", STAT_BUCKET, 90 },
		{ "p99", STAT_BUCKET, 99 },   { "p99.9", STAT_BUCKET, 999 },
		{ "max", STAT_BUCKET, 1000 },
	};

	(void)state;
	assert_int_equal(ARRAY_SIZE(expected), HIST_STAT_COLUMNS);
	for (size_t i = 0; i < HIST_STAT_COLUMNS; i++) {
		const struct hist_stat_column *c = &hist_stat_columns[i];

		assert_string_equal(c->name, expected[i].name);
		assert_true(c->help && c->help[0] && !strchr(c->help, '\n'));
		assert_int_equal(c->type, expected[i].type);
		if (c->type == STAT_BUCKET)
			assert_int_equal(*(const int *)((const char *)&s + c->offset),
					 expected[i].value);
	}
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(hist_kind_names[KIND_REQUEST], "request");
	assert_string_equal(hist_kind_names[KIND_SERVICE], "service");
	assert_string_equal(hist_kind_names[KIND_QUEUE], "queue");
	assert_string_equal(hist_kind_names[KIND_SEEK], "seek");
	assert_string_equal(blk_op_names[OP_READ], "read");
	assert_string_equal(blk_op_names[OP_WRITE], "write");
	assert_string_equal(blk_op_names[OP_DISCARD], "discard");
	assert_string_equal(blk_op_names[OP_FLUSH], "flush");
}

static void assert_kinds(const char *list, unsigned int mask)
{
	unsigned int ret = 0xa5a5;

	assert_ok(hist_kinds_parse(list, &ret));
	assert_int_equal(ret, mask);
}

static void assert_ops(const char *list, unsigned int mask)
{
	unsigned int ret = 0xa5a5;

	assert_ok(blk_ops_parse(list, &ret));
	assert_int_equal(ret, mask);
}

static void kinds_and_ops(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < KIND_NR; i++)
		assert_kinds(hist_kind_names[i], 1u << i);
	for (unsigned int i = 0; i < OP_NR; i++)
		assert_ops(blk_op_names[i], 1u << i);
	assert_kinds("seek,request", 1 << KIND_SEEK | 1 << KIND_REQUEST);
	assert_kinds("queue,queue", 1 << KIND_QUEUE);
	assert_kinds("request,service,queue,seek", 0xf);
	assert_kinds("all", 0xf);
	assert_kinds("seek,all", 0xf);
	assert_ops("flush,read", 1 << OP_FLUSH | 1 << OP_READ);
	assert_ops("all", 0xf);
	assert_ops("all,discard", 0xf);
	assert_int_equal(KINDS_ALL, 0xf);
	assert_int_equal(OPS_ALL, 0xf);
}

static void kinds_and_ops_refused(void **state)
{
	static const char *const bad[] = { "",      ",",    "seek,", ",seek", "seek,,all",  "sek",
					   "seeks", "Seek", " seek", "seek ", "seek queue", "al" };
	unsigned int ret = 0xa5a5;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_usage(hist_kinds_parse(bad[i], &ret), "unknown kind '");
	assert_usage(hist_kinds_parse("seek,read,queue", &ret),
		     "unknown kind 'read' (request, service, queue, seek, all)");
	assert_usage(hist_kinds_parse("dma", &ret), "'dma'");
	assert_usage(hist_kinds_parse("queue,", &ret), "unknown kind ''");
	assert_usage(blk_ops_parse("read,trim", &ret),
		     "unknown operation 'trim' (read, write, discard, flush, all)");
	assert_usage(blk_ops_parse("all,x", &ret), "unknown operation 'x'");
	assert_usage(blk_ops_parse("", &ret), "unknown operation ''");
	assert_int_equal(ret, 0xa5a5);
}

#define with_hists(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_hists(init),
		with_hists(merge_adds),
		with_hists(merge_commutes),
		with_hists(merge_associates),
		with_hists(zero_is_neutral),
		with_hists(subtract_undoes_merge),
		with_hists(shapes),
		cmocka_unit_test(quantiles),
		cmocka_unit_test(quantiles_by_hand),
		with_hists(stats_of_nothing),
		with_hists(stats_of_rows),
		with_hists(stats_tell_quantiles_apart),
		with_hists(sums_are_exact),
		cmocka_unit_test(columns),
		cmocka_unit_test(names),
		cmocka_unit_test(kinds_and_ops),
		cmocka_unit_test(kinds_and_ops_refused),
	};

	return cmocka_run_group_tests_name("hist", tests, NULL, NULL);
}
