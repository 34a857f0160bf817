// SPDX-License-Identifier: GPL-2.0-only
#include "sources/inner.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/units.h"
#include "core/util.h"

struct error *inner_create(unsigned int n_blocks, bool varying, int *ret)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts,
		    .map_flags = varying ? BPF_F_INNER_MAP : BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, varying ? "blkhist_base" : "blkhist_hist",
				sizeof(__u32), sizeof(struct hist_block), n_blocks, &opts);

	if (fd < 0)
		return error_errno(-fd, "cannot create a map of %zu bytes for histograms",
				   n_blocks * sizeof(struct hist_block));
	*ret = fd;
	return NULL;
}

static struct error *info(int fd, struct bpf_map_info *ret)
{
	__u32 len = sizeof(*ret);

	*ret = (struct bpf_map_info){};
	if (bpf_obj_get_info_by_fd(fd, ret, &len))
		return error_errno(errno, "cannot ask for a map's properties");
	return NULL;
}

struct error *inner_id(int fd, uint32_t *ret)
{
	struct bpf_map_info i;

	try(info(fd, &i));
	*ret = i.id;
	return NULL;
}

struct error *inner_size(int fd, unsigned int *ret)
{
	struct bpf_map_info i;

	try(info(fd, &i));
	if (i.value_size != sizeof(struct hist_block) || i.max_entries > 1u << 16)
		return error_new("a pinned histogram has an unknown shape; run: blkhist stop");
	*ret = i.max_entries;
	return NULL;
}

struct error *inner_write(int fd, unsigned int index, const struct hist_block *block)
{
	__u32 key = index;

	if (bpf_map_update_elem(fd, &key, block, BPF_ANY))
		return error_errno(errno, "cannot write a histogram's block %u", index);
	return NULL;
}

struct error *inner_read(int fd, unsigned int n_blocks, struct hist_block *ret)
{
	cleanup_free __u32 *keys = xcalloc(n_blocks, sizeof(*keys));
	__u32 batch = 0, count = n_blocks;

	if (bpf_map_lookup_batch(fd, NULL, &batch, keys, ret, &count, NULL) && errno != ENOENT)
		return error_errno(errno, "cannot read a histogram");
	if (count != n_blocks)
		return error_new("cannot read a histogram: %u of %u blocks came", count, n_blocks);
	return NULL;
}

static struct error *fdinfo_memory(int fd, uint64_t *ret)
{
	cleanup_free char *path = xasprintf("/proc/self/fdinfo/%d", fd);
	cleanup_fclose FILE *f = fopen(path, "re");
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		char *value = line + strlen("memlock:\t");

		if (strncmp(line, "memlock:\t", strlen("memlock:\t")))
			continue;
		value[strcspn(value, "\n")] = '\0';
		return parse_u64(value, 0, UINT64_MAX, ret);
	}
	return error_new("cannot find the memory of a map in %s", path);
}

/*
 * A process with capabilities of its file is not dumpable: before 7bc3fa0172a4 (5.14) what /proc
 * says of its descriptors is root's alone. It may be made dumpable: who has not the same
 * capabilities cannot trace it even then.
 */
struct error *map_memory(int fd, uint64_t *ret)
{
	bool hidden = prctl(PR_GET_DUMPABLE) != 1;
	struct error *err;

	if (hidden)
		prctl(PR_SET_DUMPABLE, 1);
	err = fdinfo_memory(fd, ret);
	if (hidden)
		prctl(PR_SET_DUMPABLE, 0);
	return err;
}
