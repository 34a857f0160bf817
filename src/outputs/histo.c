// SPDX-License-Identifier: GPL-2.0-only
#include "outputs/histo.h"

#include "core/timefmt.h"

const char *const histo_kind_names[KIND_NR] = {
	[KIND_REQUEST] = "request",
	[KIND_SERVICE] = "dma",
	[KIND_QUEUE] = "queue",
	[KIND_SEEK] = "seek",
};

/* Whole numbers only: microseconds where all bounds are, as nanoseconds are hard to read. */
static int64_t time_unit(const struct ladder *l)
{
	for (unsigned int i = 0; i < l->n; i++)
		if (l->bound[i] % 1000)
			return 1;
	return 1000;
}

static void row(const struct hist *h, unsigned int n, struct buf *out)
{
	for (unsigned int col = 0; col < h->n_cols; col++) {
		buf_puts(out, "\t");
		buf_u64(out, hist_row(h, n)[col]);
	}
	buf_puts(out, "\n");
}

static void timed(const struct hist *h, const char *since, struct buf *out)
{
	int64_t unit = time_unit(h->ladder);
	const char *name = unit == 1 ? "ns" : "us";

	buf_printf(out,
		   "# %s %s %s: rows are I/O sizes (bytes), columns are times (%s), bounds are "
		   "inclusive, counted since %s\nbytes/%s",
		   device_name_own(&h->name), blk_op_names[h->op], histo_kind_names[h->kind], name,
		   since, name);
	for (unsigned int col = 0; col < h->ladder->n; col++) {
		buf_puts(out, "\t");
		buf_i64(out, h->ladder->bound[col] / unit);
	}
	buf_puts(out, "\t+inf\n");
	for (unsigned int i = 0; i < h->n_rows; i++) {
		if (i + 1 < h->n_rows)
			buf_i64(out, h->sizes->bound[i]);
		else
			buf_puts(out, "+inf");
		row(h, i, out);
	}
}

static void seek(const struct hist *h, const char *since, struct buf *out)
{
	buf_printf(
		out,
		"# %s seek: distances (sectors of 512 bytes, signed) from the end of the request "
		"before, bounds are inclusive, counted since %s\nsectors\tcount\n",
		device_name_own(&h->name), since);
	for (unsigned int i = 0; i < h->n_cols; i++) {
		if (i < h->ladder->n)
			buf_i64(out, h->ladder->bound[i]);
		else
			buf_puts(out, "+inf");
		buf_puts(out, "\t");
		buf_u64(out, hist_row(h, 0)[i]);
		buf_puts(out, "\n");
	}
}

void histo_table(const struct hist *h, struct buf *out)
{
	char since[RFC3339_MAX];

	time_format_rfc3339(h->since_ns, since);
	if (h->kind == KIND_SEEK)
		seek(h, since, out);
	else
		timed(h, since, out);
}
