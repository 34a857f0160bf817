// SPDX-License-Identifier: GPL-2.0-only
#include "sources/image.h"

#include <string.h>

#include "core/util.h"

/* In a baseline's header: CLOCK_REALTIME ns of the last reset, by kind and operation. */
#define HDR_RESET (HDR_CARRY_LOSSES + PART_LOSS_NR * OP_NR)
_Static_assert(HDR_RESET + KIND_NR * OP_NR <= ROW_CELLS, "the header of a baseline fits");

void image_deinit(struct image *im)
{
	free(im->blocks);
	*im = (struct image){};
}

void image_copy(struct image *dst, const struct image *src)
{
	dst->n_blocks = src->n_blocks;
	dst->blocks = xcalloc(src->n_blocks, sizeof(*dst->blocks));
	memcpy(dst->blocks, src->blocks, src->n_blocks * sizeof(*dst->blocks));
}

unsigned int image_blocks(unsigned int n_size, unsigned int stripes)
{
	return BLOCK_SHARED + SHARED_BLOCKS(n_size + 1) + stripes * STRIPE_BLOCKS(n_size + 1);
}

void image_format(struct hist_block *header, const struct ladder ladders[3], unsigned int kinds,
		  unsigned int n_blocks, unsigned int stripes, __u64 boottime_ns,
		  int64_t realtime_ns)
{
	const struct ladder *time = &ladders[DIM_TIME], *size = &ladders[DIM_SIZE];
	const struct ladder *seek = &ladders[DIM_SECTORS];
	__u64 *h = header->row[ROW_HEADER].cell;

	while (stripes > 1 && image_blocks(size->n, stripes) > n_blocks)
		stripes /= 2;
	*header = (struct hist_block){};
	h[HDR_EPOCH] = boottime_ns;
	h[HDR_SINCE] = (__u64)realtime_ns;
	h[HDR_KINDS] = kinds;
	h[HDR_N_TIME] = time->n;
	h[HDR_N_SIZE] = size->n;
	h[HDR_N_SEEK] = seek->n;
	h[HDR_STRIPES] = stripes;
	h[HDR_STRIPE_BLOCKS] = STRIPE_BLOCKS(size->n + 1);
	h[HDR_FIRST_STRIPE] = BLOCK_SHARED + SHARED_BLOCKS(size->n + 1);
	for (unsigned int i = 0; i < SIZE_BOUNDS_MAX; i++)
		h[HDR_SIZE_BOUNDS + i] = i < size->n ? (__u64)size->bound[i] : BOUND_NONE;
	for (unsigned int i = 0; i < ROW_CELLS; i++) {
		header->row[ROW_TIME_BOUNDS].cell[i] = i < time->n ? (__u64)time->bound[i] :
								     BOUND_NONE;
		header->row[ROW_SEEK_BOUNDS].cell[i] = i < seek->n ? (__u64)seek->bound[i] :
								     BOUND_NONE;
	}
}

static void block_add(struct hist_block *dst, const struct hist_block *src)
{
	for (unsigned int row = 0; row < KIND_TIMED; row++)
		for (unsigned int i = 0; i < ROW_CELLS; i++)
			dst->row[row].cell[i] += src->row[row].cell[i];
}

static bool header_valid(const __u64 *h, unsigned int n_blocks)
{
	return h[HDR_N_TIME] <= TIME_BOUNDS_MAX && h[HDR_N_SIZE] <= SIZE_BOUNDS_MAX &&
	       h[HDR_N_SEEK] <= SEEK_BOUNDS_MAX && h[HDR_STRIPES] >= 1 &&
	       h[HDR_STRIPES] <= STRIPES_MAX &&
	       h[HDR_STRIPE_BLOCKS] == STRIPE_BLOCKS(h[HDR_N_SIZE] + 1) &&
	       h[HDR_FIRST_STRIPE] == BLOCK_SHARED + SHARED_BLOCKS(h[HDR_N_SIZE] + 1) &&
	       image_blocks((unsigned int)h[HDR_N_SIZE], (unsigned int)h[HDR_STRIPES]) <= n_blocks;
}

/* dst[from .. to - 1] += src[from .. to - 1] */
static void blocks_add(struct hist_block *dst, const struct hist_block *src, unsigned int from,
		       unsigned int to)
{
	for (unsigned int i = from; i < to; i++)
		block_add(&dst[i], &src[i]);
}

struct error *image_from_map(const struct hist_block *blocks, unsigned int n_blocks,
			     unsigned int ops, struct image *ret)
{
	const __u64 *h = blocks[BLOCK_HEADER].row[ROW_HEADER].cell;
	unsigned int first, stripe_blocks, stripes, n_rows;

	if (!n_blocks || !header_valid(h, n_blocks))
		return error_new("the header of a pinned histogram is damaged; run: blkhist stop");
	first = (unsigned int)h[HDR_FIRST_STRIPE];
	stripe_blocks = (unsigned int)h[HDR_STRIPE_BLOCKS];
	stripes = (unsigned int)h[HDR_STRIPES];
	n_rows = (unsigned int)h[HDR_N_SIZE] + 1;
	ret->n_blocks = first + stripe_blocks;
	ret->blocks = xcalloc(ret->n_blocks, sizeof(*ret->blocks));
	ret->blocks[BLOCK_HEADER] = blocks[BLOCK_HEADER];
	if (ops & (1u << OP_DISCARD | 1u << OP_FLUSH))
		blocks_add(ret->blocks, blocks, BLOCK_SHARED, first);
	for (unsigned int s = 0; s < stripes; s++) {
		struct hist_block *to = &ret->blocks[first];
		const struct hist_block *from = &blocks[first + s * stripe_blocks];

		blocks_add(to, from, 0, 1); /* losses and seek */
		for (unsigned int op = 0; op < OP_DISCARD; op++)
			if (ops & 1u << op)
				blocks_add(to, from, 1 + op * n_rows, 1 + (op + 1) * n_rows);
	}
	image_header(ret)[HDR_STRIPES] = 1;
	return NULL;
}

static unsigned int stripe(const struct image *im)
{
	return (unsigned int)image_header(im)[HDR_FIRST_STRIPE];
}

unsigned int image_rows(const struct image *im, enum hist_kind kind, enum blk_op op)
{
	return kind == KIND_SEEK || op == OP_FLUSH ? 1 :
						     (unsigned int)image_header(im)[HDR_N_SIZE] + 1;
}

struct hist_row *image_row(const struct image *im, enum hist_kind kind, enum blk_op op,
			   unsigned int size)
{
	unsigned int n_rows = (unsigned int)image_header(im)[HDR_N_SIZE] + 1;

	if (kind == KIND_SEEK)
		return &im->blocks[stripe(im)].row[ROW_SEEK];
	return &im->blocks[hist_block_index(op, size, n_rows, stripe(im))].row[kind];
}

__u64 *image_since(const struct image *im, enum hist_kind kind, enum blk_op op)
{
	return &image_header(im)[HDR_RESET + kind * OP_NR + op];
}

const __u64 *image_losses(const struct image *im)
{
	return im->blocks[stripe(im)].row[ROW_LOSSES].cell;
}

__u64 image_loss(const struct image *im, enum part_loss class, enum blk_op op)
{
	return image_losses(im)[class * OP_NR + op] +
	       image_header(im)[HDR_CARRY_LOSSES + class * OP_NR + op];
}

struct ladder image_ladder(const struct image *im, enum dimension dim)
{
	static const struct {
		enum header_row row;
		unsigned int n_cell, first;
	} where[] = {
		[DIM_TIME] = { ROW_TIME_BOUNDS, HDR_N_TIME, 0 },
		[DIM_SIZE] = { ROW_HEADER, HDR_N_SIZE, HDR_SIZE_BOUNDS },
		[DIM_SECTORS] = { ROW_SEEK_BOUNDS, HDR_N_SEEK, 0 },
	};
	const struct hist_block *header = &im->blocks[BLOCK_HEADER];
	struct ladder l = { .dim = dim, .n = (unsigned int)image_header(im)[where[dim].n_cell] };

	for (unsigned int i = 0; i < l.n; i++)
		l.bound[i] = (int64_t)header->row[where[dim].row].cell[where[dim].first + i];
	return l;
}

bool image_same_ladders(const struct image *a, const struct image *b)
{
	for (enum dimension dim = 0; dim <= DIM_SECTORS; dim++) {
		struct ladder la = image_ladder(a, dim), lb = image_ladder(b, dim);

		if (!ladder_equal(&la, &lb))
			return false;
	}
	return true;
}

void image_add(struct image *dst, const struct image *src)
{
	for (unsigned int i = BLOCK_SHARED; i < dst->n_blocks; i++)
		block_add(&dst->blocks[i], &src->blocks[i]);
}

bool image_carry(struct image *to, const struct image *from)
{
	__u64 *header = image_header(to), epoch = image_header(from)[HDR_EPOCH];

	if (header[HDR_EPOCH] == epoch || header[HDR_CARRY_EPOCH] == epoch)
		return false;
	header[HDR_CARRY_EPOCH] = epoch;
	for (enum blk_op op = 0; op < OP_NR; op++) {
		header[HDR_CARRY_REQUESTS + op] += image_requests(from, op);
		for (enum part_loss c = 0; c < PART_LOSS_NR; c++)
			header[HDR_CARRY_LOSSES + c * OP_NR + op] += image_loss(from, c, op);
	}
	return true;
}

void image_set_hist(struct image *dst, const struct image *src, enum hist_kind kind, enum blk_op op)
{
	for (unsigned int row = 0; row < image_rows(src, kind, op); row++) {
		struct hist_row *to = image_row(dst, kind, op, row);

		*to = *image_row(src, kind, op, row);
		if (kind != KIND_SEEK)
			to->cell[ROW_BYTES] =
				image_row(src, KIND_REQUEST, op, row)->cell[ROW_BYTES];
	}
}

__u64 image_requests(const struct image *im, enum blk_op op)
{
	const __u64 *h = image_header(im);
	__u64 n = h[HDR_CARRY_REQUESTS + op] + image_losses(im)[LOSS_NO_START * OP_NR + op];

	for (unsigned int size = 0; size < image_rows(im, KIND_REQUEST, op); size++)
		for (unsigned int i = 0; i <= TIME_BOUNDS_MAX; i++)
			n += image_row(im, KIND_REQUEST, op, size)->cell[i];
	return n;
}
