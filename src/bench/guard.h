/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guard: a process of its own that knows what has to be undone, and does it when the bench
 * ends, also by SIGKILL. Everything is announced before it is done, so that there is no moment in
 * between; undoing what has not been done is harmless. Only the trace of a blktrace is announced
 * afterwards: before, it may be somebody else's, and blktrace ends its own unless it is killed.
 */
#ifndef BLKHIST_BENCH_GUARD_H
#define BLKHIST_BENCH_GUARD_H

#include <sys/types.h>

#include "core/error.h"

/* In brackets: what the argument is. */
enum undo_kind {
	UNDO_PROCESSES, /* end a group of processes [its id] */
	UNDO_COLLECTOR, /* blkhist stop [] */
	UNDO_LOOP,      /* remove a loop device [number, directory of its file] */
	UNDO_DIRECTORY, /* with all that is in it [path] */
	UNDO_MOUNT,     /* [magic number of the file system in hexadecimal, path] */
	UNDO_WRITE,     /* into a file of /sys [path without spaces, text] */
	UNDO_BLKTRACE,  /* a trace of a device [path] */
	UNDO_NR
};

struct guard;
/* Call it before there is anything to be undone. */
struct error *guard_start(struct guard **ret) must_check;

struct error *guard_add(struct guard *g, enum undo_kind kind, const char *fmt, ...) must_check
	__attribute__((format(printf, 3, 4)));
/* A process that was forked has announced this itself. */
void guard_note(struct guard *g, enum undo_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Nothing was done after all. */
struct error *guard_forget(struct guard *g, enum undo_kind kind, const char *fmt, ...) must_check
	__attribute__((format(printf, 3, 4)));
/* Undoes it now; nothing happens if it was not announced. */
struct error *guard_undo(struct guard *g, enum undo_kind kind, const char *fmt, ...) must_check
	__attribute__((format(printf, 3, 4)));

/* How much has been announced; and undoes all that has been since, the last first. */
size_t guard_mark(const struct guard *g);
struct error *guard_undo_to(struct guard *g, size_t mark) must_check;

/* Undoes what is left, the last first. NULL-safe; @g is gone afterwards. */
struct error *guard_end(struct guard *g) must_check;
void guard_endp(struct guard **g);

#endif
