// SPDX-License-Identifier: GPL-2.0-only
/* Tables and dispatch. A command is one file, cmd_NAME.c. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "config.h"
#include "core/util.h"

static const struct command *const commands[] = {
	&cmd_start,   &cmd_stop,  &cmd_status,  &cmd_show,   &cmd_watch, &cmd_reset,
	&cmd_buckets, &cmd_mount, &cmd_unmount, &cmd_record, &cmd_slow,  &cmd_bench,
};

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static void help(void)
{
	printf("blkhist keeps histograms of block I/O in the kernel, always on.\n\n"
	       "Usage: blkhist COMMAND [OPTIONS]\n\nCommands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->syntax->summary);
	printf("\nblkhist COMMAND --help says more; blkhist --version prints the version.\n"
	       "Exit status: 0 done, 1 failed, 2 wrong use.\n");
}

static int report(struct error *err)
{
	int status = err->class == ERROR_USAGE ? EXIT_USAGE : EXIT_FAILED;

	fprintf(stderr, "blkhist: %s\n", err->message);
	error_free(err);
	return status;
}

static int run(const struct command *command, int argc, char **argv)
{
	cleanup_free char *settings = xcalloc(1, command->settings_size);
	struct operands operands;
	struct error *err;
	int status = EXIT_DONE;
	bool wants_help;

	if (command->defaults)
		memcpy(settings, command->defaults, command->settings_size);
	err = options_parse(command->syntax, argc, argv, settings, &operands, &wants_help);
	if (!err && wants_help) {
		options_help(command->name, command->syntax);
		return EXIT_DONE;
	}
	if (!err)
		err = command->run(settings, &operands, &status);
	return err ? report(err) : status;
}

int main(int argc, char **argv)
{
	const struct command *command;

	/* A reader that leaves (head) is an error of the write, which is reported as such. */
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		help();
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
		printf("blkhist %s\n", BLKHIST_VERSION);
		return EXIT_DONE;
	}
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		command = argc > 2 ? find(argv[2]) : NULL;
		if (command)
			options_help(command->name, command->syntax);
		else if (argc > 2)
			return report(
				error_usage("unknown command '%s'; see: blkhist help", argv[2]));
		else
			help();
		return EXIT_DONE;
	}
	command = find(argv[1]);
	if (!command)
		return report(error_usage("unknown command '%s'; see: blkhist help", argv[1]));
	return run(command, argc - 1, argv + 1);
}
