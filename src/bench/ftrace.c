// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's blk tracer: the events of blktrace, by the ring buffer of ftrace in place of relay
 * files. One reader per CPU takes the buffer's pages as they are, which is what blktrace does with
 * its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bench/observer.h"
#include "core/device.h"
#include "core/units.h"
#include "core/util.h"

#define TRACEFS "/sys/kernel/tracing"

static struct error *put(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return error_errno(errno, "cannot write %s to %s", text, path);
	return NULL;
}

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
	return put(path, text);
}

static char *device_trace(const struct context *c, unsigned int device, const char *file)
{
	return xasprintf("/sys/class/block/%s/trace/%s", device_base(c->devices[device]), file);
}

static struct error *device_start(struct context *c, unsigned int device, const char *mask)
{
	cleanup_free char *enable = device_trace(c, device, "enable");
	cleanup_free char *act_mask = device_trace(c, device, "act_mask");

	if (access(enable, F_OK))
		return error_new("this kernel does not trace %s by ftrace", c->devices[device]);
	try(replace(c, enable, "0", "1"));
	return strcmp(mask, "all") ? put(act_mask, mask) : NULL;
}

struct error *ftrace_start(struct observer *o, struct context *c)
{
	cleanup_free char *readers = xasprintf("for pipe in " TRACEFS
					       "/per_cpu/cpu*/trace_pipe_raw; do\n"
					       "cat \"$pipe\" >%s/$(basename ${pipe%%/*}) &\n"
					       "done; wait",
					       c->trace_dir);
	const char *const argv[] = { "sh", "-c", readers, NULL };
	cleanup_free char *err = trace_file(c, "err");
	const struct program p = { .argv = argv, .err = err };

	if (!c->n_devices)
		return error_new("it wants devices; see --device");
	try(mount_if_missing(c, "tracefs", TRACEFS, "current_tracer"));
	try(replace(c, TRACEFS "/current_tracer", "nop", "blk"));
	for (unsigned int i = 0; i < c->n_devices; i++)
		try(device_start(c, i, o->parameter));
	return program_spawn(c, &p, &o->pid);
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

struct error *ftrace_losses(struct observer *o, struct context *c)
{
	(void)c;
	o->dropped = lost();
	return NULL;
}
