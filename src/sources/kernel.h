/* SPDX-License-Identifier: GPL-2.0-only */
/* What the running kernel offers, found in its BTF by name, never by version. */
#ifndef BLKHIST_SOURCES_KERNEL_H
#define BLKHIST_SOURCES_KERNEL_H

#include <stdbool.h>

#include "core/error.h"
#include "sources/pins.h"

struct kernel_facts {
	unsigned int queue_flag_stats_bit, rqf_flush_seq_bit, req_preflush_bit;
	bool queue_first;  /* block_bio_queue and block_split have the queue as their first argument
			    */
	bool exchange;     /* BPF can exchange a word in one step */
	bool skips_nested; /* a program does not interrupt itself: the skipped run must be made good
			    */
	bool cached_clock; /* issue stamps of the kernel may be as old as the submitter's plug */
};

/*
 * Fails, in one sentence, where the collector cannot run: no BTF, a tracepoint or field missing,
 * lockdown, missing capabilities.
 */
struct error *kernel_facts_read(const struct live_paths *paths,
				struct kernel_facts *ret) must_check;

/* Says why BPF refused something with @errnum: capabilities, lockdown, or neither (NULL). */
struct error *kernel_explain_refusal(const struct live_paths *paths, int errnum) must_check;

#endif
