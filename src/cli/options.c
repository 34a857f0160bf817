// SPDX-License-Identifier: GPL-2.0-only
#include "cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"

#define OPTIONS_MAX 24
#define HELP 'h'
/* Long options without a letter are numbered from here. */
#define NO_LETTER 256

static unsigned int count(const struct option_spec *specs)
{
	unsigned int n = 0;

	while (specs[n].name)
		n++;
	return n < OPTIONS_MAX ? n : OPTIONS_MAX;
}

static const struct option_spec *find(const struct option_spec *specs, int c)
{
	if (c >= NO_LETTER)
		return &specs[c - NO_LETTER];
	for (unsigned int i = 0; i < count(specs); i++)
		if (specs[i].letter == c)
			return &specs[i];
	return NULL;
}

static struct error *store(const struct option_spec *spec, void *settings, const char *value)
{
	void *at = (char *)settings + spec->offset;
	struct option_list *list = at;

	switch (spec->type) {
	case OPTION_FLAG:
		*(bool *)at = true;
		break;
	case OPTION_STRING:
		memcpy(at, &value, sizeof(value));
		break;
	case OPTION_LIST:
		if (list->n == OPTION_LIST_MAX)
			return error_usage("option --%s is given more than %u times", spec->name,
					   OPTION_LIST_MAX);
		list->value[list->n++] = value;
		break;
	}
	return NULL;
}

static struct error *wrong(const char *command, const char *arg, bool missing)
{
	return error_usage("%s: option '%s' %s; see: blkhist %s --help", command, arg,
			   missing ? "needs a value" : "is unknown, or takes no value", command);
}

struct error *options_parse(const struct command_syntax *syntax, int argc, char **argv,
			    void *settings, struct operands *operands, bool *help)
{
	struct option longs[OPTIONS_MAX + 2] = { { "help", no_argument, NULL, HELP } };
	unsigned int n = count(syntax->options);
	cleanup(buf_deinit) struct buf letters = {};
	const struct option_spec *spec;
	bool arg;
	int c;

	buf_puts(&letters, ":h");
	for (unsigned int i = 0; i < n; i++) {
		spec = &syntax->options[i];
		arg = spec->type != OPTION_FLAG;
		longs[i + 1] = (struct option){ spec->name, arg ? required_argument : no_argument,
						NULL,
						spec->letter ? spec->letter : NO_LETTER + (int)i };
		if (spec->letter)
			buf_printf(&letters, "%c%s", spec->letter, arg ? ":" : "");
	}
	*help = false;
	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, letters.str, longs, NULL)) != -1) {
		if (c == HELP) {
			*help = true;
			return NULL;
		}
		spec = find(syntax->options, c);
		if (!spec)
			return wrong(argv[0], argv[optind - 1], c == ':');
		try(store(spec, settings, optarg));
	}
	operands->names = argv + optind;
	operands->n = argc - optind;
	if (syntax->max_operands >= 0 && operands->n > syntax->max_operands)
		return error_usage("%s: '%s' is one argument too many; see: blkhist %s --help",
				   argv[0], operands->names[syntax->max_operands], argv[0]);
	return NULL;
}

void options_help(const char *command, const struct command_syntax *syntax)
{
	cleanup(buf_deinit) struct buf tables = {};

	printf("Usage: blkhist %s%s%s\n\n%s\n", command, *syntax->usage ? " " : "", syntax->usage,
	       syntax->summary);
	if (syntax->details)
		printf("\n%s\n", syntax->details);
	if (syntax->tables) {
		syntax->tables(&tables);
		printf("\n%s", tables.str);
	}
	printf("\nOptions:\n");
	for (const struct option_spec *spec = syntax->options; spec->name; spec++) {
		cleanup_free char *left =
			spec->letter ? xasprintf("-%c, --%s%s%s", spec->letter, spec->name,
						 spec->arg ? " " : "", spec->arg ? spec->arg : "") :
				       xasprintf("    --%s%s%s", spec->name, spec->arg ? " " : "",
						 spec->arg ? spec->arg : "");

		printf("  %-24s %s\n", left, spec->help);
	}
	printf("  %-24s %s\n", "-h, --help", "this text");
}
