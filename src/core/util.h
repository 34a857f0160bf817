/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ownership and memory. An owned local carries a cleanup attribute and is initialised; take() hands
 * it over. Allocation aborts on failure: every size that comes from input is bounded before.
 */
#ifndef BLKHIST_CORE_UTIL_H
#define BLKHIST_CORE_UTIL_H

#include <dirent.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define cleanup(fn) __attribute__((cleanup(fn)))
#define cleanup_free cleanup(freep)
#define cleanup_close cleanup(closep)
#define cleanup_fclose cleanup(fclosep)
#define cleanup_closedir cleanup(closedirp)

/* The value of @p, which is left NULL. */
#define take(p)                         \
	({                              \
		__typeof__(p) t_ = (p); \
		(p) = NULL;             \
		t_;                     \
	})

#define take_fd(fd)            \
	({                     \
		int t_ = (fd); \
		(fd) = -1;     \
		t_;            \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* For qsort(): less than, equal to or greater than 0. */
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* The least one that is not below @n, which is at most half of what fits. */
size_t power_of_two(size_t n);

void freep(void *p);
void closep(int *fd); /* keeps errno; -1 is no descriptor */
void fclosep(FILE **f);
void closedirp(DIR **dir);

void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xreallocarray(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...)
	__attribute__((malloc, returns_nonnull, format(printf, 1, 2)));
char *xvasprintf(const char *fmt, va_list ap)
	__attribute__((malloc, returns_nonnull, format(printf, 1, 0)));

#endif
