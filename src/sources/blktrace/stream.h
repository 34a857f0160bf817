/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One file or pipe of trace records, read through a buffer of fixed size. Damage is passed over to
 * the next record that makes sense, and noted.
 */
#ifndef BLKHIST_SOURCES_BLKTRACE_STREAM_H
#define BLKHIST_SOURCES_BLKTRACE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/error.h"
#include "sources/blktrace/format.h"

/* What can be wrong with a file. Those from PROBLEM_RESTART on are found where events are ordered. */
enum stream_problem {
	PROBLEM_EMPTY,
	PROBLEM_TEXT,
	PROBLEM_NO_TRACE, /* its first bytes are no record */
	PROBLEM_MAGIC,
	PROBLEM_PAYLOAD,
	PROBLEM_TRUNCATED,
	PROBLEM_READ,
	PROBLEM_RESTART,
	PROBLEM_BACKWARDS,
	PROBLEM_TIME,
	PROBLEM_UNKNOWN,
	PROBLEM_CROWD,
	PROBLEM_NR
};

struct stream {
	char *path; /* owned; "standard input" for it */
	int fd;
	bool pipe;       /* may have nothing to read now */
	bool swap;       /* the other byte order */
	bool searching;  /* for a record behind damage */
	uint32_t magic;  /* of its records, 0: not known yet */
	uint32_t header; /* bytes of a record without payload */
	bool over;       /* nothing more can be read from fd */
	uint8_t *buf;    /* owned */
	size_t size, pos, end;
	uint64_t base;   /* offset of buf[0] in the file */
	uint64_t length; /* of a file; 0 for a pipe */
	/* How often, where first, and a number or errno of the first. */
	struct {
		uint64_t count, offset, detail;
	} problems[PROBLEM_NR];
};

/* Opens @path, "-" being standard input. @buffer is the size of its buffer. */
struct error *stream_open(const char *path, size_t buffer, struct stream *ret) must_check;
void stream_deinit(struct stream *s);

enum stream_state {
	STREAM_EVENT,
	STREAM_WAIT, /* a pipe has nothing now */
	STREAM_MORE, /* nothing yet, after a long time: call again */
	STREAM_END,
};
/* The next record. */
enum stream_state stream_next(struct stream *s, struct event *ret);
/* As many of the next @max records as are in the buffer already, and in order; their number. */
unsigned int stream_batch(struct stream *s, struct event *ret, unsigned int max);

void stream_problem(struct stream *s, enum stream_problem problem, uint64_t offset,
		    uint64_t detail);
/* Appends the sentence on a problem, for the first time it was met, with how many more there were. */
void stream_problem_text(const struct stream *s, enum stream_problem problem, struct buf *out);

#endif
