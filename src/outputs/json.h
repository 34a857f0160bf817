/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * JSON. A writer of our own, as a snapshot of many partitions has a million integers: a library that
 * builds a tree first takes longer than the reading of the kernel (docs/design.md, "Dependencies").
 */
#ifndef BLKHIST_OUTPUTS_JSON_H
#define BLKHIST_OUTPUTS_JSON_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/snapshot.h"

/* A snapshot in the schema "blkhist/1" (docs/json.md), one line, with a newline. */
void json_snapshot(const struct snapshot *snap, struct buf *out);

/* Appends a string with its quotes. */
void json_string(struct buf *out, const char *s);
/* Appends ,"name": (without the comma behind an opening bracket). */
void json_key(struct buf *out, const char *name);
void json_key_string(struct buf *out, const char *name, const char *value);
void json_key_u64(struct buf *out, const char *name, uint64_t value);
void json_key_bool(struct buf *out, const char *name, bool value);
/* An element of an array is to follow. */
void json_element(struct buf *out);
void json_losses(struct buf *out, const struct snapshot *snap);
/* The keys that say which device something is of. */
void json_device(struct buf *out, const struct device_name *name);
/* ,"bounds":[...] under the given name. */
void json_bounds(struct buf *out, const char *name, const struct ladder *l);
void json_time(struct buf *out, const char *name, int64_t realtime_ns);

#endif
