// SPDX-License-Identifier: GPL-2.0-only
#include "record/order.h"

#include <string.h>

#include "core/util.h"

#define SIZE_FIRST 1024

void order_init(struct order *o, unsigned int n_cpus)
{
	*o = (struct order){ .cpus = xcalloc(n_cpus, sizeof(*o->cpus)), .n_cpus = n_cpus };
}

void order_deinit(struct order *o)
{
	for (unsigned int i = 0; i < o->n_cpus; i++)
		free(o->cpus[i].events);
	free(o->cpus);
	*o = (struct order){};
}

static struct rec_event *at(const struct order_cpu *c, size_t i)
{
	return &c->events[(c->first + i) & (c->size - 1)];
}

static void grow(struct order_cpu *c)
{
	size_t size = c->size ? 2 * c->size : SIZE_FIRST;
	struct rec_event *events = xcalloc(size, sizeof(*events));

	for (size_t i = 0; i < c->n; i++)
		events[i] = *at(c, i);
	free(c->events);
	c->events = events;
	c->size = size;
	c->first = 0;
}

void order_add(struct order *o, const struct rec_event *event)
{
	struct order_cpu *c = &o->cpus[event->cpu];
	size_t i;

	if (c->n == c->size)
		grow(c);
	for (i = c->n; i && at(c, i - 1)->time > event->time; i--)
		*at(c, i) = *at(c, i - 1);
	*at(c, i) = *event;
	c->n++;
	o->n++;
}

static uint64_t first_time(const struct order_cpu *c)
{
	return c->n ? at(c, 0)->time : UINT64_MAX;
}

/* The CPU that has the oldest event; *@next: the time of the oldest one of the others. */
static struct order_cpu *oldest(const struct order *o, uint64_t *next)
{
	struct order_cpu *found = NULL;
	uint64_t time = UINT64_MAX;

	*next = UINT64_MAX;
	for (unsigned int i = 0; i < o->n_cpus; i++) {
		uint64_t first = first_time(&o->cpus[i]);

		if (first < time) {
			*next = time;
			time = first;
			found = &o->cpus[i];
		} else if (first < *next) {
			*next = first;
		}
	}
	return found;
}

struct error *order_give(struct order *o, uint64_t until_ns,
			 struct error *(*give)(void *context, const struct rec_event *event),
			 void *context)
{
	struct order_cpu *c;
	uint64_t next;

	while ((c = oldest(o, &next))) {
		do {
			struct rec_event event = *at(c, 0);

			if (event.time >= until_ns && o->n <= ORDER_EVENTS_MAX)
				return NULL;
			c->first = (c->first + 1) & (c->size - 1);
			c->n--;
			o->n--;
			try(give(context, &event));
		} while (first_time(c) <= next && c->n);
	}
	return NULL;
}
