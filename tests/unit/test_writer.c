// SPDX-License-Identifier: GPL-2.0-only
/* The bytes of the files, and what is left of them when they cannot be written. */
#include "unit.h"

#include <endian.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/util.h"
#include "record/writer.h"
#include "sources/blktrace/format.h"

#define DEVICE (259u << 20 | 7) /* nothing in /sys has it, as there is none */
#define NAME "259-7"

struct place {
	char top[32], *dir;
	struct writer_options options;
	struct writer *writer;
};

static void place_open(struct place *p)
{
	cleanup_free char *sys = NULL;

	*p = (struct place){ .top = "/tmp/blkhist-unit-XXXXXX" };
	assert_non_null(mkdtemp(p->top));
	for (const char *dir = "sys\0sys/class\0sys/class/block\0"; *dir; dir += strlen(dir) + 1) {
		free(sys);
		sys = xasprintf("%s/%s", p->top, dir);
		assert_int_equal(mkdir(sys, 0700), 0);
	}
	p->dir = xasprintf("%s/trace", p->top);
	p->options = (struct writer_options){
		.path = p->dir,
		.root = p->top,
		.n_cpus = 2,
		.begin_ns = 1000,
		.realtime_ns = 1234567890987654321,
		.partitions = true,
	};
	assert_ok(writer_open(&p->options, &p->writer));
}

static void place_close(struct place *p)
{
	cleanup_free char *command = xasprintf("rm -r %s", p->top);

	writer_closep(&p->writer);
	assert_int_equal(system(command), 0);
	free(p->dir);
}

static char *file_path(const struct place *p, unsigned int cpu)
{
	return xasprintf("%s/" NAME ".blktrace.%u", p->dir, cpu);
}

/* The records of a file, after one another. */
struct records {
	struct buf bytes;
	size_t at;
	struct trace_v7 head;
	const char *payload;
};

static void records_open(struct records *r, const struct place *p, unsigned int cpu)
{
	cleanup_free char *path = file_path(p, cpu);

	*r = (struct records){};
	assert_ok(buf_read_file(&r->bytes, "a trace", path, 1 << 24));
}

static bool records_next(struct records *r)
{
	if (r->at == r->bytes.len)
		return false;
	assert_true(r->bytes.len - r->at >= sizeof(r->head));
	memcpy(&r->head, r->bytes.str + r->at, sizeof(r->head));
	r->payload = r->bytes.str + r->at + sizeof(r->head);
	r->at += sizeof(r->head) + r->head.payload;
	assert_true(r->at <= r->bytes.len);
	assert_int_equal(r->head.magic, 0x65617407);
	return true;
}

static struct rec_event read_event(uint64_t time, uint32_t action)
{
	return (struct rec_event){
		.cpu = 1,
		.time = time,
		.sector = 4096,
		.bytes = 8192,
		.action = action | (CATEGORY_READ | CATEGORY_FS) << ACTION_CATEGORY_SHIFT,
		.device = DEVICE,
		.pid = 42,
	};
}

#define ISSUED (ACTION_ISSUE | CATEGORY_ISSUE << ACTION_CATEGORY_SHIFT)
#define COMPLETED (ACTION_COMPLETE | CATEGORY_COMPLETE << ACTION_CATEGORY_SHIFT)

static void test_records(void **state)
{
	struct rec_event issue = read_event(2000, ISSUED), complete = read_event(3000, COMPLETED);
	struct writer_totals totals;
	struct records r;
	struct place p;
	uint32_t device;
	uint64_t sector;

	(void)state;
	place_open(&p);
	issue.from_device = 259u << 20 | 9;
	issue.from = 96;
	complete.lost = 3;
	complete.error = 10; /* BLK_STS_IOERR */
	assert_int_equal(writer_gap(p.writer, 1, &issue), 0);
	assert_int_equal(writer_gap(p.writer, 1, &complete), 3);
	assert_int_equal(writer_gap(p.writer, 1, &complete), 0);
	writer_name(p.writer, 42, "reader\0\0\0\0\0\0\0\0\0");
	assert_ok(writer_event(p.writer, &issue));
	assert_ok(writer_event(p.writer, &complete));
	assert_ok(writer_flush(p.writer));

	records_open(&r, &p, 0);
	assert_false(records_next(&r));
	buf_deinit(&r.bytes);

	records_open(&r, &p, 1);
	assert_true(records_next(&r));
	assert_int_equal(r.head.action, 1u << 26 | 1); /* BLK_TN_TIMESTAMP */
	assert_int_equal(r.head.time, 1000);
	assert_int_equal(r.head.sequence, 0);
	assert_memory_equal(r.payload, ((uint32_t[]){ 1234567890, 987654321 }), 8);
	assert_true(records_next(&r));
	assert_int_equal(r.head.action, 1u << 26); /* BLK_TN_PROCESS */
	assert_int_equal(r.head.pid, 42);
	assert_int_equal(r.head.payload, 16);
	assert_string_equal(r.payload, "reader");
	assert_true(records_next(&r));
	assert_int_equal(r.head.action & 0xffff, 15);
	assert_true(r.head.action & 0x100 << 16); /* of a request, not of a bio */
	assert_int_equal(r.head.sequence, 1);
	memcpy(&device, r.payload, 4);
	assert_int_equal(be32toh(device), 259u << 20 | 9);
	memcpy(&device, r.payload + 4, 4);
	assert_int_equal(be32toh(device), DEVICE);
	memcpy(&sector, r.payload + 8, 8);
	assert_int_equal(be64toh(sector), 96);
	assert_true(records_next(&r));
	assert_int_equal(r.head.action, 0x01410007);
	assert_int_equal(r.head.sequence, 2);
	assert_int_equal(r.head.sector, 4096);
	assert_int_equal(r.head.bytes, 8192);
	assert_int_equal(r.head.device, DEVICE);
	assert_int_equal(r.head.cpu, 1);
	assert_true(records_next(&r));
	assert_int_equal(r.head.action, 0x01810008);
	assert_int_equal(r.head.sequence, 6); /* three are missing */
	assert_int_equal((int16_t)r.head.error, -5);
	assert_false(records_next(&r));
	totals = writer_totals(p.writer);
	assert_int_equal(totals.events, 3);
	assert_int_equal(totals.gaps, 3);
	assert_int_equal(totals.disks, 1);
	assert_int_equal(totals.bytes, r.bytes.len);
	buf_deinit(&r.bytes);
	place_close(&p);
}

/* A process is named once per disk, and again if it has another name. */
static void test_names(void **state)
{
	struct rec_event issue = read_event(2000, ISSUED);
	unsigned int named = 0, events = 0;
	struct records r;
	struct place p;

	(void)state;
	place_open(&p);
	writer_name(p.writer, 42, "first\0\0\0\0\0\0\0\0\0\0");
	for (int i = 0; i < 3; i++)
		assert_ok(writer_event(p.writer, &issue));
	writer_name(p.writer, 42, "first\0\0\0\0\0\0\0\0\0\0");
	assert_ok(writer_event(p.writer, &issue));
	writer_name(p.writer, 42, "second\0\0\0\0\0\0\0\0\0");
	assert_ok(writer_event(p.writer, &issue));
	issue.pid = 43; /* nobody has said how it is called */
	assert_ok(writer_event(p.writer, &issue));
	assert_ok(writer_flush(p.writer));
	records_open(&r, &p, 1);
	while (records_next(&r)) {
		named += r.head.action == 1u << 26;
		events += !(r.head.action & 1u << 26);
	}
	assert_int_equal(named, 2);
	assert_int_equal(events, 6);
	buf_deinit(&r.bytes);
	place_close(&p);
}

/* A file that may not grow beyond a limit that is in the middle of a record, as on a full disk. */
static void test_full(void **state)
{
	struct rlimit before, limit = { 100000, 100000 };
	struct rec_event issue = read_event(2000, ISSUED);
	struct error *err = NULL;
	struct records r;
	struct place p;
	uint32_t last = 0;

	(void)state;
	place_open(&p);
	getrlimit(RLIMIT_FSIZE, &before);
	limit.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	for (int i = 0; i < 10000 && !err; i++)
		err = writer_event(p.writer, &issue);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_failed(err, "cannot write");
	records_open(&r, &p, 1);
	while (records_next(&r))
		last = r.head.sequence;
	assert_true(r.bytes.len > 100000 - 2 * sizeof(r.head) && r.bytes.len <= 100000);
	assert_true(last > 2000);
	buf_deinit(&r.bytes);
	place_close(&p);
}

static void test_exists(void **state)
{
	struct rec_event issue = read_event(2000, ISSUED);
	struct writer *second = NULL;
	struct place p;

	(void)state;
	place_open(&p);
	assert_ok(writer_event(p.writer, &issue));
	assert_ok(writer_open(&p.options, &second));
	assert_failed(writer_add_disk(second, DEVICE), "it exists");
	writer_closep(&second);
	place_close(&p);
}

static void test_abandon(void **state)
{
	cleanup_free char *path = NULL;
	struct place p;

	(void)state;
	place_open(&p);
	path = file_path(&p, 1);
	assert_ok(writer_add_disk(p.writer, DEVICE));
	assert_int_equal(access(path, F_OK), 0);
	writer_abandon(p.writer);
	assert_int_not_equal(access(p.dir, F_OK), 0);
	place_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records), cmocka_unit_test(test_names),
		cmocka_unit_test(test_full),    cmocka_unit_test(test_exists),
		cmocka_unit_test(test_abandon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
