/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Puts events in order of time. They come nearly so, by CPU: what an interrupt has sent stands
 * before what it has interrupted, and the events of a slow request come when it has ended.
 */
#ifndef BLKHIST_RECORD_ORDER_H
#define BLKHIST_RECORD_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "abi/recorder.h"
#include "core/error.h"

/* Beyond so many the oldest are given whatever may still come before them; 32 MiB. */
#define ORDER_EVENTS_MAX (1u << 19)

struct order {
	struct order_cpu {
		struct rec_event *events; /* a circle of @size, a power of two, sorted by time */
		size_t first, n, size;
	} * cpus;
	unsigned int n_cpus;
	size_t n; /* of all CPUs */
};

void order_init(struct order *o, unsigned int n_cpus);
void order_deinit(struct order *o);

/* event->cpu must be below n_cpus. */
void order_add(struct order *o, const struct rec_event *event);

/* Gives all events before @until_ns, in order of time; ends with the first error of @give. */
struct error *order_give(struct order *o, uint64_t until_ns,
			 struct error *(*give)(void *context, const struct rec_event *event),
			 void *context) must_check;

#endif
