// SPDX-License-Identifier: GPL-2.0-only
/* Reading and resetting: images of the counters, less their baselines, as histograms. */
#include <errno.h>
#include <string.h>

#include "core/timefmt.h"
#include "core/util.h"
#include "sources/inner.h"
#include "sources/live_internal.h"
#include "sources/object.h"

static struct snapshot snapshot_now(const struct live *live)
{
	return (struct snapshot){
		.source = "live",
		.since_ns = (int64_t)live->meta.since_realtime_ns,
		.time_ns = clock_ns(CLOCK_REALTIME),
		.clock_ns = clock_ns(CLOCK_MONOTONIC),
	};
}

/* The losses in the order and with the names of every output. */
static const struct {
	const char *name, *help;
} part_losses[PART_LOSS_NR] = {
	[LOSS_NO_START] = { "no_start", "no usable start stamp (queue/iostats is 0): service time only" },
	[LOSS_EARLY] = { "early", "issued before the start of the collector: request time only" },
	[LOSS_NO_ISSUE] = { "no_issue", "no issue stamp: request time only" },
	[LOSS_NEGATIVE] = { "negative", "issue stamp out of order: request time only" },
	[LOSS_UNSEEN] = { "unseen",
			  "completions that the kernel showed to no BPF program: not counted" },
	[LOSS_UNISSUED] = { "unissued", "never went to the device (empty flushes): request time only" },
	[LOSS_PARTIAL] = { "partial", "partial completions; they end nothing, nothing is lost" },
	[LOSS_SPLIT] = { "split", "bios split by drivers without requests; counted as one, nothing is lost" },
	[LOSS_ACCOUNTED] = { "accounted", "of passthrough, what /proc/diskstats has, too" },
	[LOSS_REQUEUE] = { "requeued", "requeues; service time counts from the last issue" },
}, global_losses[GLOBAL_LOSS_NR] = {
	[LOSS_PASSTHROUGH] = { "passthrough", "driver commands, in no histogram" },
	[LOSS_NO_PART] = { "no_counters", "completions on devices that found no counters ready: not counted" },
	[LOSS_NO_SLOT] = { "no_slot", "issues without a request slot: counted as no_issue later" },
	[LOSS_RECOVERED] = { "recovered", "skipped runs made good by the second program; nothing is lost" },
};

static const char no_counters_left[] =
	"completions on devices without counters, as all are in use (build option max_partitions): "
	"not counted";

/* Bits of what normal operation brings. */
#define USUAL_PART_LOSSES (1u << LOSS_UNISSUED | 1u << LOSS_ACCOUNTED)
#define USUAL_GLOBAL_LOSSES (1u << LOSS_PASSTHROUGH | 1u << LOSS_RECOVERED)

/*
 * Runs that the kernel skipped, as the program would have interrupted itself. Those of completions
 * that the second program has made good are no loss.
 */
static struct error *nested_runs(struct live *live, uint64_t *ret)
{
	*ret = 0;
	for (enum pin_prog prog = 0; prog < PROG_NR; prog++) {
		cleanup_free char *path =
			pins_path(&live->paths, "%s/progs/%s", live->dir, pin_progs[prog].name);
		cleanup_close int fd = bpf_obj_get(path);

		/* A skipped run of the second program matters only if the first was skipped too. */
		if (pin_progs[prog].nested)
			continue;
		if (fd < 0)
			return error_errno(errno, "cannot read the statistics of %s", path);
		try(program_skipped_runs(fd, ret));
	}
	return NULL;
}

/* Requests and losses of devices whose counters were given back. */
static struct error *given_back(struct live *live, uint64_t *requests,
				uint64_t losses[PART_LOSS_NR])
{
	cleanup(image_deinit) struct image record = {};

	*requests = 0;
	try(gone_record(live, &record));
	for (enum blk_op op = 0; op < OP_NR; op++) {
		*requests += image_requests(&record, op);
		for (unsigned int c = 0; c < PART_LOSS_NR; c++)
			losses[c] += image_loss(&record, c, op);
	}
	return NULL;
}

static struct error *add_losses(struct live *live, const struct slots *slots, uint64_t other_ladder,
				struct snapshot *snap)
{
	uint64_t part[PART_LOSS_NR] = {}, global[GLOBAL_LOSS_NR], nested, forgotten;

	try(given_back(live, &forgotten, part));
	for (unsigned int i = 0; i < slots->n; i++) {
		cleanup(image_deinit) struct image im = {};

		try(slot_image(live, MAP_HISTS, slots->slot[i].index, &im));
		for (unsigned int c = 0; im.n_blocks && c < PART_LOSS_NR; c++)
			for (enum blk_op op = 0; op < OP_NR; op++)
				part[c] += image_loss(&im, c, op);
	}
	for (__u32 c = 0; c < GLOBAL_LOSS_NR; c++)
		if (bpf_map_lookup_elem(live->maps[MAP_LOSSES], &c, &global[c]))
			return error_errno(errno, "cannot read the losses");
	try(nested_runs(live, &nested));
	nested = nested > global[LOSS_RECOVERED] ? nested - global[LOSS_RECOVERED] : 0;
	snapshot_add_loss(
		snap, "nested",
		"program runs that the kernel skipped; completions missed so are in unseen",
		nested);
	for (unsigned int c = 0; c < GLOBAL_LOSS_NR; c++)
		snapshot_add_loss(snap, global_losses[c].name,
				  c == LOSS_NO_PART && live->exhausted ? no_counters_left :
									 global_losses[c].help,
				  global[c])
			->usual = USUAL_GLOBAL_LOSSES >> c & 1;
	for (unsigned int c = 0; c < PART_LOSS_NR; c++)
		snapshot_add_loss(snap, part_losses[c].name, part_losses[c].help, part[c])->usual =
			USUAL_PART_LOSSES >> c & 1;
	snapshot_add_loss(snap, "given_back",
			  "requests of devices that are gone, whose counters made room: --all has "
			  "them no more",
			  forgotten)
		->usual = true;
	snapshot_add_loss(
		snap, "other_ladder",
		"requests of partitions that do not have their disk's ladders yet: in the "
		"partition, not in the disk",
		other_ladder);
	return NULL;
}

/* --- images of what a person names --- */

/* Counters as a device shows them: of a partition its own, of a disk the sum of all its
 * partitions'. */
struct view {
	unsigned int index; /* where its baseline is; 0: a disk without I/O of its own */
	struct image raw, baseline;
	uint64_t other_ladder;
	uint64_t generation; /* of its own counters; 0: none */
	bool as_counted;     /* without baseline; what has bytes but no usable time is kept */
	bool empty;          /* what has counted nothing is kept, too */
	unsigned int ops;    /* mask of what is read of the counters */
};

static void view_deinit(struct view *v)
{
	image_deinit(&v->raw);
	image_deinit(&v->baseline);
}

static struct error *view_read(struct live *live, const struct slots *slots,
			       const struct device *device, struct view *view)
{
	bool whole = device->sysfs_id == device->disk_sysfs_id;

	/* The device's own counters come first: their ladders and epoch are the disk's. */
	for (unsigned int i = 0; i < slots->n; i++) {
		const struct part_key *key = &slots->slot[i].part.key;

		if (key->sysfs_id != device->sysfs_id || key->diskseq != device->diskseq)
			continue;
		view->index = slots->slot[i].index;
		try(slot_image_of(live, MAP_HISTS, view->index, view->ops, &view->raw));
		try(slot_image(live, MAP_BASELINES, view->index, &view->baseline));
		if (view->raw.n_blocks)
			view->generation = image_header(&view->raw)[HDR_EPOCH];
	}
	for (unsigned int i = 0; whole && i < slots->n; i++) {
		const struct part *part = &slots->slot[i].part;
		cleanup(image_deinit) struct image im = {};

		if (part->disk_sysfs_id != device->sysfs_id ||
		    part->key.diskseq != device->diskseq || part->key.sysfs_id == device->sysfs_id)
			continue;
		try(slot_image_of(live, MAP_HISTS, slots->slot[i].index, view->ops, &im));
		if (!im.n_blocks)
			continue;
		if (!view->raw.n_blocks) {
			view->raw = im;
			im = (struct image){};
		} else if (image_same_ladders(&view->raw, &im)) {
			image_add(&view->raw, &im);
		} else {
			for (enum blk_op op = 0; op < OP_NR; op++)
				view->other_ladder += image_requests(&im, op);
		}
	}
	/* A baseline of an earlier generation is void. */
	if (view->baseline.n_blocks &&
	    (view->as_counted || !view->raw.n_blocks ||
	     view->baseline.n_blocks != view->raw.n_blocks ||
	     image_header(&view->baseline)[HDR_EPOCH] != image_header(&view->raw)[HDR_EPOCH]))
		image_deinit(&view->baseline);
	return NULL;
}

/* The counters that a device would have: it has not been used yet. */
static struct error *view_unused(struct live *live, const struct slots *slots,
				 const struct device *device, struct view *view)
{
	struct ladder ladders[LADDER_KINDS];
	unsigned int n;

	try(disk_ladders(live, slots, device, ladders));
	n = image_blocks(ladders[DIM_SIZE].n, 1);
	view->raw.blocks = xcalloc(n, sizeof(*view->raw.blocks));
	view->raw.n_blocks = n;
	image_format(view->raw.blocks, ladders, live_rule(live, device)->kinds, n, 1, 0,
		     (int64_t)live->meta.since_realtime_ns);
	return NULL;
}

/* One histogram of a view, less its baseline. Nothing is added to @snap if it is empty. */
static void view_hist(const struct view *view, const struct device *device, enum hist_kind kind,
		      enum blk_op op, struct snapshot *snap)
{
	struct ladder ladder = image_ladder(&view->raw, kind == KIND_SEEK ? DIM_SECTORS : DIM_TIME);
	struct ladder sizes = image_ladder(&view->raw, DIM_SIZE);
	uint64_t since = image_header(&view->raw)[HDR_SINCE], reset;
	struct hist *h = snapshot_add(snap);

	h->name = device->name;
	h->sysfs_id = device->sysfs_id;
	h->diskseq = device->diskseq;
	h->gone = device->gone;
	h->generation = view->generation;
	h->kind = kind;
	h->op = op;
	hist_init(h, snapshot_ladder(snap, &ladder),
		  kind == KIND_SEEK || op == OP_FLUSH ? NULL : snapshot_ladder(snap, &sizes));
	for (unsigned int row = 0; row < h->n_rows; row++) {
		const struct hist_row *raw = image_row(&view->raw, kind, op, row);
		const struct hist_row *base =
			view->baseline.n_blocks ? image_row(&view->baseline, kind, op, row) : NULL;

		for (unsigned int col = 0; col < h->n_cols; col++)
			hist_row(h, row)[col] = raw->cell[col] - (base ? base->cell[col] : 0);
		h->sums[row] = (int64_t)(raw->cell[ROW_SUM] - (base ? base->cell[ROW_SUM] : 0));
		if (kind != KIND_SEEK)
			h->bytes += image_row(&view->raw, KIND_REQUEST, op, row)->cell[ROW_BYTES] -
				    (base ? base->cell[ROW_BYTES] : 0);
	}
	reset = view->baseline.n_blocks ? *image_since(&view->baseline, kind, op) : 0;
	h->since_ns = (int64_t)(reset ? reset : since);
	if (!view->empty && !hist_count(h) && !(view->as_counted && h->bytes)) {
		hist_deinit(h);
		snap->n_hists--;
	}
}

static bool selected(const struct live_selection *sel, const struct device *device)
{
	bool whole = device->sysfs_id == device->disk_sysfs_id;

	for (unsigned int i = 0; i < sel->n_devices; i++) {
		const struct device *named = sel->devices[i];
		bool same_disk = named->diskseq == device->diskseq;

		if (same_disk && named->sysfs_id == device->sysfs_id)
			return true;
		if (!sel->alone && ((same_disk && named->sysfs_id == device->disk_sysfs_id) ||
				    !strcmp(named->name.disk, device->name.head)))
			return true;
	}
	return !sel->n_devices && (!sel->alone || whole);
}

/* Calls @stmt for every selected kind and operation; seek has no operation. */
#define FOR_EACH_HIST(sel, kind, op)                                                 \
	for (enum hist_kind kind = 0; kind < KIND_NR; kind++)                        \
		for (enum blk_op op = 0; op < (kind == KIND_SEEK ? 1 : OP_NR); op++) \
			if ((sel)->kinds & 1u << kind &&                             \
			    (kind == KIND_SEEK || (sel)->ops & 1u << op))

struct error *live_read(struct live *live, const struct device_list *devices,
			const struct live_selection *sel, struct snapshot *ret)
{
	cleanup(snapshot_deinit) struct snapshot snap = snapshot_now(live);
	cleanup(slots_deinit) struct slots slots = {};
	uint64_t other_ladder = 0;

	try(slots_read(live, &slots));
	for (unsigned int i = 0; i < devices->n; i++) {
		const struct device *device = &devices->devices[i];
		cleanup(view_deinit) struct view view = {
			.as_counted = sel->raw,
			.empty = sel->empty,
			/* other_ladder counts all operations */
			.ops = !sel->empty                   ? OPS_ALL :
			       sel->kinds == 1u << KIND_SEEK ? 0 :
							       sel->ops,
		};

		if (!selected(sel, device))
			continue;
		try(view_read(live, &slots, device, &view));
		if (!view.raw.n_blocks && sel->empty)
			try(view_unused(live, &slots, device, &view));
		other_ladder += view.other_ladder;
		if (view.raw.n_blocks)
			FOR_EACH_HIST(sel, kind, op)
				view_hist(&view, device, kind, op, &snap);
	}
	if (!sel->empty)
		try(add_losses(live, &slots, other_ladder, &snap));
	snapshot_sort(&snap);
	*ret = snap;
	snap = (struct snapshot){};
	return NULL;
}

/* Stores what @view shows as the baseline of the selected histograms, in one step. */
static struct error *store_baseline(struct live *live, unsigned int index, const struct view *view,
				    const struct live_selection *sel, int64_t now_ns)
{
	cleanup(image_deinit) struct image base = {};

	if (view->baseline.n_blocks) {
		image_copy(&base, &view->baseline);
	} else {
		image_copy(&base, &view->raw);
		memset(&base.blocks[BLOCK_SHARED], 0,
		       (base.n_blocks - BLOCK_SHARED) * sizeof(*base.blocks));
	}
	FOR_EACH_HIST(sel, kind, op) {
		image_set_hist(&base, &view->raw, kind, op);
		*image_since(&base, kind, op) = (uint64_t)now_ns;
	}
	return baseline_set(live, index, &base);
}

struct error *live_reset(struct live *live, const struct device_list *devices,
			 const struct live_selection *sel, struct snapshot *ret)
{
	cleanup(snapshot_deinit) struct snapshot snap = snapshot_now(live);
	cleanup(slots_deinit) struct slots slots = {};

	try(slots_read(live, &slots));
	for (unsigned int i = 0; i < devices->n; i++) {
		const struct device *device = &devices->devices[i];
		const struct device *disk = device_by_id(devices, device->disk_sysfs_id);
		cleanup(view_deinit) struct view view = { .ops = OPS_ALL };

		if (!selected(sel, device) || !disk)
			continue;
		try(view_read(live, &slots, device, &view));
		if (!view.raw.n_blocks)
			continue;
		if (!view.index) {
			/* A disk whose partitions alone have I/O needs a place for its baseline. */
			try(slot_for_device(live, device, disk, &view.index));
			view_deinit(&view);
			slots_deinit(&slots);
			try(slots_read(live, &slots));
			view = (struct view){ .ops = OPS_ALL };
			try(view_read(live, &slots, device, &view));
		}
		try(store_baseline(live, view.index, &view, sel, snap.time_ns));
		FOR_EACH_HIST(sel, kind, op)
			view_hist(&view, device, kind, op, &snap);
	}
	if (!ret)
		return NULL;
	try(add_losses(live, &slots, 0, &snap));
	snapshot_sort(&snap);
	*ret = snap;
	snap = (struct snapshot){};
	return NULL;
}
