/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A growing string. Zero-initialised is empty and valid; `str` is NUL-terminated once anything was
 * added. Freed by buf_deinit() or a cleanup(buf_deinit) attribute.
 */
#ifndef BLKHIST_CORE_BUF_H
#define BLKHIST_CORE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct buf {
	char *str;
	size_t len, size;
};

void buf_deinit(struct buf *b);
/* Room for @extra bytes more and a NUL; returns where they go. The caller then adds to b->len. */
char *buf_reserve(struct buf *b, size_t extra);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_u64(struct buf *b, uint64_t v);
void buf_i64(struct buf *b, int64_t v);

/*
 * Appends a file of at most @max bytes; more than that is an error. @what stands before the path in
 * errors: "the configuration".
 */
struct error *buf_read_file(struct buf *b, const char *what, const char *path,
			    size_t max) must_check;

#endif
