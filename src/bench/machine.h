/* SPDX-License-Identifier: GPL-2.0-only */
/* What the whole machine has done so far. Only for src/bench. */
#ifndef BLKHIST_BENCH_MACHINE_H
#define BLKHIST_BENCH_MACHINE_H

#include "core/error.h"

struct machine {
	double cpu_s;    /* all that is not idle, of all CPUs; stolen time was not ours */
	double switches; /* of contexts */
	double seconds;  /* CLOCK_MONOTONIC */
};

struct error *machine_read(struct machine *ret) must_check;

#endif
