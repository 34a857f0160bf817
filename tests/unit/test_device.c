// SPDX-License-Identifier: GPL-2.0-only
/* Device names, from small copies of /sys that are built in a temporary directory. */
#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/device.h"

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void make_dirs(const char *path)
{
	cleanup_free char *copy = xstrdup(path);

	for (char *p = copy; (p = strchr(p + 1, '/'));) {
		*p = '\0';
		assert_true(!mkdir(copy, 0700) || errno == EEXIST);
		*p = '/';
	}
	assert_true(!mkdir(copy, 0700) || errno == EEXIST);
}

/* Writes @dir/@name, with the newline that /sys has. */
static void put(const char *dir, const char *name, const char *text)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, name);
	cleanup_fclose FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fprintf(f, "%s\n", text) > 0);
}

static void drop(const char *dir, const char *name)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, name);

	assert_int_equal(unlink(path), 0);
}

static void link_to(const char *target, const char *dir, const char *name)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, name);

	make_dirs(dir);
	assert_int_equal(symlink(target, path), 0);
}

/* @node: where the disk lies below sys/devices, "pci0/host0/block/sda". Returns its directory. */
static char *add_disk(const char *root, const char *node, const char *dev)
{
	char *dir = xasprintf("%s/sys/devices/%s", root, node);
	cleanup_free char *class = xasprintf("%s/sys/class/block", root);
	cleanup_free char *block = xasprintf("%s/sys/block", root);
	cleanup_free char *from_class = xasprintf("../../devices/%s", node);
	cleanup_free char *from_block = xasprintf("../devices/%s", node);

	make_dirs(dir);
	put(dir, "dev", dev);
	put(dir, "size", "1000");
	link_to(from_class, class, strrchr(node, '/') + 1);
	link_to(from_block, block, strrchr(node, '/') + 1);
	return dir;
}

static char *add_partition(const char *root, const char *disk_node, const char *name,
			   const char *dev, const char *size)
{
	char *dir = xasprintf("%s/sys/devices/%s/%s", root, disk_node, name);
	cleanup_free char *class = xasprintf("%s/sys/class/block", root);
	cleanup_free char *target = xasprintf("../../devices/%s/%s", disk_node, name);

	make_dirs(dir);
	put(dir, "dev", dev);
	put(dir, "size", size);
	put(dir, "partition", "1");
	link_to(target, class, name);
	return dir;
}

static void add_queue(const char *disk_dir, const char *number, const char *nr_tags)
{
	cleanup_free char *mq = xasprintf("%s/mq/%s", disk_dir, number);

	make_dirs(mq);
	if (nr_tags)
		put(mq, "nr_tags", nr_tags);
}

static void set_nr_requests(const char *disk_dir, const char *text)
{
	cleanup_free char *queue = xasprintf("%s/queue", disk_dir);

	make_dirs(queue);
	put(queue, "nr_requests", text);
}

#define SDA "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda"
#define NVME "pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1"
#define CCISS "pci0000:00/cciss0/c0d0/block/cciss!c0d0"
#define DM "virtual/block/dm-0"

static void add_sda(const char *root)
{
	cleanup_free char *sda = add_disk(root, SDA, "8:0");

	put(sda, "diskseq", "9");
	put(sda, "size", "250069680");
	add_queue(sda, "0", "32");
	set_nr_requests(sda, "64");
	/* In the order in which a sorted list must not have them. */
	free(add_partition(root, SDA, "sda10", "8:10", "10"));
	free(add_partition(root, SDA, "sda2", "8:2", "2"));
	free(add_partition(root, SDA, "sda1", "8:1", "1"));
}

static void add_nvme(const char *root)
{
	cleanup_free char *nvme = add_disk(root, NVME, "259:0");

	put(nvme, "diskseq", "18446744073709551615");
	for (int i = 0; i < 4; i++) {
		char number[2] = { (char)('0' + i) };

		add_queue(nvme, number, i == 2 ? "1023" : "127");
	}
	set_nr_requests(nvme, "256");
	free(add_partition(root, NVME, "nvme0n1p1", "259:3", "7"));
}

static int setup(void **state)
{
	char *root = xstrdup("/tmp/blkhist-unit-XXXXXX");

	if (!mkdtemp(root))
		return -1;

	cleanup_free char *class = xasprintf("%s/sys/class/block", root);
	cleanup_free char *block = xasprintf("%s/sys/block", root);

	make_dirs(class);
	make_dirs(block);
	*state = root;
	return 0;
}

static int teardown(void **state)
{
	cleanup_free char *root = *state;

	return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* A machine with some of everything. */
static int setup_machine(void **state)
{
	if (setup(state))
		return -1;

	const char *root = *state;

	add_sda(root);
	add_nvme(root);

	cleanup_free char *cciss = add_disk(root, CCISS, "104:0");

	add_queue(cciss, "0", "1020");
	free(add_partition(root, CCISS, "cciss!c0d0p1", "104:1", "5"));

	cleanup_free char *dm = add_disk(root, DM, "253:0");

	put(dm, "diskseq", "11");
	set_nr_requests(dm, "128"); /* bio based ones have the file all the same */
	return 0;
}

static uint64_t inode_of(const char *root, const char *node)
{
	cleanup_free char *path = xasprintf("%s/sys/devices/%s", root, node);
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static void lists_in_order(void **state)
{
	const char *root = *state;
	const struct {
		const char *disk, *partition;
		unsigned int major, minor;
		uint64_t diskseq, sectors;
		bool request_based;
		const char *disk_node;
		const char *node; /* below that of the disk; "" for itself */
	} expected[] = {
		{ "cciss/c0d0", "", 104, 0, 0, 1000, true, CCISS, "" },
		{ "cciss/c0d0", "cciss/c0d0p1", 104, 1, 0, 5, true, CCISS, "/cciss!c0d0p1" },
		{ "dm-0", "", 253, 0, 11, 1000, false, DM, "" },
		{ "nvme0n1", "", 259, 0, UINT64_MAX, 1000, true, NVME, "" },
		{ "nvme0n1", "nvme0n1p1", 259, 3, UINT64_MAX, 7, true, NVME, "/nvme0n1p1" },
		{ "sda", "", 8, 0, 9, 250069680, true, SDA, "" },
		{ "sda", "sda1", 8, 1, 9, 1, true, SDA, "/sda1" },
		{ "sda", "sda2", 8, 2, 9, 2, true, SDA, "/sda2" },
		{ "sda", "sda10", 8, 10, 9, 10, true, SDA, "/sda10" },
	};
	cleanup(device_list_deinit) struct device_list list = {};

	assert_ok(device_list_read(root, &list));
	assert_int_equal(list.n, ARRAY_SIZE(expected));
	for (unsigned int i = 0; i < list.n; i++) {
		const struct device *d = &list.devices[i];
		cleanup_free char *node =
			xasprintf("%s%s", expected[i].disk_node, expected[i].node);

		assert_string_equal(d->name.disk, expected[i].disk);
		assert_string_equal(d->name.partition, expected[i].partition);
		assert_int_equal(d->name.major, expected[i].major);
		assert_int_equal(d->name.minor, expected[i].minor);
		assert_true(d->diskseq == expected[i].diskseq);
		assert_true(d->sectors == expected[i].sectors);
		assert_int_equal(d->request_based, expected[i].request_based);
		assert_true(d->disk_sysfs_id == inode_of(root, expected[i].disk_node));
		assert_true(d->sysfs_id == inode_of(root, node));
		assert_ptr_equal(device_by_id(&list, d->sysfs_id), d);
	}
	assert_null(device_by_id(&list, inode_of(root, "virtual")));
	device_list_deinit(&list);
	assert_int_equal(list.n, 0);
	assert_null(list.devices);
}

static void no_devices(void **state)
{
	cleanup(device_list_deinit) struct device_list list = {};

	assert_ok(device_list_read(*state, &list));
	assert_int_equal(list.n, 0);
}

static void no_sysfs(void **state)
{
	cleanup_free char *root = xasprintf("%s/nowhere", (const char *)*state);
	struct device_list list = { .n = 77 };

	assert_failed(device_list_read(root, &list), "/nowhere/sys/class/block");
	assert_int_equal(list.n, 77);
}

/* Between reading the directory and following a link, a device may go away. */
static void skips_gone_devices(void **state)
{
	const char *root = *state;
	cleanup_free char *class = xasprintf("%s/sys/class/block", root);
	cleanup(device_list_deinit) struct device_list list = {};

	add_sda(root);
	link_to("../../devices/virtual/block/loop7", class, "loop7");

	cleanup_free char *half = add_disk(root, "virtual/block/loop8", "7:8");

	drop(half, "dev");
	assert_ok(device_list_read(root, &list));
	assert_int_equal(list.n, 4);
	assert_string_equal(list.devices[0].name.disk, "sda");
}

static void optional_files(void **state)
{
	const char *root = *state;
	cleanup_free char *disk = add_disk(root, "virtual/block/ram0", "1:0");
	cleanup(device_list_deinit) struct device_list list = {};

	drop(disk, "size");
	assert_ok(device_list_read(root, &list));
	assert_int_equal(list.n, 1);
	assert_true(list.devices[0].sectors == 0);
	assert_true(list.devices[0].diskseq == 0);
	assert_false(list.devices[0].request_based);
	assert_int_equal(list.devices[0].name.major, 1);
}

static void malformed_numbers(void **state)
{
	static const struct {
		const char *file, *text, *part;
	} tests[] = {
		{ "dev", "", "/loop0/dev has no device number: ''" },
		{ "dev", "8", "/loop0/dev has no device number: '8'" },
		{ "dev", "8:", "''" },
		{ "dev", ":0", "''" },
		{ "dev", "8:x", "'x'" },
		{ "dev", "x:0", "'x'" },
		{ "dev", "8:0:0", "'0:0'" },
		{ "dev", "8:-1", "'-1'" },
		{ "dev", "4096:0", "4096 is not in 0..4095" },
		{ "dev", "8:1048576", "1048576 is not in 0..1048575" },
		{ "diskseq", "x", "/loop0/diskseq: 'x' is not a number" },
		{ "diskseq", "", "/loop0/diskseq: '' is not a number" },
		{ "size", "-5", "/loop0/size: '-5' is not a number" },
		{ "size", "99999999999999999999", "/loop0/size" },
	};
	const char *root = *state;
	cleanup_free char *disk = add_disk(root, "virtual/block/loop0", "7:0");

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		struct device_list list = { .n = 77 };

		put(disk, tests[i].file, tests[i].text);
		assert_error(device_list_read(root, &list), tests[i].part);
		assert_int_equal(list.n, 77);
		put(disk, tests[i].file, strcmp(tests[i].file, "dev") ? "1" : "7:0");
	}

	cleanup(device_list_deinit) struct device_list list = {};

	put(disk, "dev", "4095:1048575");
	assert_ok(device_list_read(root, &list));
	assert_int_equal(list.devices[0].name.major, 4095);
	assert_int_equal(list.devices[0].name.minor, 1048575);
}

/* Wherever a bad number was read, the message must say in which file. */
static void malformed_numbers_name_the_file(void **state)
{
	const char *root = *state;
	cleanup_free char *disk = add_disk(root, "virtual/block/loop0", "7:x");
	struct device_list list;

	assert_error(device_list_read(root, &list), "/loop0/dev");
	put(disk, "dev", "4096:0");
	assert_error(device_list_read(root, &list), "/loop0/dev");
}

static void long_names(void **state)
{
	const char *root = *state;
	char longest[DEVICE_NAME_MAX] = {}, over[DEVICE_NAME_MAX + 1] = {};
	cleanup(device_list_deinit) struct device_list list = {};

	memset(longest, 'x', sizeof(longest) - 1);
	memset(over, 'y', sizeof(over) - 1);
	free(add_disk(root, "virtual/block/d", "7:0"));
	free(add_partition(root, "virtual/block/d", longest, "7:1", "1"));
	assert_ok(device_list_read(root, &list));
	assert_int_equal(list.n, 2);
	assert_string_equal(list.devices[1].name.partition, longest);
	device_list_deinit(&list);

	free(add_partition(root, "virtual/block/d", over, "7:2", "1"));
	assert_failed(device_list_read(root, &list), over);
	assert_int_equal(list.n, 0);
}

static void long_disk_names(void **state)
{
	const char *root = *state;
	char over[DEVICE_NAME_MAX + 1] = {};
	struct device_list list;

	memset(over, 'z', sizeof(over) - 1);

	cleanup_free char *node = xasprintf("virtual/block/%s", over);

	free(add_disk(root, node, "7:0"));
	assert_failed(device_list_read(root, &list), "is longer than 63 bytes");
}

static const char *shown_name(const struct device *d)
{
	return d->name.partition[0] ? d->name.partition : d->name.disk;
}

static void finds_by_name(void **state)
{
	static const char *const names[] = {
		"sda",       "sda1", "sda10",      "nvme0n1",
		"nvme0n1p1", "dm-0", "cciss/c0d0", "cciss/c0d0p1",
	};
	cleanup(device_list_deinit) struct device_list list = {};

	assert_ok(device_list_read(*state, &list));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct device *d = NULL;

		assert_ok(device_find(&list, names[i], &d));
		assert_string_equal(shown_name(d), names[i]);
	}
}

static void finds_no_other_name(void **state)
{
	static const struct {
		const char *name, *part;
	} tests[] = {
		{ "sda3", "there is no block device 'sda3'" },
		{ "sd", "there is no block device 'sd'" },
		{ "SDA", "there is no block device 'SDA'" },
		{ "sda ", "there is no block device 'sda '" },
		{ "", "there is no block device ''" },
		{ "cciss/c0d1", "cannot find the block device 'cciss/c0d1'" },
		{ "/nonexistent/sda", "cannot find the block device '/nonexistent/sda'" },
		{ "/dev/null", "'/dev/null' is not a block device" },
		{ "/tmp", "'/tmp' is not a block device" },
		{ "/", "'/' is not a block device" },
	};
	cleanup(device_list_deinit) struct device_list list = {};
	const struct device *d = NULL;

	assert_ok(device_list_read(*state, &list));
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		assert_failed(device_find(&list, tests[i].name, &d), tests[i].part);
	assert_null(d);
}

/* A device node without a driver behind it is enough to be looked at. */
static void finds_by_path(void **state)
{
	const char *root = *state;
	cleanup_free char *node = xasprintf("%s/node", root);
	cleanup_free char *alias = xasprintf("%s/alias", root);
	cleanup_free char *unknown = xasprintf("%s/unknown", root);
	cleanup(device_list_deinit) struct device_list list = {};
	const struct device *d = NULL;

	assert_ok(device_list_read(root, &list));
	if (mknod(node, S_IFBLK | 0600, makedev(259, 3))) {
		print_message("cannot make device nodes here: %s\n", strerror(errno));
		skip();
	}
	assert_int_equal(symlink("node", alias), 0);
	assert_ok(device_find(&list, node, &d));
	assert_string_equal(shown_name(d), "nvme0n1p1");
	d = NULL;
	assert_ok(device_find(&list, alias, &d));
	assert_string_equal(shown_name(d), "nvme0n1p1");

	/* The minor number of one device with the major number of another. */
	assert_int_equal(mknod(unknown, S_IFBLK | 0600, makedev(259, 10)), 0);
	d = NULL;
	assert_failed(device_find(&list, unknown, &d),
		      "is device 259:10, which /sys does not have");
	assert_null(d);
}

/* The same with the devices of the running system. */
static void names_partitions(void **state)
{
	static const struct {
		const char *disk;
		uint32_t partno;
		const char *name;
	} cases[] = { { "sda", 1, "sda1" },
		      { "nvme0n1", 2, "nvme0n1p2" },
		      { "loop7", 128, "loop7p128" },
		      { "cciss/c0d0", 3, "cciss/c0d0p3" },
		      { "", 4294967295u, "4294967295" } };
	char name[DEVICE_NAME_MAX], longest[DEVICE_NAME_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		partition_name(cases[i].disk, cases[i].partno, name);
		assert_string_equal(name, cases[i].name);
	}
	memset(longest, 'a', sizeof(longest)); /* without a NUL */
	partition_name(longest, 1, name);
	assert_int_equal(strlen(name), DEVICE_NAME_MAX - 1);
}

/* One that is gone is found by its name, by the path that it had, and behind one that is there. */
static void finds_gone_devices(void **state)
{
	struct device gone = { .name = { .disk = "sdg", .partition = "sdg1" },
			       .sysfs_id = 77,
			       .disk_sysfs_id = 76,
			       .gone = true };
	cleanup(device_list_deinit) struct device_list list = {};
	const struct device *d;

	(void)state;
	device_list_add(&list, &gone);
	gone = (struct device){ .name = { .disk = "sdh" }, .sysfs_id = 80, .gone = true };
	device_list_add(&list, &gone);
	gone.gone = false;
	gone.sysfs_id = 81;
	device_list_add(&list, &gone);
	device_list_sort(&list);
	assert_ok(device_find(&list, "sdg1", &d));
	assert_true(d->gone && d->sysfs_id == 77);
	assert_ok(device_find(&list, "/dev/sdg1", &d));
	assert_true(d->sysfs_id == 77);
	assert_ok(device_find(&list, "sdh", &d));
	assert_true(!d->gone && d->sysfs_id == 81);
	assert_null(device_by_id(&list, 77));
	assert_null(device_by_id(&list, 80));
	assert_non_null(device_by_id(&list, 81));
	assert_failed(device_find(&list, "/dev/shm/sdg1", &d), "/dev/shm/sdg1");
	/* What is there and has no node at its path is not taken for another. */
	assert_failed(device_find(&list, "/dev/sdh-is-nowhere", &d), "sdh-is-nowhere");
}

static void finds_real_device(void **state)
{
	const char *root = *state;
	cleanup(device_list_deinit) struct device_list list = {};
	cleanup_free char *alias = xasprintf("%s/alias", root);

	if (access("/sys/class/block", R_OK))
		skip();
	assert_ok(device_list_read("", &list));
	for (unsigned int i = 0; i < list.n; i++) {
		cleanup_free char *path = xasprintf("/dev/%s", shown_name(&list.devices[i]));
		const struct device *d = NULL;
		struct stat st;

		if (stat(path, &st) || !S_ISBLK(st.st_mode))
			continue;
		assert_ok(device_find(&list, path, &d));
		assert_ptr_equal(d, &list.devices[i]);
		assert_int_equal(symlink(path, alias), 0);
		d = NULL;
		assert_ok(device_find(&list, alias, &d));
		assert_ptr_equal(d, &list.devices[i]);
		return;
	}
	print_message("no device of /sys/class/block has a node in /dev\n");
	skip();
}

static void assert_queues(const char *root, const char *disk, uint64_t n, uint64_t tags)
{
	uint64_t got_n = 77, got_tags = 77;

	assert_ok(device_queues(root, disk, &got_n, &got_tags));
	assert_int_equal(got_n, n);
	assert_int_equal(got_tags, tags);
}

static void queues(void **state)
{
	const char *root = *state;
	uint64_t n = 77, tags = 77;

	assert_queues(root, "sda", 1, 64);       /* the scheduler has more requests than tags */
	assert_queues(root, "nvme0n1", 4, 1023); /* the largest of all queues, more than that */
	assert_queues(root, "cciss/c0d0", 1, 1020);
	assert_queues(root, "dm-0", 0, 0);
	assert_queues(root, "gone", 0, 0);

	cleanup_free char *odd = add_disk(root, "virtual/block/odd", "7:9");

	add_queue(odd, "0", NULL); /* a queue without the file still counts */
	set_nr_requests(odd, "16");
	assert_queues(root, "odd", 1, 16);
	add_queue(odd, "1", "many");
	assert_error(device_queues(root, "odd", &n, &tags),
		     "/mq/1/nr_tags: 'many' is not a number");
	add_queue(odd, "1", "8");
	set_nr_requests(odd, "");
	assert_error(device_queues(root, "odd", &n, &tags),
		     "/queue/nr_requests: '' is not a number");
	assert_int_equal(n, 77);
	assert_int_equal(tags, 77);
}

static void reads_sysfs_files(void **state)
{
	const char *root = *state;
	cleanup_free char *path = xasprintf("%s/file", root);
	cleanup_free char *text = xcalloc(1, 8);
	uint64_t value = 77;

	put(root, "file", "12345");
	assert_ok(sysfs_read(path, text, 8));
	assert_string_equal(text, "12345");
	assert_ok(sysfs_read_u64(path, &value));
	assert_true(value == 12345);
	put(root, "file", "two words\n");
	assert_ok(sysfs_read(path, text, 8)); /* what does not fit is cut off */
	assert_string_equal(text, "two wor");
	value = 77;
	assert_error(sysfs_read_u64(path, &value), "/file: 'two words");
	put(root, "file", "");
	assert_ok(sysfs_read(path, text, 8));
	assert_string_equal(text, "");
	drop(root, "file");
	assert_failed(sysfs_read(path, text, 8), "/file: No such file or directory");
	assert_failed(sysfs_read_u64(path, &value), "/file: No such file or directory");
	assert_failed(sysfs_read(root, text, 8), "Is a directory");
	assert_true(value == 77);
}

/* A head of NVMe multipath and its paths, which are hidden and have no device number. */
static void paths_of_nvme(void **state)
{
	static const struct {
		const char *disk, *head;
		uint32_t major;
	} expected[] = {
		{ "nvme1n1", "", 259 },
		{ "nvme1c0n1", "nvme1n1", 0 },
		{ "nvme1c10n1", "nvme1n1", 0 },
		{ "nvme1n2", "", 259 },
	};
	const char *root = *state;
	cleanup(device_list_deinit) struct device_list list = {};
	cleanup_free char *head = add_disk(root, "virtual/nvme-subsystem/nvme1n1", "259:1");
	cleanup_free char *other = add_disk(root, "virtual/nvme-subsystem/nvme1n2", "259:2");
	cleanup_free char *path = add_disk(root, "pci0000:00/nvme/nvme0/nvme1c0n1", "0:0");
	cleanup_free char *second = add_disk(root, "pci0000:01/nvme/nvme10/nvme1c10n1", "0:0");

	put(head, "hidden", "0");
	put(path, "hidden", "1");
	put(second, "hidden", "1");
	drop(path, "dev");
	drop(second, "dev");
	add_queue(path, "0", "32");
	assert_ok(device_list_read(root, &list));
	assert_int_equal(list.n, ARRAY_SIZE(expected));
	for (unsigned int i = 0; i < list.n; i++) {
		const struct device_name *name = &list.devices[i].name;

		assert_string_equal(name->disk, expected[i].disk);
		assert_string_equal(name->head, expected[i].head);
		assert_int_equal(name->major, expected[i].major);
	}
	assert_true(list.devices[1].request_based);
	assert_true(device_list_has_bios(&list)); /* the head */
	(void)other;
}

/* A disk that is hidden for another reason, or is called like a path, is not one. */
static void no_paths_of_nvme(void **state)
{
	const char *root = *state;
	cleanup(device_list_deinit) struct device_list list = {};
	cleanup_free char *shown = add_disk(root, "virtual/block/nvme0c0n1", "259:1");
	cleanup_free char *odd = add_disk(root, "virtual/block/nvme0c0n1x", "259:2");

	put(shown, "hidden", "0");
	put(odd, "hidden", "1");
	assert_ok(device_list_read(root, &list));
	assert_int_equal(list.n, 2);
	for (unsigned int i = 0; i < list.n; i++) {
		assert_string_equal(list.devices[i].name.head, "");
		assert_int_equal(list.devices[i].name.major, 259);
	}
}

static void paths_in_sys(void **state)
{
	cleanup_free char *path = device_path("/root", "cciss/c0d0", "queue/rotational");

	(void)state;
	assert_string_equal(path, "/root/sys/class/block/cciss!c0d0/queue/rotational");
}

#define in_tree(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define on_machine(test) cmocka_unit_test_setup_teardown(test, setup_machine, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_machine(lists_in_order),
		in_tree(no_devices),
		in_tree(no_sysfs),
		in_tree(skips_gone_devices),
		in_tree(optional_files),
		in_tree(malformed_numbers),
		in_tree(malformed_numbers_name_the_file),
		in_tree(long_names),
		in_tree(long_disk_names),
		on_machine(finds_by_name),
		on_machine(finds_no_other_name),
		on_machine(finds_by_path),
		cmocka_unit_test(names_partitions),
		cmocka_unit_test(finds_gone_devices),
		in_tree(finds_real_device),
		on_machine(queues),
		in_tree(reads_sysfs_files),
		in_tree(paths_of_nvme),
		in_tree(no_paths_of_nvme),
		cmocka_unit_test(paths_in_sys),
	};

	return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
