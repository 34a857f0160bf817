/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What watching costs: a workload under several observers, in rounds of random order.
 * docs/design.md, "Bench", says how it measures.
 */
#ifndef BLKHIST_BENCH_BENCH_H
#define BLKHIST_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/result.h"
#include "core/buf.h"
#include "core/error.h"

#define BENCH_DEVICES_MAX 64

struct bench_settings {
	const char *workload;
	const char *const *observers; /* names with their parameters */
	unsigned int n_observers;
	const char *const *devices; /* NULL-terminated paths, at most BENCH_DEVICES_MAX; none: loop
				       devices are made */
	bool overwrite;             /* what is on them may be lost */
	char *const *command;       /* NULL-terminated, of the workload "command" */
	unsigned int n_loops;       /* 0: as the workload has it */
	uint64_t size;              /* of each loop device */
	const char *fs;
	unsigned int depth, seconds, iops;
	const char *dir;       /* of the files of loop devices */
	const char *trace_dir; /* of what observers write */
	unsigned int rounds, trim;
	uint64_t seed;
	bool (*collector_runs)(void); /* somebody's, which must not be touched */
	int signals; /* a descriptor that tells of SIGINT and SIGTERM, which are blocked */
	/* What is being done, as a line without its end; may be NULL. */
	void (*progress)(const char *line);
};

/*
 * Runs it. An interrupt is no error, nor is a workload that fails after some rounds: the result has
 * what was measured, and says so. All is as it was before afterwards, whatever ends the process,
 * unless all processes of its control group are killed at once. The collector must not be running.
 */
struct error *bench_run(const struct bench_settings *settings, struct result *ret) must_check;

bool bench_is_workload(const char *name);
/* Appends what --help says of them. */
void bench_help(struct buf *out);
/* Names of all observers, those with parameters as they are usually given. NULL-terminated. */
extern const char *const bench_observers_usual[];

#endif
