/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Numbers with units, in and out. Times are nanoseconds, sizes bytes, distances 512-byte sectors.
 * This is the only number parser: it checks the end, the range and the unit.
 */
#ifndef BLKHIST_CORE_UNITS_H
#define BLKHIST_CORE_UNITS_H

#include <stdint.h>

#include "core/error.h"

enum dimension { DIM_TIME, DIM_SIZE, DIM_SECTORS };

#define SECTOR_SIZE 512

/* The longest text that the unit_format_* functions write, with its NUL. */
#define UNIT_TEXT_MAX 48

/* Parses all of @s as a decimal number in @min..@max. */
struct error *parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret) must_check;

/*
 * Parses all of @s as a value of @dim. A fraction is accepted as long as the value is a whole
 * number of ns, bytes or sectors: "1.5us", "0.5KiB".
 *
 * DIM_TIME	ns, us, ms, s; a unit is required, except for 0
 * DIM_SIZE	B, KiB, MiB, GiB, TiB, or none for bytes; decimal units are refused as ambiguous
 * DIM_SECTORS	none for sectors, or a unit of DIM_SIZE for a multiple of 512 bytes; may be negative
 */
struct error *unit_parse(enum dimension dim, const char *s, int64_t *ret) must_check;

/*
 * Writes a value so that unit_parse() reads the same value back: "64KiB", "1.5ms", "-8". Units are
 * chosen to be short; nothing is rounded.
 */
void unit_format_exact(enum dimension dim, int64_t value, char ret[UNIT_TEXT_MAX]);

/* Writes a value for people, rounded to three significant digits at least: "1.19us", "4KiB". */
void unit_format_short(enum dimension dim, int64_t value, char ret[UNIT_TEXT_MAX]);

#endif
