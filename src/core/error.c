// SPDX-License-Identifier: GPL-2.0-only
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"

static struct error *make(enum error_class class, int errnum, char *message)
{
	struct error *err = xcalloc(1, sizeof(*err));

	err->class = class;
	err->errnum = errnum;
	err->message = message;
	return err;
}

#define FORMAT(fmt)                        \
	({                                 \
		va_list ap_;               \
		char *s_;                  \
		va_start(ap_, fmt);        \
		s_ = xvasprintf(fmt, ap_); \
		va_end(ap_);               \
		s_;                        \
	})

struct error *error_new(const char *fmt, ...)
{
	return make(ERROR_FAILED, 0, FORMAT(fmt));
}

struct error *error_usage(const char *fmt, ...)
{
	return make(ERROR_USAGE, 0, FORMAT(fmt));
}

struct error *error_errno(int errnum, const char *fmt, ...)
{
	cleanup_free char *what = FORMAT(fmt);

	return make(ERROR_FAILED, errnum, xasprintf("%s: %s", what, strerror(errnum)));
}

struct error *error_prefix(struct error *err, const char *fmt, ...)
{
	cleanup_free char *what = FORMAT(fmt);
	cleanup_free char *old = err->message;

	err->message = xasprintf("%s: %s", what, old);
	return err;
}

struct error *error_in_file(struct error *err, const char *path)
{
	err->class = ERROR_FAILED;
	return error_prefix(err, "cannot use %s", path);
}

void error_free(struct error *err)
{
	if (!err)
		return;
	free(err->message);
	free(err);
}
