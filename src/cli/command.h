/* SPDX-License-Identifier: GPL-2.0-only */
/* Commands: one file each, cmd_NAME.c; the table of them is in main.c. */
#ifndef BLKHIST_CLI_COMMAND_H
#define BLKHIST_CLI_COMMAND_H

#include "cli/options.h"
#include "core/buf.h"
#include "core/error.h"
#include "sources/live.h"

/* Exit status */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
	const char *name;
	const struct command_syntax *syntax;
	/*
	 * @settings is a copy of defaults, filled in by the options. *@status is EXIT_DONE at the
	 * call; it may become EXIT_FAILED without an error where the output itself says why.
	 */
	struct error *(*run)(void *settings, const struct operands *operands,
			     int *status)must_check;
	const void *defaults;
	size_t settings_size;
};

extern const struct command cmd_start, cmd_stop, cmd_status, cmd_show, cmd_reset, cmd_buckets,
	cmd_watch, cmd_mount, cmd_unmount, cmd_record, cmd_slow, cmd_bench;

/* The running system. */
extern const struct live_paths system_paths;

/* Options that several commands have. */
struct selection_settings {
	const char *kinds, *ops;
};
/* clang-format off */
#define SELECTION_OPTIONS(type, member)                                                        \
	{ "kind", 'k', OPTION_STRING, offsetof(type, member.kinds), "KIND,...",                \
	  "only these: request, service, queue, seek" },                                       \
	{ "op", 'o', OPTION_STRING, offsetof(type, member.ops), "OP,...",                      \
	  "only these: read, write, discard, flush (without -k, this leaves seek out)" }
/* clang-format on */

/* Masks of enum hist_kind and enum blk_op. */
struct error *selection_masks(const struct selection_settings *settings, unsigned int *kinds,
			      unsigned int *ops) must_check;

enum output_format { FORMAT_TEXT, FORMAT_JSON };
struct error *format_parse(const char *name, enum output_format *ret) must_check;

/*
 * What a command works on: the devices of the machine, those of them that were named, and the open
 * collector. Names and options are checked before the collector is opened. Close it in any case.
 */
struct session {
	struct device_list devices;
	struct live_selection selection;
	struct live *live;
};
struct error *session_open(const struct operands *names, const struct selection_settings *settings,
			   struct session *ret) must_check;
/* The same, with the devices that are gone; a name means all that had it. */
struct error *session_open_all(const struct operands *names,
			       const struct selection_settings *settings,
			       struct session *ret) must_check;
void session_close(struct session *s);

/* A descriptor that tells of SIGINT and SIGTERM, which stay blocked until the process ends. */
struct error *signals_open(int *ret) must_check;

/* What `status` prints; the collector is open. */
struct error *status_print(struct live *live, const struct device_list *devices,
			   struct buf *out) must_check;

/* Writes all of @out to standard output; a closed pipe is an error too. */
struct error *output_write(const struct buf *out) must_check;
/* Prints a snapshot. */
struct error *output_snapshot(const struct snapshot *snap, enum output_format format) must_check;

#endif
