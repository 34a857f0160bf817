// SPDX-License-Identifier: GPL-2.0-only
#include "core/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"

struct unit {
	const char *name;
	int64_t factor;
};

/* Ascending; the first one of sectors stands for "no unit". */
static const struct unit time_units[] = {
	{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, {}
};
static const struct unit size_units[] = { { "B", 1 },           { "KiB", 1ll << 10 },
					  { "MiB", 1ll << 20 }, { "GiB", 1ll << 30 },
					  { "TiB", 1ll << 40 }, {} };

static const struct dimension_info {
	const char *what, *units_text;
	const struct unit *units;
	bool unit_required, is_signed;
	int64_t divisor; /* from the smallest unit to the value */
} dimensions[] = {
	[DIM_TIME] = { "time", "ns, us, ms or s", time_units, .unit_required = true, .divisor = 1 },
	[DIM_SIZE] = { "size", "B, KiB, MiB, GiB or TiB", size_units, .divisor = 1 },
	[DIM_SECTORS] = { "distance", "none for sectors, or B, KiB, MiB, GiB or TiB", size_units,
			  .is_signed = true, .divisor = SECTOR_SIZE },
};

struct error *parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = isdigit((unsigned char)*s) ? strtoull(s, &end, 10) : 0;
	if (!isdigit((unsigned char)*s) || *end)
		return error_usage("'%s' is not a number", s);
	if (errno || v < min || v > max)
		return error_usage("%s is not in %" PRIu64 "..%" PRIu64, s, min, max);
	*ret = v;
	return NULL;
}

struct error *unit_parse(enum dimension dim, const char *s, int64_t *ret)
{
	const struct dimension_info *d = &dimensions[dim];
	const struct unit *unit = d->units;
	const char *p = s;
	bool negative = d->is_signed && *p == '-';
	/* The digits without the point: at most 19, as 2^62 has, times at most 2^40. */
	__int128 digits = 0;
	int64_t scale = 1, divisor = d->divisor;
	int n = 0;

	p += negative;
	for (bool point = false; isdigit((unsigned char)*p) || (*p == '.' && n && !point); p++) {
		if (*p == '.') {
			point = true;
			continue;
		}
		if (++n > 19)
			return error_usage("%s '%s' is too long", d->what, s);
		digits = digits * 10 + (*p - '0');
		if (point)
			scale *= 10;
	}
	if (!n || p[-1] == '.')
		return error_usage("'%s' is not a %s", s, d->what);
	if (*p) {
		while (unit->name && strcmp(unit->name, p))
			unit++;
		if (!unit->name)
			return error_usage("'%s' has an unknown unit '%s' (%s)", s, p,
					   d->units_text);
	} else if (d->is_signed) {
		divisor = 1;
	} else if (d->unit_required && digits) {
		return error_usage("%s '%s' needs a unit (%s)", d->what, s, d->units_text);
	}
	digits *= unit->factor;
	if (digits % ((__int128)scale * divisor))
		return error_usage("'%s' is not a whole number of %s", s,
				   dim == DIM_TIME ? "nanoseconds" :
				   dim == DIM_SIZE ? "bytes" :
						     "sectors of 512 bytes");
	digits /= (__int128)scale * divisor;
	if (digits >= (__int128)1 << 62)
		return error_usage("%s '%s' is out of range", d->what, s);
	*ret = negative ? -(int64_t)digits : (int64_t)digits;
	return NULL;
}

/* The largest unit that is not greater than @v. */
static const struct unit *unit_for(const struct unit *units, uint64_t v)
{
	const struct unit *best = units;

	for (const struct unit *u = units; u->name; u++)
		if ((uint64_t)u->factor <= v)
			best = u;
	return best;
}

void unit_format_exact(enum dimension dim, int64_t value, char ret[UNIT_TEXT_MAX])
{
	const struct dimension_info *d = &dimensions[dim];
	uint64_t v = value < 0 ? -(uint64_t)value : (uint64_t)value;
	const struct unit *u = unit_for(d->units, v);
	char fraction[16];
	int n;

	if (dim == DIM_SECTORS) {
		snprintf(ret, UNIT_TEXT_MAX, "%" PRId64, value);
		return;
	}
	if (dim == DIM_SIZE) {
		while (v % u->factor)
			u--;
		snprintf(ret, UNIT_TEXT_MAX, "%" PRIu64 "%s", v / u->factor, u->name);
		return;
	}
	if (v % u->factor == 0) {
		snprintf(ret, UNIT_TEXT_MAX, "%" PRIu64 "%s", v / u->factor, u->name);
		return;
	}
	/* Times: a factor is a power of ten, so the decimals are the remainder itself. */
	n = snprintf(fraction, sizeof(fraction), "%" PRIu64, u->factor + v % u->factor);
	while (fraction[n - 1] == '0')
		fraction[--n] = '\0';
	snprintf(ret, UNIT_TEXT_MAX, "%" PRIu64 ".%s%s", v / u->factor, fraction + 1, u->name);
}

void unit_format_short(enum dimension dim, int64_t value, char ret[UNIT_TEXT_MAX])
{
	const struct dimension_info *d = &dimensions[dim];
	uint64_t v = value < 0 ? -(uint64_t)value : (uint64_t)value;
	const struct unit *u = unit_for(d->units, v);
	double scaled = (double)v / (double)u->factor;
	int decimals;

	if (dim == DIM_SECTORS) {
		unit_format_exact(dim, value, ret);
		return;
	}
	/* What would round to a whole unit of the next kind is one. */
	if (u[1].name && scaled + 0.5 >= (double)(u[1].factor / u->factor)) {
		u++;
		scaled = 1;
	}
	if (scaled == (double)(int64_t)scaled || scaled >= 99.95)
		decimals = 0;
	else
		decimals = scaled >= 9.995 ? 1 : 2;
	snprintf(ret, UNIT_TEXT_MAX, "%.*f%s", decimals, scaled, u->name);
}
