// SPDX-License-Identifier: GPL-2.0-only
#include "cli/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
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

static struct error *selection_parse(const struct device_list *devices,
				     const struct operands *names,
				     const struct selection_settings *settings,
				     struct live_selection *ret)
{
	struct live_selection sel = { .kinds = KINDS_ALL, .ops = OPS_ALL };
	cleanup_free const struct device **found = NULL;

	if (settings->ops) {
		try(blk_ops_parse(settings->ops, &sel.ops));
		sel.kinds &= ~(1u << KIND_SEEK);
	}
	if (settings->kinds)
		try(hist_kinds_parse(settings->kinds, &sel.kinds));
	found = xcalloc((size_t)names->n, sizeof(*found));
	for (int i = 0; i < names->n; i++)
		try(device_find(devices, names->names[i], &found[i]));
	sel.devices = take(found);
	sel.n_devices = (unsigned int)names->n;
	*ret = sel;
	return NULL;
}

struct error *session_open(const struct operands *names, const struct selection_settings *settings,
			   struct session *ret)
{
	try(device_list_read(system_paths.root, &ret->devices));
	try(selection_parse(&ret->devices, names, settings, &ret->selection));
	try(live_open(&system_paths, &ret->devices, &ret->live));
	for (unsigned int i = 0; i < ret->selection.n_devices; i++)
		try(live_check_counted(ret->live, ret->selection.devices[i]));
	return NULL;
}

void session_close(struct session *s)
{
	live_close(s->live);
	free((void *)s->selection.devices);
	device_list_deinit(&s->devices);
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
