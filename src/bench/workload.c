// SPDX-License-Identifier: GPL-2.0-only
#include "bench/workload.h"

#include <string.h>

#include "core/timefmt.h"
#include "core/units.h"
#include "core/util.h"

/* --- the making of file systems --- */

/* mkfs.NAME, and how it is told to be quiet and to ask nothing. */
static const struct {
	const char *name, *flags;
} file_systems[] = {
	{ "ext4", "-Fq" }, { "ext3", "-Fq" },  { "ext2", "-Fq" },
	{ "xfs", "-fq" },  { "btrfs", "-fq" },
};

static const char *mkfs_flags(const char *fs)
{
	for (size_t i = 0; i < ARRAY_SIZE(file_systems); i++)
		if (!strcmp(file_systems[i].name, fs))
			return file_systems[i].flags;
	return NULL;
}

static char *mkfs_find(const char *fs)
{
	cleanup_free char *name = xasprintf("mkfs.%s", fs);
	const char *const names[] = { name, NULL };

	return program_find(names);
}

/* On all devices at once; the time until the last is done. */
static struct error *run_fsmake(struct context *c, struct sample *s)
{
	const char *fs = c->settings->fs;
	cleanup_free char *script = xasprintf("PATH=$PATH:/usr/sbin:/sbin; mkfs.%s %s \"$1\" && "
					      "mount -t %s \"$1\" /mnt && umount /mnt",
					      fs, mkfs_flags(fs), fs);
	cleanup_free char *err = xasprintf("%s/err", c->dir);
	struct program p = { .err = err, .own_mounts = true };
	size_t mark = guard_mark(c->guard);
	double began = (double)clock_ns(CLOCK_MONOTONIC) / 1e9;
	pid_t pids[BENCH_DEVICES_MAX];

	for (unsigned int i = 0; i < c->n_devices; i++) {
		const char *const argv[] = { "sh", "-c", script, "fsmake", c->devices[i], NULL };

		p.argv = argv;
		try(program_spawn(c, &p, &pids[i]));
	}
	p.argv = (const char *const[]){ "making file systems", NULL };
	for (unsigned int i = 0; i < c->n_devices && !c->interrupted; i++)
		try(program_wait(c, &p, pids[i]));
	s->value = c->ended.seconds - began;
	return guard_undo_to(c->guard, mark);
}

/* --- a command --- */

static struct error *run_command(struct context *c, struct sample *s)
{
	cleanup_free char *err = xasprintf("%s/err", c->dir);
	const struct program p = { .argv = (const char *const *)c->settings->command, .err = err };
	double began = (double)clock_ns(CLOCK_MONOTONIC) / 1e9;

	try(program_run(c, &p));
	s->value = c->ended.seconds - began;
	return NULL;
}

/* --- all of them --- */

const struct workload_type workload_types[] = {
	{ .name = "randread",
	  .unit = "IOPS",
	  .help = "4 KiB reads at random, --depth at once",
	  .more_is_better = true,
	  .n_loops = 1,
	  .run = fio_run,
	  .rw = "randread" },
	{ .name = "randrw",
	  .unit = "IOPS",
	  .help = "4 KiB reads and writes at random, likewise",
	  .more_is_better = true,
	  .writes = true,
	  .n_loops = 1,
	  .run = fio_run,
	  .rw = "randrw" },
	{ .name = "ratelimited",
	  .unit = "IOPS",
	  .help = "randread at --iops: it is CPU time that differs",
	  .more_is_better = true,
	  .n_loops = 1,
	  .run = fio_run,
	  .rw = "randread",
	  .limited = true },
	{ .name = "writers",
	  .unit = "MB/s",
	  .help = "10 threads write in sequence, past the page cache",
	  .more_is_better = true,
	  .writes = true,
	  .n_loops = 1,
	  .run = fio_run,
	  .rw = "write",
	  .threads = 10 },
	{ .name = "fsmake",
	  .unit = "seconds",
	  .help = "mkfs, mount and umount on all devices at once",
	  .writes = true,
	  .n_loops = 4,
	  .run = run_fsmake },
	{ .name = "command",
	  .unit = "seconds",
	  .help = "the command behind --",
	  .run = run_command },
};
const unsigned int n_workload_types = ARRAY_SIZE(workload_types);

struct error *workload_find(const char *name, const struct workload_type **ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(workload_types); i++) {
		if (strcmp(workload_types[i].name, name))
			continue;
		*ret = &workload_types[i];
		return NULL;
	}
	return error_usage("unknown workload '%s'; see: blkhist bench --help", name);
}

static struct error *read_version(struct context *c, char *program, char **ret)
{
	cleanup_free char *out = xasprintf("%s/version", c->dir);
	const char *const argv[] = { program, "--version", NULL };
	const struct program p = { .argv = argv, .out = out };

	try(program_run(c, &p));
	*ret = last_line(out);
	return NULL;
}

struct error *workload_check(struct context *c, const struct workload_type *w, char **fio)
{
	cleanup_free char *program = NULL;
	const char *fs = c->settings->fs;

	if (w->rw) {
		program = fio_find();
		if (!program)
			return error_new(
				"there is no program fio, which makes the load of %s; "
				"install it, or measure a command: blkhist bench -- COMMAND",
				w->name);
		return read_version(c, program, fio);
	}
	if (w->run == run_fsmake) {
		if (!mkfs_flags(fs))
			return error_usage(
				"unknown file system '%s' (ext4, ext3, ext2, xfs, btrfs)", fs);
		program = mkfs_find(fs);
		if (!program)
			return error_new("there is no program mkfs.%s; install it, or see --fs",
					 fs);
	}
	*fio = xstrdup("");
	return NULL;
}

void workload_details(const struct context *c, const struct workload_type *w, struct buf *out)
{
	const struct bench_settings *s = c->settings;
	char size[UNIT_TEXT_MAX];

	buf_puts(out, w->help);
	for (char *const *arg = s->command; w->run == run_command && *arg; arg++)
		buf_printf(out, "%s%s", arg == s->command ? ": " : " ", *arg);
	if (w->run == run_fsmake)
		buf_printf(out, "; %s", s->fs);
	if (w->rw && !w->threads)
		buf_printf(out, "; depth %u", s->depth);
	if (w->limited)
		buf_printf(out, "; %u IOPS", s->iops);
	if (w->rw)
		buf_printf(out, "; %u s", s->seconds);
	for (unsigned int i = 0; i < c->n_devices; i++)
		buf_printf(out, "%s%s", i ? ", " : "; on ", c->devices[i]);
	unit_format_short(DIM_SIZE, (int64_t)s->size, size);
	if (c->n_devices && !*s->devices)
		buf_printf(out, " (loop, %s each in %s)", size, s->dir);
}

unsigned int workload_seconds(const struct context *c, const struct workload_type *w)
{
	return w->rw ? c->settings->seconds : 0;
}
