// SPDX-License-Identifier: GPL-2.0-only
#include "unit.h"

#include <stdlib.h>

#include "core/buf.h"
#include "sources/blktrace/partitions.h"

static void parse(const char *text, struct partition_tables *ret)
{
	assert_ok(partitions_parse(text, strlen(text), "dump", ret));
}

/* What sfdisk -d of util-linux 2.38 prints of a disk with logical partitions, and of one of GPT. */
static const char dos[] = "label: dos\n"
			  "label-id: 0x9cb8a1f2\n"
			  "device: /dev/sda\n"
			  "unit: sectors\n"
			  "sector-size: 512\n"
			  "\n"
			  "/dev/sda1 : start=        2048, size=        4096, type=83, bootable\n"
			  "/dev/sda2 : start=        6144, size=       20480, type=5\n"
			  "/dev/sda6 : start=       14336, size=        2048, type=82\n"
			  "/dev/sda5 : start=        8192, size=        4096, type=83\n";
static const char gpt[] =
	"label: gpt\n"
	"device: /dev/nvme0n1\n"
	"sector-size: 4096\n"
	"\n"
	"/dev/nvme0n1p1 : start=         256, size=         512, type=0FC63DAF-8483, "
	"name=\"a, start=9: b\"\n";

static void sectors(void **state)
{
	cleanup(partition_tables_deinit) struct partition_tables t = {};
	static const struct {
		uint64_t sector;
		const char *name;
	} expected[] = {
		{ 0, NULL },          { 2047, NULL },    { 2048, "sda1" },  { 6143, "sda1" },
		{ 6144, NULL },       { 8191, NULL },    { 8192, "sda5" },  { 12287, "sda5" },
		{ 12288, NULL },      { 14336, "sda6" }, { 16383, "sda6" }, { 16384, NULL },
		{ 1ull << 60, NULL },
	};

	(void)state;
	parse(dos, &t);
	assert_int_equal(t.n, 1);
	assert_string_equal(t.tables[0].disk, "sda");
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		int at = partition_at(&t.tables[0], expected[i].sector);

		if (!expected[i].name)
			assert_int_equal(at, -1);
		else
			assert_string_equal(t.tables[0].entries[at].name, expected[i].name);
	}
}

static void large_sectors_and_several_tables(void **state)
{
	cleanup(partition_tables_deinit) struct partition_tables t = {};
	cleanup(buf_deinit) struct buf both = {};

	(void)state;
	buf_puts(&both, dos);
	buf_puts(&both, gpt);
	parse(both.str, &t);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.tables[1].n, 1);
	assert_string_equal(t.tables[1].entries[0].name, "nvme0n1p1");
	assert_int_equal(t.tables[1].entries[0].first, 256 * 8);
	assert_int_equal(t.tables[1].entries[0].last, (256 + 512) * 8 - 1);
}

static void refused(void **state)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "", "no partition table" },
		{ "device: /dev/sda\n", "begins with 'label:'" },
		{ "label: dos\n/dev/sda1 : start=1\n",
		  "line 2: the partition sda1 has no start or no size" },
		{ "label: dos\n/dev/sda1 : start=x, size=1\n", "line 2: " },
		{ "label: dos\n/dev/sda1 : start=1, size=18446744073709551615\n", "line 2: " },
		{ "label: dos\nsector-size: 65536\n/dev/a : start=18014398509481983, size=1\n",
		  "ends beyond any disk" },
		{ "label: dos\nsector-size: 777\n", "no multiple of 512" },
		{ "label: dos\n/dev/sda1 : start=1, size=9\n/dev/sda2 : start=9, size=9\n",
		  "sda1 and sda2 overlap" },
		{ "label: dos\n/dev/sda1 : start=1, size=9\n/dev/sda1 : start=90, size=9\n",
		  "sda1 is there twice" },
		{ "label: dos\nhello\n", "'hello' is no line of what sfdisk -d prints" },
		{ "label: dos\n/dev/ : start=1, size=1\n", "'/dev/' is no device" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct partition_tables t = {};

		assert_failed(partitions_parse(bad[i].text, strlen(bad[i].text), "dump", &t),
			      bad[i].why);
		assert_null(t.tables);
	}
}

static void not_text(void **state)
{
	static const char text[] = "label: dos\n\0label: dos\n";
	struct partition_tables t = {};

	(void)state;
	assert_failed(partitions_parse(text, sizeof(text) - 1, "dump", &t), "cannot use dump: ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sectors),
		cmocka_unit_test(large_sectors_and_several_tables),
		cmocka_unit_test(refused),
		cmocka_unit_test(not_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
