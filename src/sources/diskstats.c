// SPDX-License-Identifier: GPL-2.0-only
#include "sources/diskstats.h"

#include <errno.h>
#include <string.h>

#include "core/units.h"
#include "core/util.h"

/* Words of a line: 0 major, 1 minor, 2 name, then the fields of iostats.rst from 1 on. */
static const unsigned int words[OP_NR] = {
	[OP_READ] = 3,
	[OP_WRITE] = 7,
	[OP_DISCARD] = 14,
	[OP_FLUSH] = 18,
};
#define WORDS_MAX 32

static struct error *parse_line(char *line, struct diskstats *ret)
{
	char *word[WORDS_MAX], *save = NULL;
	unsigned int n = 0;

	for (char *w = strtok_r(line, " \n", &save); w && n < WORDS_MAX;
	     w = strtok_r(NULL, " \n", &save))
		word[n++] = w;
	if (n < 7 + 1)
		return error_new("a line has %u words", n);
	*ret = (struct diskstats){};
	if (strlen(word[2]) >= sizeof(ret->name))
		return error_new("the name '%s' is too long", word[2]);
	memcpy(ret->name, word[2], strlen(word[2]));
	/* Kernels before 4.18 have no discards, before 5.5 no flushes. */
	for (enum blk_op op = 0; op < OP_NR; op++)
		if (words[op] < n)
			try(parse_u64(word[words[op]], 0, UINT64_MAX, &ret->requests[op]));
	return NULL;
}

struct error *diskstats_read(const char *root, struct diskstats **ret, unsigned int *n)
{
	cleanup_free char *path = xasprintf("%s/proc/diskstats", root);
	cleanup_fclose FILE *f = fopen(path, "re");
	cleanup_free struct diskstats *stats = NULL;
	cleanup_free char *line = NULL;
	unsigned int count = 0;
	size_t size = 0;

	if (!f)
		return error_errno(errno, "cannot read %s", path);
	while (getline(&line, &size, f) > 0) {
		struct error *err;

		stats = xreallocarray(stats, count + 1, sizeof(*stats));
		err = parse_line(line, &stats[count]);
		if (err)
			return error_in_file(err, path);
		count++;
	}
	*ret = take(stats);
	*n = count;
	return NULL;
}

const struct diskstats *diskstats_find(const struct diskstats *stats, unsigned int n,
				       const struct device_name *name)
{
	for (unsigned int i = 0; i < n; i++)
		if (!strcmp(stats[i].name, device_name_own(name)))
			return &stats[i];
	return NULL;
}

bool diskstats_kept(const struct diskstats *stats)
{
	for (enum blk_op op = 0; op < OP_NR; op++)
		if (stats->requests[op])
			return true;
	return false;
}
