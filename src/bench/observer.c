// SPDX-License-Identifier: GPL-2.0-only
#include "bench/observer.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bench/undo.h"
#include "core/units.h"
#include "core/util.h"

#define SELF "/proc/self/exe"
#define BPFFS "/sys/fs/bpf"
/* For a tracer to be attached; much more than it takes. */
#define ATTACH_MS 30000

char *trace_file(const struct context *c, const char *name)
{
	return xasprintf("%s/%s", c->trace_dir, name);
}

/* With what it has said last. */
static struct error *failed(const struct context *c, const char *what)
{
	cleanup_free char *err = trace_file(c, "err");
	cleanup_free char *why = last_line(err);

	return error_new("%s%s%s", what, *why ? ": " : "", why);
}

struct error *observer_wait(struct observer *o, struct context *c, bool (*ready)(struct context *c))
{
	for (unsigned int waited = 0; !ready(c); waited += 10) {
		bool ended = program_has_ended(o->pid, NULL);

		if (ended || waited >= ATTACH_MS)
			return failed(c, ended ? "it ended before it watched" :
						 "it took too long before it watched");
		context_sleep(c, 10);
		if (c->interrupted)
			return NULL;
	}
	return NULL;
}

/* What it prints is in files, and so counted as written. */
static struct error *spawn(struct observer *o, struct context *c, const char *const *argv)
{
	cleanup_free char *out = trace_file(c, "out"), *err = trace_file(c, "err");
	const struct program p = { .argv = argv, .out = out, .err = err };

	return program_spawn(c, &p, &o->pid);
}

static bool output_has(struct context *c, const char *word)
{
	cleanup_free char *path = trace_file(c, "out");
	cleanup(buf_deinit) struct buf text = {};
	struct error *err = buf_read_file(&text, "the output", path, 1 << 24);
	bool has = !err && text.len && strstr(text.str, word);

	error_free(err);
	return has;
}

/* "12 lost;", "(dropped 12)": the numbers beside all such words, added, as each may be of a device.
 */
static double numbers_at(const char *path, const char *word, bool before)
{
	cleanup(buf_deinit) struct buf text = {};
	struct error *err = buf_read_file(&text, "the output", path, 1 << 24);
	double sum = 0;
	bool any = false;

	error_free(err);
	for (const char *next = text.len ? text.str : NULL; next && (next = strstr(next, word));
	     next++) {
		const char *at = before ? next : next + strlen(word);

		while (before && at > text.str && isdigit((unsigned char)at[-1]))
			at--;
		if (!isdigit((unsigned char)*at))
			continue;
		sum += strtod(at, NULL);
		any = true;
	}
	return any ? sum : UNKNOWN;
}

/* --- blkhist --- */

static struct error *run_self(struct context *c, const char *const *argv, const char *out)
{
	cleanup_free char *err = trace_file(c, "err");
	const struct program p = { .argv = argv, .out = out, .err = err };

	return program_run(c, &p);
}

static bool accepts_blkhist(const char *parameter)
{
	return !parameter || !strcmp(parameter, "request") || !strcmp(parameter, "bios");
}

static struct error *start_blkhist(struct observer *o, struct context *c)
{
	const char *const plain[] = { SELF, "start", NULL };
	const char *const request[] = { SELF, "start", "-k", "request", NULL };
	const char *const bios[] = { SELF, "start", "--bios", "on", NULL };
	const char *const *argv = !o->parameter ? plain : *o->parameter == 'r' ? request : bios;

	if (c->settings->collector_runs())
		return error_new("somebody else has started a collector meanwhile");
	/* Where it is not mounted, the collector does that, and leaves it so. */
	if (!is_mounted(BPFFS, BPF_FS_MAGIC))
		try(guard_add(c->guard, UNDO_MOUNT, "%x " BPFFS, BPF_FS_MAGIC));
	try(guard_add(c->guard, UNDO_COLLECTOR, "%s", ""));
	return run_self(c, argv, NULL);
}

/* Requests that are in no histogram. */
static double read_losses(const char *path)
{
	static const char *const keys[] = { "unseen", "no_counters", "no_issue", "no_slot" };
	struct json_object *o = json_object_from_file(path);
	struct json_object *losses = json_object_object_get(o, "losses");
	double sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		sum += json_object_get_double(json_object_object_get(losses, keys[i]));
	if (!losses)
		sum = UNKNOWN;
	json_object_put(o);
	return sum;
}

static struct error *blkhist_losses(struct observer *o, struct context *c)
{
	const char *const show[] = { SELF, "show", "-f", "json", NULL };
	cleanup_free char *out = xasprintf("%s/show", c->trace_dir);

	try(run_self(c, show, out));
	o->dropped = read_losses(out);
	/* It is not the collector that has written this. */
	return unlink(out) ? error_errno(errno, "cannot remove %s", out) : NULL;
}

static struct error *start_and_stop_blkhist(struct observer *o, struct context *c)
{
	try(start_blkhist(o, c));
	return guard_undo_to(c->guard, o->mark);
}

/* --- blkhist record --- */

/* Of every device; without devices any will do. */
static bool traces_begin(const struct context *c, const char *dir)
{
	for (unsigned int i = 0; i < c->n_devices; i++) {
		cleanup_free char *file =
			xasprintf("%s/%s.blktrace.0", dir, device_base(c->devices[i]));

		if (access(file, F_OK))
			return false;
	}
	return !access(dir, F_OK);
}

static bool record_is_ready(struct context *c)
{
	cleanup_free char *dir = trace_file(c, "record");

	return traces_begin(c, dir);
}

/* The last item may be a time: "issue,complete,10ms". */
static struct error *start_record(struct observer *o, struct context *c)
{
	cleanup_free char *events = xstrdup(o->parameter), *dir = trace_file(c, "record");
	cleanup(buf_deinit) struct buf names = {};
	char *last = strrchr(events, ',');
	const char *argv[12] = { SELF, "record", "-o", dir };
	unsigned int n = 4;

	if (last && isdigit((unsigned char)last[1])) {
		*last = '\0';
		argv[n++] = "--min-time";
		argv[n++] = last + 1;
	}
	argv[n++] = "-a";
	argv[n++] = events;
	for (unsigned int i = 0; i < c->n_devices; i++)
		buf_printf(&names, "%s%s", i ? "," : "", device_base(c->devices[i]));
	if (c->n_devices) {
		argv[n++] = "-d";
		argv[n++] = names.str;
	}
	try(spawn(o, c, argv));
	return observer_wait(o, c, record_is_ready);
}

static struct error *record_losses(struct observer *o, struct context *c)
{
	cleanup_free char *err = trace_file(c, "err");

	try(program_stop(c, o->pid));
	o->dropped = numbers_at(err, " lost;", true);
	return NULL;
}

/* --- blktrace --- */

/* "all", or what blktrace -A takes: 16 bits. */
static bool accepts_mask(const char *mask)
{
	char *end;
	unsigned long bits;

	if (!mask || !strcmp(mask, "all"))
		return mask;
	bits = strtoul(mask, &end, 16);
	return !strncmp(mask, "0x", 2) && !*end && bits >= 1 && bits <= 0xffff;
}

static bool blktrace_is_ready(struct context *c)
{
	return traces_begin(c, c->trace_dir);
}

/*
 * It makes its files when all traces are set up, and starts them afterwards, for which there is no
 * sign. So we do what it does next; it, or we, are then told that the trace runs already (EINVAL).
 */
static struct error *run_trace(const char *device)
{
	cleanup_close int fd = open(device, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return error_errno(errno, "cannot open %s", device);
	if (ioctl(fd, BLKTRACESTART) && errno != EINVAL)
		return error_errno(errno, "cannot start the trace of %s", device);
	return NULL;
}

static struct error *start_blktrace(struct observer *o, struct context *c)
{
	static const char *const names[] = { "blktrace", NULL };
	cleanup_free char *program = program_find(names);
	const char *argv[2 * BENCH_DEVICES_MAX + 8] = { program, "-D", c->trace_dir };
	unsigned int n = 3;

	if (!program)
		return error_new("there is no program blktrace");
	if (!c->n_devices)
		return error_new("it wants devices; see --device");
	try(mount_if_missing(c, "debugfs", DEBUGFS_MAGIC, "/sys/kernel/debug", "block"));
	if (strcmp(o->parameter, "all")) {
		argv[n++] = "-A";
		argv[n++] = o->parameter;
	}
	for (unsigned int i = 0; i < c->n_devices; i++) {
		argv[n++] = "-d";
		argv[n++] = c->devices[i];
	}
	try(spawn(o, c, argv));
	try(observer_wait(o, c, blktrace_is_ready));
	if (c->interrupted)
		return NULL;
	/* From here on these traces are ours, and are torn down even if blktrace is killed. */
	for (unsigned int i = 0; i < c->n_devices; i++)
		try(guard_add(c->guard, UNDO_BLKTRACE, "%s", c->devices[i]));
	for (unsigned int i = 0; i < c->n_devices; i++)
		try(run_trace(c->devices[i]));
	return NULL;
}

/* It says so when it ends. */
static struct error *blktrace_losses(struct observer *o, struct context *c)
{
	cleanup_free char *out = trace_file(c, "out");

	try(program_stop(c, o->pid));
	o->dropped = numbers_at(out, "(dropped ", false);
	return NULL;
}

/* --- BPF tools --- */

static bool says_tracing(struct context *c)
{
	return output_has(c, "Tracing");
}

static struct error *start_biolatency(struct observer *o, struct context *c)
{
	static const char *const names[] = { "biolatency", "bpf-biolatency", NULL };
	cleanup_free char *program = program_find(names);
	/* Else it says nothing before it ends. */
	const char *const argv[] = { "stdbuf", "-oL", program, "-D", NULL };

	if (!program)
		return error_new("there is no program biolatency (of libbpf-tools)");
	try(spawn(o, c, argv));
	return observer_wait(o, c, says_tracing);
}

/*
 * The script has probes of both names that kernels have had for a function, and goes on without
 * those that are not there: without either, when newer ones have inlined it.
 */
static bool probes_skipped(const struct context *c)
{
	static const char word[] = "blk_account_io_done, skipping";
	cleanup_free char *path = trace_file(c, "err");
	cleanup(buf_deinit) struct buf text = {};
	struct error *err = buf_read_file(&text, "the output", path, 1 << 20);
	const char *first = text.len ? strstr(text.str, word) : NULL;

	error_free(err);
	return first && strstr(first + 1, word);
}

static struct error *start_bpftrace(struct observer *o, struct context *c)
{
	static const char *const programs[] = { "bpftrace", NULL };
	static const char *const scripts[] = { "biolatency.bt", NULL };
	cleanup_free char *program = program_find(programs), *script = program_find(scripts);
	const char *const argv[] = { program, "-B", "line", script, NULL };

	if (!program || !script)
		return error_new("there is no %s", program ? "script biolatency.bt (of bpftrace)" :
							     "program bpftrace");
	try(spawn(o, c, argv));
	try(observer_wait(o, c, says_tracing));
	return probes_skipped(c) ? failed(c, "it could attach none of its probes") : NULL;
}

/* --- any program --- */

static struct error *start_command(struct observer *o, struct context *c)
{
	const char *const argv[] = { "sh", "-c", o->parameter, NULL };

	return spawn(o, c, argv);
}

const struct observer_type observer_types[] = {
	{ "none", NULL, false, "nothing: what the others are compared with", NULL, NULL, NULL },
	{ "blkhist", "request|bios", false, "the collector; with request time only; also for bios",
	  accepts_blkhist, start_blkhist, blkhist_losses },
	{ "blkhist-stopped", NULL, false,
	  "the collector, started and stopped before: nothing is left", NULL,
	  start_and_stop_blkhist, NULL },
	{ "blkhist-record", "EVENTS", true,
	  "blkhist record -a EVENTS; a time at the end is --min-time", NULL, start_record,
	  record_losses },
	{ "blktrace", "MASK", true, "blktrace -A MASK (all, 0xd0, ...), to --trace-dir",
	  accepts_mask, start_blktrace, blktrace_losses },
	{ "ftrace-blk", "MASK", true, "the kernel's blk tracer, read as blktrace does",
	  accepts_mask, ftrace_start, ftrace_losses },
	{ "biolatency", NULL, false, "biolatency -D of libbpf-tools", NULL, start_biolatency,
	  NULL },
	{ "bpftrace", NULL, false, "biolatency.bt of bpftrace", NULL, start_bpftrace, NULL },
	{ "command", "COMMAND", true, "any program: sh -c COMMAND", NULL, start_command, NULL },
};
const unsigned int n_observer_types = ARRAY_SIZE(observer_types);

struct error *observer_parse(const char *name, struct observer *ret)
{
	const char *colon = strchr(name, ':');
	size_t len = colon ? (size_t)(colon - name) : strlen(name);
	const char *parameter = colon ? colon + 1 : NULL;

	for (size_t i = 0; i < ARRAY_SIZE(observer_types); i++) {
		const struct observer_type *t = &observer_types[i];

		if (strlen(t->name) != len || strncmp(t->name, name, len))
			continue;
		if (parameter ? !t->parameter || !*parameter : t->needs_parameter)
			return error_usage("observer '%s' %s; see: blkhist bench --help", name,
					   parameter && !t->parameter ?
						   "takes nothing behind its name" :
						   "needs something behind the colon");
		if (t->accepts && !t->accepts(parameter))
			return error_usage(
				"observer '%s' is not as in %s:%s; see: blkhist bench --help", name,
				t->name, t->parameter);
		*ret = (struct observer){
			.type = t, .name = name, .parameter = parameter, .dropped = UNKNOWN
		};
		return NULL;
	}
	return error_usage("unknown observer '%s'; see: blkhist bench --help", name);
}

struct error *observer_start(struct observer *o, struct context *c)
{
	struct error *err;

	o->dropped = UNKNOWN;
	o->bytes = 0;
	o->pid = 0;
	o->mark = guard_mark(c->guard);
	try(trace_dir_empty(c));
	err = o->type->start ? o->type->start(o, c) : NULL;
	if (err) {
		struct error *also = guard_undo_to(c->guard, o->mark);

		error_free(also);
	}
	return err;
}

/* Else what was measured is not its cost. A command may end by itself, if it ends well. */
static struct error *has_watched(const struct observer *o, const struct context *c)
{
	bool well;

	if (!o->pid || !program_has_ended(o->pid, &well) ||
	    (well && o->type->start == start_command))
		return NULL;
	return failed(c, "it ended while the workload ran");
}

struct error *observer_stop(struct observer *o, struct context *c)
{
	struct error *err = c->interrupted ? NULL : has_watched(o, c), *also;

	if (o->type->losses && !c->interrupted && !err)
		err = o->type->losses(o, c);
	also = guard_undo_to(c->guard, o->mark);
	if (err)
		error_free(also);
	o->bytes = directory_bytes(c->trace_dir);
	return err ? err : also;
}
