// SPDX-License-Identifier: GPL-2.0-only
/* /proc/stat: proc(5). */
#include "bench/machine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/timefmt.h"
#include "core/util.h"

struct error *machine_read(struct machine *ret)
{
	cleanup(buf_deinit) struct buf text = {};
	unsigned long long user, nice, system, idle, iowait, irq, softirq, switches;
	const char *ctxt;

	try(buf_read_file(&text, "the file", "/proc/stat", 16 << 20));
	ctxt = strstr(text.str, "\nctxt ");
	if (sscanf(text.str, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
		   &iowait, &irq, &softirq) != 7 ||
	    !ctxt || sscanf(ctxt, "\nctxt %llu", &switches) != 1)
		return error_new("cannot understand /proc/stat");
	*ret = (struct machine){
		.cpu_s = (double)(user + nice + system + irq + softirq) /
			 (double)sysconf(_SC_CLK_TCK),
		.switches = (double)switches,
		.seconds = (double)clock_ns(CLOCK_MONOTONIC) / 1e9,
	};
	return NULL;
}
