// SPDX-License-Identifier: GPL-2.0-only
#include "unit.h"

#include "core/snapshot.h"

static void ladder(enum dimension dim, const char *spec, struct ladder *ret)
{
	assert_ok(ladder_parse(dim, spec, ret));
}

static void ladders_are_shared(void **state)
{
	cleanup(snapshot_deinit) struct snapshot s = {};
	const struct ladder *kept[40];
	struct ladder l;

	(void)state;
	for (unsigned int i = 0; i < ARRAY_SIZE(kept); i++) {
		l = (struct ladder){ .dim = DIM_SIZE, .n = 1, .bound = { i } };
		kept[i] = snapshot_ladder(&s, &l);
		assert_ptr_not_equal(kept[i], &l);
	}
	assert_int_equal(s.n_ladders, ARRAY_SIZE(kept));
	/* Neither new ones nor the end of the original may move or change the first. */
	for (unsigned int i = 0; i < ARRAY_SIZE(kept); i++) {
		l = (struct ladder){ .dim = DIM_SIZE, .n = 1, .bound = { i } };
		assert_true(ladder_equal(kept[i], &l));
		assert_ptr_equal(snapshot_ladder(&s, &l), kept[i]);
	}
	l.dim = DIM_TIME;
	assert_ptr_not_equal(snapshot_ladder(&s, &l), kept[ARRAY_SIZE(kept) - 1]);
	assert_int_equal(s.n_ladders, ARRAY_SIZE(kept) + 1);
}

static void add(struct snapshot *s, const char *disk, const char *partition, enum hist_kind kind,
		enum blk_op op)
{
	struct hist *h = snapshot_add(s);

	assert_null(h->counts);
	assert_int_equal(h->name.disk[0], '\0');
	snprintf(h->name.disk, sizeof(h->name.disk), "%s", disk);
	snprintf(h->name.partition, sizeof(h->name.partition), "%s", partition);
	h->kind = kind;
	h->op = op;
}

static void sorts(void **state)
{
	static const struct {
		const char *disk, *partition;
	} names[] = { { "nvme0n1", "" }, { "nvme0n1", "nvme0n1p2" }, { "nvme0n1", "nvme0n1p10" },
		      { "sda", "" },     { "sda", "sda1" },          { "sda", "sda2" },
		      { "sda", "sda10" } };
	cleanup(snapshot_deinit) struct snapshot s = {};
	unsigned int i = 0;

	(void)state;
	snapshot_sort(&s); /* nothing to sort is fine */
	for (int n = ARRAY_SIZE(names) - 1; n >= 0; n--)
		for (int op = OP_NR - 1; op >= 0; op--)
			for (int kind = 0; kind < KIND_NR; kind++)
				add(&s, names[n].disk, names[n].partition, kind, op);
	snapshot_sort(&s);
	assert_int_equal(s.n_hists, ARRAY_SIZE(names) * KIND_NR * OP_NR);
	for (size_t n = 0; n < ARRAY_SIZE(names); n++)
		for (int kind = 0; kind < KIND_NR; kind++)
			for (int op = 0; op < OP_NR; op++) {
				const struct hist *h = &s.hists[i++];

				assert_string_equal(h->name.disk, names[n].disk);
				assert_string_equal(h->name.partition, names[n].partition);
				assert_int_equal(h->kind, kind);
				assert_int_equal(h->op, op);
			}
}

/* Devices that are gone come after those of the same name, one generation by one. */
static void sorts_gone(void **state)
{
	static const struct {
		const char *disk, *partition;
		bool gone;
		uint64_t diskseq, sysfs_id;
	} order[] = {
		{ "sda", "", false, 9, 5 },     { "sda", "", true, 3, 7 },
		{ "sda", "", true, 4, 5 },      { "sda", "sda1", false, 9, 6 },
		{ "sda", "sda1", true, 3, 8 },  { "sda", "sda1", true, 9, 2 },
		{ "sda", "sda1", true, 9, 4 },  { "sdb", "", false, 1, 1 },
		{ "sdb", "sdb1", true, 1, 10 }, { "sdb", "sdb2", false, 1, 11 },
	};
	cleanup(snapshot_deinit) struct snapshot s = {};

	(void)state;
	for (int n = ARRAY_SIZE(order) - 1; n >= 0; n--)
		for (int kind = KIND_NR - 1; kind >= 0; kind--) {
			add(&s, order[n].disk, order[n].partition, kind, OP_READ);
			s.hists[s.n_hists - 1].gone = order[n].gone;
			s.hists[s.n_hists - 1].diskseq = order[n].diskseq;
			s.hists[s.n_hists - 1].sysfs_id = order[n].sysfs_id;
		}
	snapshot_sort(&s);
	for (size_t n = 0; n < ARRAY_SIZE(order) * KIND_NR; n++) {
		const struct hist *h = &s.hists[n];

		assert_string_equal(h->name.disk, order[n / KIND_NR].disk);
		assert_string_equal(h->name.partition, order[n / KIND_NR].partition);
		assert_int_equal(h->gone, order[n / KIND_NR].gone);
		assert_true(h->diskseq == order[n / KIND_NR].diskseq);
		assert_true(h->sysfs_id == order[n / KIND_NR].sysfs_id);
		assert_int_equal(h->kind, n % KIND_NR);
	}
}

/* All rows of sizes become one; what has a single row stays as it is. */
static void totals(void **state)
{
	cleanup(snapshot_deinit) struct snapshot s = {};
	const struct ladder *time, *size, *seek;
	struct ladder l;
	uint64_t seed = 7;

	(void)state;
	ladder(DIM_TIME, "125", &l);
	time = snapshot_ladder(&s, &l);
	ladder(DIM_SIZE, "log2", &l);
	size = snapshot_ladder(&s, &l);
	ladder(DIM_SECTORS, "log2", &l);
	seek = snapshot_ladder(&s, &l);

	for (int i = 0; i < 3; i++) {
		struct hist *h = snapshot_add(&s);

		h->kind = i < 2 ? KIND_REQUEST : KIND_SEEK;
		h->op = i == 1 ? OP_FLUSH : OP_READ;
		hist_init(h, i < 2 ? time : seek, i == 0 ? size : NULL);
		for (unsigned int k = 0; k < h->n_rows * h->n_cols; k++)
			h->counts[k] = random_magnitude(&seed, 50);
		for (unsigned int k = 0; k < h->n_rows; k++)
			h->sums[k] = (int64_t)random_magnitude(&seed, 58) * (i < 2 ? 1 : -1);
	}

	uint64_t expected[3][SEEK_BOUNDS_MAX + 1] = {};
	int64_t sums[3] = {};

	for (int i = 0; i < 3; i++) {
		const struct hist *h = &s.hists[i];

		for (unsigned int k = 0; k < h->n_rows * h->n_cols; k++)
			expected[i][k % h->n_cols] += h->counts[k];
		for (unsigned int k = 0; k < h->n_rows; k++)
			sums[i] += h->sums[k];
	}
	for (int twice = 0; twice < 2; twice++) {
		snapshot_total(&s);
		for (int i = 0; i < 3; i++) {
			const struct hist *h = &s.hists[i];

			assert_int_equal(h->n_rows, 1);
			assert_null(h->sizes);
			assert_int_equal(h->n_cols, (i < 2 ? time : seek)->n + 1);
			assert_memory_equal(h->counts, expected[i], h->n_cols * sizeof(*h->counts));
			assert_true(hist_sum(h) == sums[i]);
		}
	}
}

static void losses(void **state)
{
	cleanup(snapshot_deinit) struct snapshot s = {};

	(void)state;
	assert_string_equal(snapshot_add_loss(&s, "no_start", "no start stamp", 1ull << 40)->name,
			    "no_start");
	snapshot_add_loss(&s, "partial", "partial completions", 0);
	assert_int_equal(s.n_losses, 2);
	assert_string_equal(s.losses[0].name, "no_start");
	assert_string_equal(s.losses[0].help, "no start stamp");
	assert_true(s.losses[0].count == 1ull << 40);
	assert_string_equal(s.losses[1].name, "partial");
	assert_true(s.losses[1].count == 0);
}

/* --- differences --- */

/* A snapshot of one device with a histogram of reads. */
struct reading {
	struct snapshot snap;
	struct hist *h;
};

static void reading_init(struct reading *r, const char *spec, uint64_t first, uint64_t inf)
{
	struct ladder l, sizes;
	struct hist *h;

	ladder(DIM_TIME, spec, &l);
	ladder(DIM_SIZE, "4KiB", &sizes);
	r->snap = (struct snapshot){ .since_ns = 5, .time_ns = 1000, .clock_ns = 70 };
	add(&r->snap, "sda", "", KIND_REQUEST, OP_READ);
	h = r->h = &r->snap.hists[0];
	h->sysfs_id = 11;
	h->diskseq = 3;
	h->generation = 77;
	h->since_ns = 6;
	hist_init(h, snapshot_ladder(&r->snap, &l), snapshot_ladder(&r->snap, &sizes));
	hist_row(h, 0)[0] = first;
	hist_row(h, 1)[l.n] = inf;
	h->sums[0] = (int64_t)first * 10;
	h->sums[1] = (int64_t)inf * 100;
	h->bytes = first * 512 + inf * 8192;
}

static void reading_deinit(struct reading *r)
{
	snapshot_deinit(&r->snap);
}

/* The only histogram of the difference has these counts, and what belongs to them. */
static void assert_delta(const struct reading *newer, const struct reading *older, uint64_t first,
			 uint64_t inf)
{
	cleanup(snapshot_deinit) struct snapshot d = {};
	const struct hist *h;

	snapshot_delta(&newer->snap, &older->snap, &d);
	assert_int_equal(d.n_hists, 1);
	h = &d.hists[0];
	assert_string_equal(h->name.disk, "sda");
	assert_true(hist_same_shape(h, newer->h));
	assert_ptr_not_equal(h->ladder, newer->h->ladder); /* it outlives both */
	assert_true(hist_row(h, 0)[0] == first);
	assert_true(hist_row(h, 1)[h->ladder->n] == inf);
	assert_true(hist_count(h) == first + inf);
	assert_true(h->sums[0] == (int64_t)first * 10 && h->sums[1] == (int64_t)inf * 100);
	assert_true(h->bytes == first * 512 + inf * 8192);
}

static void delta_subtracts(void **state)
{
	cleanup(reading_deinit) struct reading older = {}, newer = {};
	cleanup(snapshot_deinit) struct snapshot d = {};

	(void)state;
	reading_init(&older, "1ms,2ms", 10, 1ull << 60);
	reading_init(&newer, "1ms,2ms", 13, (1ull << 60) + 4);
	newer.snap.time_ns = 500; /* the wall clock was set back */
	newer.snap.clock_ns = 170;
	assert_delta(&newer, &older, 3, 4);
	assert_delta(&newer, &newer, 0, 0);
	snapshot_delta(&newer.snap, &older.snap, &d);
	assert_true(d.time_ns == 500 && d.since_ns == 1000 && d.clock_ns == 100);
	assert_true(d.hists[0].since_ns == 1000);
	snapshot_deinit(&d);
	snapshot_delta(&newer.snap, &newer.snap, &d);
	assert_int_equal(d.n_hists, 1); /* idle, but known to be collected */
}

/* Whatever shows that the counters have begun anew: the newer ones stand as they are. */
static void delta_of_new_counters(void **state)
{
	cleanup(reading_deinit) struct reading older = {}, newer = {}, other = {};

	(void)state;
	reading_init(&older, "1ms,2ms", 10, 20);
	reading_init(&newer, "1ms,2ms", 13, 24);
	reading_init(&other, "1ms,2ms,3ms", 13, 24);
	assert_delta(&other, &older, 13, 24); /* other bounds */
	newer.h->generation++;
	assert_delta(&newer, &older, 13, 24);
	older.h->generation = 0; /* a disk that had no counters of its own yet */
	assert_delta(&newer, &older, 3, 4);
	older.h->generation = newer.h->generation;
	newer.h->diskseq++;
	assert_delta(&newer, &older, 13, 24);
	newer.h->diskseq--;
	newer.h->sysfs_id++;
	assert_delta(&newer, &older, 13, 24);
	newer.h->sysfs_id--;
	assert_delta(&newer, &older, 3, 4);
	newer.snap.since_ns++; /* the collector was started again */
	assert_delta(&newer, &older, 13, 24);
	newer.snap.since_ns--;
	hist_row(older.h, 1)[0] = 1; /* this one has fallen */
	assert_delta(&newer, &older, 13, 24);
}

static void delta_of_devices_that_come_and_go(void **state)
{
	cleanup(reading_deinit) struct reading older = {}, newer = {};
	cleanup(snapshot_deinit) struct snapshot none = { .since_ns = 5 }, d = {};

	(void)state;
	reading_init(&older, "1ms", 10, 20);
	reading_init(&newer, "1ms", 13, 24);
	snprintf(older.h->name.disk, sizeof(older.h->name.disk), "sdb");
	assert_delta(&newer, &older, 13, 24);
	snapshot_delta(&newer.snap, &none, &d);
	assert_int_equal(d.n_hists, 1);
	assert_true(hist_count(&d.hists[0]) == 37);
	snapshot_deinit(&d);
	snapshot_delta(&none, &older.snap, &d);
	assert_int_equal(d.n_hists, 0);
}

static void delta_of_losses(void **state)
{
	cleanup(snapshot_deinit) struct snapshot older = {}, newer = {}, d = {};

	(void)state;
	snapshot_add_loss(&older, "unseen", "", 5);
	snapshot_add_loss(&older, "partial", "", 9);
	snapshot_add_loss(&newer, "new", "", 2);
	snapshot_add_loss(&newer, "partial", "", 7); /* has fallen */
	snapshot_add_loss(&newer, "unseen", "help", 8)->usual = true;
	snapshot_delta(&newer, &older, &d);
	assert_int_equal(d.n_losses, 3);
	assert_true(d.losses[0].count == 2 && d.losses[1].count == 0 && d.losses[2].count == 3);
	assert_string_equal(d.losses[2].name, "unseen");
	assert_string_equal(d.losses[2].help, "help");
	assert_true(d.losses[2].usual && !d.losses[0].usual);
	snapshot_deinit(&d);
	newer.since_ns = 1; /* started again */
	snapshot_delta(&newer, &older, &d);
	assert_true(d.losses[0].count == 2 && d.losses[1].count == 7 && d.losses[2].count == 8);
}

static void deinit_empties(void **state)
{
	struct snapshot s = {};

	(void)state;
	snapshot_deinit(&s);
	add(&s, "sda", "", KIND_SEEK, OP_READ);
	snapshot_add_loss(&s, "x", "x", 1);
	snapshot_deinit(&s);
	assert_int_equal(s.n_hists, 0);
	assert_int_equal(s.n_losses, 0);
	assert_null(s.hists);
	add(&s, "sda", "", KIND_SEEK, OP_READ); /* and can be used again */
	assert_int_equal(s.n_hists, 1);
	snapshot_deinit(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ladders_are_shared),
		cmocka_unit_test(sorts),
		cmocka_unit_test(sorts_gone),
		cmocka_unit_test(totals),
		cmocka_unit_test(losses),
		cmocka_unit_test(delta_subtracts),
		cmocka_unit_test(delta_of_new_counters),
		cmocka_unit_test(delta_of_devices_that_come_and_go),
		cmocka_unit_test(delta_of_losses),
		cmocka_unit_test(deinit_empties),
	};

	return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
