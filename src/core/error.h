/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Errors. A function that can fail returns `struct error *`: NULL is success, otherwise the caller
 * owns the error. The message is one sentence: what was attempted, on what, why it failed and,
 * where something can be done, what. Output parameters are untouched on failure.
 */
#ifndef BLKHIST_CORE_ERROR_H
#define BLKHIST_CORE_ERROR_H

enum error_class {
	ERROR_FAILED, /* exit status 1 */
	ERROR_USAGE,  /* exit status 2: the caller asked for something that is not offered */
};

struct error {
	enum error_class class;
	int errnum; /* 0, or the errno value behind it */
	char *message;
};

#define must_check __attribute__((warn_unused_result))

struct error *error_new(const char *fmt, ...) must_check __attribute__((format(printf, 1, 2)));
struct error *error_usage(const char *fmt, ...) must_check __attribute__((format(printf, 1, 2)));
/* Appends ": " and strerror(@errnum). */
struct error *error_errno(int errnum, const char *fmt, ...) must_check
	__attribute__((format(printf, 2, 3)));
/* Puts "what: " before the message of @err, which it consumes. */
struct error *error_prefix(struct error *err, const char *fmt, ...) must_check
	__attribute__((format(printf, 2, 3)));
/* Puts "cannot use PATH: " before it: the content of a file is a failure, not wrong use. */
struct error *error_in_file(struct error *err, const char *path) must_check;
/* NULL-safe. */
void error_free(struct error *err);

/* Returns upward at once if @call fails. */
#define try(call)                                \
	do {                                     \
		struct error *try_err_ = (call); \
		if (try_err_)                    \
			return try_err_;         \
	} while (0)

#endif
