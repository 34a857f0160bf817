/* SPDX-License-Identifier: GPL-2.0-only */
/* Tables for people. */
#ifndef BLKHIST_OUTPUTS_TEXT_H
#define BLKHIST_OUTPUTS_TEXT_H

#include "core/buf.h"
#include "core/snapshot.h"

/* Every histogram as a table of counts, folded to @width columns, and one of its statistics. */
void text_snapshot(const struct snapshot *snap, unsigned int width, struct buf *out);

/* The losses that are not zero, a line each; nothing if there are none. */
void text_losses(const struct snapshot *snap, struct buf *out);

#endif
