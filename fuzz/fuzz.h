/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the fuzz targets share: places for their files, a configuration, and what must hold of
 * whatever was read, however damaged it was. What does not hold ends the program.
 *
 * A target is LLVMFuzzerTestOneInput() as libFuzzer calls it; replay.c calls it for given files.
 */
#ifndef BLKHIST_FUZZ_FUZZ_H
#define BLKHIST_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "core/config.h"
#include "core/snapshot.h"
#include "sources/blktrace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Files that are written anew for every input. The first two are a per-CPU set. */
enum fuzz_file { FUZZ_CPU0, FUZZ_CPU1, FUZZ_SINGLE, FUZZ_PARTITIONS, FUZZ_FILES };

const char *fuzz_file_path(enum fuzz_file file);
void fuzz_file_write(enum fuzz_file file, const void *data, size_t size);

/* A /sys without any device: names must not depend on the machine. */
const char *fuzz_root(void);

/* Few bounds of each kind, no queue time of 8:16, and nothing of 8:32. */
const struct config *fuzz_config(void);

/* Ends the program, saying what does not hold. */
void fuzz_fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The histograms so far; what must hold of them is checked. */
void fuzz_snapshot(struct trace *trace, struct snapshot *ret);

/* Reads to the end, and takes a snapshot, in which all events must be counted. */
void fuzz_read(struct trace *trace, struct snapshot *ret);

uint64_t fuzz_loss(const struct snapshot *s, const char *name);

/* Of two snapshots of one trace, one after the other. */
void fuzz_check_rise(const struct snapshot *older, const struct snapshot *newer);

/* Of two ways to read the same. */
void fuzz_check_same(const struct snapshot *a, const struct snapshot *b);

#endif
