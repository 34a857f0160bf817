/* SPDX-License-Identifier: GPL-2.0-only */
/* A collector's rules as a configuration file. */
#ifndef BLKHIST_FILES_CONFIG_H
#define BLKHIST_FILES_CONFIG_H

#include "core/buf.h"
#include "sources/live.h"

/* `blkhist start --config` of it gives the same rules. */
void config_text(const struct live_status *status, struct buf *out);

#endif
