/* SPDX-License-Identifier: GPL-2.0-only */
/* Requests that have taken long, a line each. */
#ifndef BLKHIST_OUTPUTS_SLOW_H
#define BLKHIST_OUTPUTS_SLOW_H

#include "core/buf.h"
#include "core/hist.h"

struct slow_request {
	int64_t time_ns; /* CLOCK_REALTIME of its completion */
	struct device_name name;
	enum blk_op op;
	uint32_t category; /* enum trace_category: the flags are in it */
	uint64_t sector;   /* of the whole disk */
	uint32_t bytes, requeues, pid;
	int64_t request_ns, queue_ns, service_ns; /* negative: not known */
	char process[17];                         /* "": not known */
	const char *cgroup;                       /* "": not known */
};

/* What stands above the lines. */
void slow_header(struct buf *out);
void slow_text(const struct slow_request *r, struct buf *out);
/* In the schema "blkhist-slow/1" (docs/json.md). */
void slow_json(const struct slow_request *r, struct buf *out);

/* How many requests were not shown, as there were too many lines, and lost; nothing for none. */
void slow_text_end(uint64_t not_shown, uint64_t lost, struct buf *out);
void slow_json_end(uint64_t not_shown, uint64_t lost, struct buf *out);

#endif
