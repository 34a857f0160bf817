// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "cli/command.h"
#include "cli/settings.h"
#include "core/timefmt.h"
#include "core/units.h"
#include "core/util.h"

struct bench_command {
	const char *workload, *loops, *size, *fs, *depth, *seconds, *iops, *devices, *dir,
		*trace_dir;
	const char *rounds, *trim, *seed, *format, *plot, *from;
	struct option_list observers;
	bool overwrite;
};

static const struct bench_command defaults = {
	.loops = "0",
	.size = "256MiB",
	.fs = "ext4",
	.depth = "32",
	.seconds = "5",
	.iops = "10000",
	.dir = "/dev/shm",
	.trace_dir = "/dev/shm",
	.rounds = "10",
	.trim = "1",
	.format = "text",
};

#define AT(member) offsetof(struct bench_command, member)
static const struct option_spec options[] = {
	{ "workload", 'w', OPTION_STRING, AT(workload),
	  "randread|randrw|ratelimited|writers|fsmake", "see above; default randread" },
	{ "observer", 'O', OPTION_LIST, AT(observers), "OBSERVER",
	  "several with '+' between, or -O again; default: all" },
	{ "rounds", 'r', OPTION_STRING, AT(rounds), "N", "6 to 200, default 10" },
	{ "trim", 0, OPTION_STRING, AT(trim), "N",
	  "drop N highest and lowest in the tables, default 1" },
	{ "loops", 'n', OPTION_STRING, AT(loops), "N", "loop devices; default 1, fsmake 4" },
	{ "size", 0, OPTION_STRING, AT(size), "SIZE", "of each, default 256MiB" },
	{ "dir", 0, OPTION_STRING, AT(dir), "DIR", "of their files, default /dev/shm" },
	{ "device", 'd', OPTION_STRING, AT(devices), "NAME,...",
	  "use these instead of loop devices" },
	{ "overwrite", 0, OPTION_FLAG, AT(overwrite), NULL, "what is on them may be lost" },
	{ "trace-dir", 0, OPTION_STRING, AT(trace_dir), "DIR",
	  "of what observers write, default /dev/shm" },
	{ "seconds", 't', OPTION_STRING, AT(seconds), "N", "of a run of fio, default 5" },
	{ "depth", 0, OPTION_STRING, AT(depth), "N", "I/Os at once, default 32" },
	{ "iops", 0, OPTION_STRING, AT(iops), "N", "of ratelimited, default 10000" },
	{ "fs", 0, OPTION_STRING, AT(fs), "FS", "of fsmake, default ext4" },
	{ "seed", 0, OPTION_STRING, AT(seed), "N", "of the random order, default the time" },
	{ "format", 'f', OPTION_STRING, AT(format), "text|json", "default text" },
	{ "plot", 0, OPTION_STRING, AT(plot), "FILE", "write a figure, as SVG" },
	{ "from", 0, OPTION_STRING, AT(from), "FILE",
	  "measure nothing: show a result in JSON again" },
	{}
};

static const struct command_syntax syntax = {
	.usage = "[WORKLOAD] [OPTIONS] [-- COMMAND...]",
	.summary = "Measure what watching costs: a workload under several observers.",
	.details =
		"In every round the workload runs once under each observer, in random order. Each is\n"
		"compared with none within the round; the interval of 95 % is that of Wilcoxon's\n"
		"signed-rank test. All is left as it was found, also after an interrupt, which prints\n"
		"what was measured.",
	.tables = bench_help,
	.options = options,
	.max_operands = -1,
};

static struct error *number(const char *option, const char *text, unsigned int min,
			    unsigned int max, unsigned int *ret)
{
	uint64_t value;

	try(number_parse("bench", option, text, min, max, &value));
	*ret = (unsigned int)value;
	return NULL;
}

static struct error *numbers(const struct bench_command *b, struct bench_settings *s)
{
	int64_t size;
	struct error *err = unit_parse(DIM_SIZE, b->size, &size);

	if (err)
		return error_prefix(err, "bench: --size");
	if (size < 1 << 20 || size % 4096)
		return error_usage("bench: --size is to be 1MiB or more, and a multiple of 4KiB");
	s->size = (uint64_t)size;
	try(number("rounds", b->rounds, 0, UINT32_MAX, &s->rounds));
	try(number("trim", b->trim, 0, 1000, &s->trim));
	try(number("loops", b->loops, 0, UINT32_MAX, &s->n_loops));
	try(number("seconds", b->seconds, 1, 3600, &s->seconds));
	try(number("depth", b->depth, 1, 65536, &s->depth));
	try(number("iops", b->iops, 1, 1000000000, &s->iops));
	s->seed = (uint64_t)clock_ns(CLOCK_REALTIME) / 1000000000;
	if (b->seed)
		try(number_parse("bench", "seed", b->seed, 0, INT64_MAX, &s->seed));
	return NULL;
}

struct names {
	const char **name;
	unsigned int n, max;
};

/*
 * Splits the value of an option, which is in argv, in place and appends the names; behind
 * "command:" a separator is a part of the command.
 */
static struct error *split(const char *option, const char *value, const char *separator,
			   struct names *ret)
{
	unsigned int before = ret->n;
	char *text = (char *)value;

	while (text) {
		bool command = !strncmp(text, "command:", 8);
		char *item = command ? text : strsep(&text, separator);

		if (*item && ret->n == ret->max)
			return error_usage("bench: more than %u names are given with --%s",
					   ret->max, option);
		if (*item)
			ret->name[ret->n++] = item;
		if (command)
			break;
	}
	return ret->n > before ? NULL : error_usage("bench: --%s names nothing", option);
}

static bool collector_runs(void)
{
	return pins_exist(&system_paths);
}

/* One line that is written over by the next. */
static void progress(const char *line)
{
	fprintf(stderr, "\r\033[K%s", line);
}

static struct error *write_plot(const char *path, const struct result *r)
{
	cleanup(buf_deinit) struct buf svg = {};
	cleanup_fclose FILE *f = fopen(path, "we");

	result_plot(r, &svg);
	if (!f || fwrite(svg.str, 1, svg.len, f) != svg.len || fflush(f))
		return error_errno(errno, "cannot write the figure %s", path);
	return NULL;
}

static struct error *measure(const struct bench_command *b, const struct operands *command,
			     struct result *r)
{
	/* A word that is a workload's name is no command. */
	bool named_by_operand = command->n == 1 && !b->workload &&
				bench_is_workload(command->names[0]);
	const char *workload = named_by_operand ? command->names[0] : b->workload;
	unsigned int n_words = named_by_operand ? 0 : (unsigned int)command->n;
	const char *observers[2 * OBSERVERS_MAX], *devices[BENCH_DEVICES_MAX + 1] = {};
	struct names of_observers = { observers, 0, ARRAY_SIZE(observers) };
	struct names of_devices = { devices, 0, BENCH_DEVICES_MAX };
	struct bench_settings s = {
		.workload = n_words  ? "command" :
			    workload ? workload :
				       "randread",
		.observers = observers,
		.devices = devices,
		.overwrite = b->overwrite,
		.fs = b->fs,
		.command = command->names,
		.dir = b->dir,
		.trace_dir = b->trace_dir,
		.collector_runs = collector_runs,
		.progress = isatty(STDERR_FILENO) ? progress : NULL,
	};
	struct error *err;

	try(numbers(b, &s));
	if (n_words ? !!workload : !strcmp(s.workload, "command"))
		return error_usage("bench: give either a workload or, behind --, a command");
	if (n_words && s.n_loops)
		return error_usage("bench: a command has no use for --loops; see --device");
	if (b->devices)
		try(split("device", b->devices, ",", &of_devices));
	for (unsigned int i = 0; i < b->observers.n; i++)
		try(split("observer", b->observers.value[i], "+", &of_observers));
	for (unsigned int i = 0; !b->observers.n && bench_observers_usual[i]; i++)
		observers[of_observers.n++] = bench_observers_usual[i];
	s.n_observers = of_observers.n;
	if (geteuid())
		return error_new(
			"bench must run as root: it makes loop devices and starts tracers");
	try(signals_open(&s.signals));
	err = bench_run(&s, r);
	if (s.progress)
		progress("");
	return err;
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct bench_command *b = settings;
	cleanup(result_deinit) struct result r = {};
	cleanup(buf_deinit) struct buf out = {};
	enum output_format format;

	try(format_parse(b->format, &format));
	if (b->from)
		try(result_read(b->from, &r));
	else
		try(measure(b, operands, &r));
	(format == FORMAT_JSON ? result_json : result_text)(&r, &out);
	try(output_write(&out));
	if (b->plot)
		try(write_plot(b->plot, &r));
	if (!r.not_undone && (!r.failed || b->from))
		return NULL;
	*status = EXIT_FAILED;
	return r.not_undone ? error_new("not all is as it was: %s", r.not_undone) :
			      error_new("the workload failed in %s; shown is what there was before",
					r.failed);
}

const struct command cmd_bench = {
	.name = "bench",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct bench_command),
};
