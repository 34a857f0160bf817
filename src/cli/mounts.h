/* SPDX-License-Identifier: GPL-2.0-only */
/* What mount and unmount have in common. */
#ifndef BLKHIST_CLI_MOUNTS_H
#define BLKHIST_CLI_MOUNTS_H

#define MOUNT_DIR "/run/blkhist"

/*
 * The absolute path of a directory, which the caller frees; NULL with errno if there is none. Does
 * not ask what is mounted there, which may be dead.
 */
char *mount_path(const char *name);

#endif
