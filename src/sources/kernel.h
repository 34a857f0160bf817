/* SPDX-License-Identifier: GPL-2.0-only */
/* What the running kernel offers, found in its BTF by name, never by version. */
#ifndef BLKHIST_SOURCES_KERNEL_H
#define BLKHIST_SOURCES_KERNEL_H

#include <stdbool.h>

#include "core/error.h"
#include "sources/pins.h"

struct kernel_facts {
	unsigned int queue_flag_stats_bit, rqf_flush_seq_bit, req_preflush_bit, req_drv_bit;
	bool bios_in_place; /* md may send on bios as they are, and their completion is not traced
			     */
	bool queue_first;  /* block_bio_queue and block_split have the queue as their first argument
			    */
	bool exchange;     /* BPF can exchange a word in one step */
	bool skips_nested; /* a program does not interrupt itself: the skipped run must be made good
			    */
	bool preemptible;  /* a task may preempt another in a program at a tracepoint */
	bool cached_clock; /* issue stamps of the kernel may be as old as the submitter's plug */
};

/* What of it the kernel side is told; the rest is zero. */
struct collector_settings kernel_settings(const struct kernel_facts *facts);

/* The file with the types of the kernel proper; the caller frees it. */
char *kernel_btf_path(const struct live_paths *paths);

/*
 * Fails, in one sentence, where the collector cannot run: no BTF, a tracepoint or field missing.
 */
struct error *kernel_facts_read(const struct live_paths *paths,
				struct kernel_facts *ret) must_check;

/* Bits of request flags that only the recorder shows. */
struct kernel_recorder {
	unsigned int sync, ahead, meta, fua;
};

/* @args: the numbers of arguments of @n tracepoints, -1 for one that this kernel does not have. */
struct error *kernel_recorder_read(const struct live_paths *paths, const char *const *tracepoints,
				   unsigned int n, struct kernel_recorder *bits,
				   int *args) must_check;

/* libbpf prints what it finds wrong, unless it is told not to; errors say it. */
void kernel_quiet(void);

/*
 * Fails where BPF will refuse to work for us: lockdown, or the capabilities that are missing.
 * @doing: "start the collector". @load: to load programs, for which CAP_PERFMON is needed besides
 * CAP_BPF. What else may be refused is known only when it is.
 */
struct error *kernel_check_rights(const struct live_paths *paths, const char *doing,
				  bool load) must_check;

/* Adds to @err, which may be NULL, what the kernel does not say: a limit that is too low. */
struct error *kernel_explain_refusal(const struct live_paths *paths, struct error *err) must_check;

#endif
