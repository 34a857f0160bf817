// SPDX-License-Identifier: GPL-2.0-only
#include "cli/recorder.h"

#include <string.h>

#include "core/units.h"
#include "core/util.h"

void devices_chosen_deinit(struct devices_chosen *c)
{
	free((void *)c->devices);
}

struct error *devices_chosen_add(const struct device_list *devices, const char *name,
				 struct devices_chosen *c)
{
	const struct device *found;

	try(device_find(devices, name, &found));
	c->devices = xreallocarray((void *)c->devices, c->n + 1, sizeof(*c->devices));
	c->devices[c->n++] = found;
	return NULL;
}

struct error *devices_chosen_parse(const struct device_list *devices, const char *list,
				   struct devices_chosen *c)
{
	cleanup_free char *copy = list ? xstrdup(list) : NULL;
	char *rest = copy, *name;

	while ((name = strsep(&rest, ",")))
		try(devices_chosen_add(devices, name, c));
	return NULL;
}

struct error *min_time_parse(const char *command, const char *text, int64_t *ret)
{
	int64_t ns;

	try(unit_parse(DIM_TIME, text, &ns));
	if (ns < 1)
		return error_usage("%s: --min-time %s is not a time above 0", command, text);
	*ret = ns;
	return NULL;
}
