/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all unit tests share: cmocka with the headers that it wants before it, checks of
 * `struct error *`, and reproducible random numbers.
 */
#ifndef BLKHIST_TESTS_UNIT_H
#define BLKHIST_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/error.h"
#include "core/util.h"

static inline void check_ok(struct error *err, const char *call, const char *file, int line)
{
	if (!err)
		return;
	print_error("%s: %s\n", call, err->message);
	error_free(err);
	_fail(file, line);
}

#define ANY_CLASS (-1)

/* Fails unless @err is an error of @class whose message contains @part. Frees it. */
static inline void check_error(struct error *err, int class, const char *part, const char *call,
			       const char *file, int line)
{
	if (!err) {
		print_error("%s: succeeded, should say \"%s\"\n", call, part);
		_fail(file, line);
		return;
	}

	int bad = (class != ANY_CLASS && (int)err->class != class) || !strstr(err->message, part);

	if (bad)
		print_error("%s: class %d, \"%s\"; should be class %d, \"%s\"\n", call, err->class,
			    err->message, class, part);
	error_free(err);
	if (bad)
		_fail(file, line);
}

#define assert_ok(call) check_ok(call, #call, __FILE__, __LINE__)
#define assert_error(call, part) check_error(call, ANY_CLASS, part, #call, __FILE__, __LINE__)
#define assert_failed(call, part) check_error(call, ERROR_FAILED, part, #call, __FILE__, __LINE__)
#define assert_usage(call, part) check_error(call, ERROR_USAGE, part, #call, __FILE__, __LINE__)

/* xorshift64*: the same numbers in every run, so that what fails once fails again. */
static inline uint64_t random_u64(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

/* As many bits as chance wants, so that all magnitudes are equally frequent. */
static inline uint64_t random_magnitude(uint64_t *state, unsigned int max_bits)
{
	unsigned int bits = (unsigned int)(random_u64(state) % max_bits) + 1;

	return random_u64(state) >> (64 - bits);
}

#endif
