/* SPDX-License-Identifier: GPL-2.0-only */
/* From the recorder to files: what `record` does until it is told to stop. */
#ifndef BLKHIST_RECORD_RECORDING_H
#define BLKHIST_RECORD_RECORDING_H

#include <stdint.h>

#include "core/device.h"
#include "core/error.h"
#include "sources/recorder.h"

struct recording_options {
	struct recorder_options recorder;
	const char *path;    /* as in struct writer_options */
	int64_t duration_ns; /* 0: until a signal */
};

struct recording_result {
	uint64_t events, bytes;
	uint64_t lost; /* events that found no room, in gaps of the sequence numbers or at the end */
	uint64_t at_end; /* of these, after the last event of their disk and CPU: there is no gap */
	uint64_t skipped; /* as in struct recorder_losses */
	unsigned int disks;
	int64_t duration_ns;
};

/* @signals: readable when it is to stop. */
struct error *recording_run(const struct live_paths *paths, const struct device_list *devices,
			    const struct recording_options *options, int signals,
			    struct recording_result *ret) must_check;

#endif
