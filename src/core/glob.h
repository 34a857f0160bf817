/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Patterns for the names of disks, as fnmatch(3) has them: `*`, `?`, `[a-z]`, `[!a]`, all else is
 * itself. They become an automaton (src/abi/abi.h) that the kernel side runs, too.
 */
#ifndef BLKHIST_CORE_GLOB_H
#define BLKHIST_CORE_GLOB_H

#include <stdbool.h>

#include "abi/abi.h"
#include "core/error.h"

/* '!' stands for itself or '/': /sys writes cciss!c0d0 for the disk cciss/c0d0. */
struct error *glob_compile(const char *pattern, struct glob *ret) must_check;

bool glob_matches_name(const struct glob *glob, const char *name);

#endif
