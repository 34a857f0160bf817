// SPDX-License-Identifier: GPL-2.0-only
#include "core/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/util.h"

void buf_deinit(struct buf *b)
{
	free(b->str);
	*b = (struct buf){};
}

char *buf_reserve(struct buf *b, size_t extra)
{
	if (b->size - b->len <= extra) {
		b->size = (b->len + extra + 1) * 3 / 2 + 64;
		b->str = xreallocarray(b->str, b->size, 1);
	}
	return b->str + b->len;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	memcpy(buf_reserve(b, len), data, len);
	b->len += len;
	b->str[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	cleanup_free char *s = NULL;
	va_list ap;

	va_start(ap, fmt);
	s = xvasprintf(fmt, ap);
	va_end(ap);
	buf_puts(b, s);
}

void buf_u64(struct buf *b, uint64_t v)
{
	char digits[20], *p = digits + sizeof(digits);

	do
		*--p = '0' + v % 10;
	while (v /= 10);
	buf_add(b, p, digits + sizeof(digits) - p);
}

void buf_i64(struct buf *b, int64_t v)
{
	if (v < 0)
		buf_puts(b, "-");
	buf_u64(b, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

struct error *buf_read_file(struct buf *b, const char *what, const char *path, size_t max)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t begin = b->len;
	ssize_t n;

	if (fd < 0)
		return error_errno(errno, "cannot read %s %s", what, path);
	do {
		n = read(fd, buf_reserve(b, max + 1), max + 1 - (b->len - begin));
		if (n < 0)
			return error_errno(errno, "cannot read %s %s", what, path);
		b->len += (size_t)n;
	} while (n && b->len - begin <= max);
	b->str[b->len] = '\0';
	if (b->len - begin > max)
		return error_new("%s %s is larger than %zu bytes", what, path, max);
	return NULL;
}
