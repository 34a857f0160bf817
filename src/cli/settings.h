/* SPDX-License-Identifier: GPL-2.0-only */
/* What is to be collected: built-in defaults, the configuration file, and options. */
#ifndef BLKHIST_CLI_SETTINGS_H
#define BLKHIST_CLI_SETTINGS_H

#include "cli/options.h"
#include "config.h"
#include "core/config.h"

#define CONFIG_PATH "/etc/blkhist.conf"

#define LADDER_DETAILS                                                                         \
	"Ladders (bounds are inclusive; behind the last one is +inf):\n"                       \
	"  10ms,20ms,50ms          a list\n"                                                   \
	"  native:N,LO..HI         2^N bounds per doubling of time, as Prometheus has them\n"  \
	"  log2,LO..HI             powers of two\n"                                            \
	"  125,LO..HI              1, 2, 5, 10, 20, ...\n"                                     \
	"  linear:STEP,LO..HI      LO, LO + STEP, ...\n"                                       \
	"Times need a unit (ns us ms s); sizes are bytes (B KiB MiB GiB TiB); distances are\n" \
	"sectors of 512 bytes, and generators of them go both ways with 0 in the middle."

#define DEFAULT_LADDERS                                                                            \
	"Default ladders: time " BLKHIST_DEFAULT_TIME_LADDER ", size " BLKHIST_DEFAULT_SIZE_LADDER \
	",\nseek " BLKHIST_DEFAULT_SEEK_LADDER "."

/* Ladders given as text, or NULL. */
struct ladder_settings {
	const char *spec[LADDER_KINDS];
};
/* clang-format off */
#define LADDER_OPTIONS(type, member)                                                           \
	{ "time", 0, OPTION_STRING, offsetof(type, member.spec[DIM_TIME]), "LADDER",           \
	  "bounds of time" },                                                                  \
	{ "size", 0, OPTION_STRING, offsetof(type, member.spec[DIM_SIZE]), "LADDER",           \
	  "bounds of I/O size" },                                                              \
	{ "seek", 0, OPTION_STRING, offsetof(type, member.spec[DIM_SECTORS]), "LADDER",        \
	  "bounds of seek distance" }

#define CONFIG_OPTION(type, member)                                                            \
	{ "config", 'c', OPTION_STRING, offsetof(type, member), "FILE",                        \
	  "settings by name of disk; else " CONFIG_PATH ", if it is there" }
/* clang-format on */

/*
 * Reads the file at @path (NULL: that of the system, if it is there) into an initialised @config,
 * and sets what is given besides: @ladders, and @kinds unless it is NULL. Complete afterwards.
 */
struct error *settings_read(const char *path, const struct ladder_settings *ladders,
			    const char *kinds, struct config *config) must_check;

/* The position of @name in @names; the error names the option of @command. */
struct error *choice_parse(const char *command, const char *option, const char *const *names, int n,
			   const char *name, int *ret) must_check;

/* A number that is given with an option. */
struct error *number_parse(const char *command, const char *option, const char *text, uint64_t min,
			   uint64_t max, uint64_t *ret) must_check;

/* From 10 ms to a day; without a unit it is seconds. @what is how errors call it. */
struct error *duration_parse(const char *command, const char *what, const char *s,
			     int64_t *ret) must_check;

#endif
