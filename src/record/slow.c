// SPDX-License-Identifier: GPL-2.0-only
#include "record/slow.h"

#include <string.h>

#include "abi/blktrace.h"
#include "core/timefmt.h"
#include "core/util.h"
#include "outputs/slow.h"
#include "record/cgroup.h"
#include "sources/blktrace/format.h"

/* Per CPU; some two thousand requests. */
#define RING_BYTES 262144
/* The buffer of another CPU may have one that ended before. */
#define HOLD_MS 50

struct slow {
	const struct slow_options *options;
	const struct live_paths *paths;
	struct device_list devices;
	struct recorder *recorder;
	struct recorder_sink sink;
	struct cgroups cgroups;
	struct rec_slow *requests; /* that have not been shown */
	unsigned int n, size;
	int64_t realtime; /* CLOCK_REALTIME less CLOCK_MONOTONIC, ns */
	int64_t second;   /* that the lines are counted of */
	uint64_t lines, shown, not_shown;
};

static void on_slow(void *context, const struct rec_slow *request)
{
	struct slow *s = context;

	if (s->n == s->size) {
		s->size = s->size ? 2 * s->size : 64;
		s->requests = xreallocarray(s->requests, s->size, sizeof(*s->requests));
	}
	s->requests[s->n++] = *request;
}

/* Names of processes are wanted of slow requests only, which bring theirs. */
static void on_process(void *context, const struct rec_process *process)
{
	(void)context, (void)process;
}

struct error *slow_open(const struct live_paths *paths, const struct slow_options *options,
			struct slow **ret)
{
	cleanup(slow_closep) struct slow *s = xcalloc(1, sizeof(*s));
	const struct recorder_options recorder = {
		.devices = options->devices,
		.n_devices = options->n_devices,
		.ops = options->ops,
		.slow = true,
		.min_ns = options->min_ns,
		.ring_bytes = RING_BYTES,
	};

	s->options = options;
	s->paths = paths;
	s->sink = (struct recorder_sink){ .context = s, .process = on_process, .slow = on_slow };
	cgroups_init(&s->cgroups, paths->root);
	try(device_list_read(paths->root, &s->devices));
	try(recorder_open(paths, &s->devices, &recorder, &s->sink, &s->recorder));
	*ret = take(s);
	return NULL;
}

void slow_closep(struct slow **slow)
{
	struct slow *s = *slow;

	if (!s)
		return;
	recorder_closep(&s->recorder);
	device_list_deinit(&s->devices);
	cgroups_deinit(&s->cgroups);
	free(s->requests);
	free(s);
	*slow = NULL;
}

int slow_fd(const struct slow *s)
{
	return recorder_fd(s->recorder);
}

static int compare(const void *pa, const void *pb)
{
	const struct rec_slow *a = pa, *b = pb;

	return COMPARE(a->time, b->time);
}

/* Devices that have come since are looked for. */
static struct error *name_device(struct slow *s, uint32_t number, struct device_name *ret)
{
	const struct device *d;

	try(device_by_number_now(s->paths->root, &s->devices, number, &d));
	if (d)
		*ret = d->name;
	else
		snprintf(ret->disk, sizeof(ret->disk), "%u:%u", TRACE_MAJOR(number),
			 TRACE_MINOR(number));
	return NULL;
}

static int64_t known(uint64_t ns)
{
	return ns > INT64_MAX ? -1 : (int64_t)ns;
}

static struct error *show(struct slow *s, const struct rec_slow *from, struct buf *out)
{
	struct slow_request r = {
		.time_ns = (int64_t)from->time + s->realtime,
		.op = (enum blk_op)(from->op % OP_NR),
		.category = from->action >> ACTION_CATEGORY_SHIFT,
		.sector = from->sector,
		.bytes = from->bytes,
		.requeues = from->requeues,
		.pid = from->pid,
		.request_ns = known(from->request_ns),
		.queue_ns = known(from->queue_ns),
		.service_ns = known(from->service_ns),
		.cgroup = cgroups_name(&s->cgroups, from->cgroup),
	};

	memcpy(r.process, from->name, sizeof(from->name));
	try(name_device(s, from->partition ? from->partition : from->device, &r.name));
	if (s->options->json)
		slow_json(&r, out);
	else
		slow_text(&r, out);
	return NULL;
}

/* Whether this second has a line left. */
static bool may_show(struct slow *s)
{
	int64_t second = clock_ns(CLOCK_MONOTONIC) / 1000000000;

	if (second != s->second) {
		s->second = second;
		s->lines = 0;
	}
	return s->lines++ < s->options->rate;
}

int slow_timeout_ms(const struct slow *s)
{
	return s->n ? HOLD_MS : -1;
}

/* Those that ended before @until_ns; of others one that ended earlier may still come. */
static struct error *show_until(struct slow *s, uint64_t until_ns, struct buf *out, bool *done)
{
	uint64_t count = s->options->count;
	unsigned int i = 0;

	if (s->n)
		qsort(s->requests, s->n, sizeof(*s->requests), compare);
	for (; i < s->n && s->requests[i].time < until_ns && !(count && s->shown == count); i++) {
		if (!may_show(s)) {
			s->not_shown++;
			continue;
		}
		try(show(s, &s->requests[i], out));
		s->shown++;
	}
	s->n -= i;
	if (i)
		memmove(s->requests, s->requests + i, s->n * sizeof(*s->requests));
	*done = count && s->shown == count;
	return NULL;
}

struct error *slow_read(struct slow *s, struct buf *out, bool *done)
{
	uint64_t now = (uint64_t)clock_ns(CLOCK_MONOTONIC);
	bool more;

	s->realtime = clock_ns(CLOCK_REALTIME) - (int64_t)now;
	try(recorder_read(s->recorder, &more, NULL));
	return show_until(s, now - HOLD_MS * 1000000ull, out, done);
}

struct error *slow_end(struct slow *s, struct buf *out)
{
	struct recorder_losses losses;
	bool done, more;

	recorder_detach(s->recorder);
	do {
		try(recorder_read(s->recorder, &more, NULL));
	} while (more);
	try(show_until(s, UINT64_MAX, out, &done));
	try(recorder_losses(s->recorder, &losses));
	if (s->options->json)
		slow_json_end(s->not_shown, losses.lost, out);
	else
		slow_text_end(s->not_shown, losses.lost, out);
	return NULL;
}
