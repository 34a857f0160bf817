/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A histogram as a table for scripts, in the spirit of the files that a kernel patch set of 2006
 * had in sysfs. The format is stable; man/blkhist.8 describes it.
 */
#ifndef BLKHIST_OUTPUTS_HISTO_H
#define BLKHIST_OUTPUTS_HISTO_H

#include "core/buf.h"
#include "core/hist.h"

/* As the files call it: the time from issue to completion has always been "dma" there. */
extern const char *const histo_kind_names[KIND_NR];

/* All rows and columns, whether or not they have counted anything. */
void histo_table(const struct hist *h, struct buf *out);

#endif
