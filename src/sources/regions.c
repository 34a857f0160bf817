// SPDX-License-Identifier: GPL-2.0-only
#include "sources/regions.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <inttypes.h>

#include "abi/abi.h"

struct error *regions_count(const struct live_paths *paths, const struct device_list *devices,
			    unsigned int n_cpus, unsigned int *ret)
{
	uint64_t n = 1; /* index 0 is none */

	for (unsigned int i = 0; i < devices->n; i++) {
		const struct device *d = &devices->devices[i];
		uint64_t queues, tags;

		if (d->sysfs_id != d->disk_sysfs_id)
			continue;
		try(device_queues(paths->root, d->name.disk, &queues, &tags));
		/* A disk without requests has a head, which comes with a region. */
		n += queues ? queues * ((tags + REGION_SLOTS - 1) / REGION_SLOTS) : 1;
	}
	/* One more disk with a queue per CPU and 1,023 tags in each. */
	n += n_cpus * 8 > 16 ? n_cpus * 8 : 16;
	if (n >= 1u << REGION_INDEX_BITS)
		return error_new(
			"the disks of this machine have too many tags (%" PRIu64 " regions)", n);
	*ret = (unsigned int)n;
	return NULL;
}

struct error *regions_fill(int pool, unsigned int n)
{
	for (__u32 id = 1; id < n; id++)
		if (bpf_map_update_elem(pool, NULL, &id, BPF_ANY))
			return error_errno(errno, "cannot fill the pool of request slots");
	return NULL;
}
