// SPDX-License-Identifier: GPL-2.0-only
#include "core/hist.h"

#include <assert.h>
#include <string.h>

#include "core/buf.h"
#include "core/util.h"

const char *const hist_kind_names[KIND_NR] = {
	[KIND_REQUEST] = "request",
	[KIND_SERVICE] = "service",
	[KIND_QUEUE] = "queue",
	[KIND_SEEK] = "seek",
};

const char *const blk_op_names[OP_NR] = {
	[OP_READ] = "read",
	[OP_WRITE] = "write",
	[OP_DISCARD] = "discard",
	[OP_FLUSH] = "flush",
};

const struct hist_stat_column hist_stat_columns[HIST_STAT_COLUMNS] = {
	{ "count", "requests", STAT_COUNT, 0 },
	{ "mean", "exact mean", STAT_MEAN, 0 },
	{ "p50", "half are in this bucket or below", STAT_BUCKET,
	  offsetof(struct hist_stats, p50) },
	{ "p90", "likewise 90 %", STAT_BUCKET, offsetof(struct hist_stats, p90) },
	{ "p99", "likewise 99 %", STAT_BUCKET, offsetof(struct hist_stats, p99) },
	{ "p99.9", "likewise 99.9 %", STAT_BUCKET, offsetof(struct hist_stats, p999) },
	{ "max", "the highest bucket used", STAT_BUCKET, offsetof(struct hist_stats, max) },
};

const char *device_name_own(const struct device_name *name)
{
	return name->partition[0] ? name->partition : name->disk;
}

static const char *group(const struct device_name *name)
{
	return name->head[0] ? name->head : name->disk;
}

int device_name_compare(const struct device_name *a, const struct device_name *b)
{
	int c = strverscmp(group(a), group(b));

	if (!c)
		c = strverscmp(a->head, b->head);
	if (!c)
		c = strverscmp(a->disk, b->disk);
	return c ? c : strverscmp(a->partition, b->partition);
}

void hist_init(struct hist *h, const struct ladder *ladder, const struct ladder *sizes)
{
	h->ladder = ladder;
	h->sizes = sizes;
	h->n_cols = ladder->n + 1;
	h->n_rows = sizes ? sizes->n + 1 : 1;
	h->counts = xcalloc((size_t)h->n_rows * h->n_cols, sizeof(*h->counts));
	h->sums = xcalloc(h->n_rows, sizeof(*h->sums));
}

void hist_deinit(struct hist *h)
{
	free(h->counts);
	free(h->sums);
	h->counts = NULL;
	h->sums = NULL;
}

uint64_t hist_count(const struct hist *h)
{
	uint64_t count = 0;

	for (size_t i = 0; i < (size_t)h->n_rows * h->n_cols; i++)
		count += h->counts[i];
	return count;
}

int64_t hist_sum(const struct hist *h)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < h->n_rows; i++)
		sum += (uint64_t)h->sums[i];
	return (int64_t)sum;
}

bool hist_same_shape(const struct hist *a, const struct hist *b)
{
	return a->kind == b->kind && ladder_equal(a->ladder, b->ladder) && !a->sizes == !b->sizes &&
	       (!a->sizes || ladder_equal(a->sizes, b->sizes));
}

void hist_merge(struct hist *dst, const struct hist *src)
{
	assert(hist_same_shape(dst, src));
	for (size_t i = 0; i < (size_t)dst->n_rows * dst->n_cols; i++)
		dst->counts[i] += src->counts[i];
	for (unsigned int i = 0; i < dst->n_rows; i++)
		dst->sums[i] = (int64_t)((uint64_t)dst->sums[i] + (uint64_t)src->sums[i]);
	dst->bytes += src->bytes;
}

void hist_subtract(struct hist *dst, const struct hist *src)
{
	assert(hist_same_shape(dst, src));
	for (size_t i = 0; i < (size_t)dst->n_rows * dst->n_cols; i++)
		dst->counts[i] -= src->counts[i];
	for (unsigned int i = 0; i < dst->n_rows; i++)
		dst->sums[i] = (int64_t)((uint64_t)dst->sums[i] - (uint64_t)src->sums[i]);
	dst->bytes -= src->bytes;
}

int hist_quantile(const uint64_t *counts, unsigned int n, unsigned int permille)
{
	uint64_t total = 0, seen = 0;
	unsigned __int128 rank;

	for (unsigned int i = 0; i < n; i++)
		total += counts[i];
	if (!total)
		return -1;
	rank = ((unsigned __int128)total * permille + 999) / 1000;
	if (!rank)
		rank = 1;
	for (unsigned int i = 0; i < n; i++) {
		seen += counts[i];
		if (seen >= rank)
			return (int)i;
	}
	return (int)n - 1;
}

void hist_stats(const struct hist *h, unsigned int from, unsigned int to, struct hist_stats *ret)
{
	cleanup_free uint64_t *cols = xcalloc(h->n_cols, sizeof(*cols));
	uint64_t sum = 0;

	*ret = (struct hist_stats){};
	for (unsigned int row = from; row < to; row++) {
		for (unsigned int col = 0; col < h->n_cols; col++)
			cols[col] += hist_row(h, row)[col];
		sum += (uint64_t)h->sums[row];
	}
	for (unsigned int col = 0; col < h->n_cols; col++)
		ret->count += cols[col];
	ret->sum = (int64_t)sum;
	ret->p50 = hist_quantile(cols, h->n_cols, 500);
	ret->p90 = hist_quantile(cols, h->n_cols, 900);
	ret->p99 = hist_quantile(cols, h->n_cols, 990);
	ret->p999 = hist_quantile(cols, h->n_cols, 999);
	ret->max = hist_quantile(cols, h->n_cols, 1000);
}

static struct error *mask_parse(const char *what, const char *const *names, unsigned int n,
				const char *list, unsigned int *ret)
{
	cleanup_free char *copy = xstrdup(list);
	char *next = copy, *item;
	unsigned int mask = 0;

	while ((item = strsep(&next, ","))) {
		unsigned int i = 0;

		if (!strcmp(item, "all")) {
			mask |= (1u << n) - 1;
			continue;
		}
		while (i < n && strcmp(item, names[i]))
			i++;
		if (i == n) {
			struct buf known = {};
			struct error *err;

			for (i = 0; i < n; i++)
				buf_printf(&known, "%s, ", names[i]);
			err = error_usage("unknown %s '%s' (%sall)", what, item, known.str);
			buf_deinit(&known);
			return err;
		}
		mask |= 1u << i;
	}
	*ret = mask;
	return NULL;
}

struct error *hist_kinds_parse(const char *list, unsigned int *ret)
{
	return mask_parse("kind", hist_kind_names, KIND_NR, list, ret);
}

struct error *blk_ops_parse(const char *list, unsigned int *ret)
{
	return mask_parse("operation", blk_op_names, OP_NR, list, ret);
}
