// SPDX-License-Identifier: GPL-2.0-only
#include "core/snapshot.h"

#include <string.h>

#include "core/util.h"

void snapshot_deinit(struct snapshot *s)
{
	for (unsigned int i = 0; i < s->n_hists; i++)
		hist_deinit(&s->hists[i]);
	for (unsigned int i = 0; i < s->n_ladders; i++)
		free(s->ladders[i]);
	free(s->hists);
	free(s->ladders);
	free(s->losses);
	*s = (struct snapshot){};
}

const struct ladder *snapshot_ladder(struct snapshot *s, const struct ladder *l)
{
	struct ladder *copy;

	for (unsigned int i = 0; i < s->n_ladders; i++)
		if (ladder_equal(s->ladders[i], l))
			return s->ladders[i];
	copy = xcalloc(1, sizeof(*copy));
	*copy = *l;
	s->ladders = xreallocarray(s->ladders, s->n_ladders + 1, sizeof(struct ladder *));
	s->ladders[s->n_ladders++] = copy;
	return copy;
}

struct hist *snapshot_add(struct snapshot *s)
{
	if (s->n_hists == s->hists_size) {
		s->hists_size = s->hists_size * 2 + 16;
		s->hists = xreallocarray(s->hists, s->hists_size, sizeof(*s->hists));
	}
	s->hists[s->n_hists] = (struct hist){};
	return &s->hists[s->n_hists++];
}

void snapshot_add_loss(struct snapshot *s, const char *name, const char *help, uint64_t count)
{
	s->losses = xreallocarray(s->losses, s->n_losses + 1, sizeof(*s->losses));
	s->losses[s->n_losses++] = (struct loss){ name, help, count };
}

static int compare(const void *pa, const void *pb)
{
	const struct hist *a = pa, *b = pb;
	int c = strverscmp(a->name.disk, b->name.disk);

	if (!c)
		c = strverscmp(a->name.partition, b->name.partition);
	if (!c)
		c = (int)a->kind - (int)b->kind;
	return c ? c : (int)a->op - (int)b->op;
}

void snapshot_sort(struct snapshot *s)
{
	if (s->n_hists)
		qsort(s->hists, s->n_hists, sizeof(*s->hists), compare);
}

void snapshot_total(struct snapshot *s)
{
	for (unsigned int i = 0; i < s->n_hists; i++) {
		struct hist *h = &s->hists[i];

		for (unsigned int row = 1; row < h->n_rows; row++)
			for (unsigned int col = 0; col < h->n_cols; col++)
				h->counts[col] += hist_row(h, row)[col];
		h->sums[0] = hist_sum(h);
		h->n_rows = 1;
		h->sizes = NULL;
	}
}
