/* SPDX-License-Identifier: GPL-2.0-only */
/* Which files are meant: blktrace writes one for each CPU, NAME.blktrace.CPU. */
#ifndef BLKHIST_SOURCES_BLKTRACE_FILES_H
#define BLKHIST_SOURCES_BLKTRACE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

#define TRACE_FILES_MAX 8192u

struct trace_files {
	char **paths; /* owned; "-" is standard input */
	unsigned int n;
};

/*
 * Adds what @path means: itself, or all files of its set. A file that is there already, under
 * whatever name, is not added again.
 */
struct error *trace_files_add(struct trace_files *files, const char *path) must_check;
/* The name of the set that a file belongs to: blktrace calls it like the device; "" if it has none.
 */
bool trace_set_name(const char *path, char *ret, size_t size);
void trace_files_deinit(struct trace_files *files);

#endif
