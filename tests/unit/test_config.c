// SPDX-License-Identifier: GPL-2.0-only
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/config.h"
#include "core/glob.h"
#include "core/hist.h"

static const char *const built_in[CONFIG_NR] = {
	[CONFIG_TIME] = "1s",   [CONFIG_SIZE] = "1MiB", [CONFIG_SEEK] = "0",
	[CONFIG_KINDS] = "all", [CONFIG_IGNORE] = "no",
};

static struct error *parse(const char *text, struct config *config)
{
	return config_parse(text, strlen(text), "f", config);
}

/* Parses what must be right. */
static void parse_right(const char *text, struct config *config)
{
	config_init(config);
	assert_ok(parse(text, config));
	assert_ok(config_complete(config, built_in));
}

static void nothing(void **state)
{
	static const char *const texts[] = { "", "\n\n", "# only\n; comments", "[default]",
					     "[default]\n\n" };
	struct config c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		parse_right(texts[i], &c);
		assert_int_equal(c.n, 1);
		assert_string_equal(c.rules[0].texts[DIM_TIME], "1s");
		assert_int_equal(c.rules[0].kinds, KINDS_ALL);
		assert_false(c.rules[0].ignore);
		config_deinit(&c);
	}
}

static void sections(void **state)
{
	struct config c;

	(void)state;
	parse_right("# comment\n"
		    "[sd[a-c]]  ; the last bracket counts\n"
		    "time = 1ms,2ms ; bounds\n"
		    "  kinds=seek,request\r\n"
		    "[loop*]\n"
		    "ignore = YES\n"
		    "[empty]\n"
		    "[default]\n"
		    "size = 4KiB\n"
		    "[*]\n"
		    "ignore = no\n"
		    "seek: -1,0,1",
		    &c);
	assert_int_equal(c.n, 5);
	assert_string_equal(c.rules[0].texts[DIM_SIZE], "4KiB");
	assert_string_equal(c.rules[1].pattern, "sd[a-c]");
	assert_true(glob_matches_name(&c.rules[1].glob, "sdc"));
	assert_false(glob_matches_name(&c.rules[1].glob, "sdd"));
	assert_string_equal(c.rules[1].texts[DIM_TIME], "1ms,2ms");
	assert_int_equal(c.rules[1].ladders[DIM_TIME].n, 2);
	assert_int_equal(c.rules[1].ladders[DIM_TIME].bound[1], 2000000);
	assert_string_equal(c.rules[1].texts[DIM_SIZE], "4KiB");
	assert_string_equal(c.rules[1].texts[DIM_SECTORS], "0");
	assert_int_equal(c.rules[1].kinds, 1u << KIND_SEEK | 1u << KIND_REQUEST);
	assert_true(c.rules[2].ignore);
	assert_string_equal(c.rules[3].pattern, "empty");
	assert_string_equal(c.rules[3].texts[DIM_SIZE], "4KiB");
	assert_string_equal(c.rules[4].pattern, "*");
	assert_false(c.rules[4].ignore);
	config_deinit(&c);
}

/* [default] ignores all, a section takes something back. */
static void ignored_by_default(void **state)
{
	struct config c;

	(void)state;
	parse_right("[default]\nignore=yes\n[sda]\nignore=no\n[sdb]\ntime=1ms\n", &c);
	assert_true(c.rules[0].ignore);
	assert_false(c.rules[1].ignore);
	assert_true(c.rules[2].ignore);
	config_deinit(&c);
}

static void long_values(void **state)
{
	struct config c;

	(void)state;
	parse_right("[default]\n"
		    "time = 1ms,2ms,\n"
		    "  # a comment between\n"
		    "\n"
		    "       3ms, ; and here\n"
		    "\t4ms\n"
		    "size = 4KiB\n",
		    &c);
	assert_int_equal(c.rules[0].ladders[DIM_TIME].n, 4);
	assert_int_equal(c.rules[0].ladders[DIM_SIZE].n, 1);
	config_deinit(&c);
}

/* What the command line sets replaces an item of [default], but not that of a section. */
static void replaced(void **state)
{
	struct config c;

	(void)state;
	config_init(&c);
	assert_ok(parse("[default]\ntime=1ms\n[sda]\ntime=2ms\n[sdb]\nsize=1KiB\n", &c));
	assert_ok(config_set(&c.rules[0], CONFIG_TIME, "5ms"));
	assert_ok(config_complete(&c, built_in));
	assert_string_equal(c.rules[0].texts[DIM_TIME], "5ms");
	assert_string_equal(c.rules[1].texts[DIM_TIME], "2ms");
	assert_string_equal(c.rules[2].texts[DIM_TIME], "5ms");
	config_deinit(&c);
}

#define X30 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct {
	const char *text, *error;
} wrong[] = {
	{ "[default]\n\ntime = 10\n", "f:3: time ladder: time '10' needs a unit" },
	{ "[default]\ntime = 1ms,\n  10\n\n[sda]\n", "f:2: time ladder: time '10'" },
	{ "[sd*]\ntime = 2ms,1ms", "f:2: time ladder: '1ms'" },
	{ "[sd*]\ntime = 1ms\nsize = 4KB\n", "f:3: size ladder: '4KB'" },
	{ "[sd*]\nseek = x\n", "f:2: seek ladder: 'x'" },
	{ "[sd*]\ntime =\n", "f:2: time ladder: ''" },
	{ "[sd*]\nkinds = request,dma\n", "f:2: kinds: unknown kind 'dma'" },
	{ "[sd*]\nkinds =\n[sda]\n", "f:2: kinds: unknown kind ''" },
	{ "[sd*]\nignore = maybe\n", "f:2: ignore: 'maybe' is neither yes nor no" },
	{ "[sd*]\nignore = yes\n no\n", "f:2: ignore: 'yesno'" },
	{ "[sd*]\ncolour = red\n", "f:2: unknown item 'colour'" },
	{ "[sd*]\nTime = 1ms\n", "f:2: unknown item 'Time'" },
	{ "[sd*]\ntime = 1ms\ntime = 1ms\n", "f:3: 'time' is there twice" },
	{ "[sd*]\ntime = 1ms\nsize = 1\ntime = 2ms\n", "f:4: 'time' is there twice" },
	{ "[default]\n[sd*]\n[default]\n", "f:3: [default] is there twice" },
	{ "[sd*]\n\n[sd*]\n", "f:3: [sd*] is there twice" },
	{ "time = 1ms\n[default]\n", "f:1: 'time' stands before any section" },
	{ "[default]\ntime\n", "f:2: neither [SECTION] nor ITEM = VALUE" },
	{ "[default]\ntime\n[sda\n", "f:2: neither" },
	{ "[default]\n[sda\ntime\n", "f:2: '[sda' is no section" },
	{ "[sda] time = 1ms\n", "f:1: '[sda] time = 1ms' is no section" },
	{ "[]\n", "f:1: an empty pattern" },
	{ "[sd[a]\n", "f:1: a '[' in 'sd[a' has no ']'" },
	{ "[sd[b-a]]\n", "f:1: the range b-a" },
	{ "[" X30 "x]\n", "f:1: '" X30 "x' is too long" },
	{ "[" X30 "*****************************]\n", "f:1: [" X30 "*" },
	{ "[default]\ntime = " X30 X30 X30 X30 X30 X30 X30 "\n", "f:2: the line is longer than" },
	/* The first one counts, where it is noticed only later, too. */
	{ "[default]\ntime = 1\nnonsense\n", "f:2: time ladder" },
	{ "[default]\nnonsense\ntime = 1\n", "f:2: neither" },
	{ "[default]\ntime = 1\n[default]\n", "f:2: time ladder" },
};

static void refused(void **state)
{
	struct config c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		config_init(&c);
		assert_failed(parse(wrong[i].text, &c), wrong[i].error);
		config_deinit(&c);
	}
	/* A value is set when the next item begins, which has a value of its own by then. */
	config_init(&c);
	assert_failed(parse("[default]\ntime = 5\nkinds = seek\n", &c), "f:2: time ladder");
	config_deinit(&c);
	config_init(&c);
	assert_failed(config_parse("[a]\n\0\n", 6, "f", &c), "f:2: this is not text");
	config_deinit(&c);
}

static void too_many_sections(void **state)
{
	cleanup(buf_deinit) struct buf text = {};
	struct config c;

	(void)state;
	for (int i = 1; i < RULES_MAX; i++)
		buf_printf(&text, "[x%d]\n", i);
	buf_puts(&text, "[default]\n");
	parse_right(text.str, &c);
	assert_int_equal(c.n, RULES_MAX);
	config_deinit(&c);
	buf_puts(&text, "[y]\n");
	config_init(&c);
	assert_failed(parse(text.str, &c), "f:17: [y] is one section too many");
	config_deinit(&c);
}

/* Whatever stands there, it is taken or refused with a line, and nothing leaks (ASan). */
static void anything(void **state)
{
	static const char *const pieces[] = {
		"[",    "]",       "\n",   "\n",           "=", " ",      "\t",  ";",
		"#",    "default", "time", "1ms",          ",", "ignore", "yes", "kinds",
		"seek", "*",       "\r",   "\xef\xbb\xbf", ":", "sda",
	};
	uint64_t seed = 7;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		cleanup(buf_deinit) struct buf text = {};
		struct error *err;
		struct config c;

		for (int i = 0; i < 30; i++)
			buf_puts(&text, pieces[random_u64(&seed) % ARRAY_SIZE(pieces)]);
		config_init(&c);
		err = parse(text.str, &c);
		if (err)
			assert_true(!strncmp(err->message, "f:", 2));
		error_free(err);
		config_deinit(&c);
	}
}

static void files(void **state)
{
	char path[] = "/tmp/blkhist-test-config-XXXXXX";
	cleanup_close int fd = mkstemp(path);
	cleanup_free char *line = xasprintf("%s:2: unknown item 'x'", path);
	struct config c;

	(void)state;
	assert_true(fd >= 0);
	config_init(&c);
	assert_ok(config_read(path, &c));
	assert_ok(config_read("/dev/null", &c));
	assert_failed(config_read("/dev/null/x", &c), "cannot read the configuration /dev/null/x");
	assert_failed(config_read("/", &c), "cannot read the configuration /");
	assert_failed(config_read("/dev/zero", &c), "larger than 65536 bytes");
	assert_true(write(fd, "[a]\nx=1\n", 8) == 8);
	assert_failed(config_read(path, &c), line);
	config_deinit(&c);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing),
		cmocka_unit_test(sections),
		cmocka_unit_test(ignored_by_default),
		cmocka_unit_test(long_values),
		cmocka_unit_test(replaced),
		cmocka_unit_test(refused),
		cmocka_unit_test(too_many_sections),
		cmocka_unit_test(anything),
		cmocka_unit_test(files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
