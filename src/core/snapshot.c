// SPDX-License-Identifier: GPL-2.0-only
#include "core/snapshot.h"

#include <stdarg.h>
#include <string.h>

#include "core/util.h"

void snapshot_deinit(struct snapshot *s)
{
	for (unsigned int i = 0; i < s->n_hists; i++)
		hist_deinit(&s->hists[i]);
	for (unsigned int i = 0; i < s->n_ladders; i++)
		free(s->ladders[i]);
	for (unsigned int i = 0; i < s->n_notes; i++)
		free(s->notes[i]);
	free(s->notes);
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

struct loss *snapshot_add_loss(struct snapshot *s, const char *name, const char *help,
			       uint64_t count)
{
	s->losses = xreallocarray(s->losses, s->n_losses + 1, sizeof(*s->losses));
	s->losses[s->n_losses] = (struct loss){ .name = name, .help = help, .count = count };
	return &s->losses[s->n_losses++];
}

void snapshot_add_note(struct snapshot *s, const char *fmt, ...)
{
	va_list ap;

	s->notes = xreallocarray(s->notes, s->n_notes + 1, sizeof(char *));
	va_start(ap, fmt);
	s->notes[s->n_notes++] = xvasprintf(fmt, ap);
	va_end(ap);
}

static int compare(const void *pa, const void *pb)
{
	const struct hist *a = pa, *b = pb;
	int c = device_name_compare(&a->name, &b->name);

	/* Devices that are gone come after the one of that name that is there, one by one. */
	if (!c)
		c = COMPARE(a->gone, b->gone);
	if (!c && a->gone)
		c = COMPARE(a->diskseq, b->diskseq);
	if (!c && a->gone)
		c = COMPARE(a->sysfs_id, b->sysfs_id);
	if (!c)
		c = (int)a->kind - (int)b->kind;
	return c ? c : (int)a->op - (int)b->op;
}

void snapshot_sort(struct snapshot *s)
{
	if (s->n_hists)
		qsort(s->hists, s->n_hists, sizeof(*s->hists), compare);
}

/* Whether @newer counts on where @older was read: the same counters, none of which has fallen. */
static bool continues(const struct hist *newer, const struct hist *older)
{
	/* A disk that only its partitions had used gets counters of its own: nothing begins anew. */
	bool same_generation = !older->generation || newer->generation == older->generation;

	if (newer->sysfs_id != older->sysfs_id || newer->diskseq != older->diskseq ||
	    !same_generation || !hist_same_shape(newer, older))
		return false;
	for (size_t i = 0; i < (size_t)newer->n_rows * newer->n_cols; i++)
		if (newer->counts[i] < older->counts[i])
			return false;
	return true;
}

static void delta_hist(const struct hist *newer, const struct hist *older, struct snapshot *ret)
{
	struct hist *h = snapshot_add(ret);

	*h = *newer;
	hist_init(h, snapshot_ladder(ret, newer->ladder),
		  newer->sizes ? snapshot_ladder(ret, newer->sizes) : NULL);
	h->bytes = 0; /* merging brings it */
	hist_merge(h, newer);
	if (older && continues(newer, older)) {
		hist_subtract(h, older);
		h->since_ns = ret->since_ns;
	}
}

/* A loss that is less than before has not risen. */
static void delta_losses(const struct snapshot *newer, const struct snapshot *older,
			 struct snapshot *ret)
{
	for (unsigned int i = 0; i < newer->n_losses; i++) {
		const struct loss *l = &newer->losses[i];
		uint64_t before = 0;

		for (unsigned int k = 0; older && k < older->n_losses; k++)
			if (!strcmp(older->losses[k].name, l->name))
				before = older->losses[k].count;
		snapshot_add_loss(ret, l->name, l->help, l->count > before ? l->count - before : 0)
			->usual = l->usual;
	}
}

void snapshot_delta(const struct snapshot *newer, const struct snapshot *older,
		    struct snapshot *ret)
{
	const struct snapshot *base = newer->since_ns == older->since_ns ? older : NULL;

	*ret = (struct snapshot){
		.time_ns = newer->time_ns,
		.clock_ns = newer->clock_ns - older->clock_ns,
		.since_ns = older->time_ns,
		.source = newer->source,
	};
	for (unsigned int i = 0; i < newer->n_hists; i++) {
		const struct hist *h = &newer->hists[i], *before = NULL;

		if (base && base->n_hists)
			before = bsearch(h, base->hists, base->n_hists, sizeof(*h), compare);
		delta_hist(h, before, ret);
	}
	delta_losses(newer, base, ret);
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
