/* SPDX-License-Identifier: GPL-2.0-only */
/* Observers: what watches the block layer while a workload runs. Only for src/bench. */
#ifndef BLKHIST_BENCH_OBSERVER_H
#define BLKHIST_BENCH_OBSERVER_H

#include "bench/context.h"

struct observer;

struct observer_type {
	const char *name;
	const char *parameter; /* how it is called in --help; NULL: there is none */
	bool needs_parameter;
	const char *help;
	/* Whether the parameter (NULL if it is left out) can be one; NULL if any can. */
	bool (*accepts)(const char *parameter);
	/* Comes back when it watches; an error says why it cannot. NULL: nothing to be done. */
	struct error *(*start)(struct observer *o, struct context *c);
	/*
	 * Before all is undone that was announced since the start: how many events it has lost.
	 * NULL: it does not say.
	 */
	struct error *(*losses)(struct observer *o, struct context *c);
};

struct observer {
	const struct observer_type *type;
	const char *name;      /* with the parameter */
	const char *parameter; /* or NULL */
	pid_t pid;             /* of what runs meanwhile */
	size_t mark;           /* what was announced before it was started */
	double dropped;        /* events; UNKNOWN */
	double bytes;          /* that it has written in all */
};

extern const struct observer_type observer_types[];
extern const unsigned int n_observer_types;

struct error *observer_parse(const char *name, struct observer *ret) must_check;
/* Nothing of it is left if it fails. */
struct error *observer_start(struct observer *o, struct context *c) must_check;
struct error *observer_stop(struct observer *o, struct context *c) must_check;

/* The kernel's blk tracer, ftrace.c */
struct error *ftrace_start(struct observer *o, struct context *c) must_check;
struct error *ftrace_losses(struct observer *o, struct context *c) must_check;

/* Waits until @ready says so: at most some seconds, or as long as the process runs. */
struct error *observer_wait(struct observer *o, struct context *c,
			    bool (*ready)(struct context *c)) must_check;
/* The path of a file in c->trace_dir. The caller frees it. */
char *trace_file(const struct context *c, const char *name);

#endif
