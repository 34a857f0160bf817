// SPDX-License-Identifier: GPL-2.0-only
#include "unit.h"

#include <stdlib.h>

#include "core/snapshot.h"
#include "outputs/watch.h"

/* 2026-11-30T14:05:07Z */
#define NOW_NS (1796047507ll * 1000000000)
#define SECOND 1000000000ll

static void delta_init(struct snapshot *s, int64_t interval_ns)
{
	*s = (struct snapshot){ .source = "live", .time_ns = NOW_NS, .clock_ns = interval_ns };
}

/* A histogram whose bucket @i has counts[@i]. */
static struct hist *add(struct snapshot *s, const char *disk, const char *partition,
			enum hist_kind kind, enum blk_op op, const char *spec,
			const uint64_t *counts, int64_t sum)
{
	struct hist *h = snapshot_add(s);
	struct ladder l;

	assert_ok(ladder_parse(kind == KIND_SEEK ? DIM_SECTORS : DIM_TIME, spec, &l));
	snprintf(h->name.disk, sizeof(h->name.disk), "%s", disk);
	snprintf(h->name.partition, sizeof(h->name.partition), "%s", partition);
	h->kind = kind;
	h->op = op;
	hist_init(h, snapshot_ladder(s, &l), NULL);
	memcpy(h->counts, counts, h->n_cols * sizeof(*counts));
	h->sums[0] = sum;
	return h;
}

/* Reads: 1000 within 100 us but 15 within 1 ms and one beyond it; 2 s. Writes idle. */
static void example(struct snapshot *s)
{
	static const uint64_t request[] = { 984, 15, 1 }, service[] = { 1000, 0, 0 };
	static const uint64_t none[3], seek[] = { 5, 250, 745 };

	delta_init(s, 2 * SECOND);
	add(s, "sda", "", KIND_REQUEST, OP_READ, "100us,1ms", request, 1000)->bytes = 4096000;
	add(s, "sda", "", KIND_REQUEST, OP_WRITE, "100us,1ms", none, 0);
	add(s, "sda", "", KIND_SERVICE, OP_READ, "100us,1ms", service, 875)->bytes = 4096000;
	add(s, "sda", "", KIND_SERVICE, OP_WRITE, "100us,1ms", none, 0);
	add(s, "sda", "", KIND_QUEUE, OP_READ, "100us,1ms", service, 125)->bytes = 4096000;
	add(s, "sda", "", KIND_SEEK, OP_READ, "-1,0", seek, 0);
	snapshot_add_loss(s, "unseen", "", 0);
	snapshot_add_loss(s, "passthrough", "", 12)->usual = true;
	snapshot_sort(s);
}

#define HEADER                                                                                    \
	"                                             --- request time ---  --- service time ---" \
	"  -- share --\n"                                                                         \
	"UTC      device       op        IOPS   MB/s     p50    p99  p99.9     p50    p99  p99.9" \
	"  queue   seq\n"

static void text_of_an_interval(void **state)
{
	cleanup(snapshot_deinit) struct snapshot s = {};
	cleanup(buf_deinit) struct buf out = {};
	struct watch_text text = {};

	(void)state;
	example(&s);
	watch_text(&text, &s, &out);
	watch_text(&text, &s, &out); /* the header does not come again */
	assert_string_equal(
		out.str, HEADER
		"14:05:07 sda          read       500   2.05   100us    1ms    1ms   100us  100us  100us"
		"  12.5% 25.0%\n"
		"14:05:07 sda          read       500   2.05   100us    1ms    1ms   100us  100us  100us"
		"  12.5% 25.0%\n");
}

static void header_comes_with_every_page(void **state)
{
	cleanup(snapshot_deinit) struct snapshot s = {};
	cleanup(buf_deinit) struct buf out = {};
	struct watch_text text = { .page = 3 };
	int headers = 0;

	(void)state;
	example(&s);
	for (int i = 0; i < 7; i++)
		watch_text(&text, &s, &out);
	for (const char *p = out.str; (p = strstr(p, "UTC")); p++)
		headers++;
	assert_int_equal(headers, 3);
}

static void json_of_an_interval(void **state)
{
	cleanup(snapshot_deinit) struct snapshot s = {};
	cleanup(buf_deinit) struct buf out = {};

	(void)state;
	example(&s);
	watch_json(&s, &out);
	assert_string_equal(
		out.str,
		"{\"schema\":\"blkhist-watch/1\",\"time\":\"2026-11-30T14:05:07.000000000Z\","
		"\"interval_ns\":2000000000,\"source\":\"live\","
		"\"losses\":{\"unseen\":0,\"passthrough\":12},"
		"\"devices\":[{\"device\":\"sda\",\"partition\":null,\"major\":0,\"minor\":0,"
		"\"op\":\"read\",\"requests\":1000,\"bytes\":4096000,\"iops\":500.000,"
		"\"bytes_per_second\":2048000,"
		"\"request\":{\"count\":1000,\"sum_ns\":1000,\"p50_ns\":100000,\"p99_ns\":1000000,"
		"\"p999_ns\":1000000,\"last_bound_ns\":1000000},"
		"\"service\":{\"count\":1000,\"sum_ns\":875,\"p50_ns\":100000,\"p99_ns\":100000,"
		"\"p999_ns\":100000,\"last_bound_ns\":1000000},"
		"\"queue_share\":0.125000,\"sequential_share\":0.250000}]}\n");
}

static void idle(void **state)
{
	cleanup(snapshot_deinit) struct snapshot s = {};
	cleanup(buf_deinit) struct buf out = {}, json = {};
	static const uint64_t none[3];
	struct watch_text text = {};

	(void)state;
	delta_init(&s, SECOND);
	add(&s, "sda", "", KIND_REQUEST, OP_WRITE, "100us,1ms", none, 0);
	watch_text(&text, &s, &out);
	assert_string_equal(out.str, HEADER "14:05:07 no I/O\n");
	watch_json(&s, &json);
	assert_non_null(strstr(json.str, "\"devices\":[]}\n"));
}

/* A quantile beyond the last bound is not given a number, and what is not known is a dash. */
static void unknown_values(void **state)
{
	static const uint64_t service[] = { 50, 0, 50 }, seek[] = { 10, 1 };
	cleanup(snapshot_deinit) struct snapshot s = {};
	cleanup(buf_deinit) struct buf out = {}, json = {};
	struct watch_text text = {};

	(void)state;
	delta_init(&s, SECOND);
	add(&s, "sda", "sda1", KIND_SERVICE, OP_WRITE, "100us,16s", service, 1)->bytes = 400;
	add(&s, "sda", "sda1", KIND_SEEK, OP_READ, "0", seek, 0); /* 0 shares its bucket */
	watch_text(&text, &s, &out);
	assert_string_equal(
		out.str, HEADER
		"14:05:07 sda1         write      100 <0.001       -      -      -   100us   >16s   >16s"
		"      -     -\n");
	watch_json(&s, &json);
	assert_non_null(strstr(json.str, "\"partition\":\"sda1\""));
	assert_non_null(strstr(json.str, "\"request\":null,"));
	assert_non_null(strstr(json.str, "\"p50_ns\":100000,\"p99_ns\":null,\"p999_ns\":null,"
					 "\"last_bound_ns\":16000000000}"));
	assert_non_null(strstr(json.str, "\"queue_share\":null,\"sequential_share\":null}"));
}

static void assert_requests(const struct snapshot *s, const char *expected)
{
	cleanup(buf_deinit) struct buf json = {};

	watch_json(s, &json);
	assert_non_null(strstr(json.str, expected));
}

/* Requests that have no request time, and times that come before the end of the request. */
static void requests_are_what_ended(void **state)
{
	static const uint64_t none[2], some[] = { 7, 0 };

	(void)state;
	for (int has_bytes = 0; has_bytes < 2; has_bytes++)
		for (enum blk_op op = 0; op < OP_NR; op++) {
			cleanup(snapshot_deinit) struct snapshot s = {};
			uint64_t bytes = has_bytes ? 512 : 0;

			delta_init(&s, SECOND);
			add(&s, "sda", "", KIND_REQUEST, op, "1ms", none, 0)->bytes = bytes;
			add(&s, "sda", "", KIND_SERVICE, op, "1ms", some, 9)->bytes = bytes;
			assert_requests(&s, has_bytes || op == OP_FLUSH ? "\"requests\":7," :
									  "\"requests\":0,");
		}
}

static unsigned int longest_line(const char *text)
{
	unsigned int longest = 0, n = 0;

	for (; *text; text++) {
		if (*text == '\033') { /* takes no room */
			text = strchr(text, 'm');
			continue;
		}
		n = *text == '\n' ? 0 : n + 1;
		longest = n > longest ? n : longest;
	}
	return longest;
}

static void assert_narrow(const struct snapshot *s)
{
	for (int colour = 0; colour < 2; colour++) {
		cleanup(buf_deinit) struct buf out = {};
		struct watch_text text = { .colour = colour };

		watch_text(&text, s, &out);
		assert_in_range(longest_line(out.str), 1, WATCH_WIDTH);
		assert_int_equal(strchr(out.str, '\033') != NULL, colour);
	}
}

/* The widest that every cell can get. */
static void never_too_wide(void **state)
{
	static const char *const bounds[] = { "1ns",
					      "999.9us",
					      "99.95ms,9.996s",
					      "99999s",
					      "123456s",
					      "999999s,4611686018s",
					      "99999.6s,999999.6s",
					      "4611686018s" };
	static const int64_t intervals[] = { 1, 10000000, SECOND, 86400 * SECOND, 0 };
	static const char *const names[] = {
		"nvme0n1p1", "mmcblk123p12", "mmcblk1234p12",
		"a-name-as-long-as-they-can-be-which-is-63-bytes-in-all-12345678"
	};
	static const uint64_t seek[] = { 0, UINT64_MAX, 0 };
	uint64_t seed = 8;

	(void)state;
	for (size_t b = 0; b < ARRAY_SIZE(bounds); b++)
		for (size_t i = 0; i < ARRAY_SIZE(intervals); i++)
			for (int round = 0; round < 40; round++) {
				cleanup(snapshot_deinit) struct snapshot s = {};
				const char *name = names[random_u64(&seed) % ARRAY_SIZE(names)];

				delta_init(&s, intervals[i]);
				for (int kind = 0; kind < KIND_TIMED; kind++) {
					uint64_t counts[3] = {};

					counts[random_u64(&seed) % 2] =
						round ? random_magnitude(&seed, 64) : UINT64_MAX;
					add(&s, name, "", kind, OP_DISCARD, bounds[b], counts,
					    (int64_t)random_magnitude(&seed, 64))
						->bytes = round ? random_magnitude(&seed, 64) :
								  UINT64_MAX;
				}
				add(&s, name, "", KIND_SEEK, OP_READ, "-1,0", seek, 0);
				assert_narrow(&s);
			}
}

static void losses(void **state)
{
	cleanup(snapshot_deinit) struct snapshot s = {};
	cleanup(buf_deinit) struct buf out = {};
	struct watch_text text = {};

	(void)state;
	delta_init(&s, SECOND);
	snapshot_add_loss(&s, "unseen", "", 3);
	snapshot_add_loss(&s, "unissued", "", 4)->usual = true;
	snapshot_add_loss(&s, "no_slot", "", 0);
	snapshot_add_loss(&s, "partial", "", 1);
	watch_text(&text, &s, &out);
	assert_string_equal(strchr(strstr(out.str, "no I/O"), '\n') + 1,
			    "14:05:07 losses: unseen 3, partial 1\n");
	for (int i = 0; i < 20; i++)
		snapshot_add_loss(&s, "other_ladder", "", UINT64_MAX);
	assert_narrow(&s);
}

static void help_has_every_column(void **state)
{
	cleanup(buf_deinit) struct buf help = {};
	char titles[] = "device op IOPS MB/s p50 p99 p99.9 queue seq", *next = titles, *title;

	(void)state;
	watch_help(&help);
	while ((title = strsep(&next, " "))) {
		cleanup_free char *line = xasprintf("\n  %s ", title);

		assert_non_null(strstr(help.str, line));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_of_an_interval),
		cmocka_unit_test(header_comes_with_every_page),
		cmocka_unit_test(json_of_an_interval),
		cmocka_unit_test(idle),
		cmocka_unit_test(unknown_values),
		cmocka_unit_test(requests_are_what_ended),
		cmocka_unit_test(never_too_wide),
		cmocka_unit_test(losses),
		cmocka_unit_test(help_has_every_column),
	};

	return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
