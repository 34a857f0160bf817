// SPDX-License-Identifier: GPL-2.0-only
#include "cli/settings.h"

#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "core/units.h"
#include "core/util.h"

static const char *const built_in[CONFIG_NR] = {
	[CONFIG_TIME] = BLKHIST_DEFAULT_TIME_LADDER,
	[CONFIG_SIZE] = BLKHIST_DEFAULT_SIZE_LADDER,
	[CONFIG_SEEK] = BLKHIST_DEFAULT_SEEK_LADDER,
	[CONFIG_KINDS] = "all",
	[CONFIG_IGNORE] = "no",
};

/* The file that is named, or that of the system if it is there. */
static struct error *read_config(const char *path, struct config *config)
{
	cleanup_free char *of_system = xasprintf("%s" CONFIG_PATH, system_paths.root);
	struct error *err;

	if (path)
		return config_read(path, config);
	err = config_read(of_system, config);
	if (err && err->errnum == ENOENT) {
		error_free(err);
		return NULL;
	}
	return err;
}

struct error *settings_read(const char *path, const struct ladder_settings *ladders,
			    const char *kinds, struct config *config)
{
	try(read_config(path, config));
	for (int i = 0; i < LADDER_KINDS; i++)
		if (ladders->spec[i])
			try(config_set(&config->rules[0], (enum config_item)i, ladders->spec[i]));
	if (kinds)
		try(config_set(&config->rules[0], CONFIG_KINDS, kinds));
	return config_complete(config, built_in);
}

struct error *choice_parse(const char *command, const char *option, const char *const *names, int n,
			   const char *name, int *ret)
{
	for (int i = 0; i < n; i++) {
		if (!strcmp(names[i], name)) {
			*ret = i;
			return NULL;
		}
	}
	return error_usage("--%s '%s' is unknown; see: blkhist %s --help", option, name, command);
}

struct error *number_parse(const char *command, const char *option, const char *text, uint64_t min,
			   uint64_t max, uint64_t *ret)
{
	struct error *err = parse_u64(text, min, max, ret);

	return err ? error_prefix(err, "%s: --%s", command, option) : NULL;
}

#define DURATION_MIN 10000000ll /* ns */
#define DURATION_MAX (86400ll * 1000000000)

struct error *duration_parse(const char *command, const char *what, const char *s, int64_t *ret)
{
	bool bare = strspn(s, "0123456789.") == strlen(s);
	cleanup_free char *text = xasprintf("%s%s", s, bare ? "s" : "");
	int64_t ns;

	try(unit_parse(DIM_TIME, text, &ns));
	if (ns < DURATION_MIN || ns > DURATION_MAX)
		return error_usage("%s: %s %s is not in 10ms..86400s", command, what, s);
	*ret = ns;
	return NULL;
}
