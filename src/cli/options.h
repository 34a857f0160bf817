/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Options of a command: a table, from which both the parser and --help are made. Values are stored
 * by offset into a plain struct that starts out as the defaults.
 */
#ifndef BLKHIST_CLI_OPTIONS_H
#define BLKHIST_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "core/error.h"

enum option_type {
	OPTION_FLAG,   /* bool */
	OPTION_STRING, /* const char *, of argv */
	OPTION_LIST,   /* struct option_list: may be given several times */
};

#define OPTION_LIST_MAX 16
struct option_list {
	const char *value[OPTION_LIST_MAX]; /* of argv */
	unsigned int n;
};

struct option_spec {
	const char *name; /* long name */
	char letter;      /* or 0 */
	enum option_type type;
	size_t offset;
	const char *arg; /* how the argument is called */
	const char *help;
};

struct operands {
	char **names; /* in argv */
	int n;
};

/* What the command line of a command looks like. The table ends with a NULL name. */
struct command_syntax {
	const char *usage;               /* behind the command's name: "[NAME...]" */
	const char *summary;             /* one sentence */
	const char *details;             /* more of them, or NULL */
	void (*tables)(struct buf *out); /* appends what --help prints of tables, or NULL */
	const struct option_spec *options;
	int max_operands; /* -1: any number */
};

/*
 * Parses @argv (argv[0] is the command's name) into @settings; operands are moved to the end of
 * argv. *@help is set, and nothing else is sure, when --help was asked for.
 */
struct error *options_parse(const struct command_syntax *syntax, int argc, char **argv,
			    void *settings, struct operands *operands, bool *help) must_check;

void options_help(const char *command, const struct command_syntax *syntax);

#endif
