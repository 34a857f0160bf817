/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BLKHIST_BENCH_UNDO_H
#define BLKHIST_BENCH_UNDO_H

#include <stdbool.h>

#include "bench/guard.h"

/* Undoes one thing; harmless if there is nothing to be undone. */
struct error *undo(enum undo_kind kind, const char *arg) must_check;

/* Whether the file system at @path is of this kind: linux/magic.h. */
bool is_mounted(const char *path, unsigned int magic);
/* Writes to a file that is there, in one go. */
struct error *file_put(const char *path, const char *text) must_check;

#endif
