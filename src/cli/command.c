// SPDX-License-Identifier: GPL-2.0-only
#include "cli/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/util.h"

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

struct error *selection_parse(const struct device_list *devices, const struct operands *names,
			      const struct selection_settings *settings, struct live_selection *ret)
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

void selection_deinit(struct live_selection *sel)
{
	free((void *)sel->devices);
	sel->devices = NULL;
}

struct error *output_write(const struct buf *out)
{
	if (out->len && fwrite(out->str, 1, out->len, stdout) != out->len)
		return error_errno(errno, "cannot write the output");
	if (fflush(stdout))
		return error_errno(errno, "cannot write the output");
	return NULL;
}

unsigned int output_width(void)
{
	struct winsize size;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		return size.ws_col;
	return 120;
}
