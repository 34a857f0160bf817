/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The histograms as a tree of files, served through FUSE: read one to see it, write anything into
 * it to reset it, write bounds into another. What is where, and its format, is in man/blkhist.8.
 *
 * The process that serves it keeps nothing that matters: all is in the kernel. It may be killed at
 * any time, and another one may serve the tree.
 */
#ifndef BLKHIST_FILES_FILES_H
#define BLKHIST_FILES_FILES_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/error.h"
#include "sources/live.h"

struct files_settings {
	const struct live_paths *paths;
	const char *dir;     /* absolute */
	const char *options; /* as mount has them: "allow_other,ro"; or NULL */
	bool foreground;
	/* Called when the tree is mounted, and before it is served. */
	struct error *(*start)(void *context);
	void *context;
	/* What the file `status` says of the collector, which is open. */
	struct error *(*status)(struct live *live, const struct device_list *devices,
				struct buf *out);
	/* A line for the log, without a newline. */
	void (*log)(const char *line);
};

/*
 * Mounts the tree and serves it until it is unmounted, or a signal ends the process. What a killed
 * process has left mounted there is taken away first.
 */
struct error *files_serve(const struct files_settings *settings) must_check;

/* Whether a tree is mounted at @dir; *@dead: by a process that is no more. */
bool files_mounted(const char *dir, bool *dead);
/* Unmounts it; a dead one in any case, another one only if it is not in use. */
struct error *files_unmount(const char *dir) must_check;

#endif
