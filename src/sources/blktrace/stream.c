// SPDX-License-Identifier: GPL-2.0-only
#include "sources/blktrace/stream.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"

/* Of a file that is no trace, so much is looked at to see whether it is text. */
#define TEXT_SAMPLE 512

void stream_deinit(struct stream *s)
{
	free(s->path);
	free(s->buf);
	/* Standard input is not ours to close. */
	if (s->fd > STDIN_FILENO)
		closep(&s->fd);
	*s = (struct stream){ .fd = -1 };
}

struct error *stream_open(const char *path, size_t buffer, struct stream *ret)
{
	bool standard = !strcmp(path, "-");
	cleanup_close int fd = standard ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (!standard && fd < 0)
		return error_errno(errno, "cannot open the trace %s", path);
	if (fstat(standard ? STDIN_FILENO : fd, &st))
		return error_errno(errno, "cannot look at the trace %s", path);
	if (S_ISDIR(st.st_mode))
		return error_new(
			"cannot read the trace %s: it is a directory; name the files in it, or "
			"what their names begin with: %s/NAME for NAME.blktrace.0, ...",
			path, path);
	if (standard && isatty(STDIN_FILENO))
		return error_usage("cannot read a trace from the terminal; what is meant may be: "
				   "blktrace -d DEVICE -o - | blkhist show -i -");
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
		return error_new("cannot read the trace %s: it is neither a file nor a pipe", path);
	*ret = (struct stream){
		.path = xstrdup(standard ? "standard input" : path),
		.fd = standard ? STDIN_FILENO : take_fd(fd),
		.pipe = !S_ISREG(st.st_mode),
		.length = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0,
		.buf = xcalloc(buffer, 1),
		.size = buffer,
	};
	return NULL;
}

void stream_problem(struct stream *s, enum stream_problem problem, uint64_t offset, uint64_t detail)
{
	if (!s->problems[problem].count++) {
		s->problems[problem].offset = offset;
		s->problems[problem].detail = detail;
	}
}

/* --- reading --- */

static inline uint16_t get16(const uint8_t *p, bool swap)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return swap ? __builtin_bswap16(v) : v;
}

static inline uint32_t get32(const uint8_t *p, bool swap)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return swap ? __builtin_bswap32(v) : v;
}

static inline uint64_t get64(const uint8_t *p, bool swap)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return swap ? __builtin_bswap64(v) : v;
}

/* Where a record has the length of its payload. */
static inline size_t payload_at(uint32_t header)
{
	return header == TRACE_V7_SIZE ? 46 : 50;
}

static uint64_t offset_of(const struct stream *s, size_t pos)
{
	return s->base + pos;
}

/* Whether there are @n bytes from pos on; reads until there are. *@wait: not yet. */
static bool fill(struct stream *s, size_t n, bool *wait)
{
	*wait = false;
	while (s->end - s->pos < n && !s->over) {
		ssize_t got;

		if (s->pos) {
			memmove(s->buf, s->buf + s->pos, s->end - s->pos);
			s->base += s->pos;
			s->end -= s->pos;
			s->pos = 0;
		}
		/* Not O_NONBLOCK: standard input is shared with others. */
		if (s->pipe && poll(&(struct pollfd){ .fd = s->fd, .events = POLLIN }, 1, 0) == 0) {
			*wait = true;
			return false;
		}
		got = read(s->fd, s->buf + s->end, s->size - s->end);
		if (got > 0) {
			s->end += (size_t)got;
		} else if (!got) {
			s->over = true;
		} else if (errno == EAGAIN && s->pipe) {
			*wait = true;
			return false;
		} else if (errno != EINTR) {
			stream_problem(s, PROBLEM_READ, offset_of(s, s->end), (uint64_t)errno);
			s->over = true;
		}
	}
	return s->end - s->pos >= n;
}

/* Sets version and byte order by a magic number; false if it is none. */
static bool set_format(struct stream *s, const uint8_t *p)
{
	static const struct {
		uint32_t magic, header;
	} versions[] = {
		{ TRACE_MAGIC | TRACE_V7, TRACE_V7_SIZE },
		{ TRACE_MAGIC | TRACE_V8, TRACE_V8_SIZE },
	};
	uint32_t magic;

	memcpy(&magic, p, sizeof(magic));
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		if (magic != versions[i].magic && __builtin_bswap32(magic) != versions[i].magic)
			continue;
		s->magic = magic;
		s->swap = magic != versions[i].magic;
		s->header = versions[i].header;
		return true;
	}
	return false;
}

static bool is_text(const struct stream *s)
{
	size_t n = s->end - s->pos < TEXT_SAMPLE ? s->end - s->pos : TEXT_SAMPLE;

	for (size_t i = 0; i < n; i++) {
		uint8_t c = s->buf[s->pos + i];

		if (c == 0x7f || (c < 0x20 && !strchr("\t\n\r\f", c)) || !c)
			return false;
	}
	return n;
}

/* Whether a record could begin at @p, of which there are @n bytes. */
static bool plausible(struct stream *s, const uint8_t *p, size_t n)
{
	uint32_t magic;

	memcpy(&magic, p, sizeof(magic));
	if (s->magic ? magic != s->magic : !set_format(s, p))
		return false;
	return n < s->header || get16(p + payload_at(s->header), s->swap) <= TRACE_PAYLOAD_MAX;
}

/* Begins to look for the next record, at least one byte on, or it would be the same again. */
static void search(struct stream *s)
{
	s->pos++;
	s->searching = true;
}

/* The bytes that are looked at before the caller gets a chance to stop. */
#define SEARCH_MAX (16u << 20)

/* Passes over what is no record; STREAM_EVENT: one may begin at pos. */
static enum stream_state search_on(struct stream *s)
{
	uint64_t begin = offset_of(s, s->pos);
	bool wait;

	while (fill(s, sizeof(uint32_t), &wait)) {
		for (; s->pos + sizeof(uint32_t) <= s->end; s->pos++) {
			if (!plausible(s, s->buf + s->pos, s->end - s->pos))
				continue;
			s->searching = false;
			return STREAM_EVENT;
		}
		if (offset_of(s, s->pos) - begin > SEARCH_MAX)
			return STREAM_MORE;
	}
	if (wait)
		return STREAM_WAIT;
	s->pos = s->end;
	return STREAM_END;
}

static void decode_payload(const struct stream *s, const uint8_t *p, uint32_t len, bool cgroup,
			   struct event *ret)
{
	uint32_t skip = cgroup ? TRACE_CGROUP_SIZE : 0;

	ret->from = 0;
	ret->from_device = ret->to_device = 0;
	if (len < skip)
		return;
	p += skip;
	len -= skip;
	if (ret->category & CATEGORY_NOTIFY) {
		if (ret->action == NOTIFY_TIMESTAMP && len >= 8)
			ret->from = get32(p, s->swap) * 1000000000ull + get32(p + 4, s->swap);
	} else if (ret->action == ACTION_REMAP && len >= 16) {
		/* Big-endian in any file. */
		ret->from_device = be32toh(get32(p, false));
		ret->to_device = be32toh(get32(p + 4, false));
		ret->from = be64toh(get64(p + 8, false));
	}
}

/*
 * The record at @p, which is there as a whole. Inlined once for each kind of file, as this is where
 * most of the time would go.
 */
static inline __attribute__((always_inline)) void decode(const struct stream *s, const uint8_t *p,
							 uint32_t payload, bool swap, bool v7,
							 struct event *ret)
{
	uint64_t action = v7 ? get32(p + 28, swap) : get64(p + 32, swap);

	ret->sequence = get32(p + 4, swap);
	ret->time = get64(p + 8, swap);
	ret->sector = get64(p + 16, swap);
	ret->bytes = get32(p + 24, swap);
	ret->device = get32(p + (v7 ? 36 : 40), swap);
	ret->cpu = get32(p + (v7 ? 40 : 44), swap);
	ret->category = (uint32_t)(action >> ACTION_CATEGORY_SHIFT);
	ret->action = (uint16_t)(action & 0xffff & ~ACTION_CGROUP);
	if (payload || ret->action == ACTION_REMAP || ret->category & CATEGORY_NOTIFY)
		decode_payload(s, p + (v7 ? TRACE_V7_SIZE : TRACE_V8_SIZE), payload,
			       action & ACTION_CGROUP, ret);
}

/* The first bytes say what it is; STREAM_EVENT: that is known, or looked for. */
static enum stream_state begin(struct stream *s)
{
	bool wait;

	if (fill(s, sizeof(uint32_t), &wait) && set_format(s, s->buf + s->pos))
		return STREAM_EVENT;
	/* Of a pipe a few bytes say little of what it is. */
	if (!wait)
		(void)fill(s, TEXT_SAMPLE, &wait);
	if (wait)
		return STREAM_WAIT;
	if (s->end == s->pos) {
		if (!s->problems[PROBLEM_READ].count)
			stream_problem(s, PROBLEM_EMPTY, 0, 0);
		return STREAM_END;
	}
	if (is_text(s)) {
		stream_problem(s, PROBLEM_TEXT, 0, 0);
		s->over = true;
		s->pos = s->end;
		return STREAM_END;
	}
	stream_problem(s, PROBLEM_NO_TRACE, 0, 0);
	search(s);
	return STREAM_EVENT;
}

/* What is left does not make a whole record. */
static enum stream_state cut_off(struct stream *s, size_t wanted)
{
	if (s->end > s->pos)
		stream_problem(s, PROBLEM_TRUNCATED, offset_of(s, s->pos),
			       (uint64_t)wanted << 32 | (s->end - s->pos));
	s->pos = s->end;
	return STREAM_END;
}

/* The next record, if it is in the buffer as a whole and in order. */
static inline __attribute__((always_inline)) bool next_plain(struct stream *s, bool swap, bool v7,
							     struct event *ret)
{
	const uint32_t header = v7 ? TRACE_V7_SIZE : TRACE_V8_SIZE;
	size_t there = s->end - s->pos;
	const uint8_t *p = s->buf + s->pos;
	uint32_t magic, payload;

	if (there < header)
		return false;
	memcpy(&magic, p, sizeof(magic));
	payload = get16(p + payload_at(header), swap);
	if (magic != s->magic || payload > TRACE_PAYLOAD_MAX || there < header + payload)
		return false;
	ret->offset = offset_of(s, s->pos);
	decode(s, p, payload, swap, v7, ret);
	s->pos += header + payload;
	return true;
}

static inline __attribute__((always_inline)) unsigned int
batch_as(struct stream *s, bool swap, bool v7, struct event *ret, unsigned int max)
{
	unsigned int n = 0;

	while (n < max && next_plain(s, swap, v7, &ret[n]))
		n++;
	return n;
}

unsigned int stream_batch(struct stream *s, struct event *ret, unsigned int max)
{
	bool v7 = s->header == TRACE_V7_SIZE;

	if (!s->magic || s->searching)
		return 0;
	if (s->swap)
		return v7 ? batch_as(s, true, true, ret, max) : batch_as(s, true, false, ret, max);
	return v7 ? batch_as(s, false, true, ret, max) : batch_as(s, false, false, ret, max);
}

enum stream_state stream_next(struct stream *s, struct event *ret)
{
	while (!stream_batch(s, ret, 1)) {
		enum stream_state state = STREAM_EVENT;
		uint32_t magic, payload;
		const uint8_t *p;
		bool wait;

		if (!s->magic && !s->searching)
			state = begin(s);
		if (state == STREAM_EVENT && s->searching)
			state = search_on(s);
		if (state != STREAM_EVENT)
			return state;
		if (!fill(s, s->header, &wait))
			return wait ? STREAM_WAIT : cut_off(s, s->header);
		p = s->buf + s->pos;
		memcpy(&magic, p, sizeof(magic));
		payload = get16(p + payload_at(s->header), s->swap);
		if (magic != s->magic || payload > TRACE_PAYLOAD_MAX) {
			stream_problem(s, magic != s->magic ? PROBLEM_MAGIC : PROBLEM_PAYLOAD,
				       offset_of(s, s->pos), payload);
			search(s);
		} else if (!fill(s, s->header + payload, &wait)) {
			return wait ? STREAM_WAIT : cut_off(s, s->header + payload);
		}
	}
	return STREAM_EVENT;
}

/* --- problems --- */

void stream_problem_text(const struct stream *s, enum stream_problem problem, struct buf *out)
{
	uint64_t count = s->problems[problem].count, offset = s->problems[problem].offset;
	uint64_t detail = s->problems[problem].detail;
	const char *more = "times";

	buf_printf(out, "%s: ", s->path);
	switch (problem) {
	case PROBLEM_EMPTY:
		buf_puts(out, "the trace is empty, at offset 0 it ends");
		break;
	case PROBLEM_TEXT:
		buf_puts(out, "this is text, from offset 0 on, not a trace; blktrace writes traces "
			      "(NAME.blktrace.0, ...), and blkparse -d FILE one that is merged");
		break;
	case PROBLEM_NO_TRACE:
		buf_puts(out, "no trace begins at offset 0: there is no magic number of blktrace; "
			      "what looks like records further on was read");
		break;
	case PROBLEM_MAGIC:
		buf_printf(out,
			   "no record begins at offset %" PRIu64 ", where one should: what is "
			   "damaged was passed over",
			   offset);
		more = "such places";
		break;
	case PROBLEM_PAYLOAD:
		buf_printf(out,
			   "the record at offset %" PRIu64 " says that it has %" PRIu64
			   " bytes of payload, more than any has: it was passed over",
			   offset, detail);
		more = "such records";
		break;
	case PROBLEM_TRUNCATED:
		buf_printf(out,
			   "the trace is cut off: of the record at offset %" PRIu64 " only %" PRIu64
			   " of %" PRIu64 " bytes are there; all before it was read",
			   offset, detail & UINT32_MAX, detail >> 32);
		break;
	case PROBLEM_READ:
		buf_printf(out, "cannot read on at offset %" PRIu64 ": %s; all before it was read",
			   offset, strerror((int)detail));
		break;
	case PROBLEM_RESTART:
		buf_printf(out,
			   "the sequence numbers of CPU %" PRIu64 " begin anew at offset %" PRIu64
			   ": another trace begins there; both were read",
			   detail, offset);
		break;
	case PROBLEM_BACKWARDS:
		buf_printf(out,
			   "the time of CPU %" PRIu64 " runs backwards at offset %" PRIu64
			   "; intervals across it may be wrong",
			   detail, offset);
		break;
	case PROBLEM_TIME:
		buf_printf(out,
			   "the event at offset %" PRIu64 " has a time that cannot be, %" PRIu64
			   " ns: it was passed over",
			   offset, detail);
		more = "such events";
		break;
	case PROBLEM_UNKNOWN:
		buf_printf(out,
			   "the event at offset %" PRIu64 " is of kind %" PRIu64
			   ", which is not known; it was passed over",
			   offset, detail);
		more = "such events";
		break;
	case PROBLEM_CROWD:
		buf_printf(out,
			   "the event at offset %" PRIu64
			   " is of one more device than can be told apart; it was passed over",
			   offset);
		more = "such events";
		break;
	case PROBLEM_NR:
		break;
	}
	if (count > 1)
		buf_printf(out, " (%" PRIu64 " %s)", count, more);
}
