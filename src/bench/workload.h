/* SPDX-License-Identifier: GPL-2.0-only */
/* Workloads. Only for src/bench. */
#ifndef BLKHIST_BENCH_WORKLOAD_H
#define BLKHIST_BENCH_WORKLOAD_H

#include "bench/context.h"

struct workload_type {
	const char *name, *unit;
	const char *help;
	bool more_is_better;
	bool writes;          /* to the devices, past all that is on them */
	unsigned int n_loops; /* unless it is said */
	/* Fills in what it measures itself; the rest is UNKNOWN. */
	struct error *(*run)(struct context *c, struct sample *s);
	/* What fio is to do, NULL if it is not fio that does it; and whether at a limited rate. */
	const char *rw;
	bool limited;
	unsigned int threads; /* each with its own part of a device; 0: one for all devices */
};

extern const struct workload_type workload_types[];
extern const unsigned int n_workload_types;

struct error *workload_find(const char *name, const struct workload_type **ret) must_check;
/* Whether what it takes is there; *fio is fio's version, or "". The caller frees it. */
struct error *workload_check(struct context *c, const struct workload_type *w,
			     char **fio) must_check;
/* What it does, in words, with all that was set. */
void workload_details(const struct context *c, const struct workload_type *w, struct buf *out);
/* Seconds that a run takes at least; 0: nobody knows. */
unsigned int workload_seconds(const struct context *c, const struct workload_type *w);

/* fio.c */
struct error *fio_run(struct context *c, struct sample *s) must_check;
char *fio_find(void);

#endif
