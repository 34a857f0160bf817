/* SPDX-License-Identifier: GPL-2.0-only */
/* What the running kernel offers, found in its BTF by name, never by version. */
#ifndef BLKHIST_SOURCES_KERNEL_H
#define BLKHIST_SOURCES_KERNEL_H

#include <stdbool.h>

#include "core/error.h"
#include "sources/pins.h"

struct kernel_facts {
	unsigned int queue_flag_stats_bit, rqf_flush_seq_bit, req_preflush_bit;
	unsigned int bio_queue_arg; /* which argument of block_bio_queue is the bio */
	bool exchange;              /* BPF can exchange a word in one step */
	bool skips_nested; /* a program does not interrupt itself: the skipped run must be made good
			    */
	bool cached_clock; /* issue stamps of the kernel may be as old as the submitter's plug */
};

/* The file with the types of the kernel proper; the caller frees it. */
char *kernel_btf_path(const struct live_paths *paths);

/*
 * Fails, in one sentence, where the collector cannot run: no BTF, a tracepoint or field missing,
 * lockdown, missing capabilities.
 */
struct error *kernel_facts_read(const struct live_paths *paths,
				struct kernel_facts *ret) must_check;

/* Says why BPF refused something with @errnum: capabilities, lockdown, or neither (NULL). */
struct error *kernel_explain_refusal(const struct live_paths *paths, int errnum) must_check;

#endif
