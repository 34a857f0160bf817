// SPDX-License-Identifier: GPL-2.0-only
#include "core/util.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

size_t power_of_two(size_t n)
{
	size_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

void freep(void *p)
{
	free(*(void **)p);
}

void closep(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

void fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static void *check(void *p)
{
	if (!p)
		abort();
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	return check(calloc(n ? n : 1, size));
}

void *xreallocarray(void *p, size_t n, size_t size)
{
	return check(reallocarray(p, n ? n : 1, size));
}

char *xstrdup(const char *s)
{
	return check(strdup(s));
}

char *xvasprintf(const char *fmt, va_list ap)
{
	char *s;

	if (vasprintf(&s, fmt, ap) < 0)
		abort();
	return s;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	s = xvasprintf(fmt, ap);
	va_end(ap);
	return s;
}
