/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The configuration file: what is collected of which disks. An INI file (libinih) of a section
 * [default], and sections named by a pattern for names of disks (src/core/glob.h):
 *
 *	[nvme*]
 *	time = native:2,1us..16s	bounds, as in src/core/ladder.h; also size and seek
 *	kinds = request,seek
 *	ignore = yes			or no
 *
 * The first section whose pattern matches holds; what it leaves out is as in [default].
 */
#ifndef BLKHIST_CORE_CONFIG_H
#define BLKHIST_CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "abi/abi.h"
#include "core/error.h"
#include "core/ladder.h"

/* Larger files are refused. */
#define CONFIG_FILE_MAX (64 * 1024)

/* Those of ladders are numbered by dimension. */
enum config_item {
	CONFIG_TIME = DIM_TIME,
	CONFIG_SIZE = DIM_SIZE,
	CONFIG_SEEK = DIM_SECTORS,
	CONFIG_KINDS,
	CONFIG_IGNORE,
	CONFIG_NR
};
extern const char *const config_item_names[CONFIG_NR];

/* The settings of a section. */
struct config_rule {
	char pattern[RULE_GLOB_MAX]; /* "" for [default] */
	struct glob glob;
	struct ladder ladders[LADDER_KINDS];
	char *texts[LADDER_KINDS]; /* of the ladders, as given; owned */
	unsigned int kinds;
	bool ignore;
	unsigned int given; /* bit per enum config_item */
};

struct config {
	struct config_rule rules[RULES_MAX]; /* the first is [default] */
	unsigned int n;                      /* at least 1 */
};

/* Only [default], and nothing given. */
void config_init(struct config *config);
void config_deinit(struct config *config);

/*
 * Reads a file into a @config that nothing has been read into. The error names file, line and item.
 */
struct error *config_read(const char *path, struct config *config) must_check;
/* The same for a file's text; @name stands in errors. */
struct error *config_parse(const char *text, size_t len, const char *name,
			   struct config *config) must_check;

/* Sets one item of a section, in place of what it was. */
struct error *config_set(struct config_rule *rule, enum config_item item,
			 const char *value) must_check;

/* Gives what is left out: to sections what [default] has, to [default] what @built_in has. */
struct error *config_complete(struct config *config,
			      const char *const built_in[CONFIG_NR]) must_check;

#endif
