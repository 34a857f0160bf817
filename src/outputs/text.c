// SPDX-License-Identifier: GPL-2.0-only
#include "outputs/text.h"

#include <inttypes.h>
#include <string.h>

#include "core/timefmt.h"
#include "core/util.h"

#define CELL_MAX 64

static const char *const kind_titles[KIND_NR] = {
	[KIND_REQUEST] = "request time (start to completion)",
	[KIND_SERVICE] = "service time (issue to completion)",
	[KIND_QUEUE] = "queue time (start to issue)",
	[KIND_SEEK] = "seek distance (sectors from the end of the request before)",
};

/* The bound of a bucket: it holds what is at most this. */
static void bound_text(const struct ladder *l, unsigned int i, char ret[UNIT_TEXT_MAX])
{
	if (i == l->n)
		memcpy(ret, "+inf", sizeof("+inf"));
	else
		unit_format_short(l->dim, l->bound[i], ret);
}

static unsigned int digits(uint64_t v)
{
	unsigned int n = 1;

	while (v /= 10)
		n++;
	return n;
}

/* Rows or columns in use: @first .. @last. */
struct range {
	unsigned int first, last;
};

static struct range used_rows(const struct hist *h)
{
	struct range r = { h->n_rows, 0 };

	for (unsigned int row = 0; row < h->n_rows; row++)
		for (unsigned int col = 0; col < h->n_cols; col++)
			if (hist_row(h, row)[col])
				r = (struct range){ row < r.first ? row : r.first, row };
	return r;
}

static struct range used_cols(const struct hist *h)
{
	struct range r = { h->n_cols, 0 };

	for (unsigned int col = 0; col < h->n_cols; col++)
		for (unsigned int row = 0; row < h->n_rows; row++)
			if (hist_row(h, row)[col])
				r = (struct range){ col < r.first ? col : r.first, col };
	return r;
}

static void row_label(const struct hist *h, unsigned int row, char ret[UNIT_TEXT_MAX])
{
	if (h->sizes)
		bound_text(h->sizes, row, ret);
	else
		memcpy(ret, "all", sizeof("all"));
}

#define LABEL_WIDTH 10

static void cells(const struct hist *h, struct range rows, struct range cols,
		  unsigned int cell_width, struct buf *out)
{
	char label[UNIT_TEXT_MAX];

	buf_printf(out, "  %*s", LABEL_WIDTH, h->sizes ? "size <=" : "time <=");
	for (unsigned int col = cols.first; col <= cols.last; col++) {
		bound_text(h->ladder, col, label);
		buf_printf(out, " %*s", (int)cell_width, label);
	}
	buf_puts(out, "\n");
	for (unsigned int row = rows.first; row <= rows.last; row++) {
		row_label(h, row, label);
		buf_printf(out, "  %*s", LABEL_WIDTH, label);
		for (unsigned int col = cols.first; col <= cols.last; col++) {
			uint64_t n = hist_row(h, row)[col];

			if (n)
				buf_printf(out, " %*" PRIu64, (int)cell_width, n);
			else
				buf_printf(out, " %*s", (int)cell_width, ".");
		}
		buf_puts(out, "\n");
	}
}

static void stat_text(const struct hist *h, const struct hist_stats *s,
		      const struct hist_stat_column *c, char ret[CELL_MAX])
{
	char bound[UNIT_TEXT_MAX] = "-";
	int bucket;

	switch (c->type) {
	case STAT_COUNT:
		snprintf(ret, CELL_MAX, "%" PRIu64, s->count);
		return;
	case STAT_MEAN:
		if (s->count)
			unit_format_short(h->ladder->dim, s->sum / (int64_t)s->count, bound);
		snprintf(ret, CELL_MAX, "%s", bound);
		return;
	case STAT_BUCKET:
		memcpy(&bucket, (const char *)s + c->offset, sizeof(bucket));
		if (bucket >= 0)
			bound_text(h->ladder, (unsigned int)bucket, bound);
		snprintf(ret, CELL_MAX, "%s%s",
			 bucket >= 0 && (unsigned int)bucket < h->ladder->n ? "<=" : "", bound);
		return;
	}
}

static void stat_row(const struct hist *h, const char *label, unsigned int from, unsigned int to,
		     struct buf *out)
{
	struct hist_stats s;

	hist_stats(h, from, to, &s);
	buf_printf(out, "  %*s", LABEL_WIDTH, label);
	for (int i = 0; i < HIST_STAT_COLUMNS; i++) {
		char text[CELL_MAX];

		stat_text(h, &s, &hist_stat_columns[i], text);
		buf_printf(out, " %10s", text);
	}
	buf_puts(out, "\n");
}

static void stats(const struct hist *h, struct range rows, struct buf *out)
{
	buf_printf(out, "\n  %*s", LABEL_WIDTH, "size <=");
	for (int i = 0; i < HIST_STAT_COLUMNS; i++)
		buf_printf(out, " %10s", hist_stat_columns[i].name);
	buf_puts(out, "\n");
	for (unsigned int row = rows.first; h->sizes && row <= rows.last; row++) {
		char label[UNIT_TEXT_MAX];

		row_label(h, row, label);
		stat_row(h, label, row, row + 1, out);
	}
	stat_row(h, "total", 0, h->n_rows, out);
}

static void timed(const struct hist *h, unsigned int width, struct buf *out)
{
	struct range rows = used_rows(h), cols = used_cols(h);
	unsigned int cell = 7, fit;

	for (unsigned int row = 0; row < h->n_rows; row++)
		for (unsigned int col = 0; col < h->n_cols; col++)
			if (digits(hist_row(h, row)[col]) > cell)
				cell = digits(hist_row(h, row)[col]);
	fit = width > LABEL_WIDTH + 2 + cell + 1 ? (width - LABEL_WIDTH - 2) / (cell + 1) : 1;
	for (unsigned int first = cols.first; first <= cols.last; first += fit) {
		unsigned int last = first + fit - 1 < cols.last ? first + fit - 1 : cols.last;

		if (first != cols.first)
			buf_puts(out, "\n");
		cells(h, rows, (struct range){ first, last }, cell, out);
	}
	stats(h, rows, out);
}

static void share(struct buf *out, const char *name, uint64_t n, uint64_t total)
{
	buf_printf(out, "  %s %.1f %% (%" PRIu64 ")", name, 100.0 * (double)n / (double)total, n);
}

#define BAR_WIDTH 40

static void seek(const struct hist *h, struct buf *out)
{
	const struct ladder *l = h->ladder;
	const uint64_t *n = hist_row(h, 0);
	unsigned int zero = ladder_bucket(l, 0);
	uint64_t backward = 0, forward = 0, most = 0, total = hist_count(h);
	struct range cols = used_cols(h);
	struct hist_stats s;

	for (unsigned int i = 0; i < h->n_cols; i++) {
		backward += i < zero ? n[i] : 0;
		forward += i > zero ? n[i] : 0;
		most = n[i] > most ? n[i] : most;
	}
	buf_printf(out, "  %*s %10s\n", 2 * LABEL_WIDTH, "distance <=", "count");
	for (unsigned int i = cols.first; i <= cols.last; i++) {
		static const char bar[BAR_WIDTH + 1] = "########################################";
		char label[UNIT_TEXT_MAX];

		bound_text(l, i, label);
		buf_printf(out, "  %*s %10" PRIu64 " %.*s\n", 2 * LABEL_WIDTH, label, n[i],
			   (int)((double)n[i] * BAR_WIDTH / (double)most + 0.5), bar);
	}
	hist_stats(h, 0, 1, &s);
	buf_puts(out, "\n");
	if (ladder_zero_alone(l))
		share(out, "sequential", n[zero], total);
	else
		share(out, "within the bucket of 0", n[zero], total);
	share(out, "forward", forward, total);
	share(out, "backward", backward, total);
	buf_printf(out, "  count %" PRIu64 "  mean %" PRId64 "\n", s.count,
		   s.sum / (int64_t)s.count);
}

void text_losses(const struct snapshot *snap, struct buf *out)
{
	for (unsigned int i = 0; i < snap->n_losses; i++)
		if (snap->losses[i].count)
			buf_printf(out, "  %-14s %12" PRIu64 "  %s\n", snap->losses[i].name,
				   snap->losses[i].count, snap->losses[i].help);
}

/* Tells devices that had the same name, one after the other, apart. */
static void identity(const struct hist *h, struct buf *out)
{
	if (h->gone && h->diskseq)
		buf_printf(out, ", diskseq %" PRIu64, h->diskseq);
	else if (h->gone)
		buf_printf(out, ", sysfs id %" PRIu64, h->sysfs_id);
	buf_puts(out, "\n\n");
}

void text_snapshot(const struct snapshot *snap, unsigned int width, struct buf *out)
{
	size_t before;

	for (unsigned int i = 0; i < snap->n_hists; i++) {
		const struct hist *h = &snap->hists[i];
		char since[RFC3339_MAX];

		time_format_seconds(h->since_ns, since);
		buf_printf(out, "%s%s%s%s%s  %s%s%s, since %s", i ? "\n" : "",
			   device_name_own(&h->name), h->name.head[0] ? ", a path of " : "",
			   h->name.head, h->gone ? " (gone)" : "",
			   h->kind == KIND_SEEK ? "" : blk_op_names[h->op],
			   h->kind == KIND_SEEK ? "" : "  ", kind_titles[h->kind], since);
		identity(h, out);
		if (h->kind == KIND_SEEK)
			seek(h, out);
		else
			timed(h, width, out);
	}
	if (!snap->n_hists)
		buf_puts(out, "No requests have been counted.\n");
	buf_puts(out, "\nNot in the histograms, or worth knowing:\n");
	before = out->len;
	text_losses(snap, out);
	if (out->len == before)
		buf_puts(out, "  nothing\n");
	for (unsigned int i = 0; i < snap->n_notes; i++)
		buf_printf(out, "%sNote: %s.\n", i ? "" : "\n", snap->notes[i]);
}
