/* SPDX-License-Identifier: GPL-2.0-only */
/* A bench that is under way, and the programs that it runs. Only for src/bench. */
#ifndef BLKHIST_BENCH_CONTEXT_H
#define BLKHIST_BENCH_CONTEXT_H

#include <sys/types.h>

#include "bench/bench.h"
#include "bench/guard.h"
#include "bench/machine.h"

struct context {
	const struct bench_settings *settings;
	const struct workload_type *workload;
	struct guard *guard;
	bool interrupted; /* whatever was under way has been given up */
	/* When the program last waited for ended, before what it left behind is. */
	struct machine ended;
	char *dir;       /* of this bench, in settings->dir */
	char *trace_dir; /* likewise in settings->trace_dir; empty when an observer starts */
	char *devices[BENCH_DEVICES_MAX];      /* paths below /dev */
	unsigned int loops[BENCH_DEVICES_MAX]; /* their numbers, if they were not given */
	unsigned int n_devices;
};

/* --- programs, each in a process group of its own --- */

struct program {
	const char *const *argv; /* NULL-terminated */
	/*
	 * Runs in place of a program, and has only standard input, output and error. What it
	 * returns goes to standard error, and makes an exit status of 1.
	 */
	struct error *(*function)(const char *const *argv);
	const char *out, *err; /* paths of files; NULL: /dev/null */
	bool own_mounts;       /* what it mounts is there for it only, and gone when it ends */
};
/* Comes back when it is the program that runs. */
struct error *program_spawn(struct context *c, const struct program *p, pid_t *ret) must_check;
/*
 * Waits; an exit status other than 0 is an error with the last line of p->err. If there is an
 * interrupt, ends it and sets c->interrupted.
 */
struct error *program_wait(struct context *c, const struct program *p, pid_t pid) must_check;
struct error *program_run(struct context *c, const struct program *p) must_check;
/* Whether it has ended; it is not reaped. @well may be NULL: whether by exit status 0. */
bool program_has_ended(pid_t pid, bool *well);
/* Ends it and all that it has started. */
struct error *program_stop(struct context *c, pid_t pid) must_check;

/* The path of the first of these that is there, in PATH and where the system has tools; or NULL. */
char *program_find(const char *const *names);
/* The last line of a file, or "" */
char *last_line(const char *path);

/* Sleeps, unless there is an interrupt. */
void context_sleep(struct context *c, unsigned int ms);

/* --- devices --- */

/* Makes loop devices, or looks at those that were given; @writes: the workload overwrites them. */
struct error *devices_open(struct context *c, unsigned int n_loops, bool writes) must_check;
/* The name behind /dev/. */
const char *device_base(const char *path);

/* --- directories and mounts --- */

/* Makes one in @parent with a name that nothing else has. The caller frees it. */
struct error *directory_make(struct context *c, const char *parent, char **ret) must_check;
/* Removes what is in c->trace_dir. */
struct error *trace_dir_empty(struct context *c) must_check;
/* The sizes of all files below @path, added. */
double directory_bytes(const char *path);
/* Sees to it that a file system of the kernel is mounted, if @probe in it is not there. */
struct error *mount_if_missing(struct context *c, const char *type, unsigned int magic,
			       const char *path, const char *probe) must_check;

#endif
