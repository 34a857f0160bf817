// SPDX-License-Identifier: GPL-2.0-only
#include "cli/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/util.h"
#include "outputs/json.h"
#include "outputs/text.h"

const struct live_paths system_paths = { .root = "", .bpffs = "/sys/fs/bpf" };

struct error *format_parse(const char *name, enum output_format *ret)
{
	if (!strcmp(name, "text"))
		*ret = FORMAT_TEXT;
	else if (!strcmp(name, "json"))
		*ret = FORMAT_JSON;
	else
		return error_usage("unknown format '%s' (text, json)", name);
	return NULL;
}

/* What a name means: the device that was found, and all that are gone and had its name. */
static struct error *devices_named(const struct device_list *devices, const struct operands *names,
				   struct live_selection *sel)
{
	cleanup_free const struct device **named = NULL;
	unsigned int n = 0;

	for (int i = 0; i < names->n; i++) {
		const struct device *found;

		try(device_find(devices, names->names[i], &found));
		for (unsigned int k = 0; k < devices->n; k++) {
			const struct device *d = &devices->devices[k];

			if (d != found && !(d->gone && !strcmp(device_name_own(&d->name),
							       device_name_own(&found->name))))
				continue;
			named = xreallocarray(named, n + 1, sizeof(*named));
			named[n++] = d;
		}
	}
	sel->devices = take(named);
	sel->n_devices = n;
	return NULL;
}

struct error *selection_masks(const struct selection_settings *settings, unsigned int *kinds,
			      unsigned int *ops)
{
	*kinds = KINDS_ALL;
	*ops = OPS_ALL;
	if (settings->ops) {
		try(blk_ops_parse(settings->ops, ops));
		*kinds &= ~(1u << KIND_SEEK);
	}
	if (settings->kinds)
		try(hist_kinds_parse(settings->kinds, kinds));
	return NULL;
}

static struct error *selection_parse(const struct device_list *devices,
				     const struct operands *names,
				     const struct selection_settings *settings,
				     struct live_selection *sel)
{
	try(selection_masks(settings, &sel->kinds, &sel->ops));
	return devices_named(devices, names, sel);
}

/* Of a name that was not found, the collector may know that its device is gone. */
static struct error *explain_gone(struct device_list *devices, const struct operands *names,
				  struct error *not_found)
{
	cleanup(live_closep) struct live *live = NULL;
	const struct device *d;
	struct error *err = live_open(&system_paths, devices, &live);

	if (!err)
		err = live_add_gone(live, devices);
	for (int i = 0; !err && i < names->n; i++) {
		err = device_find(devices, names->names[i], &d);
		if (err || !d->gone)
			continue;
		error_free(not_found);
		return error_new("%s is gone; what was counted of it is shown by: "
				 "blkhist show --all %s",
				 names->names[i], names->names[i]);
	}
	error_free(err);
	return not_found;
}

static struct error *check_counted(const struct session *s)
{
	for (unsigned int i = 0; i < s->selection.n_devices; i++)
		if (!s->selection.devices[i]->gone)
			try(live_check_counted(s->live, s->selection.devices[i]));
	return NULL;
}

struct error *session_open(const struct operands *names, const struct selection_settings *settings,
			   struct session *ret)
{
	struct error *err;

	try(device_list_read(system_paths.root, &ret->devices));
	err = selection_parse(&ret->devices, names, settings, &ret->selection);
	if (err)
		return explain_gone(&ret->devices, names, err);
	try(live_open(&system_paths, &ret->devices, &ret->live));
	return check_counted(ret);
}

struct error *session_open_all(const struct operands *names,
			       const struct selection_settings *settings, struct session *ret)
{
	try(device_list_read(system_paths.root, &ret->devices));
	try(live_open(&system_paths, &ret->devices, &ret->live));
	try(live_add_gone(ret->live, &ret->devices));
	try(selection_parse(&ret->devices, names, settings, &ret->selection));
	return check_counted(ret);
}

void session_close(struct session *s)
{
	live_close(s->live);
	free((void *)s->selection.devices);
	device_list_deinit(&s->devices);
}

struct error *signals_open(int *ret)
{
	sigset_t ending;
	int fd;

	sigemptyset(&ending);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &ending, NULL))
		return error_errno(errno, "cannot block signals");
	fd = signalfd(-1, &ending, SFD_CLOEXEC);
	if (fd < 0)
		return error_errno(errno, "cannot wait for signals");
	*ret = fd;
	return NULL;
}

struct error *output_write(const struct buf *out)
{
	if (out->len && fwrite(out->str, 1, out->len, stdout) != out->len)
		return error_errno(errno, "cannot write the output");
	if (fflush(stdout))
		return error_errno(errno, "cannot write the output");
	return NULL;
}

/* The columns of the terminal; 120 if the output is none. */
static unsigned int output_width(void)
{
	struct winsize size;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		return size.ws_col;
	return 120;
}

struct error *output_snapshot(const struct snapshot *snap, enum output_format format)
{
	cleanup(buf_deinit) struct buf out = {};

	if (format == FORMAT_JSON)
		json_snapshot(snap, &out);
	else
		text_snapshot(snap, output_width(), &out);
	return output_write(&out);
}
