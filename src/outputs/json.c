// SPDX-License-Identifier: GPL-2.0-only
#include "outputs/json.h"

#include <string.h>

#include "core/timefmt.h"

void json_string(struct buf *out, const char *s)
{
	buf_puts(out, "\"");
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			buf_printf(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			buf_printf(out, "\\u%04x", c);
		else
			buf_add(out, s, 1);
	}
	buf_puts(out, "\"");
}

void json_element(struct buf *out)
{
	if (!strchr("[{", out->str[out->len - 1]))
		buf_puts(out, ",");
}

void json_key(struct buf *out, const char *name)
{
	json_element(out);
	json_string(out, name);
	buf_puts(out, ":");
}

void json_key_string(struct buf *out, const char *name, const char *value)
{
	json_key(out, name);
	json_string(out, value);
}

void json_key_u64(struct buf *out, const char *name, uint64_t value)
{
	json_key(out, name);
	buf_u64(out, value);
}

void json_key_bool(struct buf *out, const char *name, bool value)
{
	json_key(out, name);
	buf_puts(out, value ? "true" : "false");
}

void json_time(struct buf *out, const char *name, int64_t realtime_ns)
{
	char text[RFC3339_MAX];

	time_format_rfc3339(realtime_ns, text);
	json_key_string(out, name, text);
}

void json_bounds(struct buf *out, const char *name, const struct ladder *l)
{
	json_key(out, name);
	buf_puts(out, "[");
	for (unsigned int i = 0; i < l->n; i++) {
		json_element(out);
		buf_i64(out, l->bound[i]);
	}
	buf_puts(out, "]");
}

void json_losses(struct buf *out, const struct snapshot *snap)
{
	json_key(out, "losses");
	buf_puts(out, "{");
	for (unsigned int i = 0; i < snap->n_losses; i++)
		json_key_u64(out, snap->losses[i].name, snap->losses[i].count);
	buf_puts(out, "}");
}

/* Only if there are any. */
static void notes(struct buf *out, const struct snapshot *snap)
{
	if (!snap->n_notes)
		return;
	json_key(out, "notes");
	buf_puts(out, "[");
	for (unsigned int i = 0; i < snap->n_notes; i++) {
		json_element(out);
		json_string(out, snap->notes[i]);
	}
	buf_puts(out, "]");
}

static void names(struct buf *out, const struct device_name *name)
{
	json_key_string(out, "device", name->disk);
	if (name->partition[0]) {
		json_key_string(out, "partition", name->partition);
	} else {
		json_key(out, "partition");
		buf_puts(out, "null");
	}
	if (name->head[0])
		json_key_string(out, "path_of", name->head);
}

void json_device(struct buf *out, const struct device_name *name)
{
	names(out, name);
	json_key_u64(out, "major", name->major);
	json_key_u64(out, "minor", name->minor);
}

/* Its number may be another device's by now. */
static void gone_device(struct buf *out, const struct hist *h)
{
	names(out, &h->name);
	json_key_bool(out, "gone", true);
	json_key_u64(out, "diskseq", h->diskseq);
	json_key_u64(out, "sysfs_id", h->sysfs_id);
}

static void counts(struct buf *out, const uint64_t *row, unsigned int n)
{
	buf_puts(out, "[");
	for (unsigned int i = 0; i < n; i++) {
		if (i)
			buf_add(out, ",", 1);
		buf_u64(out, row[i]);
	}
	buf_puts(out, "]");
}

static void histogram(struct buf *out, const struct hist *h)
{
	static const struct ladder no_sizes = { .dim = DIM_SIZE };
	bool seek = h->kind == KIND_SEEK;

	json_element(out);
	buf_puts(out, "{");
	if (h->gone)
		gone_device(out, h);
	else
		json_device(out, &h->name);
	json_key_string(out, "kind", hist_kind_names[h->kind]);
	json_key_string(out, "op", seek ? "all" : blk_op_names[h->op]);
	json_time(out, "since", h->since_ns);
	json_key_string(out, "unit", seek ? "sectors" : "ns");
	json_bounds(out, "bounds", h->ladder);
	if (!seek)
		json_bounds(out, "size_bounds", h->sizes ? h->sizes : &no_sizes);
	json_key(out, "counts");
	if (seek) {
		counts(out, hist_row(h, 0), h->n_cols);
	} else {
		buf_puts(out, "[");
		for (unsigned int row = 0; row < h->n_rows; row++) {
			json_element(out);
			counts(out, hist_row(h, row), h->n_cols);
		}
		buf_puts(out, "]");
		json_key(out, "sums");
		buf_puts(out, "[");
		for (unsigned int row = 0; row < h->n_rows; row++) {
			json_element(out);
			buf_i64(out, h->sums[row]);
		}
		buf_puts(out, "]");
	}
	json_key_u64(out, "count", hist_count(h));
	json_key(out, "sum");
	buf_i64(out, hist_sum(h));
	if (!seek)
		json_key_u64(out, "bytes", h->bytes);
	buf_puts(out, "}");
}

void json_snapshot(const struct snapshot *snap, struct buf *out)
{
	buf_puts(out, "{");
	json_key_string(out, "schema", "blkhist/1");
	json_time(out, "time", snap->time_ns);
	json_time(out, "since", snap->since_ns);
	json_key_string(out, "source", snap->source);
	json_losses(out, snap);
	notes(out, snap);
	json_key(out, "histograms");
	buf_puts(out, "[");
	for (unsigned int i = 0; i < snap->n_hists; i++)
		histogram(out, &snap->hists[i]);
	buf_puts(out, "]}\n");
}
