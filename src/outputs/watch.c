// SPDX-License-Identifier: GPL-2.0-only
#include "outputs/watch.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/timefmt.h"
#include "core/util.h"
#include "outputs/json.h"

/* --- rows --- */

/* One device and operation. What is not known of it is NULL, or not a number. */
struct row {
	const struct device_name *name;
	enum blk_op op;
	bool first; /* of its device */
	const struct hist *timed[KIND_TIMED];
	struct hist_stats stats[KIND_TIMED];
	uint64_t requests, bytes;
	double iops, bytes_per_second;
	double queue_share, sequential_share;
};

struct rows {
	struct row *row;
	unsigned int n;
};

static void rows_deinit(struct rows *rows)
{
	free(rows->row);
}

static bool same_device(const struct hist *a, const struct hist *b)
{
	return !strcmp(a->name.disk, b->name.disk) && !strcmp(a->name.partition, b->name.partition);
}

static double sequential_share(const struct hist *seek)
{
	uint64_t total = seek ? hist_count(seek) : 0;

	if (!total || !ladder_zero_alone(seek->ladder))
		return NAN;
	return (double)hist_row(seek, 0)[ladder_bucket(seek->ladder, 0)] / (double)total;
}

static double queue_share(const struct row *row)
{
	double request = (double)(uint64_t)row->stats[KIND_REQUEST].sum;
	double queue = (double)(uint64_t)row->stats[KIND_QUEUE].sum;

	if (!row->stats[KIND_REQUEST].count || !row->stats[KIND_QUEUE].count || request <= 0)
		return NAN;
	/* The queue time of a forced write is counted before the request ends. */
	return queue < request ? queue / request : 1;
}

/*
 * Requests are what ended: what has a request time. Where that is not collected, or the kernel set
 * no start stamps, so that there are bytes but no request times, it is what has another time.
 */
static uint64_t requests(const struct row *row)
{
	const struct hist *h = row->timed[KIND_REQUEST];

	if (row->stats[KIND_REQUEST].count || (h && !h->bytes && row->op != OP_FLUSH))
		return row->stats[KIND_REQUEST].count;
	return row->timed[KIND_SERVICE] ? row->stats[KIND_SERVICE].count :
					  row->stats[KIND_QUEUE].count;
}

/* Whether anything happened. */
static bool row_complete(struct row *row, const struct hist *seek, double seconds)
{
	bool any = false;

	for (int kind = 0; kind < KIND_TIMED; kind++) {
		const struct hist *h = row->timed[kind];

		if (!h)
			continue;
		hist_stats(h, 0, h->n_rows, &row->stats[kind]);
		row->bytes = h->bytes;
		any = any || h->bytes || row->stats[kind].count;
	}
	row->requests = requests(row);
	row->iops = seconds > 0 ? (double)row->requests / seconds : NAN;
	row->bytes_per_second = seconds > 0 ? (double)row->bytes / seconds : NAN;
	row->queue_share = queue_share(row);
	row->sequential_share = sequential_share(seek);
	return any;
}

/* The delta is sorted: the histograms of a device follow each other. */
static struct rows rows_make(const struct snapshot *delta)
{
	struct rows rows = { .row = xcalloc(delta->n_hists, sizeof(*rows.row)) };
	double seconds = (double)delta->clock_ns / 1e9;

	for (unsigned int i = 0, end; i < delta->n_hists; i = end) {
		const struct hist *first = &delta->hists[i], *seek = NULL;
		struct row by_op[OP_NR] = {};
		unsigned int before = rows.n;

		for (end = i; end < delta->n_hists && same_device(first, &delta->hists[end]);
		     end++) {
			const struct hist *h = &delta->hists[end];

			if (h->kind == KIND_SEEK)
				seek = h;
			else
				by_op[h->op].timed[h->kind] = h;
		}
		for (enum blk_op op = 0; op < OP_NR; op++) {
			by_op[op].name = &first->name;
			by_op[op].op = op;
			by_op[op].first = rows.n == before;
			if (row_complete(&by_op[op], seek, seconds))
				rows.row[rows.n++] = by_op[op];
		}
	}
	return rows;
}

/* --- columns --- */

enum column_type {
	COLUMN_TIME,
	COLUMN_DEVICE,
	COLUMN_OP,
	COLUMN_IOPS,
	COLUMN_RATE,
	COLUMN_QUANTILE,
	COLUMN_QUEUE,
	COLUMN_SEQUENTIAL
};

static const struct column {
	const char *title, *json, *help;
	enum column_type type;
	int width;         /* negative: to the left */
	const char *group; /* in the line above the titles */
	/* COLUMN_QUANTILE: of what, and the int in struct hist_stats. */
	enum hist_kind kind;
	size_t bucket;
} columns[] = {
	{ "UTC", "time", "end of the interval", COLUMN_TIME, -8, NULL, 0, 0 },
	{ "device", "device", "disk, the sum of its partitions; or partition", COLUMN_DEVICE, -12,
	  NULL, 0, 0 },
	{ "op", "op", "operation; only those that had I/O are shown", COLUMN_OP, -7, NULL, 0, 0 },
	{ "IOPS", "iops", "requests that ended, per second", COLUMN_IOPS, 6, NULL, 0, 0 },
	{ "MB/s", "bytes_per_second", "their bytes per second, in 10^6 (in JSON: in bytes)",
	  COLUMN_RATE, 6, NULL, 0, 0 },
	{ "p50", "p50_ns", "half of the requests took at most this, start to completion",
	  COLUMN_QUANTILE, 6, "request time", KIND_REQUEST, offsetof(struct hist_stats, p50) },
	{ "p99", "p99_ns", "likewise 99 %", COLUMN_QUANTILE, 6, "request time", KIND_REQUEST,
	  offsetof(struct hist_stats, p99) },
	{ "p99.9", "p999_ns", "likewise 99.9 %", COLUMN_QUANTILE, 6, "request time", KIND_REQUEST,
	  offsetof(struct hist_stats, p999) },
	{ "p50", "p50_ns", "half of them took at most this, last issue to completion",
	  COLUMN_QUANTILE, 6, "service time", KIND_SERVICE, offsetof(struct hist_stats, p50) },
	{ "p99", "p99_ns", "likewise 99 %", COLUMN_QUANTILE, 6, "service time", KIND_SERVICE,
	  offsetof(struct hist_stats, p99) },
	{ "p99.9", "p999_ns", "likewise 99.9 %", COLUMN_QUANTILE, 6, "service time", KIND_SERVICE,
	  offsetof(struct hist_stats, p999) },
	{ "queue", "queue_share",
	  "all queue time (start to last issue) as a share of all request time", COLUMN_QUEUE, 5,
	  "share", 0, 0 },
	{ "seq", "sequential_share",
	  "requests that began where the one before ended; of all the device's\n"
	  "                        operations, so on its first line only (in JSON: on each)",
	  COLUMN_SEQUENTIAL, 5, "share", 0, 0 },
};

/* Between columns one space, and one more where a group begins. */
static bool group_begins(size_t i)
{
	const char *before = i && columns[i - 1].group ? columns[i - 1].group : "";

	return columns[i].group && strcmp(columns[i].group, before);
}

void watch_help(struct buf *out)
{
	buf_puts(out, "Columns:\n");
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		buf_printf(out, "  %-8s%-14s%s\n", columns[i].title,
			   columns[i].group ? columns[i].group : "", columns[i].help);
	buf_puts(
		out,
		"Quantiles are upper bounds of buckets: >16s is beyond a last bound of 16 s (+inf if\n"
		"that does not fit). A dash is what is not known.\n");
}

/* --- text --- */

#define CELL_MAX 80

#define COLOUR_NONE "\033[0m"
#define COLOUR_DIM "\033[2m"
#define COLOUR_DEVICE "\033[1m"
#define COLOUR_LOSS "\033[31m"

/* At most six characters. */
static void number_text(double v, char ret[CELL_MAX])
{
	static const char prefixes[] = "MGTPEZYRQ";
	const char *prefix = prefixes;

	if (isnan(v)) {
		snprintf(ret, CELL_MAX, "-");
	} else if (v < 999999.5) {
		int decimals = v == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : v >= 0.0995 ? 2 : 3;

		if (v > 0 && v < 0.0005)
			snprintf(ret, CELL_MAX, "<0.001");
		else
			snprintf(ret, CELL_MAX, "%.*f", decimals, v);
	} else {
		for (v /= 1e6; v >= 999.5 && prefix[1]; v /= 1000)
			prefix++;
		snprintf(ret, CELL_MAX, "%.*f%c", v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, v, *prefix);
	}
}

/* At most six characters. */
static void time_text(int64_t ns, char ret[CELL_MAX])
{
	double seconds = (double)ns / 1e9;

	if (seconds < 99999.5) {
		unit_format_short(DIM_TIME, ns, ret);
	} else if (seconds < 999999.5) {
		snprintf(ret, CELL_MAX, "%.0fks", seconds / 1000);
	} else {
		char number[CELL_MAX];

		number_text(seconds, number);
		snprintf(ret, CELL_MAX, "%.6ss", number);
	}
}

static void quantile_text(const struct row *row, const struct column *c, char ret[CELL_MAX])
{
	const struct hist *h = row->timed[c->kind];
	int bucket;

	memcpy(&bucket, (const char *)&row->stats[c->kind] + c->bucket, sizeof(bucket));
	if (!row->stats[c->kind].count) {
		snprintf(ret, CELL_MAX, "-");
	} else if ((unsigned int)bucket < h->ladder->n) {
		time_text(h->ladder->bound[bucket], ret);
	} else {
		char bound[CELL_MAX] = "";

		if (h->ladder->n)
			time_text(h->ladder->bound[h->ladder->n - 1], bound);
		if (!*bound || strlen(bound) >= (size_t)c->width)
			snprintf(ret, CELL_MAX, "+inf");
		else
			snprintf(ret, CELL_MAX, ">%.6s", bound);
	}
}

static void share_text(double share, char ret[CELL_MAX])
{
	if (isnan(share))
		snprintf(ret, CELL_MAX, "-");
	else
		snprintf(ret, CELL_MAX, "%.*f%%", share >= 0.9995 ? 0 : 1, share * 100);
}

static void cell_text(const struct row *row, const struct column *c, const char *time,
		      char ret[CELL_MAX])
{
	ret[0] = '\0';
	switch (c->type) {
	case COLUMN_TIME:
		snprintf(ret, CELL_MAX, "%s", time);
		return;
	case COLUMN_DEVICE:
		snprintf(ret, CELL_MAX, "%s", device_name_own(row->name));
		return;
	case COLUMN_OP:
		snprintf(ret, CELL_MAX, "%s", blk_op_names[row->op]);
		return;
	case COLUMN_IOPS:
		number_text(row->iops, ret);
		return;
	case COLUMN_RATE:
		number_text(row->bytes_per_second / 1e6, ret);
		return;
	case COLUMN_QUANTILE:
		quantile_text(row, c, ret);
		return;
	case COLUMN_QUEUE:
		share_text(row->queue_share, ret);
		return;
	case COLUMN_SEQUENTIAL:
		if (row->first)
			share_text(row->sequential_share, ret);
		return;
	}
}

static void line_end(struct watch_text *state, struct buf *out)
{
	while (out->len && out->str[out->len - 1] == ' ')
		out->str[--out->len] = '\0';
	buf_puts(out, "\n");
	state->lines++;
}

static void header(struct watch_text *state, struct buf *out)
{
	for (size_t i = 0, end; i < ARRAY_SIZE(columns); i = end) {
		int width = 0;

		for (end = i; end < ARRAY_SIZE(columns) && (end == i || !group_begins(end)); end++)
			width += abs(columns[end].width) + (end > i);
		if (columns[i].group) {
			int text = (int)strlen(columns[i].group) + 2, left = (width - text) / 2;

			buf_printf(out, "  %.*s %s %.*s", left, "----------", columns[i].group,
				   width - text - left, "----------");
		} else {
			buf_printf(out, "%*s", width, "");
		}
	}
	line_end(state, out);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		buf_printf(out, "%s%s%*s", i ? " " : "", group_begins(i) ? " " : "",
			   columns[i].width, columns[i].title);
	line_end(state, out);
	state->lines = 0;
	state->begun = true;
}

static void coloured(const struct watch_text *state, const char *colour, int width,
		     const char *text, struct buf *out)
{
	bool use = state->colour && colour && *text;

	buf_printf(out, "%s%*s%s", use ? colour : "", width, text, use ? COLOUR_NONE : "");
}

static const char *cell_colour(const struct row *row, const struct column *c, const char *text)
{
	if (c->type == COLUMN_DEVICE)
		return COLOUR_DEVICE;
	if (!strcmp(text, "-") || !strcmp(text, "0") || (c->type == COLUMN_TIME && !row->first))
		return COLOUR_DIM;
	return NULL;
}

static void row_text(struct watch_text *state, const struct row *row, const char *time,
		     struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		const struct column *c = &columns[i];
		char text[CELL_MAX];

		cell_text(row, c, time, text);
		buf_printf(out, "%s%s", i ? " " : "", group_begins(i) ? " " : "");
		coloured(state, cell_colour(row, c, text), c->width, text, out);
		/* A long name has a line of its own, rather than being cut. */
		if (c->type == COLUMN_DEVICE && strlen(text) > (size_t)-c->width) {
			line_end(state, out);
			buf_printf(out, "%*s", columns[0].width + c->width - 1, "");
		}
	}
	line_end(state, out);
}

static void losses_text(struct watch_text *state, const struct snapshot *delta, const char *time,
			struct buf *out)
{
	size_t used = 0;

	for (unsigned int i = 0; i < delta->n_losses; i++) {
		const struct loss *l = &delta->losses[i];
		cleanup_free char *text = xasprintf("%s %" PRIu64, l->name, l->count);

		if (!l->count || l->usual)
			continue;
		if (used && used + 2 + strlen(text) > WATCH_WIDTH) {
			line_end(state, out);
			used = 0;
		}
		buf_printf(out, "%s%s", used ? ", " : time, used ? "" : " losses: ");
		used += used ? 2 : strlen(time) + strlen(" losses: ");
		coloured(state, COLOUR_LOSS, 0, text, out);
		used += strlen(text);
	}
	if (used)
		line_end(state, out);
}

void watch_text(struct watch_text *state, const struct snapshot *delta, struct buf *out)
{
	cleanup(rows_deinit) struct rows rows = rows_make(delta);
	char rfc3339[RFC3339_MAX], time[sizeof("HH:MM:SS")];

	time_format_seconds(delta->time_ns, rfc3339);
	snprintf(time, sizeof(time), "%.8s", strchr(rfc3339, 'T') + 1);
	if (!state->begun || (state->page && state->lines >= state->page))
		header(state, out);
	for (unsigned int i = 0; i < rows.n; i++)
		row_text(state, &rows.row[i], time, out);
	if (!rows.n) {
		buf_printf(out, "%s ", time);
		coloured(state, COLOUR_DIM, 0, "no I/O", out);
		line_end(state, out);
	}
	losses_text(state, delta, time, out);
}

/* --- JSON --- */

static void json_key_number(struct buf *out, const char *name, double v, int decimals)
{
	json_key(out, name);
	if (isnan(v))
		buf_puts(out, "null");
	else
		buf_printf(out, "%.*f", decimals, v);
}

/* The quantile at columns[@i], in an object of its kind. Beyond the last bound it is not known. */
static void quantile_json(struct buf *out, const struct row *row, size_t i)
{
	const struct column *c = &columns[i];
	const struct hist_stats *stats = &row->stats[c->kind];
	const struct ladder *ladder = row->timed[c->kind] ? row->timed[c->kind]->ladder : NULL;
	bool last = i + 1 == ARRAY_SIZE(columns) || columns[i + 1].type != COLUMN_QUANTILE ||
		    columns[i + 1].kind != c->kind;
	int bucket;

	if (group_begins(i)) {
		json_key(out, hist_kind_names[c->kind]);
		buf_puts(out, stats->count ? "{" : "null");
		if (stats->count) {
			json_key_u64(out, "count", stats->count);
			json_key_u64(out, "sum_ns", (uint64_t)stats->sum);
		}
	}
	if (!stats->count || !ladder)
		return;
	memcpy(&bucket, (const char *)stats + c->bucket, sizeof(bucket));
	json_key(out, c->json);
	if ((unsigned int)bucket < ladder->n)
		buf_i64(out, ladder->bound[bucket]);
	else
		buf_puts(out, "null");
	if (!last)
		return;
	json_key_u64(out, "last_bound_ns", ladder->n ? (uint64_t)ladder->bound[ladder->n - 1] : 0);
	buf_puts(out, "}");
}

static void row_json(struct buf *out, const struct row *row)
{
	json_element(out);
	buf_puts(out, "{");
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		const struct column *c = &columns[i];

		switch (c->type) {
		case COLUMN_TIME:
			break; /* of the whole object */
		case COLUMN_DEVICE:
			json_device(out, row->name);
			break;
		case COLUMN_OP:
			json_key_string(out, c->json, blk_op_names[row->op]);
			json_key_u64(out, "requests", row->requests);
			json_key_u64(out, "bytes", row->bytes);
			break;
		case COLUMN_IOPS:
			json_key_number(out, c->json, row->iops, 3);
			break;
		case COLUMN_RATE:
			json_key_number(out, c->json, row->bytes_per_second, 0);
			break;
		case COLUMN_QUANTILE:
			quantile_json(out, row, i);
			break;
		case COLUMN_QUEUE:
			json_key_number(out, c->json, row->queue_share, 6);
			break;
		case COLUMN_SEQUENTIAL:
			json_key_number(out, c->json, row->sequential_share, 6);
			break;
		}
	}
	buf_puts(out, "}");
}

void watch_json(const struct snapshot *delta, struct buf *out)
{
	cleanup(rows_deinit) struct rows rows = rows_make(delta);

	buf_puts(out, "{");
	json_key_string(out, "schema", "blkhist-watch/1");
	json_time(out, columns[0].json, delta->time_ns);
	json_key(out, "interval_ns");
	buf_i64(out, delta->clock_ns);
	json_key_string(out, "source", delta->source);
	json_losses(out, delta);
	json_key(out, "devices");
	buf_puts(out, "[");
	for (unsigned int i = 0; i < rows.n; i++)
		row_json(out, &rows.row[i]);
	buf_puts(out, "]}\n");
}
