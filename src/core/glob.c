// SPDX-License-Identifier: GPL-2.0-only
#include "core/glob.h"

#include <string.h>

#include "core/util.h"

/* The bytes that one element of a pattern accepts. */
struct element {
	bool accepts[256];
};

static void accept(struct element *e, unsigned char c)
{
	e->accepts[c] = true;
	if (c == '!')
		e->accepts['/'] = true;
}

/* @p is behind the '['; moves it behind the ']'. */
static struct error *parse_class(const char *pattern, const char **p, struct element *e)
{
	const char *at = *p;
	bool negated = *at == '!' || *at == '^';

	at += negated;
	for (bool first = true; first || *at != ']'; first = false) {
		unsigned char from = (unsigned char)*at, to = from;

		if (from == '[' && at[1] && strchr(":.=", at[1]))
			return error_usage("'[%c' in '%s' is not offered: write the characters",
					   at[1], pattern);
		if (from && at[1] == '-' && at[2] && at[2] != ']') {
			to = (unsigned char)at[2];
			at += 2;
		}
		if (!from)
			return error_usage("a '[' in '%s' has no ']'", pattern);
		if (to < from)
			return error_usage("the range %c-%c in '%s' must ascend", from, to,
					   pattern);
		for (unsigned int c = from; c <= to; c++)
			accept(e, (unsigned char)c);
		at++;
	}
	for (int c = 0; c < 256; c++)
		e->accepts[c] = c && e->accepts[c] != negated;
	*p = at + 1;
	return NULL;
}

/* Reads the element at @p and moves @p behind it. */
static struct error *parse_element(const char *pattern, const char **p, struct element *e)
{
	char c = *(*p)++;

	*e = (struct element){};
	if (c == '[')
		return parse_class(pattern, p, e);
	if (c == '?')
		memset(&e->accepts[1], true, 255);
	else
		accept(e, (unsigned char)c);
	return NULL;
}

struct error *glob_compile(const char *pattern, struct glob *ret)
{
	struct element elements[GLOB_ELEMENTS_MAX];
	bool star[GLOB_ELEMENTS_MAX + 1] = {};
	const char *p = pattern;
	struct glob glob = {};
	unsigned int n = 0, shift;

	if (!*pattern)
		return error_usage("an empty pattern matches no disk");
	while (*p) {
		if (*p == '*') {
			star[n] = true;
			p++;
			continue;
		}
		if (n == GLOB_ELEMENTS_MAX - 1)
			return error_usage("'%s' is too long: no more than %d characters besides *",
					   pattern, GLOB_ELEMENTS_MAX - 1);
		try(parse_element(pattern, &p, &elements[n++]));
	}
	elements[n] = (struct element){ .accepts[0] = true }; /* the end of the name */
	n++;
	shift = GLOB_ELEMENTS_MAX - n;
	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int c = 0; c < 256; c++)
			glob.accepts[c] |= (__u32)elements[i].accepts[c] << (shift + i);
		glob.stay |= (__u32)star[i] << (shift + i);
	}
	glob.stay |= 1u << GLOB_ELEMENTS_MAX; /* all has matched */
	glob.start = 1u << shift;
	*ret = glob;
	return NULL;
}

bool glob_matches_name(const struct glob *glob, const char *name)
{
	char padded[DISK_NAME_LEN] = {};

	if (strlen(name) >= sizeof(padded))
		return false;
	memcpy(padded, name, strlen(name));
	return glob_matches(glob, padded);
}
