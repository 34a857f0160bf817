/* SPDX-License-Identifier: GPL-2.0-only */
/* From the recorder to lines: what `slow` shows. */
#ifndef BLKHIST_RECORD_SLOW_H
#define BLKHIST_RECORD_SLOW_H

#include "core/buf.h"
#include "core/device.h"
#include "core/error.h"
#include "sources/recorder.h"

struct slow_options {
	const struct device *const *devices; /* as in struct recorder_options */
	unsigned int n_devices, ops;
	int64_t min_ns;
	uint64_t count; /* ends after so many lines; 0: never */
	uint64_t rate;  /* lines a second, at most */
	bool json;
};

struct slow;
struct error *slow_open(const struct live_paths *paths, const struct slow_options *options,
			struct slow **ret) must_check;
void slow_closep(struct slow **s);

/* To be polled for input. */
int slow_fd(const struct slow *s);
/* How long to wait at most; -1: for ever. */
int slow_timeout_ms(const struct slow *s);
/* Appends what has come, in order of completion; *@done: that was the last line. */
struct error *slow_read(struct slow *s, struct buf *out, bool *done) must_check;
/* Detaches, and appends what has come until then, and what was not shown or lost. */
struct error *slow_end(struct slow *s, struct buf *out) must_check;

#endif
