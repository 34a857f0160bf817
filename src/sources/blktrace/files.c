// SPDX-License-Identifier: GPL-2.0-only
#include "sources/blktrace/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "core/util.h"

#define INFIX ".blktrace."

void trace_files_deinit(struct trace_files *files)
{
	for (unsigned int i = 0; i < files->n; i++)
		free(files->paths[i]);
	free(files->paths);
	*files = (struct trace_files){};
}

static bool same_file(const char *a, const char *b)
{
	struct stat sa, sb;

	if (!strcmp(a, "-") || !strcmp(b, "-"))
		return !strcmp(a, b);
	return !stat(a, &sa) && !stat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static struct error *add(struct trace_files *files, const char *path)
{
	for (unsigned int i = 0; i < files->n; i++)
		if (same_file(files->paths[i], path))
			return NULL;
	if (files->n == TRACE_FILES_MAX)
		return error_new("cannot read more than %u trace files at once", TRACE_FILES_MAX);
	files->paths = xreallocarray(files->paths, files->n + 1, sizeof(char *));
	files->paths[files->n++] = xstrdup(path);
	return NULL;
}

/* Where ".blktrace.CPU" begins in the name of a CPU's file, or NULL. */
static char *infix(char *name)
{
	char *found = NULL, *next = name;

	while ((next = strstr(next, INFIX)))
		found = next++;
	if (!found || !found[strlen(INFIX)] ||
	    strspn(found + strlen(INFIX), "0123456789") != strlen(found + strlen(INFIX)))
		return NULL;
	return found;
}

static int compare(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static void entries_free(struct dirent ***entries)
{
	free(*entries);
}

/* All files DIRECTORY/NAME.blktrace.CPU, CPUs in order; *@found says whether there are any. */
static struct error *add_set(struct trace_files *files, const char *prefix, bool *found)
{
	const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
	cleanup_free char *dir =
		xasprintf("%.*s", slash ? (int)(slash - prefix) + 1 : 1, slash ? prefix : ".");
	cleanup(entries_free) struct dirent **entries = NULL;
	int n = scandir(dir, &entries, NULL, compare);
	struct error *err = NULL;

	for (int i = 0; i < n; i++) {
		char *at = infix(entries[i]->d_name);

		if (at && (size_t)(at - entries[i]->d_name) == strlen(name) &&
		    !strncmp(entries[i]->d_name, name, strlen(name)) && !err) {
			cleanup_free char *path =
				xasprintf("%s%s", slash ? dir : "", entries[i]->d_name);

			err = add(files, path);
			*found = true;
		}
		free(entries[i]);
	}
	return err;
}

bool trace_set_name(const char *path, char *ret, size_t size)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *name = xstrdup(slash ? slash + 1 : path);
	char *at = infix(name);

	*ret = '\0';
	if (at && (size_t)(at - name) < size) {
		*at = '\0';
		memcpy(ret, name, strlen(name) + 1);
	}
	return at;
}

struct error *trace_files_add(struct trace_files *files, const char *path)
{
	cleanup_free char *prefix = xstrdup(path);
	bool there = !strcmp(path, "-"), found = false;
	struct stat st;
	char *at;

	if (!there && stat(path, &st)) {
		if (errno != ENOENT)
			return error_errno(errno, "cannot open the trace %s", path);
		try(add_set(files, path, &found));
		if (!found)
			return error_errno(ENOENT, "cannot open the trace %s, nor %s" INFIX "0",
					   path, path);
		return NULL;
	}
	at = there ? NULL : infix(prefix);
	if (!at)
		return add(files, path);
	*at = '\0';
	return add_set(files, prefix, &found);
}
