/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BLKHIST_BENCH_UNDO_H
#define BLKHIST_BENCH_UNDO_H

#include "bench/guard.h"

/* Undoes one thing; harmless if there is nothing to be undone. */
struct error *undo(enum undo_kind kind, const char *arg) must_check;

#endif
