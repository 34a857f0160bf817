// SPDX-License-Identifier: GPL-2.0-only
#include "sources/blktrace/partitions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/units.h"
#include "core/util.h"

/* No disk has more sectors of 512 bytes (2^63 bytes). */
#define SECTORS_MAX (1ull << 54)

void partition_tables_deinit(struct partition_tables *t)
{
	for (unsigned int i = 0; i < t->n; i++)
		free(t->tables[i].entries);
	free(t->tables);
	*t = (struct partition_tables){};
}

static struct partition_table *table_add(struct partition_tables *t)
{
	t->tables = xreallocarray(t->tables, t->n + 1, sizeof(*t->tables));
	t->tables[t->n] = (struct partition_table){};
	return &t->tables[t->n++];
}

static struct error *node_name(const char *node, char ret[DEVICE_NAME_MAX])
{
	const char *slash = strrchr(node, '/'), *name = slash ? slash + 1 : node;

	if (!*name || strlen(name) >= DEVICE_NAME_MAX)
		return error_new("'%s' is no device", node);
	memcpy(ret, name, strlen(name) + 1);
	return NULL;
}

static char *trim(char *s)
{
	char *end;

	s += strspn(s, " \t");
	end = s + strlen(s);
	while (end > s && strchr(" \t\r", end[-1]))
		end--;
	*end = '\0';
	return s;
}

/* An extended partition, which only holds others. */
static bool is_extended(const char *type)
{
	return !strcmp(type, "5") || !strcmp(type, "f") || !strcmp(type, "85");
}

/* NODE : start= 2048, size= 4096, type=83, ...; @unit is how many sectors of 512 bytes one is. */
static struct error *entry_parse(char *node, char *values, uint64_t unit, struct partition_table *t)
{
	struct partition_entry e = {};
	uint64_t start = 0, size = 0;
	bool has_start = false, has_size = false, has_type = false, extended = false;
	char *item;

	try(node_name(node, e.name));
	/* The first of each counts: a name comes last, and may have anything in it. */
	while ((item = strsep(&values, ","))) {
		char *value = strchr(item, '='), *key;

		if (!value)
			continue;
		*value++ = '\0';
		key = trim(item);
		value = trim(value);
		if (!strcmp(key, "start") && !has_start) {
			try(parse_u64(value, 0, SECTORS_MAX, &start));
			has_start = true;
		} else if (!strcmp(key, "size") && !has_size) {
			try(parse_u64(value, 0, SECTORS_MAX, &size));
			has_size = true;
		} else if (!strcmp(key, "type") && !has_type) {
			extended = is_extended(value);
			has_type = true;
		}
	}
	if (!has_start || !has_size)
		return error_new("the partition %s has no start or no size", e.name);
	if (!size || extended)
		return NULL;
	e.first = start * unit;
	e.last = (start + size) * unit - 1;
	if (start + size > SECTORS_MAX / unit)
		return error_new("the partition %s ends beyond any disk", e.name);
	t->entries = xreallocarray(t->entries, t->n + 1, sizeof(e));
	t->entries[t->n++] = e;
	return NULL;
}

/* A line of the header, or of a partition: these have a node before the colon. */
static struct error *line_parse(char *line, uint64_t *unit, struct partition_tables *t)
{
	char *colon = strchr(line, ':'), *key, *value;
	uint64_t bytes;

	line = trim(line);
	if (!*line || *line == '#')
		return NULL;
	/* Names of nodes may have colons (/dev/disk/by-path/...): of partitions it is the last. */
	if (*line == '/')
		colon = strstr(line, " :");
	if (!colon)
		return error_new("'%s' is no line of what sfdisk -d prints", line);
	value = colon + (*colon == ' ' ? 2 : 1);
	*colon = '\0';
	key = trim(line);
	value = trim(value);
	if (!strcmp(key, "label")) {
		table_add(t);
		*unit = 1;
		return NULL;
	}
	if (!t->n)
		return error_new("what sfdisk -d prints begins with 'label:'");
	if (!strcmp(key, "device"))
		return node_name(value, t->tables[t->n - 1].disk);
	if (!strcmp(key, "sector-size")) {
		try(parse_u64(value, 512, 65536, &bytes));
		if (bytes % 512)
			return error_new("a sector of %s bytes is no multiple of 512", value);
		*unit = bytes / 512;
		return NULL;
	}
	if (*key == '/')
		return entry_parse(key, value, *unit, &t->tables[t->n - 1]);
	return NULL;
}

static int compare(const void *pa, const void *pb)
{
	const struct partition_entry *a = pa, *b = pb;

	return COMPARE(a->first, b->first);
}

static int compare_names(const void *pa, const void *pb)
{
	const struct partition_entry *const *a = pa, *const *b = pb;

	return strcmp((*a)->name, (*b)->name);
}

/* Their histograms could not be told apart. */
static struct error *names_check(const struct partition_table *t)
{
	cleanup_free const struct partition_entry **by_name = xcalloc(t->n, sizeof(*by_name));

	for (unsigned int i = 0; i < t->n; i++)
		by_name[i] = &t->entries[i];
	if (t->n)
		qsort(by_name, t->n, sizeof(*by_name), compare_names);
	for (unsigned int i = 1; i < t->n; i++)
		if (!strcmp(by_name[i]->name, by_name[i - 1]->name))
			return error_new("the partition %s is there twice", by_name[i]->name);
	return NULL;
}

static struct error *tables_check(struct partition_tables *t)
{
	for (unsigned int i = 0; i < t->n; i++) {
		struct partition_table *table = &t->tables[i];

		if (table->n)
			qsort(table->entries, table->n, sizeof(*table->entries), compare);
		for (unsigned int k = 1; k < table->n; k++)
			if (table->entries[k].first <= table->entries[k - 1].last)
				return error_new("the partitions %s and %s overlap",
						 table->entries[k - 1].name,
						 table->entries[k].name);
		try(names_check(table));
	}
	if (!t->n)
		return error_new("it has no partition table; sfdisk -d DEVICE prints one");
	return NULL;
}

struct error *partitions_parse(const char *text, size_t len, const char *name,
			       struct partition_tables *ret)
{
	cleanup(partition_tables_deinit) struct partition_tables t = {};
	cleanup(buf_deinit) struct buf copy = {};
	uint64_t unit = 1;
	unsigned int number = 0;
	char *next, *line;
	struct error *err;

	buf_add(&copy, text, len);
	if (strlen(copy.str) != len)
		return error_new("cannot use %s: it is not what sfdisk -d prints: it is not text",
				 name);
	next = copy.str;
	while ((line = strsep(&next, "\n"))) {
		number++;
		err = line_parse(line, &unit, &t);
		if (err)
			return error_in_file(error_prefix(err, "line %u", number), name);
	}
	err = tables_check(&t);
	if (err)
		return error_in_file(err, name);
	*ret = t;
	t = (struct partition_tables){};
	return NULL;
}

struct error *partitions_read(const char *path, struct partition_tables *ret)
{
	cleanup(buf_deinit) struct buf text = {};

	try(buf_read_file(&text, "the partition table", path, PARTITIONS_FILE_MAX));
	return partitions_parse(text.str, text.len, path, ret);
}

int partition_at(const struct partition_table *t, uint64_t sector)
{
	unsigned int lo = 0, hi = t->n;

	while (lo < hi) {
		unsigned int mid = (lo + hi) / 2;

		if (t->entries[mid].last < sector)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->n && t->entries[lo].first <= sector ? (int)lo : -1;
}
