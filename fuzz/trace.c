// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz target: the reader and the pairing.
 *
 * The first byte of an input says how it is read, the second one where it is cut in two (files of a
 * set, or what comes through a pipe at once). The rest is either the trace itself, which tries the
 * reader, or a script of events, EVENT_SIZE bytes each, from which sound records are made: of these
 * chance makes sequences that the pairing has to get right.
 */
#include "fuzz.h"

#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/util.h"
#include "sources/blktrace/format.h"

enum {
	HOW_START_GET = 1 << 0,
	HOW_SET = 1 << 1,        /* two files of a set */
	HOW_PARTITIONS = 1 << 2, /* with a dump of partitions */
	HOW_PIPE = 1 << 3,       /* see read_pipe() */
	HOW_STEPS = 1 << 4,      /* of files: once more, in steps of time */
	HOW_SCRIPT = 1 << 5,
	HOW_V8 = 1 << 6,  /* of a script */
	HOW_BIG = 1 << 7, /* likewise: big-endian */
};
#define HEADER_SIZE 2

/* So much fits into a pipe at once; longer inputs find nothing that shorter ones do not. */
#define TRACE_MAX 60000

static const char partitions_text[] =
	"label: dos\n"
	"device: /dev/set\n"
	"unit: sectors\n"
	"\n"
	"/dev/set1 : start=           0, size=          64, type=83\n"
	"/dev/set2 : start=          64, size=         128, type=83\n";

/* --- scripts --- */

#define EVENT_SIZE 6
#define PDU_MAX 24
#define RECORD_MAX (64 + PDU_MAX)
#define NS_BEGIN 1000000000ULL

/* 8:16, 8:17 and 8:32; see fuzz_config(). */
#define DEVICE ((8u << 20) | 16)
#define PARTITION ((8u << 20) | 17)
#define IGNORED ((8u << 20) | 32)

/* What is read: two files of a set, or what comes through a pipe at once; else all is in the first.
 */
struct parts {
	struct buf p[2];
};

static void parts_deinit(struct parts *parts)
{
	buf_deinit(&parts->p[0]);
	buf_deinit(&parts->p[1]);
}

/* How a script becomes a trace. */
struct writer {
	bool v8, big;
	bool per_cpu; /* a part for each CPU */
	uint64_t time_ns;
	uint32_t sequence[2]; /* by CPU */
	struct parts out;
};

static void put(struct buf *b, const struct writer *w, uint64_t value, unsigned int size)
{
	uint8_t bytes[8];

	for (unsigned int i = 0; i < size; i++)
		bytes[w->big ? size - 1 - i : i] = (uint8_t)(value >> (8 * i));
	buf_add(b, bytes, size);
}

/* What the kernel adds to events of some kinds; always big-endian. */
static size_t payload(unsigned int act, bool cgroup, uint8_t extra, uint8_t ret[PDU_MAX])
{
	uint32_t from = htobe32(extra & 1 ? PARTITION : (8u << 20) | 33);
	uint32_t to = htobe32(extra & 2 ? DEVICE : IGNORED);
	uint64_t sector = htobe64((extra >> 2) * 4);
	size_t n = cgroup ? 8 : 0;

	memset(ret, extra, PDU_MAX);
	if (act == ACTION_REMAP) {
		memcpy(ret + n, &from, 4);
		memcpy(ret + n + 4, &to, 4);
		memcpy(ret + n + 8, &sector, 8);
		n += 16;
	} else if (act == ACTION_UNPLUG || act == ACTION_SPLIT) {
		memcpy(ret + n, &sector, 8);
		n += 8;
	} else if (!act) {
		n += extra % 17;
	}
	return n;
}

/* The categories that belong to an event, as the kernel has them. */
static uint64_t own_category(unsigned int act)
{
	switch (act) {
	case 0:
		return CATEGORY_NOTIFY;
	case ACTION_REQUEUE:
		return 0x20;
	case ACTION_ISSUE:
		return 0x40;
	case ACTION_COMPLETE:
		return CATEGORY_COMPLETE;
	case ACTION_DRIVER_DATA:
		return 0x4000;
	default:
		return 0x10;
	}
}

/* What can be special with an event, in the highest bits of its first byte. */
enum { ORDINARY, WITHOUT_OWN_CATEGORY, ZONE_APPEND, BEHIND_A_GAP };

/*
 * One event: what, category, sector and device, bytes and CPU, time, the rest. Few values of each,
 * so that events meet.
 */
static void write_event(struct writer *w, const uint8_t e[EVENT_SIZE])
{
	static const uint64_t categories[] = {
		CATEGORY_READ,        CATEGORY_WRITE, CATEGORY_FLUSH,   0x8,
		CATEGORY_PASSTHROUGH, 0x800,          CATEGORY_DISCARD, CATEGORY_FUA,
	};
	static const uint32_t devices[] = { DEVICE, IGNORED, PARTITION, (259u << 20) | 1 };
	unsigned int act = e[0] & 0x1f, special = e[0] >> 6, cpu = e[3] >> 7;
	bool cgroup = e[0] & 0x20, notify = !act;
	uint64_t category = special == WITHOUT_OWN_CATEGORY && !notify ? 0 : own_category(act);
	uint8_t pdu[PDU_MAX];
	size_t pdu_len = payload(act, cgroup, e[5], pdu);
	struct buf *b = &w->out.p[w->per_cpu ? cpu : 0];

	for (int i = 0; i < 8; i++)
		category |= e[1] >> i & 1 ? categories[i] : 0;
	if (special == ZONE_APPEND && w->v8)
		category |= CATEGORY_ZONE_APPEND;
	if (notify)
		act = e[2] % 5; /* three kinds, and two that are not known */
	else
		w->sequence[cpu] += special == BEHIND_A_GAP ? 2 : 1;
	/* Mostly a little later, sometimes much, sometimes earlier. */
	if (e[4] >= 0xf0)
		w->time_ns -= (e[4] & 0xf) * 1000;
	else
		w->time_ns += e[4] < 0xe0 ? e[4] * 100 : 1ULL << (e[4] & 0xf) * 4;

	put(b, w, TRACE_MAGIC | (w->v8 ? TRACE_V8 : TRACE_V7), 4);
	put(b, w, notify ? 0 : w->sequence[cpu], 4);
	put(b, w, w->time_ns, 8);
	put(b, w, (e[2] & 0x3f) * 4, 8);
	put(b, w, (e[3] & 0x1f) * 2048, 4);

	uint64_t action = category << ACTION_CATEGORY_SHIFT | (cgroup ? ACTION_CGROUP : 0) | act;

	put(b, w, w->v8 ? e[5] : action, 4);
	put(b, w, w->v8 ? action : e[5], w->v8 ? 8 : 4);
	put(b, w, devices[e[2] >> 6], 4);
	put(b, w, cpu, 4);
	put(b, w, e[3] & 0x60 ? 0 : 5, 2);
	put(b, w, pdu_len, 2);
	for (int i = 0; w->v8 && i < 3; i++)
		put(b, w, 0, 4);
	buf_add(b, pdu, pdu_len);
}

/* --- the ways to read --- */

static void write_pipe(int fd, const struct buf *b)
{
	if (b->len && write(fd, b->str, b->len) != (ssize_t)b->len)
		fuzz_fail("the pipe is full");
}

/*
 * As watch does: what is there, a look at it, and then the rest; with HOW_SET ^C instead of the
 * rest, with HOW_STEPS the rest is a file beside the pipe. The former are also told that time goes
 * on; else it must be the same as in a file.
 */
static void read_pipe(const struct trace_settings *settings, uint8_t how, const struct parts *parts,
		      struct snapshot *ret)
{
	cleanup(trace_closep) struct trace *trace = NULL;
	cleanup(snapshot_deinit) struct snapshot before = {};
	enum trace_state state;
	const char *const paths[] = { "-", fuzz_file_path(FUZZ_SINGLE) };
	struct trace_settings with_pipe = *settings;
	int fds[2];

	with_pipe.paths = paths;
	with_pipe.n_paths = how & HOW_STEPS ? 2 : 1;
	fuzz_file_write(FUZZ_SINGLE, parts->p[1].str, parts->p[1].len);
	if (pipe2(fds, O_CLOEXEC) || dup2(fds[0], STDIN_FILENO) < 0)
		fuzz_fail("no pipe");
	close(fds[0]);

	struct error *err = trace_open(&with_pipe, &trace);

	if (err)
		fuzz_fail("the pipe: %s", err->message);
	write_pipe(fds[1], &parts->p[0]);
	while ((state = trace_read(trace, INT64_MAX)) == TRACE_MORE)
		;
	if (state != TRACE_WAITING && state != TRACE_END)
		fuzz_fail("a pipe without anything is state %d", state);
	if (how & (HOW_SET | HOW_STEPS))
		trace_advance(trace, trace_newest_ns(trace));
	fuzz_snapshot(trace, &before);
	if (how & HOW_SET)
		trace_stop(trace);
	else if (!(how & HOW_STEPS))
		write_pipe(fds[1], &parts->p[1]);
	close(fds[1]);
	err = trace_poll(trace, -1, 0);
	if (err)
		fuzz_fail("waiting: %s", err->message);
	fuzz_read(trace, ret);
	fuzz_check_rise(&before, ret);
}

/* Up to the next step: each is as far from the beginning as all before it. */
static bool read_step(struct trace *trace, unsigned int step)
{
	int64_t begin = trace_begin_ns(trace), until;
	enum trace_state state;

	if (__builtin_add_overflow(begin, INT64_C(1) << step, &until))
		until = INT64_MAX;
	while ((state = trace_read(trace, until)) == TRACE_MORE)
		;
	if (state == TRACE_WAITING)
		fuzz_fail("a file is waited for");
	return state != TRACE_END;
}

/* Reading in steps finds the same. */
static void read_steps(const struct trace_settings *settings, const struct snapshot *at_once)
{
	cleanup(trace_closep) struct trace *trace = NULL;
	cleanup(snapshot_deinit) struct snapshot last = {}, now = {};

	struct error *err = trace_open(settings, &trace);

	if (err)
		fuzz_fail("opened before, and now: %s", err->message);
	for (unsigned int step = 8; step < 63; step += 6) {
		bool more = read_step(trace, step);

		fuzz_snapshot(trace, &now);
		if (step > 8)
			fuzz_check_rise(&last, &now);
		snapshot_deinit(&last);
		last = now;
		now = (struct snapshot){};
		if (!more)
			break;
	}
	fuzz_read(trace, &now);
	fuzz_check_rise(&last, &now);
	fuzz_check_same(&now, at_once);
}

/* @same: what was found in another way, or NULL. */
static void read_files(const struct trace_settings *settings, bool steps,
		       const struct snapshot *same)
{
	cleanup(trace_closep) struct trace *trace = NULL;
	cleanup(snapshot_deinit) struct snapshot s = {};
	struct error *err = trace_open(settings, &trace);

	if (err) { /* nothing of it is a trace */
		if (!err->message[0])
			fuzz_fail("an error without a message");
		error_free(err);
		return;
	}
	fuzz_read(trace, &s);
	if (steps)
		read_steps(settings, &s);
	if (same)
		fuzz_check_same(&s, same);
}

static void make_parts(uint8_t how, uint8_t cut, const uint8_t *data, size_t size,
		       struct parts *ret)
{
	struct writer w = { .v8 = how & HOW_V8, .big = how & HOW_BIG, .time_ns = NS_BEGIN };
	bool pipe = how & HOW_PIPE, set = !pipe && how & HOW_SET;

	if (!(how & HOW_SCRIPT)) {
		buf_add(&w.out.p[0], data, size < TRACE_MAX ? size : TRACE_MAX);
	} else {
		w.per_cpu = set;
		for (; size >= EVENT_SIZE && w.out.p[0].len < TRACE_MAX - RECORD_MAX;
		     data += EVENT_SIZE, size -= EVENT_SIZE)
			write_event(&w, data);
	}
	*ret = w.out;
	if (ret->p[0].len && (pipe || (set && !w.per_cpu))) {
		size_t first = ret->p[0].len * cut / 256;

		buf_add(&ret->p[1], ret->p[0].str + first, ret->p[0].len - first);
		ret->p[0].len = first;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEADER_SIZE)
		return 0;

	cleanup(parts_deinit) struct parts parts = {};
	cleanup(snapshot_deinit) struct snapshot piped = {};
	uint8_t how = data[0];
	const char *path = fuzz_file_path(how & HOW_SET ? FUZZ_CPU0 : FUZZ_SINGLE);
	struct trace_settings settings = {
		.paths = &path,
		.n_paths = 1,
		.config = fuzz_config(),
		.start = how & HOW_START_GET ? TRACE_START_GET : TRACE_START_QUEUE,
		.root = fuzz_root(),
	};

	make_parts(how, data[1], data + HEADER_SIZE, size - HEADER_SIZE, &parts);
	if (how & HOW_PARTITIONS) {
		settings.partitions = fuzz_file_path(FUZZ_PARTITIONS);
		fuzz_file_write(FUZZ_PARTITIONS, partitions_text, strlen(partitions_text));
	}
	if (how & HOW_PIPE) {
		read_pipe(&settings, how, &parts, &piped);
		if (how & (HOW_SET | HOW_STEPS))
			return 0;
		if (parts.p[1].len)
			buf_add(&parts.p[0], parts.p[1].str, parts.p[1].len);
	}
	fuzz_file_write(how & HOW_SET ? FUZZ_CPU0 : FUZZ_SINGLE, parts.p[0].str, parts.p[0].len);
	if (how & HOW_SET)
		fuzz_file_write(FUZZ_CPU1, parts.p[1].str, parts.p[1].len);
	read_files(&settings, how & HOW_STEPS, how & HOW_PIPE ? &piped : NULL);
	return 0;
}
