// SPDX-License-Identifier: GPL-2.0-only
#include "core/config.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/glob.h"
#include "core/hist.h"
#include "core/util.h"

const char *const config_item_names[CONFIG_NR] = {
	[CONFIG_TIME] = "time",   [CONFIG_SIZE] = "size",     [CONFIG_SEEK] = "seek",
	[CONFIG_KINDS] = "kinds", [CONFIG_IGNORE] = "ignore",
};

#define BLANKS " \t\r\n"

void config_init(struct config *config)
{
	memset(config, 0, sizeof(*config));
	config->n = 1;
}

void config_deinit(struct config *config)
{
	for (unsigned int i = 0; i < config->n; i++)
		for (int k = 0; k < LADDER_KINDS; k++)
			free(config->rules[i].texts[k]);
	config_init(config);
}

/* --- items --- */

static struct error *parse_bool(const char *value, bool *ret)
{
	static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!strcasecmp(value, words[i])) {
			*ret = i % 2;
			return NULL;
		}
	}
	return error_usage("'%s' is neither yes nor no", value);
}

struct error *config_set(struct config_rule *rule, enum config_item item, const char *value)
{
	struct ladder ladder;

	if (item == CONFIG_KINDS) {
		try(hist_kinds_parse(value, &rule->kinds));
	} else if (item == CONFIG_IGNORE) {
		try(parse_bool(value, &rule->ignore));
	} else {
		try(ladder_parse((enum dimension)item, value, &ladder));
		rule->ladders[item] = ladder;
		free(rule->texts[item]);
		rule->texts[item] = xstrdup(value);
	}
	rule->given |= 1u << item;
	return NULL;
}

static void take_over(struct config_rule *rule, const struct config_rule *from)
{
	for (int k = 0; k < LADDER_KINDS; k++) {
		if (rule->given & 1u << k)
			continue;
		rule->ladders[k] = from->ladders[k];
		rule->texts[k] = xstrdup(from->texts[k]);
	}
	if (!(rule->given & 1u << CONFIG_KINDS))
		rule->kinds = from->kinds;
	if (!(rule->given & 1u << CONFIG_IGNORE))
		rule->ignore = from->ignore;
}

struct error *config_complete(struct config *config, const char *const built_in[CONFIG_NR])
{
	for (enum config_item item = 0; item < CONFIG_NR; item++)
		if (!(config->rules[0].given & 1u << item))
			try(config_set(&config->rules[0], item, built_in[item]));
	for (unsigned int i = 1; i < config->n; i++)
		take_over(&config->rules[i], &config->rules[0]);
	return NULL;
}

/* --- files --- */

/*
 * libinih asks for one line after the other, and calls back for each KEY = VALUE. What it does not
 * tell is known from the lines that it is given: their numbers, sections without a key, which it
 * passes over, and names of sections with a ']', which it cuts there. So headings are read here,
 * and it sees only that there is one.
 */
struct reading {
	const char *at, *end;
	struct config *config;
	struct config_rule *rule; /* the section; NULL before the first */
	bool seen_default;
	unsigned int line;
	bool continued; /* the line goes on with the value of the one before */
	/* A value may go on, so it is set when the next item or section begins. */
	int item; /* -1: none */
	unsigned int item_line;
	struct buf value;
	unsigned int error_line;
	struct error *err;
};

static void fail(struct reading *r, unsigned int line, struct error *err)
{
	if (r->err) {
		error_free(err);
		return;
	}
	r->err = err;
	r->error_line = line;
}

static void end_item(struct reading *r)
{
	struct error *err;

	if (r->item < 0)
		return;
	err = config_set(r->rule, (enum config_item)r->item, r->value.str);
	/* The errors of ladders begin with their name. */
	if (err && r->item >= LADDER_KINDS)
		err = error_prefix(err, "%s", config_item_names[r->item]);
	if (err)
		fail(r, r->item_line, err);
	r->item = -1;
	buf_deinit(&r->value);
}

static struct error *begin_section(struct reading *r, const char *name)
{
	struct config *config = r->config;
	struct config_rule *rule = &config->rules[config->n];

	if (!strcmp(name, "default")) {
		if (r->seen_default)
			return error_usage("[default] is there twice");
		r->seen_default = true;
		r->rule = &config->rules[0];
		return NULL;
	}
	for (unsigned int i = 1; i < config->n; i++)
		if (!strcmp(config->rules[i].pattern, name))
			return error_usage("[%s] is there twice", name);
	if (config->n == RULES_MAX)
		return error_usage("[%s] is one section too many: at most %d are possible besides "
				   "[default]",
				   name, RULES_MAX - 1);
	if (strlen(name) >= RULE_GLOB_MAX)
		return error_usage("[%s] is longer than %d characters", name, RULE_GLOB_MAX - 1);
	try(glob_compile(name, &rule->glob));
	memcpy(rule->pattern, name, strlen(name));
	config->n++;
	r->rule = rule;
	return NULL;
}

/* Ends @line before a comment: a ';' behind a blank, as libinih has them. */
static void cut_comment(char *line)
{
	for (char *p = line; (p = strchr(p, ';')); p++) {
		if (p > line && strchr(BLANKS, p[-1])) {
			*p = '\0';
			return;
		}
	}
}

/* @line begins with '['. The section ends with the last ']', behind which may be a comment. */
static struct error *read_heading(struct reading *r, char *line)
{
	char *close;

	cut_comment(line);
	close = strrchr(line, ']');
	if (!close || close[1 + strspn(close + 1, BLANKS)])
		return error_usage("'%.*s' is no section: it must end with a ']'",
				   (int)strcspn(line, "\r\n"), line);
	*close = '\0';
	return begin_section(r, line + 1);
}

/* Why the line that comes next, of @len bytes, cannot be read; NULL if it can. */
static struct error *check_line(const struct reading *r, size_t len, size_t size)
{
	if (memchr(r->at, '\0', len))
		return error_usage("this is not text");
	if (len >= size)
		return error_usage("the line is longer than %zu characters; a value may go on in "
				   "the next line if that begins with a blank",
				   size - 2);
	return NULL;
}

/* As fgets(), for libinih. */
static char *read_line(char *line, int size, void *arg)
{
	struct reading *r = arg;
	size_t left = (size_t)(r->end - r->at), len, blanks;
	const char *newline = memchr(r->at, '\n', left);
	struct error *err;

	if (r->err || !left)
		return NULL;
	len = newline ? (size_t)(newline + 1 - r->at) : left;
	r->line++;
	err = check_line(r, len, (size_t)size);
	if (!err) {
		memcpy(line, r->at, len);
		line[len] = '\0';
		r->at += len;
		blanks = strspn(line, BLANKS);
		/* Items may be indented: only a line that is none goes on with the one before. */
		r->continued = blanks && r->item >= 0 && !strchr(line, '=');
		if (r->continued)
			cut_comment(line); /* libinih before r56 does not */
		else
			memmove(line, line + blanks, len + 1 - blanks);
		if (line[0] == '[') {
			end_item(r);
			err = read_heading(r, line);
			memcpy(line, "[]", sizeof("[]"));
		}
	}
	if (err)
		fail(r, r->line, err);
	return r->err ? NULL : line;
}

static struct error *begin_item(struct reading *r, const char *name)
{
	enum config_item item = 0;

	if (!r->rule)
		return error_usage("'%s' stands before any section; put it below [default]", name);
	while (item < CONFIG_NR && strcmp(config_item_names[item], name))
		item++;
	if (item == CONFIG_NR)
		return error_usage("unknown item '%s' (time, size, seek, kinds, ignore)", name);
	if (r->rule->given & 1u << item)
		return error_usage("'%s' is there twice in its section", name);
	r->item = (int)item;
	r->item_line = r->line;
	return NULL;
}

/* The handler of libinih: nonzero on success. */
static int read_item(void *arg, const char *section, const char *name, const char *value)
{
	struct reading *r = arg;
	struct error *err;

	(void)section;
	if (!r->continued) {
		end_item(r);
		err = begin_item(r, name);
		if (err)
			fail(r, r->line, err);
	}
	/* An error of the item before does not change that this one has a value. */
	if (r->item >= 0)
		buf_puts(&r->value, value ? value : "");
	return !r->err;
}

struct error *config_parse(const char *text, size_t len, const char *name, struct config *config)
{
	struct reading r = { .at = text, .end = text + len, .config = config, .item = -1 };
	int line = ini_parse_stream(read_line, &r, read_item, &r);

	end_item(&r);
	buf_deinit(&r.value);
	/* A line that libinih makes nothing of does not end its reading. */
	if (line > 0 && (!r.err || (unsigned int)line < r.error_line)) {
		error_free(r.err);
		r.err = error_usage("neither [SECTION] nor ITEM = VALUE");
		r.error_line = (unsigned int)line;
	}
	if (line < 0)
		fail(&r, r.line, error_new("libinih cannot read this"));
	if (!r.err)
		return NULL;
	r.err->class = ERROR_FAILED;
	return error_prefix(r.err, "%s:%u", name, r.error_line);
}

struct error *config_read(const char *path, struct config *config)
{
	cleanup(buf_deinit) struct buf text = {};

	try(buf_read_file(&text, "the configuration", path, CONFIG_FILE_MAX));
	return config_parse(text.str, text.len, path, config);
}
