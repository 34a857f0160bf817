// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attaching: the programs are pinned, and so are the links that keep them at their tracepoints.
 * Those for bios are attached while there is a device without requests, as every bio pays for them.
 */
#include <errno.h>
#include <unistd.h>

#include "core/util.h"
#include "sources/live_internal.h"

static char *link_path(const struct live *live, enum pin_prog prog)
{
	return pins_path(&live->paths, "%s/links/%s", live->dir, pin_progs[prog].name);
}

bool point_attached(const struct live *live, enum pin_prog prog)
{
	cleanup_free char *path = link_path(live, prog);

	return !access(path, F_OK);
}

static struct error *attach(struct live *live, enum pin_prog prog)
{
	cleanup_free char *path =
		pins_path(&live->paths, "%s/progs/%s", live->dir, pin_progs[prog].name);
	cleanup_free char *to = link_path(live, prog);
	cleanup_close int fd = bpf_obj_get(path);
	cleanup_close int link = -1;

	if (fd < 0)
		return error_errno(errno, "cannot open %s", path);
	link = bpf_raw_tracepoint_open(NULL, fd);
	if (link < 0)
		return error_errno(errno, "cannot attach to the tracepoint %s",
				   pin_progs[prog].tracepoint);
	if (bpf_obj_pin(link, to))
		return error_errno(errno, "cannot pin %s", to);
	return NULL;
}

static bool point_wanted(const struct live *live, enum pin_prog prog, bool bios)
{
	return pin_progs[prog].bios == bios &&
	       pin_prog_needed(prog, live->meta.nested, live->meta.preempted);
}

struct error *points_attach(struct live *live, bool bios)
{
	for (enum pin_prog prog = 0; prog < PROG_NR; prog++)
		if (point_wanted(live, prog, bios) && !point_attached(live, prog))
			try(attach(live, prog));
	return NULL;
}

/* Submissions first, so that none is remembered whose completion is not seen. */
static struct error *detach_bios(struct live *live)
{
	for (int prog = PROG_NR - 1; prog >= 0; prog--) {
		cleanup_free char *path = link_path(live, (enum pin_prog)prog);

		if (pin_progs[prog].bios && unlink(path) && errno != ENOENT)
			return error_errno(errno, "cannot remove %s", path);
	}
	return NULL;
}

struct error *points_follow_devices(struct live *live, const struct device_list *devices)
{
	bool wanted = live->meta.bios == BIOS_ON, all = true, any = false;

	if (live->meta.bios == BIOS_AUTO)
		wanted = device_list_has_bios(devices);
	/* A killed process may have left some of them. */
	for (enum pin_prog prog = 0; prog < PROG_NR; prog++) {
		if (!point_wanted(live, prog, true))
			continue;
		all = all && point_attached(live, prog);
		any = any || point_attached(live, prog);
	}
	if (!wanted)
		return any ? detach_bios(live) : NULL;
	if (all)
		return NULL;
	try(points_attach(live, true));
	return live_diskstats_begin(live, false);
}
