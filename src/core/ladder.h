/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ladders: the bounds of a histogram's buckets.
 *
 * Bounds are inclusive upper bounds (as Prometheus' `le`) in ns, bytes or sectors, strictly
 * ascending; behind the last one lies one more bucket, +inf. Written as
 *
 *	10ms,20ms,50ms		a list
 *	native:N,LO..HI		2^N bounds per doubling, at 1 s * 2^(i/2^N), which are those of a
 *				Prometheus native histogram of schema N
 *	log2,LO..HI		the powers of two of the smallest unit (ns, bytes, sectors)
 *	125,LO..HI		1, 2, 5, 10, 20, ... of the smallest unit
 *	linear:STEP,LO..HI	LO, LO + STEP, ... up to HI
 *
 * LO and HI are inclusive; only the bounds between them are taken. Without ",LO..HI" the default
 * range of the dimension applies. The generators of distances are mirrored and get 0 in the middle,
 * so that -1 and 0 are bounds and exactly 0 (sequential) has a bucket to itself.
 */
#ifndef BLKHIST_CORE_LADDER_H
#define BLKHIST_CORE_LADDER_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/abi.h"
#include "core/error.h"
#include "core/units.h"

#define LADDER_MAX SEEK_BOUNDS_MAX
#define LADDER_KINDS 3 /* by enum dimension */

extern const char *const ladder_names[LADDER_KINDS]; /* "time", "size", "seek" */

struct ladder {
	enum dimension dim;
	unsigned int n;
	int64_t bound[LADDER_MAX];
};

/* Parses @spec; the error names the offending item. */
struct error *ladder_parse(enum dimension dim, const char *spec, struct ladder *ret) must_check;

/* The largest number of bounds of a dimension; for distances, per direction. */
unsigned int ladder_max(enum dimension dim);

/* The bucket of @value: 0 .. n, n being +inf. The same rule as in the kernel. */
unsigned int ladder_bucket(const struct ladder *l, int64_t value);

/* Whether the bucket of 0 holds nothing but 0: -1 and 0 are bounds. */
bool ladder_zero_alone(const struct ladder *l);

bool ladder_equal(const struct ladder *a, const struct ladder *b);

/* A list that ladder_parse() reads back to an equal ladder. The caller frees it. */
char *ladder_format(const struct ladder *l);

#endif
