// SPDX-License-Identifier: GPL-2.0-only
/* Programs that do nothing: what kernel.bpf_stats_enabled charges for calling and timing one. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

SEC("tp_btf/block_rq_issue")
int empty_issue(void *ctx)
{
	return 0;
}

SEC("tp_btf/block_rq_complete")
int empty_complete(void *ctx)
{
	return 0;
}
