// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's blk tracer: the events of blktrace, by the ring buffer of ftrace in place of relay
 * files. One reader per CPU takes the buffer's pages as they are when there are many, which is what
 * blktrace does with its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <unistd.h>

#include "bench/observer.h"
#include "bench/undo.h"
#include "core/device.h"
#include "core/units.h"
#include "core/util.h"

#define TRACEFS "/sys/kernel/tracing"
/* What a pipe takes */
#define PAGES_BYTES (64 << 10)

/* Writes @text where @old stands, which comes back at the end. */
static struct error *replace(struct context *c, const char *path, const char *old, const char *text)
{
	char now[64];

	try(sysfs_read(path, now, sizeof(now)));
	if (!strcmp(now, text))
		return error_new("it is in use: %s is %s already", path, now);
	if (strcmp(now, old))
		return error_new("it is in use: %s is %s", path, now);
	try(guard_add(c->guard, UNDO_WRITE, "%s %s", path, old));
	return file_put(path, text);
}

static char *device_trace(const struct context *c, unsigned int device, const char *file)
{
	return xasprintf("/sys/class/block/%s/trace/%s", device_base(c->devices[device]), file);
}

static struct error *device_start(struct context *c, unsigned int device, const char *mask)
{
	cleanup_free char *enable = device_trace(c, device, "enable");
	cleanup_free char *act_mask = device_trace(c, device, "act_mask");
	/* Before Linux 5.11 its files work only while it is open, for which undo() sees, too. */
	cleanup_close int fd = open(c->devices[device], O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return error_errno(errno, "cannot open %s", c->devices[device]);
	if (access(enable, F_OK))
		return error_new("this kernel does not trace %s by ftrace", c->devices[device]);
	try(replace(c, enable, "0", "1"));
	return strcmp(mask, "all") ? file_put(act_mask, mask) : NULL;
}

/* Whether its buffers are not somebody else's: to set a tracer empties them. */
static struct error *check_unused(void)
{
	static const struct {
		const char *path, *wanted;
	} files[] = {
		{ TRACEFS "/tracing_on", "1" },
		{ TRACEFS "/events/enable", "0" },
	};
	char now[64];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		try(sysfs_read(files[i].path, now, sizeof(now)));
		if (strcmp(now, files[i].wanted))
			return error_new("it is in use: %s is %s", files[i].path, now);
	}
	return NULL;
}

/*
 * Moves whole pages of events from a file of tracefs to standard output, without copying; wakes up
 * when the buffer is half full (buffer_percent). Until it is killed.
 */
static struct error *read_pages(const char *const *argv)
{
	int from = open(argv[0], O_RDONLY | O_CLOEXEC), pages[2];

	if (from < 0)
		return error_errno(errno, "cannot open %s", argv[0]);
	if (pipe2(pages, O_CLOEXEC))
		return error_errno(errno, "cannot make a pipe");
	for (;;) {
		ssize_t n = splice(from, NULL, pages[1], NULL, PAGES_BYTES, SPLICE_F_MOVE);

		while (n > 0) {
			ssize_t moved = splice(pages[0], NULL, STDOUT_FILENO, NULL, (size_t)n, 0);

			n = moved > 0 ? n - moved : -1;
		}
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return error_errno(errno, "cannot move events from %s", argv[0]);
	}
}

/* Events of a CPU, and where they go; the caller frees them. */
static char *pages_path(unsigned int cpu)
{
	return xasprintf(TRACEFS "/per_cpu/cpu%u/trace_pipe_raw", cpu);
}

static char *pages_file(const struct context *c, unsigned int cpu)
{
	cleanup_free char *name = xasprintf("cpu%u", cpu);

	return trace_file(c, name);
}

struct error *ftrace_start(struct observer *o, struct context *c)
{
	if (!c->n_devices)
		return error_new("it wants devices; see --device");
	try(mount_if_missing(c, "tracefs", TRACEFS_MAGIC, TRACEFS, "current_tracer"));
	try(check_unused());
	try(replace(c, TRACEFS "/current_tracer", "nop", "blk"));
	for (unsigned int i = 0; i < c->n_devices; i++)
		try(device_start(c, i, o->parameter));
	for (unsigned int cpu = 0;; cpu++) {
		cleanup_free char *pages = pages_path(cpu), *out = pages_file(c, cpu);
		cleanup_free char *err = trace_file(c, "err");
		const char *const argv[] = { pages, NULL };
		const struct program p = {
			.argv = argv, .function = read_pages, .out = out, .err = err
		};

		if (access(pages, F_OK))
			return cpu ? NULL : error_new("there is no %s", pages);
		try(program_spawn(c, &p, &o->pid));
	}
}

/* Events that were overwritten before they were read, or had no room. */
static double lost(void)
{
	double sum = 0;

	for (unsigned int cpu = 0;; cpu++) {
		static const char *const words[] = { "overrun: ", "dropped events: " };
		cleanup_free char *path = xasprintf(TRACEFS "/per_cpu/cpu%u/stats", cpu);
		cleanup(buf_deinit) struct buf text = {};
		struct error *err = buf_read_file(&text, "the file", path, 4096);

		error_free(err);
		if (err)
			return cpu ? sum : UNKNOWN;
		for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
			const char *at = strstr(text.str, words[i]);

			if (at)
				sum += strtod(at + strlen(words[i]), NULL);
		}
	}
}

/* What is left when nothing more comes: pages that are not full. Returns whether there is such a
 * CPU. */
static bool drain(struct context *c, unsigned int cpu)
{
	cleanup_free char *pages = pages_path(cpu), *out = pages_file(c, cpu);
	cleanup_close int from = open(pages, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	cleanup_close int to = open(out, O_WRONLY | O_APPEND | O_CLOEXEC);
	char page[65536];
	ssize_t n;

	while (from >= 0 && (n = read(from, page, sizeof(page))) > 0)
		if (write(to, page, (size_t)n) != n)
			break;
	return from >= 0;
}

struct error *ftrace_losses(struct observer *o, struct context *c)
{
	for (unsigned int cpu = 0; drain(c, cpu); cpu++)
		;
	o->dropped = lost();
	return NULL;
}
