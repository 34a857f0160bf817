/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An image: the counters of one block device, copied from its map with the stripes added up. It has
 * the layout of a map with a single stripe (src/abi/abi.h), and so has a baseline map, which an
 * image is written to as it is.
 */
#ifndef BLKHIST_SOURCES_IMAGE_H
#define BLKHIST_SOURCES_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/abi.h"
#include "core/hist.h"
#include "core/ladder.h"

struct image {
	unsigned int n_blocks; /* 0: none */
	struct hist_block *blocks;
};

void image_deinit(struct image *im);
void image_copy(struct image *dst, const struct image *src);

/* The number of blocks of a map with these many bounds of size and stripes. */
unsigned int image_blocks(unsigned int n_size, unsigned int stripes);

/*
 * Writes the header block for a map of @n_blocks blocks: as many stripes as fit, at most @stripes.
 */
void image_format(struct hist_block *header, const struct ladder ladders[3], unsigned int kinds,
		  unsigned int n_blocks, unsigned int stripes, __u64 boottime_ns,
		  int64_t realtime_ns);

/*
 * Makes an image of the blocks of a map; the error says what is damaged. Of timed histograms only
 * the operations in the mask @ops are there, the others are zeroes.
 */
struct error *image_from_map(const struct hist_block *blocks, unsigned int n_blocks,
			     unsigned int ops, struct image *ret) must_check;

static inline __u64 *image_header(const struct image *im)
{
	return im->blocks[BLOCK_HEADER].row[ROW_HEADER].cell;
}

/* Where a histogram's row lies in an image. */
struct hist_row *image_row(const struct image *im, enum hist_kind kind, enum blk_op op,
			   unsigned int size);
unsigned int image_rows(const struct image *im, enum hist_kind kind, enum blk_op op);
/* CLOCK_REALTIME ns since when a histogram counts; kept in baselines, 0 if it was never reset. */
__u64 *image_since(const struct image *im, enum hist_kind kind, enum blk_op op);

const __u64 *image_losses(const struct image *im); /* [class * OP_NR + op] */
/* One of them, with what was lost under earlier ladders. */
__u64 image_loss(const struct image *im, enum part_loss class, enum blk_op op);
struct ladder image_ladder(const struct image *im, enum dimension dim);
bool image_same_ladders(const struct image *a, const struct image *b);

/* dst += src, dst -= src, cell by cell, losses included; the ladders must be equal. */
void image_add(struct image *dst, const struct image *src);
/*
 * Adds what another generation had counted to what the header of @to carries. False if it was the
 * last one that was added already: then nothing changes.
 */
bool image_carry(struct image *to, const struct image *from) must_check;
/* Replaces one histogram of @dst, a baseline, by that of @src, counters. */
void image_set_hist(struct image *dst, const struct image *src, enum hist_kind kind,
		    enum blk_op op);

/* Requests of an operation that were counted, with those of earlier ladders and unusable stamps. */
__u64 image_requests(const struct image *im, enum blk_op op);

#endif
