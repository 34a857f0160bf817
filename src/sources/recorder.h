/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The recorder: events of requests as they happen, from the running kernel. It is independent of the
 * collector, nothing is pinned, and nothing stays attached when the process ends in whatever way.
 */
#ifndef BLKHIST_SOURCES_RECORDER_H
#define BLKHIST_SOURCES_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/recorder.h"
#include "core/device.h"
#include "sources/pins.h"

struct recorder_options {
	const struct device *const *devices; /* disks and partitions; n_devices 0: all */
	unsigned int n_devices;
	unsigned int ops;    /* mask of enum blk_op */
	unsigned int events; /* mask of enum rec_point */
	bool slow;           /* struct rec_slow of every request, in place of events */
	int64_t min_ns;      /* of the request time; 0: all requests */
	size_t ring_bytes;   /* per CPU; power of two, and of pages */
};

/* What receives it, in the order in which each CPU has sent it. */
struct recorder_sink {
	void *context;
	/* @cpu: whose buffer it was in. */
	void (*event)(void *context, unsigned int cpu, const struct rec_event *event);
	void (*process)(void *context, const struct rec_process *process);
	void (*slow)(void *context, const struct rec_slow *slow);
};

struct recorder;

/* Attaches. @devices are those of the machine. */
struct error *recorder_open(const struct live_paths *paths, const struct device_list *devices,
			    const struct recorder_options *options,
			    const struct recorder_sink *sink, struct recorder **ret) must_check;
/* Detaches; what is still in the buffers can be read. */
void recorder_detach(struct recorder *r);
void recorder_closep(struct recorder **r);

/* CPUs that have a buffer, and the highest number of one + 1. */
unsigned int recorder_cpus(const struct recorder *r);

/* To be polled for input: a buffer is filling, or with `slow` not empty. */
int recorder_fd(const struct recorder *r);

/*
 * Gives what the buffers have to the sink, a bounded part at a time: *@more says whether there is
 * more. Whatever happened before *@until_ns (CLOCK_MONOTONIC) has been given, but for events of
 * requests that have not ended, if there is a least time, and for a CPU that was held up between an
 * event and its sending. @until_ns may be NULL.
 */
struct error *recorder_read(struct recorder *r, bool *more, uint64_t *until_ns) must_check;

struct recorder_losses {
	uint64_t lost;    /* events that found no room, of all disks */
	uint64_t skipped; /* events that may have been, of any disk: a program was not run, or they
			     could not be kept until it was known whether their request was slow */
};
struct error *recorder_losses(struct recorder *r, struct recorder_losses *ret) must_check;

#endif
