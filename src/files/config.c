// SPDX-License-Identifier: GPL-2.0-only
#include "files/config.h"

#include <string.h>

#include "core/config.h"
#include "core/util.h"

static char *ladder_text(const struct meta_ladder *m, enum dimension dim)
{
	struct ladder l = { .dim = dim, .n = (unsigned int)m->n };

	if (m->text[0])
		return xstrdup(m->text);
	memcpy(l.bound, m->bound, l.n * sizeof(l.bound[0]));
	return ladder_format(&l);
}

static void kinds_text(unsigned int kinds, struct buf *out)
{
	const char *comma = "";

	for (enum hist_kind kind = 0; kind < KIND_NR; kind++) {
		if (!(kinds & 1u << kind))
			continue;
		buf_printf(out, "%s%s", comma, hist_kind_names[kind]);
		comma = ",";
	}
}

void config_text(const struct live_status *status, struct buf *out)
{
	for (unsigned int i = 0; i < status->meta->rules; i++) {
		const struct rule *rule = &status->rules[i];

		buf_printf(out, "%s[%s]\n", i ? "\n" : "", i ? rule->glob_text : "default");
		for (enum dimension dim = 0; dim < LADDER_KINDS; dim++) {
			cleanup_free char *text = ladder_text(&rule->ladders[dim], dim);

			buf_printf(out, "%s = %s\n", config_item_names[dim], text);
		}
		buf_printf(out, "%s = ", config_item_names[CONFIG_KINDS]);
		kinds_text(rule->kinds, out);
		buf_printf(out, "\n%s = %s\n", config_item_names[CONFIG_IGNORE],
			   rule->ignore ? "yes" : "no");
	}
}
