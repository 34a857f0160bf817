// SPDX-License-Identifier: GPL-2.0-only
#include "unit.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "config.h"
#include "core/buf.h"
#include "core/ladder.h"

#define SEC 1000000000ll
#define NATIVE_SCHEMA_MAX 4

static const enum dimension all_dims[] = { DIM_TIME, DIM_SIZE, DIM_SECTORS };

static void assert_bounds(const struct ladder *l, const int64_t *bounds, unsigned int n)
{
	assert_int_equal(l->n, n);
	for (unsigned int i = 0; i < n; i++)
		if (l->bound[i] != bounds[i])
			fail_msg("bound %u is %" PRId64 ", should be %" PRId64, i, l->bound[i],
				 bounds[i]);
}

#define assert_ladder(dim_, spec, ...)                            \
	do {                                                      \
		static const int64_t bounds_[] = { __VA_ARGS__ }; \
		struct ladder l_;                                 \
		assert_ok(ladder_parse(dim_, spec, &l_));         \
		assert_int_equal(l_.dim, dim_);                   \
		assert_bounds(&l_, bounds_, ARRAY_SIZE(bounds_)); \
	} while (0)

static void assert_monotone(const struct ladder *l)
{
	assert_in_range(l->n, 1, LADDER_MAX);
	for (unsigned int i = 1; i < l->n; i++)
		assert_true(l->bound[i - 1] < l->bound[i]);
}

/* The distances of a generator: as many on either side, each with its mirror image, 0 between. */
static void assert_mirrored(const struct ladder *l)
{
	assert_int_equal(l->n % 2, 1);
	for (unsigned int i = 0; i < l->n; i++)
		assert_true(l->bound[i] == -l->bound[l->n - 1 - i]);
	assert_true(l->bound[l->n / 2] == 0);
}

static void lists(void **state)
{
	(void)state;
	assert_ladder(DIM_TIME, "10ms,20ms,50ms,100ms", 10000000, 20000000, 50000000, 100000000);
	assert_ladder(DIM_TIME, "0,1ns,1.5us", 0, 1, 1500);
	assert_ladder(DIM_TIME, "1s", SEC);
	assert_ladder(DIM_SIZE, "512,0.5MiB,1MiB", 512, 524288, 1048576);
	assert_ladder(DIM_SECTORS, "-4KiB,-1,0,1,7", -8, -1, 0, 1, 7);
	/* A list of distances stays as it was given. */
	assert_ladder(DIM_SECTORS, "8,16", 8, 16);
}

static void generators(void **state)
{
	(void)state;
	assert_ladder(DIM_TIME, "log2,1ns..9ns", 1, 2, 4, 8);
	assert_ladder(DIM_TIME, "log2,1us..4us", 1024, 2048);
	assert_ladder(DIM_SIZE, "log2,512..4KiB", 512, 1024, 2048, 4096);
	assert_ladder(DIM_SIZE, "log2,513..2047", 1024);
	assert_ladder(DIM_SIZE, "log2,0..2", 1, 2);
	assert_ladder(DIM_TIME, "125,1us..1ms", 1000, 2000, 5000, 10000, 20000, 50000, 100000,
		      200000, 500000, 1000000);
	assert_ladder(DIM_TIME, "125,3ns..50ns", 5, 10, 20, 50);
	assert_ladder(DIM_SIZE, "125,1..10", 1, 2, 5, 10);
	assert_ladder(DIM_TIME, "linear:5ms,10ms..25ms", 10000000, 15000000, 20000000, 25000000);
	assert_ladder(DIM_TIME, "linear:10ns,1ns..30ns", 1, 11, 21);
	assert_ladder(DIM_TIME, "linear:1us,0..3us", 0, 1000, 2000, 3000);
	assert_ladder(DIM_SIZE, "linear:4KiB,4KiB..12KiB", 4096, 8192, 12288);
	assert_ladder(DIM_SIZE, "linear:1MiB,1KiB..1KiB", 1024);
	assert_ladder(DIM_TIME, "native:0,1s..4s", SEC, 2 * SEC, 4 * SEC);
	assert_ladder(DIM_TIME, "native:1,1s..2s", SEC, 1414213562, 2 * SEC);
	assert_ladder(DIM_TIME, "native:0,500ms..999ms", SEC / 2);
}

static void distances_are_mirrored(void **state)
{
	static const char *const specs[] = {
		"log2",        "log2,1..1",       "log2,3..100",
		"125,1..1TiB", "linear:8,8..512", "linear:3,1..10",
	};

	(void)state;
	assert_ladder(DIM_SECTORS, "log2,1..8", -8, -4, -2, -1, 0, 1, 2, 4, 8);
	assert_ladder(DIM_SECTORS, "log2,0..2", -2, -1, 0, 1, 2);
	assert_ladder(DIM_SECTORS, "125,1..5", -5, -2, -1, 0, 1, 2, 5);
	/* 0 is there once, although the range begins with it. */
	assert_ladder(DIM_SECTORS, "linear:8,0..16", -16, -8, 0, 8, 16);
	assert_ladder(DIM_SECTORS, "linear:4KiB,4KiB..8KiB", -16, -8, 0, 8, 16);
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		struct ladder l;

		assert_ok(ladder_parse(DIM_SECTORS, specs[i], &l));
		assert_monotone(&l);
		assert_mirrored(&l);
	}
}

static void default_time(void **state)
{
	struct ladder l, unranged;

	(void)state;
	assert_ok(ladder_parse(DIM_TIME, BLKHIST_DEFAULT_TIME_LADDER, &l));
	if (strcmp(BLKHIST_DEFAULT_TIME_LADDER, "native:2,1us..16s"))
		skip(); /* a build option; this build has another */
	/* 2^-19.75 s is the first bound that is not below 1 us, 2^4 s the last. */
	assert_int_equal(l.n, 79 + 1 + 16);
	assert_true(l.bound[0] == 1134);
	assert_true(l.bound[l.n - 1] == 16 * SEC);
	assert_ok(ladder_parse(DIM_TIME, "native:2", &unranged));
	assert_true(ladder_equal(&l, &unranged));
}

static void default_size(void **state)
{
	struct ladder l, unranged;

	(void)state;
	assert_ok(ladder_parse(DIM_SIZE, BLKHIST_DEFAULT_SIZE_LADDER, &l));
	if (strcmp(BLKHIST_DEFAULT_SIZE_LADDER, "log2,512..1MiB"))
		skip();
	assert_int_equal(l.n, 12);
	assert_true(l.bound[0] == 512);
	assert_true(l.bound[11] == 1048576);
	assert_int_equal(ladder_bucket(&l, 4096), 3); /* the row "4 KiB" */
	assert_ok(ladder_parse(DIM_SIZE, "log2", &unranged));
	assert_true(ladder_equal(&l, &unranged));
}

static void default_seek(void **state)
{
	struct ladder l, unranged;

	(void)state;
	assert_ok(ladder_parse(DIM_SECTORS, BLKHIST_DEFAULT_SEEK_LADDER, &l));
	if (strcmp(BLKHIST_DEFAULT_SEEK_LADDER, "log2,1..32TiB"))
		skip();
	assert_int_equal(l.n, 2 * 37 + 1);
	assert_mirrored(&l);
	assert_true(l.bound[l.n - 1] == 1ll << 36);
	/* Exactly 0 has a bucket to itself. */
	assert_int_equal(ladder_bucket(&l, -1), 36);
	assert_int_equal(ladder_bucket(&l, 0), 37);
	assert_int_equal(ladder_bucket(&l, 1), 38);
	assert_ok(ladder_parse(DIM_SECTORS, "log2", &unranged));
	assert_true(ladder_equal(&l, &unranged));
}

static void zero_alone(void **state)
{
	static const struct {
		const char *spec;
		bool alone;
	} cases[] = { { "log2", true },
		      { "-1,0", true },
		      { "-1,0,1", true },
		      { "-8,-1,0", true },
		      { "0", false },
		      { "0,1", false },
		      { "-2,0", false },
		      { "-1,1", false },
		      { "-1", false },
		      { "1", false },
		      { "linear:8,8..64", false },
		      { "125,1..1000", true } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ladder l;

		assert_ok(ladder_parse(DIM_SECTORS, cases[i].spec, &l));
		assert_int_equal(ladder_zero_alone(&l), cases[i].alone);
	}
}

/*
 * 1 s * 2^(i/2^N) in whole ns, by a way of its own: long double, and from square roots, since 2^N
 * is a power of two itself.
 */
static int64_t native_bound(int i, unsigned int schema)
{
	int per_doubling = 1 << schema;
	int whole = i >= 0 ? i / per_doubling : -((-i + per_doubling - 1) / per_doubling);
	int rest = i - whole * per_doubling;
	long double factor = 1, root = 2;

	for (int bit = per_doubling / 2; bit; bit /= 2) {
		root = sqrtl(root);
		if (rest & bit)
			factor *= root;
	}
	return (int64_t)floorl(ldexpl(1e9L * factor, whole));
}

static void check_native(unsigned int schema, const char *lo_text, const char *hi_text)
{
	cleanup_free char *spec = xasprintf("native:%u,%s..%s", schema, lo_text, hi_text);
	int64_t lo, hi, last = -1;
	unsigned int n = 0;
	struct ladder l;

	assert_ok(unit_parse(DIM_TIME, lo_text, &lo));
	assert_ok(unit_parse(DIM_TIME, hi_text, &hi));
	assert_ok(ladder_parse(DIM_TIME, spec, &l));
	assert_monotone(&l);
	for (int i = -30 * (1 << schema);; i++) {
		int64_t bound = native_bound(i, schema);

		if (bound > hi)
			break;
		if (bound < lo || bound == last)
			continue;
		assert_in_range(n, 0, l.n - 1);
		if (l.bound[n] != bound)
			fail_msg("%s: bound %u is %" PRId64 ", should be %" PRId64, spec, n,
				 l.bound[n], bound);
		last = bound;
		n++;
	}
	assert_int_equal(n, l.n);
}

static void native_is_exact(void **state)
{
	static const char *const ends[] = { "1ns",   "100ns", "12us",  "1ms",
					    "120ms", "14s",   "1600s", "200000s" };

	(void)state;
	for (unsigned int schema = 0; schema <= NATIVE_SCHEMA_MAX; schema++)
		for (size_t i = 0; i + 1 < ARRAY_SIZE(ends); i++)
			check_native(schema, ends[i], ends[i + 1]);
	check_native(2, "1us", "16s");
}

/* Months, where a double has no digits left behind the point. */
static void native_is_exact_to_the_end(void **state)
{
	static const char *const ends[] = { "200000s", "16777216s", "1600000000s", "4611686018s" };

	(void)state;
	for (unsigned int schema = 0; schema <= NATIVE_SCHEMA_MAX; schema++)
		for (size_t i = 0; i + 1 < ARRAY_SIZE(ends); i++)
			check_native(schema, ends[i], ends[i + 1]);
	check_native(0, "0", "4611686018s");
	check_native(1, "0", "4611686018s");
}

/* Any whole second that is a power of two is a bound of every schema. */
static void native_meets_powers(void **state)
{
	(void)state;
	for (unsigned int schema = 0; schema <= NATIVE_SCHEMA_MAX; schema++) {
		cleanup_free char *spec = xasprintf("native:%u,1s..128s", schema);
		struct ladder l;

		assert_ok(ladder_parse(DIM_TIME, spec, &l));
		assert_int_equal(l.n, (7u << schema) + 1);
		for (unsigned int k = 0; k <= 7; k++)
			assert_true(l.bound[k << schema] == SEC << k);
	}
}

/* What a double cannot hold any more is still exact. */
static void linear_is_exact(void **state)
{
	static const struct {
		const char *spec;
		int64_t first, last;
	} tests[] = {
		{ "linear:1ns,9007199.254740992s..9007199.254740999s", 9007199254740992,
		  9007199254740999 },
		{ "linear:1ns,4000000000s..4000000000.0000001s", 4000000000000000000,
		  4000000000000000100 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		struct ladder l;

		assert_ok(ladder_parse(DIM_TIME, tests[i].spec, &l));
		assert_int_equal(l.n, tests[i].last - tests[i].first + 1);
		assert_true(l.bound[0] == tests[i].first);
		assert_true(l.bound[l.n - 1] == tests[i].last);
		assert_monotone(&l);
	}
}

/* No bound may lie outside LO..HI, also where HI has no neighbour that is a double. */
static void bounds_stay_in_range(void **state)
{
	struct ladder l;

	(void)state;
	/* 2^62 - 2^12 .. 2^62 - 2^8: the next power of two would be BOUND_NONE. */
	assert_usage(ladder_parse(DIM_SIZE, "log2,4503599627370492KiB..4503599627370495.75KiB", &l),
		     "has no bound between its ends");
	assert_usage(ladder_parse(DIM_TIME, "linear:1s,9007199.254740993s..9007199.254740992s", &l),
		     "must ascend");
}

/* @n items "1", "2", ... of a dimension, from @from on. */
static char *list_of(enum dimension dim, int from, unsigned int n)
{
	struct buf b = {};

	for (unsigned int i = 0; i < n; i++)
		buf_printf(&b, "%s%d%s", i ? "," : "", from + (int)i, dim == DIM_TIME ? "ns" : "");
	return b.str;
}

static void assert_limit(enum dimension dim, unsigned int max)
{
	cleanup_free char *full = list_of(dim, 1, max);
	cleanup_free char *over = list_of(dim, 1, max + 1);
	struct ladder l;

	assert_int_equal(ladder_max(dim), max);
	assert_ok(ladder_parse(dim, full, &l));
	assert_int_equal(l.n, max);
	assert_monotone(&l);

	cleanup_free char *last = xasprintf("%u", max + 1);

	assert_usage(ladder_parse(dim, over, &l), last);
}

static void limits_of_lists(void **state)
{
	struct ladder l;

	(void)state;
	assert_limit(DIM_TIME, 128);
	assert_limit(DIM_SIZE, 16);
	assert_limit(DIM_SECTORS, 64);

	cleanup_free char *both = list_of(DIM_SECTORS, -64, 129);
	cleanup_free char *negative = list_of(DIM_SECTORS, -64, 64);
	cleanup_free char *below = list_of(DIM_SECTORS, -65, 129);
	cleanup_free char *above = list_of(DIM_SECTORS, -63, 129);
	cleanup_free char *more = list_of(DIM_SECTORS, -65, 131);

	assert_ok(ladder_parse(DIM_SECTORS, both, &l));
	assert_int_equal(l.n, 129);
	assert_ok(ladder_parse(DIM_SECTORS, negative, &l));
	assert_int_equal(l.n, 64);
	assert_usage(ladder_parse(DIM_SECTORS, below, &l), "'-");
	assert_usage(ladder_parse(DIM_SECTORS, above, &l), "'65'");
	assert_usage(ladder_parse(DIM_SECTORS, more, &l), "seek ladder");
}

static void limits_of_generators(void **state)
{
	struct ladder l;

	(void)state;
	assert_ok(ladder_parse(DIM_TIME, "linear:1ns,1ns..128ns", &l));
	assert_int_equal(l.n, 128);
	assert_usage(ladder_parse(DIM_TIME, "linear:1ns,1ns..129ns", &l),
		     "'linear:1ns,1ns..129ns' has more than 128 bounds");
	assert_ok(ladder_parse(DIM_TIME, "native:4,1s..255s", &l));
	assert_int_equal(l.n, 128);
	assert_usage(ladder_parse(DIM_TIME, "native:4,1s..256s", &l), "more than 128 bounds");
	assert_ok(ladder_parse(DIM_SIZE, "linear:512,512..8KiB", &l));
	assert_int_equal(l.n, 16);
	assert_usage(ladder_parse(DIM_SIZE, "linear:512,512..8.5KiB", &l), "more than 16 bounds");
	assert_ok(ladder_parse(DIM_SIZE, "log2,1..32KiB", &l));
	assert_int_equal(l.n, 16);
	assert_usage(ladder_parse(DIM_SIZE, "log2,1..64KiB", &l), "more than 16 bounds");
	assert_ok(ladder_parse(DIM_SECTORS, "linear:1,1..64", &l));
	assert_int_equal(l.n, 129);
	assert_ok(ladder_parse(DIM_SECTORS, "linear:1,0..64", &l));
	assert_int_equal(l.n, 129);
	assert_usage(ladder_parse(DIM_SECTORS, "linear:1,1..65", &l),
		     "more than 64 bounds per direction");
}

static const struct {
	enum dimension dim;
	const char *spec;
	const char *part; /* of the message: the item that is wrong */
} errors[] = {
	{ DIM_TIME, "", "time ladder: '' is not a time" },
	{ DIM_SIZE, "", "size ladder: '' is not a size" },
	{ DIM_SECTORS, "", "seek ladder: '' is not a distance" },
	{ DIM_TIME, ",", "'' is not a time" },
	{ DIM_TIME, "1us,,2us", "'' is not a time" },
	{ DIM_TIME, "1us,2us,", "'' is not a time" },
	{ DIM_TIME, ",1us", "'' is not a time" },
	{ DIM_TIME, "1us,x,3us", "'x' is not a time" },
	{ DIM_TIME, "1us, 2us", "' 2us' is not a time" },
	{ DIM_TIME, "1us,2", "'2' needs a unit" },
	{ DIM_TIME, "1us,2m", "'2m' has an unknown unit 'm'" },
	{ DIM_TIME, "1us,0.5ns", "'0.5ns' is not a whole number" },
	{ DIM_TIME, "-1us,1us", "'-1us' is not a time" },
	{ DIM_TIME, "20ms,10ms", "'10ms' is not greater than the bound before it" },
	{ DIM_TIME, "1us,2us,1500ns,4us", "'1500ns' is not greater" },
	{ DIM_TIME, "1ms,1000us", "'1000us' is not greater" },
	{ DIM_SIZE, "4KiB,4096", "'4096' is not greater" },
	{ DIM_SIZE, "4KiB,8KB", "'8KB' has an unknown unit 'KB'" },
	{ DIM_SECTORS, "-1,-2", "'-2' is not greater" },
	{ DIM_SECTORS, "0,-0", "'-0' is not greater" },
	{ DIM_SECTORS, "1,513B", "'513B' is not a whole number of sectors" },
	/* Names that are no generator. */
	{ DIM_TIME, "log", "'log' is not a time" },
	{ DIM_TIME, "log22,1us..2us", "'log22' is not a time" },
	{ DIM_TIME, "LOG2,1us..2us", "'LOG2' is not a time" },
	{ DIM_TIME, "1us..16s", "'1us..16s' has an unknown unit 'us..16s'" },
	{ DIM_TIME, "nativ:2,1us..16s", "'nativ:2' is not a time" },
	/* Parameters. */
	{ DIM_TIME, "native", "'native' needs a parameter, native:..." },
	{ DIM_TIME, "native,1us..16s", "'native' needs a parameter, native:..." },
	{ DIM_TIME, "native:,1us..16s", "'' is not a number" },
	{ DIM_TIME, "native:x,1us..16s", "'x' is not a number" },
	{ DIM_TIME, "native:-1,1us..16s", "'-1' is not a number" },
	{ DIM_TIME, "native:2:2,1us..16s", "'2:2' is not a number" },
	{ DIM_TIME, "native:5,1us..16s", "5 is not in 0..4" },
	{ DIM_SIZE, "native:2,1..16", "'native:2' is for times only" },
	{ DIM_SECTORS, "native:2,1..16", "'native:2' is for times only" },
	{ DIM_TIME, "log2:2,1us..16s", "'log2:2' takes no parameter" },
	{ DIM_TIME, "log2:,1us..16s", "'log2:' takes no parameter" },
	{ DIM_TIME, "125:2,1us..16s", "'125:2' takes no parameter" },
	{ DIM_TIME, "linear,1us..16s", "'linear' needs a parameter, linear:..." },
	{ DIM_TIME, "linear:,1us..16s", "'' is not a time" },
	{ DIM_TIME, "linear:5,1us..16s", "'5' needs a unit" },
	{ DIM_TIME, "linear:0,1us..16s", "the step of 'linear:0' must be greater than 0" },
	{ DIM_TIME, "linear:0us,1us..16s", "the step of 'linear:0us' must be greater than 0" },
	{ DIM_SECTORS, "linear:-8,8..16", "the step of 'linear:-8' must be greater than 0" },
	{ DIM_SIZE, "linear:4KB,8..16", "'4KB' has an unknown unit 'KB'" },
	/* Ranges. */
	{ DIM_TIME, "log2,", "'' is not a range LO..HI" },
	{ DIM_TIME, "log2,1us", "'1us' is not a range LO..HI" },
	{ DIM_TIME, "log2,1us.16s", "'1us.16s' is not a range LO..HI" },
	{ DIM_TIME, "log2,1us-16s", "'1us-16s' is not a range LO..HI" },
	{ DIM_TIME, "log2,..16s", "'' is not a time" },
	{ DIM_TIME, "log2,1us..", "'' is not a time" },
	{ DIM_TIME, "log2,1..16s", "'1' needs a unit" },
	{ DIM_TIME, "log2,1us..16", "'16' needs a unit" },
	{ DIM_TIME, "log2,1us...16s", "'.16s' is not a time" },
	{ DIM_TIME, "log2,1us..2us..4us", "'2us..4us' has an unknown unit" },
	{ DIM_TIME, "log2,1us..2us,4us", "'2us,4us' has an unknown unit" },
	{ DIM_TIME, "log2,16s..1us", "the range '16s..1us' must ascend" },
	{ DIM_TIME, "125,100ns,200ns", "'100ns,200ns' is not a range LO..HI" },
	{ DIM_SECTORS, "log2,-8..8", "the range '-8..8' must ascend and not be negative" },
	{ DIM_SECTORS, "log2,-8..-4", "the range '-8..-4' must ascend and not be negative" },
	{ DIM_SIZE, "log2,513..1023", "'log2,513..1023' has no bound between its ends" },
	{ DIM_TIME, "native:0,1.1s..1.9s", "'native:0,1.1s..1.9s' has no bound between its ends" },
	{ DIM_TIME, "log2,0..0", "has no bound between its ends" },
	{ DIM_SECTORS, "linear:1,0..0", "has no bound between its ends" },
};

static void errors_name_the_item(void **state)
{
	struct ladder untouched;

	(void)state;
	memset(&untouched, 0x5a, sizeof(untouched));
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct ladder l = untouched;

		assert_usage(ladder_parse(errors[i].dim, errors[i].spec, &l), errors[i].part);
		assert_memory_equal(&l, &untouched, sizeof(l));
	}
}

/* "125" could be a number as well; only a range behind it makes it the generator. */
static void number_or_generator(void **state)
{
	struct ladder l;

	(void)state;
	assert_ladder(DIM_SIZE, "125", 125);
	assert_ladder(DIM_SIZE, "125,250", 125, 250);
	assert_ladder(DIM_SECTORS, "125", 125);
	assert_ladder(DIM_SECTORS, "125,126", 125, 126);
	assert_ladder(DIM_SIZE, "125,100..500", 100, 200, 500);
	assert_ladder(DIM_SECTORS, "125,1..2", -2, -1, 0, 1, 2);
	assert_ladder(DIM_SIZE, "1,125", 1, 125);
	/* A time needs a unit, so there it can only be the generator. */
	assert_ok(ladder_parse(DIM_TIME, "125", &l));
	assert_true(l.bound[0] == 1000);
	assert_true(l.bound[l.n - 1] == 10 * SEC);
	assert_int_equal(l.n, 7 * 3 + 1);
	assert_ladder(DIM_TIME, "125ns,250ns", 125, 250);
}

static void check_format(const struct ladder *l)
{
	cleanup_free char *text = ladder_format(l);
	struct ladder back;

	assert_ok(ladder_parse(l->dim, text, &back));
	assert_true(ladder_equal(l, &back));
}

static int compare_i64(const void *pa, const void *pb)
{
	int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;

	return (a > b) - (a < b);
}

/* Any valid ladder, with bounds of all magnitudes. */
static void random_ladder(uint64_t *seed, enum dimension dim, struct ladder *l)
{
	unsigned int want = 1 + (unsigned int)(random_u64(seed) % ladder_max(dim));

	*l = (struct ladder){ .dim = dim };
	for (unsigned int i = 0; i < want; i++) {
		l->bound[l->n++] = (int64_t)random_magnitude(seed, 59);
		if (dim == DIM_SECTORS)
			l->bound[l->n++] = -(int64_t)random_magnitude(seed, 59);
	}
	qsort(l->bound, l->n, sizeof(l->bound[0]), compare_i64);

	unsigned int n = 1;

	for (unsigned int i = 1; i < l->n; i++)
		if (l->bound[i] != l->bound[n - 1])
			l->bound[n++] = l->bound[i];
	l->n = n;
}

static void formats(void **state)
{
	static const struct {
		enum dimension dim;
		const char *spec;
	} specs[] = {
		{ DIM_TIME, BLKHIST_DEFAULT_TIME_LADDER },
		{ DIM_SIZE, BLKHIST_DEFAULT_SIZE_LADDER },
		{ DIM_SECTORS, BLKHIST_DEFAULT_SEEK_LADDER },
		{ DIM_TIME, "native:4,1s..255s" },
		{ DIM_SECTORS, "linear:1,1..64" },
		{ DIM_TIME, "0" },
		{ DIM_SIZE, "0,125" },
		{ DIM_SIZE, "125" }, /* must not come back as the generator */
		{ DIM_SECTORS, "125,250" },
		{ DIM_SECTORS, "0" },
	};
	uint64_t seed = 2;
	struct ladder l;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		assert_ok(ladder_parse(specs[i].dim, specs[i].spec, &l));
		check_format(&l);
	}
	for (size_t d = 0; d < ARRAY_SIZE(all_dims); d++)
		for (int i = 0; i < 500; i++) {
			random_ladder(&seed, all_dims[d], &l);
			check_format(&l);
		}

	assert_ok(ladder_parse(DIM_TIME, "1000us,1.50ms,2000000ns", &l));
	cleanup_free char *text = ladder_format(&l);
	assert_string_equal(text, "1ms,1.5ms,2ms");
}

static unsigned int naive_bucket(const struct ladder *l, int64_t value)
{
	for (unsigned int i = 0; i < l->n; i++)
		if (value <= l->bound[i])
			return i;
	return l->n;
}

static void buckets(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (size_t d = 0; d < ARRAY_SIZE(all_dims); d++)
		for (int i = 0; i < 300; i++) {
			struct ladder l;

			random_ladder(&seed, all_dims[d], &l);
			for (unsigned int b = 0; b < l.n; b++) {
				assert_int_equal(ladder_bucket(&l, l.bound[b]), b);
				assert_int_equal(ladder_bucket(&l, l.bound[b] + 1),
						 naive_bucket(&l, l.bound[b] + 1));
				assert_int_equal(ladder_bucket(&l, l.bound[b] - 1),
						 naive_bucket(&l, l.bound[b] - 1));
			}
			assert_int_equal(ladder_bucket(&l, INT64_MIN), 0);
			assert_int_equal(ladder_bucket(&l, INT64_MAX), l.n);
			for (int k = 0; k < 50; k++) {
				int64_t value = (int64_t)random_magnitude(&seed, 60);

				assert_int_equal(ladder_bucket(&l, value), naive_bucket(&l, value));
				value = -value;
				assert_int_equal(ladder_bucket(&l, value), naive_bucket(&l, value));
			}
		}
}

static void equality(void **state)
{
	struct ladder a = { .dim = DIM_TIME, .n = 2, .bound = { 1, 2, 3 } };
	struct ladder b = { .dim = DIM_TIME, .n = 2, .bound = { 1, 2, 4 } };

	(void)state;
	assert_true(ladder_equal(&a, &b)); /* what lies behind the last bound is of no meaning */
	b.dim = DIM_SIZE;
	assert_false(ladder_equal(&a, &b));
	b.dim = DIM_TIME;
	b.n = 3;
	assert_false(ladder_equal(&a, &b));
	a.n = 3;
	assert_false(ladder_equal(&a, &b));
	b.bound[2] = 3;
	assert_true(ladder_equal(&a, &b));
	b.bound[0] = 0;
	assert_false(ladder_equal(&a, &b));
}

/* What is far too long must be refused at once, not after years of counting. */
static void huge_ranges_end(void **state)
{
	static const struct {
		enum dimension dim;
		const char *spec;
	} specs[] = {
		{ DIM_TIME, "linear:1ns,0..4000000000s" },
		{ DIM_TIME, "linear:1ns,4000000000s..4600000000s" },
		{ DIM_TIME, "linear:4000000000s,4000000000s..4600000000s" },
		{ DIM_TIME, "native:4,0..4600000000s" },
		{ DIM_TIME, "native:0,4000000000s..4600000000s" },
		{ DIM_TIME, "log2,0..4600000000s" },
		{ DIM_TIME, "125,0..4600000000s" },
		{ DIM_TIME, "125,4000000000s..4600000000s" },
		{ DIM_SIZE, "linear:1,0..4000000TiB" },
		{ DIM_SIZE, "log2,1PiB..4000000TiB" },
		{ DIM_SECTORS, "linear:1,0..2000000000TiB" },
		{ DIM_SECTORS, "log2,0..2000000000TiB" },
		{ DIM_SECTORS, "125,1..2000000000TiB" },
	};
	struct timespec start, end;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		struct ladder l;
		struct error *err = ladder_parse(specs[i].dim, specs[i].spec, &l);

		if (!err)
			assert_monotone(&l);
		error_free(err);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	assert_in_range(end.tv_sec - start.tv_sec, 0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),
		cmocka_unit_test(generators),
		cmocka_unit_test(distances_are_mirrored),
		cmocka_unit_test(default_time),
		cmocka_unit_test(default_size),
		cmocka_unit_test(default_seek),
		cmocka_unit_test(zero_alone),
		cmocka_unit_test(native_is_exact),
		cmocka_unit_test(native_is_exact_to_the_end),
		cmocka_unit_test(native_meets_powers),
		cmocka_unit_test(linear_is_exact),
		cmocka_unit_test(bounds_stay_in_range),
		cmocka_unit_test(limits_of_lists),
		cmocka_unit_test(limits_of_generators),
		cmocka_unit_test(errors_name_the_item),
		cmocka_unit_test(number_or_generator),
		cmocka_unit_test(formats),
		cmocka_unit_test(buckets),
		cmocka_unit_test(equality),
		cmocka_unit_test(huge_ranges_end),
	};

	return cmocka_run_group_tests_name("ladder", tests, NULL, NULL);
}
