// SPDX-License-Identifier: GPL-2.0-only
#include "core/ladder.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/buf.h"
#include "core/util.h"

const char *const ladder_names[LADDER_KINDS] = {
	[DIM_TIME] = "time",
	[DIM_SIZE] = "size",
	[DIM_SECTORS] = "seek",
};

static const struct dim_info {
	unsigned int max;
	const char *range; /* of generators that name none */
	const char *what;
} dims[] = {
	[DIM_TIME] = { TIME_BOUNDS_MAX, "1us..16s", "time" },
	[DIM_SIZE] = { SIZE_BOUNDS_MAX, "512..1MiB", "size" },
	[DIM_SECTORS] = { SEEK_BOUNDS_SIDE, "1..32TiB", "seek" },
};

unsigned int ladder_max(enum dimension dim)
{
	return dims[dim].max;
}

static struct error *add(struct ladder *l, int64_t bound, const char *item)
{
	unsigned int max = dims[l->dim].max, side = 0;

	if (l->n && bound <= l->bound[l->n - 1])
		return error_usage("'%s' is not greater than the bound before it", item);
	/* Distances have a maximum per direction; 0 belongs to neither. */
	for (unsigned int i = 0; i < l->n; i++)
		side += l->dim != DIM_SECTORS || (l->bound[i] > 0 && bound > 0) ||
			(l->bound[i] < 0 && bound < 0);
	if (side >= max)
		return error_usage("'%s' is one bound too many: at most %u are possible%s", item,
				   max, l->dim == DIM_SECTORS ? " per direction" : "");
	l->bound[l->n++] = bound;
	return NULL;
}

/* Item @i of a generator, with @param its number; GENERATE_END beyond 2^62, as every bound. */
#define GENERATE_END INT64_MAX
typedef int64_t generate_fn(int64_t i, int64_t param, int64_t lo);

static int64_t gen_log2(int64_t i, int64_t param, int64_t lo)
{
	(void)param, (void)lo;
	return i < 62 ? (int64_t)1 << i : GENERATE_END;
}

static int64_t gen_125(int64_t i, int64_t param, int64_t lo)
{
	static const int mantissa[] = { 1, 2, 5 };
	int64_t value = mantissa[i % 3];

	(void)param, (void)lo;
	for (i /= 3; i > 0; i--)
		if (__builtin_mul_overflow(value, 10, &value))
			return GENERATE_END;
	return value;
}

static int64_t gen_linear(int64_t i, int64_t param, int64_t lo)
{
	int64_t value;

	if (__builtin_mul_overflow(i, param, &value) || __builtin_add_overflow(value, lo, &value))
		return GENERATE_END;
	return value;
}

/*
 * Bounds of a Prometheus native histogram of schema @param, in ns; i = 0 lies at 2^-30 s. Rounded
 * down: a whole number of ns is at most the bound if and only if it is at most its floor.
 */
static int64_t gen_native(int64_t i, int64_t param, int64_t lo)
{
	long double value = 1e9L * exp2l((long double)i / (long double)(1ll << param) - 30);

	(void)lo;
	return value < 0x1p62L ? (int64_t)floorl(value) : GENERATE_END;
}

enum param { PARAM_NONE, PARAM_SCHEMA, PARAM_STEP };

static const struct generator {
	const char *name;
	enum param param;
	generate_fn *generate;
} generators[] = {
	{ "log2", PARAM_NONE, gen_log2 },
	{ "125", PARAM_NONE, gen_125 },
	{ "linear", PARAM_STEP, gen_linear },
	{ "native", PARAM_SCHEMA, gen_native },
};

/* Prometheus has schemas -4..8; beyond 4 no ladder of 128 bounds spans a useful range. */
#define SCHEMA_MAX 4

static const struct generator *generator_find(const char *spec, size_t len)
{
	size_t name = strcspn(spec, ":");

	if (name > len)
		name = len;
	for (size_t i = 0; i < ARRAY_SIZE(generators); i++)
		if (strlen(generators[i].name) == name && !strncmp(generators[i].name, spec, name))
			return &generators[i];
	return NULL;
}

static struct error *parse_param(const struct generator *g, enum dimension dim, const char *head,
				 int64_t *param)
{
	const char *colon = strchr(head, ':');
	uint64_t schema;

	if (!colon != (g->param == PARAM_NONE))
		return error_usage(colon ? "'%s' takes no parameter" :
					   "'%s' needs a parameter, %s:...",
				   head, g->name);
	if (g->param == PARAM_SCHEMA) {
		if (dim != DIM_TIME)
			return error_usage("'%s' is for times only", head);
		try(parse_u64(colon + 1, 0, SCHEMA_MAX, &schema));
		*param = (int64_t)schema;
	} else if (g->param == PARAM_STEP) {
		try(unit_parse(dim, colon + 1, param));
		if (*param <= 0)
			return error_usage("the step of '%s' must be greater than 0", head);
	}
	return NULL;
}

static struct error *parse_range(enum dimension dim, const char *range, int64_t *lo, int64_t *hi)
{
	cleanup_free char *from = xstrdup(range);
	char *to = strstr(from, "..");

	if (!to)
		return error_usage("'%s' is not a range LO..HI", range);
	*to = '\0';
	to += 2;
	try(unit_parse(dim, from, lo));
	try(unit_parse(dim, to, hi));
	if (*lo < 0 || *hi < *lo)
		return error_usage("the range '%s' must ascend and not be negative", range);
	return NULL;
}

static struct error *generate(const struct generator *g, const char *spec, struct ladder *l)
{
	cleanup_free char *head = xstrdup(spec);
	char *comma = strchr(head, ',');
	int64_t param = 0, lo = 0, hi = 0, side[TIME_BOUNDS_MAX];
	unsigned int n = 0, max = dims[l->dim].max;

	if (comma)
		*comma = '\0';
	try(parse_param(g, l->dim, head, &param));
	try(parse_range(l->dim, comma ? comma + 1 : dims[l->dim].range, &lo, &hi));

	/* Bounded: the generators reach 2^62 in 62 * 2^SCHEMA_MAX steps, linear has @max. */
	for (int64_t i = 0;; i++) {
		int64_t value = g->generate(i, param, lo);

		if (value == GENERATE_END || value > hi)
			break;
		if (value < lo || (n && value == side[n - 1]) ||
		    (l->dim == DIM_SECTORS && value == 0))
			continue;
		if (n >= max)
			return error_usage("'%s' has more than %u bounds%s", spec, max,
					   l->dim == DIM_SECTORS ? " per direction" : "");
		side[n++] = value;
	}
	if (!n)
		return error_usage("'%s' has no bound between its ends", spec);
	if (l->dim == DIM_SECTORS) {
		for (unsigned int i = n; i-- > 0;)
			l->bound[l->n++] = -side[i];
		l->bound[l->n++] = 0;
	}
	for (unsigned int i = 0; i < n; i++)
		l->bound[l->n++] = side[i];
	return NULL;
}

static struct error *parse_list(const char *spec, struct ladder *l)
{
	cleanup_free char *copy = xstrdup(spec);
	char *next = copy, *item;

	while ((item = strsep(&next, ","))) {
		int64_t bound;

		try(unit_parse(l->dim, item, &bound));
		try(add(l, bound, item));
	}
	return NULL;
}

struct error *ladder_parse(enum dimension dim, const char *spec, struct ladder *ret)
{
	const struct generator *g = generator_find(spec, strcspn(spec, ","));
	struct ladder l = { .dim = dim };
	struct error *err;

	/* "125" alone could be a size or a distance; with a range behind it, it is the generator. */
	if (g && !strcmp(g->name, "125") && dim != DIM_TIME && !strstr(spec, ".."))
		g = NULL;
	err = g ? generate(g, spec, &l) : parse_list(spec, &l);
	if (err)
		return error_prefix(err, "%s ladder", dims[dim].what);
	*ret = l;
	return NULL;
}

unsigned int ladder_bucket(const struct ladder *l, int64_t value)
{
	const int64_t *from = l->bound;

	/* Without a branch on the values, which nobody could foresee. */
	for (unsigned int n = l->n, half; n; n -= half) {
		half = (n + 1) / 2;
		from += from[half - 1] < value ? half : 0;
	}
	return (unsigned int)(from - l->bound);
}

bool ladder_zero_alone(const struct ladder *l)
{
	unsigned int zero = ladder_bucket(l, 0);

	return zero && zero < l->n && l->bound[zero] == 0 && l->bound[zero - 1] == -1;
}

bool ladder_equal(const struct ladder *a, const struct ladder *b)
{
	return a->dim == b->dim && a->n == b->n &&
	       !memcmp(a->bound, b->bound, a->n * sizeof(a->bound[0]));
}

char *ladder_format(const struct ladder *l)
{
	struct buf b = {};
	char text[UNIT_TEXT_MAX];

	for (unsigned int i = 0; i < l->n; i++) {
		unit_format_exact(l->dim, l->bound[i], text);
		if (i)
			buf_puts(&b, ",");
		buf_puts(&b, text);
	}
	return b.str;
}
