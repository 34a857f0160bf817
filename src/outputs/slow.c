// SPDX-License-Identifier: GPL-2.0-only
#include "outputs/slow.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "abi/blktrace.h"
#include "core/units.h"
#include "core/util.h"
#include "outputs/json.h"

static const struct {
	uint32_t category;
	const char *name;
} flags[] = {
	{ CATEGORY_SYNC, "sync" },      { CATEGORY_META, "meta" }, { CATEGORY_AHEAD, "ahead" },
	{ CATEGORY_FLUSH, "preflush" }, { CATEGORY_FUA, "fua" },
};

/* A flush has the bit of what a write asks for. */
static bool has_flag(const struct slow_request *r, unsigned int i)
{
	return r->category & flags[i].category &&
	       !(flags[i].category == CATEGORY_FLUSH && r->op == OP_FLUSH);
}

void slow_header(struct buf *out)
{
	buf_printf(out, "%-15s %-14s %-7s %12s %7s %9s %9s %9s %4s %7s %-15s %s\n", "COMPLETED",
		   "DEVICE", "OP", "SECTOR", "SIZE", "REQUEST", "QUEUE", "SERVICE", "REQ.", "PID",
		   "PROCESS", "FLAGS CGROUP");
}

/* Local time, as in a log. */
static void time_text(int64_t realtime_ns, char ret[32])
{
	time_t seconds = realtime_ns / 1000000000;
	struct tm tm;

	localtime_r(&seconds, &tm);
	strftime(ret, 32, "%H:%M:%S", &tm);
	snprintf(ret + strlen(ret), 32 - strlen(ret), ".%06d",
		 (int)(realtime_ns % 1000000000 / 1000));
}

static void ns_text(int64_t ns, char ret[UNIT_TEXT_MAX])
{
	if (ns < 0)
		memcpy(ret, "-", 2);
	else
		unit_format_short(DIM_TIME, ns, ret);
}

void slow_text(const struct slow_request *r, struct buf *out)
{
	char when[32], size[UNIT_TEXT_MAX], request[UNIT_TEXT_MAX], queue[UNIT_TEXT_MAX],
		service[UNIT_TEXT_MAX];
	size_t begin;

	time_text(r->time_ns, when);
	unit_format_short(DIM_SIZE, r->bytes, size);
	ns_text(r->request_ns, request);
	ns_text(r->queue_ns, queue);
	ns_text(r->service_ns, service);
	buf_printf(out, "%-15s %-14s %-7s %12" PRIu64 " %7s %9s %9s %9s %4u %7u %-15s ", when,
		   device_name_own(&r->name), blk_op_names[r->op], r->sector, size, request, queue,
		   service, r->requeues, r->pid, *r->process ? r->process : "-");
	begin = out->len;
	for (unsigned int i = 0; i < ARRAY_SIZE(flags); i++)
		if (has_flag(r, i))
			buf_printf(out, "%s%s", out->len > begin ? "," : "", flags[i].name);
	buf_printf(out, "%s %s\n", out->len > begin ? "" : "-", *r->cgroup ? r->cgroup : "-");
}

static void known(struct buf *out, const char *name, int64_t ns)
{
	if (ns >= 0)
		json_key_u64(out, name, (uint64_t)ns);
}

static void json_begin(struct buf *out)
{
	buf_puts(out, "{");
	json_key_string(out, "schema", "blkhist-slow/1");
}

void slow_json(const struct slow_request *r, struct buf *out)
{
	json_begin(out);
	json_key_u64(out, "time_ns", (uint64_t)r->time_ns);
	json_time(out, "time", r->time_ns);
	json_key_string(out, "device", r->name.disk);
	if (*r->name.partition)
		json_key_string(out, "partition", r->name.partition);
	json_key_string(out, "op", blk_op_names[r->op]);
	json_key(out, "flags");
	buf_puts(out, "[");
	for (unsigned int i = 0; i < ARRAY_SIZE(flags); i++) {
		if (!has_flag(r, i))
			continue;
		json_element(out);
		json_string(out, flags[i].name);
	}
	buf_puts(out, "]");
	json_key_u64(out, "sector", r->sector);
	json_key_u64(out, "bytes", r->bytes);
	json_key_u64(out, "request_ns", (uint64_t)r->request_ns);
	known(out, "queue_ns", r->queue_ns);
	known(out, "service_ns", r->service_ns);
	json_key_u64(out, "requeues", r->requeues);
	if (*r->process) {
		json_key_u64(out, "pid", r->pid);
		json_key_string(out, "process", r->process);
	}
	if (*r->cgroup)
		json_key_string(out, "cgroup", r->cgroup);
	buf_puts(out, "}\n");
}

void slow_text_end(uint64_t not_shown, uint64_t lost, struct buf *out)
{
	if (not_shown || lost)
		buf_printf(out, "%" PRIu64 " more not shown (see --rate), %" PRIu64 " lost\n",
			   not_shown, lost);
}

void slow_json_end(uint64_t not_shown, uint64_t lost, struct buf *out)
{
	if (!not_shown && !lost)
		return;
	json_begin(out);
	json_key_u64(out, "not_shown", not_shown);
	json_key_u64(out, "lost", lost);
	buf_puts(out, "}\n");
}
