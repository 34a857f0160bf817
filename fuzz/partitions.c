// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz target: the dump of partitions. A small trace, always the same, is put into the partitions
 * that the input describes.
 */
#include "fuzz.h"

#include <endian.h>
#include <string.h>

#include "core/util.h"
#include "sources/blktrace/partitions.h"

/* blk_io_trace of version 7, in the machine's own byte order. */
struct record {
	uint32_t magic, sequence;
	uint64_t time_ns, sector;
	uint32_t bytes, action, pid, device, cpu;
	uint16_t error, pdu_len;
};

#define MAGIC_V7 0x65617407
#define READ_ISSUE 0x00410007
#define READ_COMPLETE 0x00810008

/* Reads of 4 KiB, each further into one of two disks than those before it. */
#define READS 24

static void write_trace(void)
{
	struct record r[2 * READS] = {};

	for (unsigned int i = 0; i < 2 * READS; i++)
		r[i] = (struct record){
			.magic = MAGIC_V7,
			.sequence = i + 1,
			.time_ns = 1000000 + i * 1000,
			.sector = (UINT64_C(1) << i / 2) - 1,
			.bytes = 4096,
			.action = i % 2 ? READ_COMPLETE : READ_ISSUE,
			.device = i / 2 % 3 ? (8u << 20) | 16 : (259u << 20) | 0,
		};
	fuzz_file_write(FUZZ_SINGLE, r, sizeof(r));
}

/* What the parser promises. */
static void check_tables(const char *text, size_t size)
{
	cleanup(partition_tables_deinit) struct partition_tables tables = {};
	struct error *err = partitions_parse(text, size, "fuzz", &tables);

	if (err) {
		error_free(err);
		return;
	}
	for (unsigned int i = 0; i < tables.n; i++) {
		const struct partition_table *t = &tables.tables[i];

		for (unsigned int j = 0; j < t->n; j++) {
			const struct partition_entry *e = &t->entries[j];

			if (!e->name[0] || e->first > e->last ||
			    (j && e->first <= t->entries[j - 1].last))
				fuzz_fail("entry %u of table %u", j, i);
			if (partition_at(t, e->first) != (int)j ||
			    partition_at(t, e->last) != (int)j)
				fuzz_fail("entry %u of table %u is not found", j, i);
			for (unsigned int k = 0; k < j; k++)
				if (!strcmp(e->name, t->entries[k].name))
					fuzz_fail("%s is there twice", e->name);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool written;
	cleanup(trace_closep) struct trace *trace = NULL;
	cleanup(snapshot_deinit) struct snapshot s = {};
	const char *path = fuzz_file_path(FUZZ_SINGLE);
	const struct trace_settings settings = {
		.paths = &path,
		.n_paths = 1,
		.config = fuzz_config(),
		.partitions = fuzz_file_path(FUZZ_PARTITIONS),
		.root = fuzz_root(),
	};

	if (!written)
		write_trace();
	written = true;
	fuzz_file_write(FUZZ_PARTITIONS, data, size);
	check_tables((const char *)data, size);

	struct error *err = trace_open(&settings, &trace);

	if (err) {
		if (!strstr(err->message, settings.partitions))
			fuzz_fail("the file is not named: %s", err->message);
		error_free(err);
		return 0;
	}
	fuzz_read(trace, &s);
	if (fuzz_loss(&s, "matched") != 2 * READS)
		fuzz_fail("not all is counted");
	return 0;
}
