// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls a fuzz target for files, and for those in directories, in order of their names: a corpus as
 * tests, and what libFuzzer has found as something to look at. Needs no libFuzzer.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/buf.h"
#include "core/util.h"
#include "fuzz.h"

static bool read_file(const char *path, struct buf *ret)
{
	cleanup_fclose FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return false;
	while ((n = fread(buf_reserve(ret, 65536), 1, 65536, f)))
		ret->len += n;
	return !ferror(f);
}

static bool run(const char *path, unsigned int *number)
{
	cleanup(buf_deinit) struct buf input = {};

	if (!read_file(path, &input)) {
		printf("not ok %u - %s: %s\n", ++*number, path, strerror(errno));
		return false;
	}
	/* What crashes has no other name on the output. */
	printf("# %s\n", path);
	fflush(stdout);
	LLVMFuzzerTestOneInput((const uint8_t *)input.str, input.len);
	printf("ok %u - %s\n", ++*number, path);
	return true;
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static bool run_all(const char *path, unsigned int *number)
{
	struct dirent **entries;
	int n = scandir(path, &entries, visible, alphasort);
	bool ok = true;

	if (n < 0)
		return run(path, number);
	for (int i = 0; i < n; i++) {
		cleanup_free struct dirent *entry = entries[i];
		cleanup_free char *file = xasprintf("%s/%s", path, entry->d_name);

		ok = run(file, number) && ok;
	}
	free(entries);
	return ok;
}

int main(int argc, char *argv[])
{
	unsigned int number = 0;
	bool ok = true;

	for (int i = 1; i < argc; i++)
		ok = run_all(argv[i], &number) && ok;
	printf("1..%u\n", number);
	return ok && number ? 0 : 1;
}
