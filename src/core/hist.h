/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A histogram: what was counted for one device, kind and operation.
 *
 * Timed kinds have one row per size bucket and one column per time bucket; seek has one row. The
 * sum of all values is kept beside every row, exact: ns, or for seek the signed sum of sectors.
 */
#ifndef BLKHIST_CORE_HIST_H
#define BLKHIST_CORE_HIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/abi.h"
#include "core/error.h"
#include "core/ladder.h"

#define DEVICE_NAME_MAX 64

/* A disk or one of its partitions, as named in /sys; "8:16" if /sys does not know it. */
struct device_name {
	char disk[DEVICE_NAME_MAX];
	char partition[DEVICE_NAME_MAX]; /* "" for the whole disk */
	char head[DEVICE_NAME_MAX];      /* of an NVMe path: the disk that it leads to; else "" */
	uint32_t major, minor;           /* 0:0 for a hidden disk */
};

/* What the device itself is called. */
const char *device_name_own(const struct device_name *name);

/* Order of output: disks, each with its partitions and then its paths. */
int device_name_compare(const struct device_name *a, const struct device_name *b);

struct hist {
	struct device_name name;
	bool gone; /* not there any more, its number is not known; several may have had the name */
	enum hist_kind kind;
	enum blk_op op;   /* of no meaning for KIND_SEEK */
	int64_t since_ns; /* CLOCK_REALTIME of the last reset or change of bounds */
	/*
	 * Which counters these are, for snapshot_delta(): the device as in struct device, and when
	 * its own counters began, in any unit. 0 where a source does not tell them apart.
	 */
	uint64_t sysfs_id, diskseq, generation;
	/* Columns and rows; shared by the histograms of a device, owned by the snapshot. */
	const struct ladder *ladder, *sizes; /* sizes: NULL for KIND_SEEK, and for flush: no size */
	unsigned int n_cols, n_rows;
	uint64_t *counts; /* [n_rows][n_cols], owned */
	int64_t *sums;    /* [n_rows], owned; modulo 2^64 */
	/*
	 * Timed kinds: bytes of all requests of this operation that have ended, also of those that
	 * have no usable time and so are in no cell; modulo 2^64.
	 */
	uint64_t bytes;
};

/* Sets columns and rows from the ladders, and allocates the counts as zeroes. */
void hist_init(struct hist *h, const struct ladder *ladder, const struct ladder *sizes);
void hist_deinit(struct hist *h);

static inline uint64_t *hist_row(const struct hist *h, unsigned int row)
{
	return h->counts + (size_t)row * h->n_cols;
}

uint64_t hist_count(const struct hist *h);
int64_t hist_sum(const struct hist *h);

bool hist_same_shape(const struct hist *a, const struct hist *b);
/* Both need the same shape. dst += src; dst -= src. */
void hist_merge(struct hist *dst, const struct hist *src);
void hist_subtract(struct hist *dst, const struct hist *src);

/* What can be said of some rows of a histogram; the one table behind every output's totals. */
struct hist_stats {
	uint64_t count;
	int64_t sum;
	/* Columns; -1 without any count. A quantile is the bound of the bucket that holds it. */
	int p50, p90, p99, p999, max;
};

/* Rows @from .. @to - 1 taken together. */
void hist_stats(const struct hist *h, unsigned int from, unsigned int to, struct hist_stats *ret);

/* The column that holds the @permille-th of @counts (rounded up, at least the first); -1 if empty. */
int hist_quantile(const uint64_t *counts, unsigned int n, unsigned int permille);

#define HIST_STAT_COLUMNS 7
/* The columns of hist_stats as outputs show them. */
struct hist_stat_column {
	const char *name;
	const char *help;
	enum { STAT_COUNT, STAT_MEAN, STAT_BUCKET } type;
	size_t offset; /* STAT_BUCKET: of an int in struct hist_stats */
};
extern const struct hist_stat_column hist_stat_columns[HIST_STAT_COLUMNS];

/* Names of kinds and operations, everywhere the same. */
extern const char *const hist_kind_names[KIND_NR];
extern const char *const blk_op_names[OP_NR];

/* Comma-separated names to a mask; "all" for each of them. The error names the offending one. */
struct error *hist_kinds_parse(const char *list, unsigned int *ret) must_check;
struct error *blk_ops_parse(const char *list, unsigned int *ret) must_check;
#define KINDS_ALL ((1u << KIND_NR) - 1)

#endif
