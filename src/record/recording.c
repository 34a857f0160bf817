// SPDX-License-Identifier: GPL-2.0-only
#include "record/recording.h"

#include <errno.h>
#include <poll.h>

#include "core/timefmt.h"
#include "core/util.h"
#include "record/order.h"
#include "record/writer.h"

/* How often the buffers are looked into, if they do not fill before. */
#define INTERVAL_MS 50
/*
 * A CPU may be held up between the clock's reading and the sending of an event, by an interrupt or,
 * in a virtual machine, by another machine; so long newer events are held back.
 */
#define HOLD_NS 100000000ull

struct recording {
	const struct recording_options *options;
	struct recorder *recorder;
	struct writer *writer;
	struct order order;
};

static void on_event(void *context, unsigned int cpu, const struct rec_event *event)
{
	struct recording *r = context;
	struct rec_event e = *event;

	if (e.cpu >= r->order.n_cpus)
		return;
	e.lost = writer_gap(r->writer, cpu, event);
	order_add(&r->order, &e);
}

static void on_process(void *context, const struct rec_process *process)
{
	struct recording *r = context;

	writer_name(r->writer, process->pid, process->name);
}

static struct error *write_event(void *context, const struct rec_event *event)
{
	return writer_event(context, event);
}

/* Takes over what the buffers have, and writes what nothing can come before any more. */
static struct error *advance(struct recording *r, bool *more)
{
	uint64_t until = 0;

	/* What is under way is looked at only if something waits for it. */
	try(recorder_read(r->recorder, more, r->order.n ? &until : NULL));
	try(order_give(&r->order, until > HOLD_NS ? until - HOLD_NS : 0, write_event, r->writer));
	return writer_flush(r->writer);
}

/* Until there is something to do; *@stop: a signal, or the time is over. */
static struct error *wait_for(struct recording *r, int signals, bool more, int64_t end_ns,
			      bool *stop)
{
	struct pollfd fds[] = {
		{ .fd = signals, .events = POLLIN },
		{ .fd = recorder_fd(r->recorder), .events = POLLIN },
	};
	int64_t left = (end_ns - clock_ns(CLOCK_MONOTONIC)) / 1000000;
	int timeout = more ? 0 : INTERVAL_MS;

	if (end_ns && left < timeout)
		timeout = left > 0 ? (int)left : 0;
	if (poll(fds, ARRAY_SIZE(fds), timeout) < 0)
		return error_errno(errno, "cannot wait for events");
	*stop = fds[0].revents || (end_ns && clock_ns(CLOCK_MONOTONIC) >= end_ns);
	return NULL;
}

static struct error *finish(struct recording *r, struct recording_result *ret)
{
	struct recorder_losses losses;
	struct writer_totals totals;
	bool more;

	recorder_detach(r->recorder);
	do {
		try(advance(r, &more));
	} while (more);
	try(order_give(&r->order, UINT64_MAX, write_event, r->writer));
	try(writer_flush(r->writer));
	try(recorder_losses(r->recorder, &losses));
	totals = writer_totals(r->writer);
	ret->events = totals.events;
	ret->bytes = totals.bytes;
	ret->disks = totals.disks;
	ret->lost = losses.lost;
	ret->at_end = losses.lost - totals.gaps;
	ret->skipped = losses.skipped;
	return NULL;
}

/* A disk that was named has files, whether or not there is anything to record. */
static struct error *add_disks(struct recording *r, const struct device_list *devices)
{
	const struct recorder_options *o = &r->options->recorder;

	for (unsigned int i = 0; i < o->n_devices; i++) {
		const struct device *disk = device_by_id(devices, o->devices[i]->disk_sysfs_id);

		if (disk)
			try(writer_add_disk(r->writer, device_number(disk)));
	}
	return NULL;
}

static struct error *run(struct recording *r, int signals, struct recording_result *ret)
{
	int64_t duration = r->options->duration_ns, begin_ns = clock_ns(CLOCK_MONOTONIC);
	bool more = false, stop = false;

	while (!stop) {
		try(wait_for(r, signals, more, duration ? begin_ns + duration : 0, &stop));
		try(advance(r, &more));
	}
	try(finish(r, ret));
	ret->duration_ns = clock_ns(CLOCK_MONOTONIC) - begin_ns;
	return NULL;
}

static void recording_deinit(struct recording *r)
{
	writer_closep(&r->writer);
	recorder_closep(&r->recorder);
	order_deinit(&r->order);
}

struct error *recording_run(const struct live_paths *paths, const struct device_list *devices,
			    const struct recording_options *options, int signals,
			    struct recording_result *ret)
{
	cleanup(recording_deinit) struct recording r = { .options = options };
	const struct recorder_sink sink = { &r, on_event, on_process, NULL };
	struct writer_options w = {
		.path = options->path,
		.root = paths->root,
		.begin_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC),
		.realtime_ns = clock_ns(CLOCK_REALTIME),
		.partitions = !(options->recorder.events & 1u << REC_REMAP),
	};
	struct error *err;

	/* First what may be refused, so that nothing is left behind then. */
	try(recorder_open(paths, devices, &options->recorder, &sink, &r.recorder));
	w.n_cpus = recorder_cpus(r.recorder);
	try(writer_open(&w, &r.writer));
	order_init(&r.order, w.n_cpus);
	err = add_disks(&r, devices);
	if (err) {
		writer_abandon(r.writer);
		return err;
	}
	err = run(&r, signals, ret);
	/* What other files still wait for may find room. */
	if (err)
		error_free(writer_flush(r.writer));
	return err;
}
