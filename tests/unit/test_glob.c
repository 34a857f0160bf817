// SPDX-License-Identifier: GPL-2.0-only
/* The automaton that the kernel side runs, beside fnmatch(3). */
#include "unit.h"

#include <fnmatch.h>
#include <stdio.h>

#include "core/glob.h"

static void check(const char *pattern, const char *name)
{
	bool expected = !fnmatch(pattern, name, FNM_NOESCAPE);
	struct glob glob;

	assert_ok(glob_compile(pattern, &glob));
	if (glob_matches_name(&glob, name) != expected)
		fail_msg("'%s' %s match '%s'", pattern, expected ? "must" : "must not", name);
}

static const char *const patterns[] = {
	"*",
	"?",
	"??*",
	"sd*",
	"sda",
	"sd?",
	"sd[a-c]",
	"sd[!a]",
	"sd[^a]",
	"*a",
	"*a*",
	"**",
	"a*b*c",
	"nvme*n1",
	"nvme[0-9]n[12]",
	"*n1",
	"loop[0-9]*",
	"loop?",
	"[sh]d*",
	"[]x]*",
	"[!]]*",
	"[a-]*",
	"[-a]*",
	"dm-*",
	"*[0-9]",
	"*[!0-9]",
	"s*d*a*",
	"[a-ac-c]*",
	"*?",
	"?*?",
	"a.b",
	"\\*",
	"[*]",
	"[?]x",
	"[[]*",
	"sda*",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	"*aaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
};

static const char *const names[] = {
	"",
	"a",
	"b",
	"s",
	"sd",
	"sda",
	"sdb",
	"sdaa",
	"sdz",
	"hda",
	"nvme0n1",
	"nvme10n1",
	"nvme0n12",
	"nvme3n2",
	"loop",
	"loop0",
	"loop17",
	"loop1000",
	"dm-0",
	"md127",
	"]",
	"]a",
	"-",
	"-x",
	"a-",
	"c",
	"abc",
	"aXbXc",
	"aXbXcX",
	"a.b",
	"aXb",
	"\\*",
	"\\x",
	"*",
	"?x",
	"x",
	"[",
	"[0",
	"aa",
	"aab",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
	"\xff\x80",
	"s\xff",
};

static void as_fnmatch(void **state)
{
	(void)state;
	for (size_t p = 0; p < ARRAY_SIZE(patterns); p++)
		for (size_t n = 0; n < ARRAY_SIZE(names); n++)
			check(patterns[p], names[n]);
}

/* Of few different characters, so that many match. */
static void as_fnmatch_at_random(void **state)
{
	static const char *const elements[] = { "a", "b", "c", "*", "?", "[ab]", "[!a]", "[b-c]" };
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		char pattern[64] = "", name[DISK_NAME_LEN] = "";
		unsigned int n = (unsigned int)(random_u64(&seed) % 9 + 1);
		unsigned int len = (unsigned int)(random_u64(&seed) % 10);

		for (unsigned int i = 0; i < n; i++) {
			const char *e = elements[random_u64(&seed) % ARRAY_SIZE(elements)];

			memcpy(pattern + strlen(pattern), e, strlen(e) + 1);
		}
		for (unsigned int i = 0; i < len; i++)
			name[i] = "abc"[random_u64(&seed) % 3];
		check(pattern, name);
	}
}

static void slashes(void **state)
{
	struct glob glob;

	(void)state;
	assert_ok(glob_compile("cciss!c0d*", &glob));
	assert_true(glob_matches_name(&glob, "cciss/c0d0"));
	assert_true(glob_matches_name(&glob, "cciss!c0d0"));
	assert_false(glob_matches_name(&glob, "ccissc0d0"));
	assert_ok(glob_compile("cciss/*", &glob));
	assert_true(glob_matches_name(&glob, "cciss/c0d0"));
	assert_ok(glob_compile("*", &glob));
	assert_true(glob_matches_name(&glob, "cciss/c0d0"));
}

/* Names of the kernel end within their 32 bytes; longer ones match nothing, whatever they are. */
static void lengths(void **state)
{
	char name[DISK_NAME_LEN + 1];
	struct glob glob;

	(void)state;
	memset(name, 'x', sizeof(name));
	assert_ok(glob_compile("*", &glob));
	name[DISK_NAME_LEN] = '\0';
	assert_false(glob_matches_name(&glob, name));
	name[DISK_NAME_LEN - 1] = '\0';
	assert_true(glob_matches_name(&glob, name));
	assert_ok(glob_compile("*x", &glob));
	assert_true(glob_matches_name(&glob, name));
}

/* An entry that is not set matches no name. */
static void zeroed(void **state)
{
	struct glob glob = {};

	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(names); n++)
		assert_false(glob_matches_name(&glob, names[n]));
}

static void refused(void **state)
{
	struct glob glob;

	(void)state;
	memset(&glob, 0x5a, sizeof(glob));
	assert_usage(glob_compile("", &glob), "empty");
	assert_usage(glob_compile("sd[a", &glob), "'sd[a' has no ']'");
	assert_usage(glob_compile("sd[", &glob), "no ']'");
	assert_usage(glob_compile("sd[]", &glob), "no ']'");
	assert_usage(glob_compile("sd[a-", &glob), "no ']'");
	assert_usage(glob_compile("sd[!", &glob), "no ']'");
	assert_usage(glob_compile("sd[c-a]", &glob), "c-a");
	assert_usage(glob_compile("sd[[:alpha:]]", &glob), "'[:'");
	assert_usage(glob_compile("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &glob), "too long");
	assert_int_equal(glob.start, 0x5a5a5a5a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_fnmatch), cmocka_unit_test(as_fnmatch_at_random),
		cmocka_unit_test(slashes),    cmocka_unit_test(lengths),
		cmocka_unit_test(zeroed),     cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
