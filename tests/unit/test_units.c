// SPDX-License-Identifier: GPL-2.0-only
#include "unit.h"

#include <inttypes.h>

#include "core/units.h"

/* Output parameters must be untouched on failure; no parser yields this by itself. */
#define UNTOUCHED 0x5a5a5a5a5a5a5a5

#define KIB 1024ll
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)
#define SEC 1000000000ll

static const struct {
	enum dimension dim;
	const char *text;
	int64_t value;
} accepted[] = {
	{ DIM_TIME, "0", 0 },
	{ DIM_TIME, "0ns", 0 },
	{ DIM_TIME, "0.0", 0 },
	{ DIM_TIME, "0.000s", 0 },
	{ DIM_TIME, "1ns", 1 },
	{ DIM_TIME, "007ns", 7 },
	{ DIM_TIME, "1us", 1000 },
	{ DIM_TIME, "1.5us", 1500 },
	{ DIM_TIME, "0.001us", 1 },
	{ DIM_TIME, "1.0010us", 1001 },
	{ DIM_TIME, "3ms", 3000000 },
	{ DIM_TIME, "0.25ms", 250000 },
	{ DIM_TIME, "16s", 16 * SEC },
	{ DIM_TIME, "1.000000001s", SEC + 1 },
	{ DIM_TIME, "1.0000000010000s", SEC + 1 },
	{ DIM_TIME, "4611686018s", 4611686018 * SEC },
	{ DIM_TIME, "4611686018.42738790s", 4611686018427387900 },
	{ DIM_SIZE, "0", 0 },
	{ DIM_SIZE, "1", 1 },
	{ DIM_SIZE, "512", 512 },
	{ DIM_SIZE, "512B", 512 },
	{ DIM_SIZE, "1KiB", KIB },
	{ DIM_SIZE, "0.5KiB", 512 },
	{ DIM_SIZE, "1.5KiB", 1536 },
	{ DIM_SIZE, "1MiB", MIB },
	{ DIM_SIZE, "0.25MiB", 256 * KIB },
	{ DIM_SIZE, "2GiB", 2 * GIB },
	{ DIM_SIZE, "3TiB", 3 * TIB },
	{ DIM_SIZE, "0.0009765625KiB", 1 },
	{ DIM_SECTORS, "0", 0 },
	{ DIM_SECTORS, "-0", 0 },
	{ DIM_SECTORS, "1", 1 },
	{ DIM_SECTORS, "-1", -1 },
	{ DIM_SECTORS, "8.0", 8 },
	{ DIM_SECTORS, "512B", 1 },
	{ DIM_SECTORS, "0.5KiB", 1 },
	{ DIM_SECTORS, "1KiB", 2 },
	{ DIM_SECTORS, "-4KiB", -8 },
	{ DIM_SECTORS, "1MiB", 2048 },
	{ DIM_SECTORS, "-1GiB", -(1ll << 21) },
	{ DIM_SECTORS, "32TiB", 1ll << 36 },
	{ DIM_SECTORS, "999999999999999999", 999999999999999999 },
};

static void accepts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
		int64_t value = UNTOUCHED;

		assert_ok(unit_parse(accepted[i].dim, accepted[i].text, &value));
		if (value != accepted[i].value)
			fail_msg("'%s' is %" PRId64 ", should be %" PRId64, accepted[i].text, value,
				 accepted[i].value);
	}
}

static const struct {
	enum dimension dim;
	const char *text;
	const char *part; /* of the message */
} refused[] = {
	/* Without a unit a time could be anything. */
	{ DIM_TIME, "1", "'1' needs a unit (ns, us, ms or s)" },
	{ DIM_TIME, "0.5", "'0.5' needs a unit" },
	{ DIM_TIME, "1m", "unknown unit 'm'" },
	{ DIM_TIME, "1S", "unknown unit 'S'" },
	{ DIM_TIME, "1sec", "unknown unit 'sec'" },
	{ DIM_TIME, "1 us", "unknown unit ' us'" },
	{ DIM_TIME, "1us ", "unknown unit 'us '" },
	{ DIM_TIME, "1usx", "unknown unit 'usx'" },
	{ DIM_TIME, "1KiB", "unknown unit 'KiB'" },
	{ DIM_TIME, "0KiB", "unknown unit 'KiB'" },
	{ DIM_TIME, "1e3us", "unknown unit 'e3us'" },
	{ DIM_TIME, "1.2.3us", "unknown unit '.3us'" },
	{ DIM_TIME, "", "'' is not a time" },
	{ DIM_TIME, "us", "'us' is not a time" },
	{ DIM_TIME, ".5us", "'.5us' is not a time" },
	{ DIM_TIME, "1.us", "'1.us' is not a time" },
	{ DIM_TIME, ".", "'.' is not a time" },
	{ DIM_TIME, " 1us", "' 1us' is not a time" },
	{ DIM_TIME, "+1us", "'+1us' is not a time" },
	{ DIM_TIME, "-1us", "'-1us' is not a time" },
	{ DIM_TIME, "-0", "'-0' is not a time" },
	{ DIM_TIME, "nan", "'nan' is not a time" },
	{ DIM_TIME, "1.5ns", "'1.5ns' is not a whole number of nanoseconds" },
	{ DIM_TIME, "1.0005us", "'1.0005us' is not a whole number of nanoseconds" },
	{ DIM_TIME, "0.0000000001s", "not a whole number of nanoseconds" },
	{ DIM_TIME, "4611686019s", "'4611686019s' is out of range" },
	{ DIM_TIME, "4611686018.42738791s", "out of range" },
	{ DIM_TIME, "9223372036854775808ns", "9223372036854775808ns" },
	{ DIM_TIME, "18446744074s", "out of range" },
	{ DIM_TIME, "99999999999999999999999999999999999999999999s", "is too long" },
	/* Decimal units of a size mean 1000 to one reader and 1024 to another. */
	{ DIM_SIZE, "1KB", "'1KB' has an unknown unit 'KB' (B, KiB, MiB, GiB or TiB)" },
	{ DIM_SIZE, "1kB", "unknown unit 'kB'" },
	{ DIM_SIZE, "1K", "unknown unit 'K'" },
	{ DIM_SIZE, "1k", "unknown unit 'k'" },
	{ DIM_SIZE, "1MB", "unknown unit 'MB'" },
	{ DIM_SIZE, "1GB", "unknown unit 'GB'" },
	{ DIM_SIZE, "1kib", "unknown unit 'kib'" },
	{ DIM_SIZE, "1b", "unknown unit 'b'" },
	{ DIM_SIZE, "0x10", "unknown unit 'x10'" },
	{ DIM_SIZE, "1ms", "unknown unit 'ms'" },
	{ DIM_SIZE, "-1", "'-1' is not a size" },
	{ DIM_SIZE, "", "'' is not a size" },
	{ DIM_SIZE, "KiB", "'KiB' is not a size" },
	{ DIM_SIZE, "0.5", "'0.5' is not a whole number of bytes" },
	{ DIM_SIZE, "0.5B", "'0.5B' is not a whole number of bytes" },
	{ DIM_SIZE, "1.0001KiB", "not a whole number of bytes" },
	{ DIM_SIZE, "4194304TiB", "size '4194304TiB' is out of range" },
	{ DIM_SIZE, "16777216TiB", "out of range" }, /* 2^64 must not come out as 0 */
	{ DIM_SIZE, "999999999999999999TiB", "out of range" },
	{ DIM_SECTORS, "1B", "'1B' is not a whole number of sectors" },
	{ DIM_SECTORS, "-513B", "'-513B' is not a whole number of sectors" },
	{ DIM_SECTORS, "0.5", "'0.5' is not a whole number of sectors" },
	{ DIM_SECTORS, "0.25KiB", "not a whole number of sectors" },
	{ DIM_SECTORS, "8s", "unknown unit 's' (none for sectors, or B," },
	{ DIM_SECTORS, "1KB", "unknown unit 'KB'" },
	{ DIM_SECTORS, "--1", "'--1' is not a distance" },
	{ DIM_SECTORS, "-", "'-' is not a distance" },
	{ DIM_SECTORS, "- 1", "'- 1' is not a distance" },
	{ DIM_SECTORS, "+1", "'+1' is not a distance" },
	{ DIM_SECTORS, "", "'' is not a distance" },
	{ DIM_SECTORS, "-2147483648TiB", "distance '-2147483648TiB' is out of range" },
};

static void refuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		int64_t value = UNTOUCHED;

		assert_usage(unit_parse(refused[i].dim, refused[i].text, &value), refused[i].part);
		assert_int_equal(value, UNTOUCHED);
	}
}

static void check_round_trip(enum dimension dim, int64_t value)
{
	char text[UNIT_TEXT_MAX];
	int64_t back = UNTOUCHED;

	unit_format_exact(dim, value, text);
	assert_ok(unit_parse(dim, text, &back));
	if (back != value)
		fail_msg("%" PRId64 " is written as '%s', which is %" PRId64, value, text, back);
}

/* Both signs where there are two. */
static void check_round_trips(int64_t value)
{
	check_round_trip(DIM_TIME, value);
	check_round_trip(DIM_SIZE, value);
	check_round_trip(DIM_SECTORS, value);
	check_round_trip(DIM_SECTORS, -value);
}

#define ROUND_TRIP_MAX 999999999999999999ll

static void round_trips(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int64_t v = 0; v < 20000; v++)
		check_round_trips(v);
	for (int64_t v = 1; v < ROUND_TRIP_MAX / 10; v *= 10)
		for (int64_t k = 1; k < 10; k++) {
			check_round_trips(k * v - 1);
			check_round_trips(k * v);
			check_round_trips(k * v + 1);
		}
	for (unsigned int shift = 0; shift < 59; shift++) {
		check_round_trips((1ll << shift) - 1);
		check_round_trips(1ll << shift);
		check_round_trips((1ll << shift) + 1);
		check_round_trips(3ll << shift);
	}
	check_round_trips(ROUND_TRIP_MAX);
	for (int i = 0; i < 200000; i++)
		check_round_trips((int64_t)random_magnitude(&seed, 59));
}

/* What is accepted must be written so that it is accepted again, however it was given. */
static void round_trips_what_it_accepts(void **state)
{
	static const struct {
		enum dimension dim;
		const char *text;
	} largest[] = {
		{ DIM_TIME, "4611686018.42738790s" }, { DIM_TIME, "999999999999999.999us" },
		{ DIM_SIZE, "976562500000000.5KiB" }, { DIM_SIZE, "4503599627370495.75KiB" },
		{ DIM_SECTORS, "500000000000GiB" },   { DIM_SECTORS, "-2147483647TiB" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(largest); i++) {
		struct error *err;
		int64_t value;

		err = unit_parse(largest[i].dim, largest[i].text, &value);
		if (!err)
			check_round_trip(largest[i].dim, value);
		error_free(err);
	}
}

static const struct {
	enum dimension dim;
	int64_t value;
	const char *exact, *brief;
} formatted[] = {
	{ DIM_TIME, 0, "0ns", "0ns" },
	{ DIM_TIME, 1, "1ns", "1ns" },
	{ DIM_TIME, 999, "999ns", "999ns" },
	{ DIM_TIME, 1000, "1us", "1us" },
	{ DIM_TIME, 1189, "1.189us", "1.19us" },
	{ DIM_TIME, 1500, "1.5us", "1.50us" },
	{ DIM_TIME, 1050, "1.05us", "1.05us" },
	{ DIM_TIME, 9994, "9.994us", "9.99us" },
	{ DIM_TIME, 9996, "9.996us", "10.0us" },
	{ DIM_TIME, 12345, "12.345us", "12.3us" },
	{ DIM_TIME, 99949, "99.949us", "99.9us" },
	{ DIM_TIME, 99951, "99.951us", "100us" },
	{ DIM_TIME, 123456, "123.456us", "123us" },
	{ DIM_TIME, 10000000, "10ms", "10ms" },
	{ DIM_TIME, 1000001, "1.000001ms", "1.00ms" },
	{ DIM_TIME, SEC + 1, "1.000000001s", "1.00s" },
	{ DIM_TIME, 16 * SEC, "16s", "16s" },
	{ DIM_TIME, 3600 * SEC, "3600s", "3600s" },
	{ DIM_SIZE, 0, "0B", "0B" },
	{ DIM_SIZE, 512, "512B", "512B" },
	{ DIM_SIZE, 1023, "1023B", "1023B" },
	{ DIM_SIZE, 4096, "4KiB", "4KiB" },
	{ DIM_SIZE, 1536, "1536B", "1.50KiB" },
	{ DIM_SIZE, 1025, "1025B", "1.00KiB" },
	{ DIM_SIZE, 1280 * KIB, "1280KiB", "1.25MiB" },
	{ DIM_SIZE, MIB, "1MiB", "1MiB" },
	{ DIM_SIZE, 5 * GIB, "5GiB", "5GiB" },
	{ DIM_SIZE, 2048 * TIB, "2048TiB", "2048TiB" },
	{ DIM_SECTORS, 0, "0", "0" },
	{ DIM_SECTORS, -8, "-8", "-8" },
	{ DIM_SECTORS, 1ll << 36, "68719476736", "68719476736" },
};

static void formats(void **state)
{
	char text[UNIT_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(formatted); i++) {
		unit_format_exact(formatted[i].dim, formatted[i].value, text);
		assert_string_equal(text, formatted[i].exact);
		unit_format_short(formatted[i].dim, formatted[i].value, text);
		assert_string_equal(text, formatted[i].brief);
	}
}

/* UNIT_TEXT_MAX must hold for any value; the buffers end where ASan looks. */
static void formats_any_value(void **state)
{
	static const int64_t values[] = { INT64_MIN, -(1ll << 62),    INT64_MAX,
					  1ll << 62, (1ll << 62) - 1, INT64_MAX / SEC * SEC };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		for (enum dimension dim = DIM_TIME; dim <= DIM_SECTORS; dim++) {
			cleanup_free char *text = xcalloc(1, UNIT_TEXT_MAX);

			unit_format_exact(dim, values[i], text);
			assert_in_range(strlen(text), 1, UNIT_TEXT_MAX - 2);
			unit_format_short(dim, values[i], text);
			assert_in_range(strlen(text), 1, UNIT_TEXT_MAX - 2);
		}
	char text[UNIT_TEXT_MAX];

	unit_format_exact(DIM_SECTORS, INT64_MIN, text);
	assert_string_equal(text, "-9223372036854775808");
}

static void parses_u64(void **state)
{
	static const struct {
		const char *text;
		uint64_t min, max, value;
	} good[] = {
		{ "0", 0, UINT64_MAX, 0 },
		{ "010", 0, 100, 10 }, /* decimal, not octal */
		{ "18446744073709551615", 0, UINT64_MAX, UINT64_MAX },
		{ "3", 3, 5, 3 },
		{ "5", 3, 5, 5 },
	};
	static const struct {
		const char *text;
		uint64_t min, max;
		const char *part;
	} bad[] = {
		{ "", 0, UINT64_MAX, "'' is not a number" },
		{ "x", 0, UINT64_MAX, "'x' is not a number" },
		{ "-1", 0, UINT64_MAX, "'-1' is not a number" },
		{ "+1", 0, UINT64_MAX, "'+1' is not a number" },
		{ " 1", 0, UINT64_MAX, "' 1' is not a number" },
		{ "1 ", 0, UINT64_MAX, "'1 ' is not a number" },
		{ "1\n", 0, UINT64_MAX, "is not a number" },
		{ "0x10", 0, UINT64_MAX, "'0x10' is not a number" },
		{ "1.0", 0, UINT64_MAX, "'1.0' is not a number" },
		{ "1e3", 0, UINT64_MAX, "'1e3' is not a number" },
		{ "18446744073709551616", 0, UINT64_MAX,
		  "18446744073709551616 is not in 0..18446744073709551615" },
		{ "99999999999999999999999999", 0, UINT64_MAX, "is not in 0.." },
		{ "2", 3, 5, "2 is not in 3..5" },
		{ "6", 3, 5, "6 is not in 3..5" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		uint64_t value = UNTOUCHED;

		assert_ok(parse_u64(good[i].text, good[i].min, good[i].max, &value));
		assert_true(value == good[i].value);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint64_t value = UNTOUCHED;

		assert_usage(parse_u64(bad[i].text, bad[i].min, bad[i].max, &value), bad[i].part);
		assert_true(value == UNTOUCHED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts),     cmocka_unit_test(refuses),
		cmocka_unit_test(round_trips), cmocka_unit_test(round_trips_what_it_accepts),
		cmocka_unit_test(formats),     cmocka_unit_test(formats_any_value),
		cmocka_unit_test(parses_u64),
	};

	return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
