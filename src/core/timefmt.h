/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BLKHIST_CORE_TIMEFMT_H
#define BLKHIST_CORE_TIMEFMT_H

#include <stdint.h>
#include <time.h>

/* The clock's reading in ns. */
int64_t clock_ns(clockid_t clock);

#define RFC3339_MAX 40

/* CLOCK_REALTIME ns as RFC 3339 in UTC: "2026-11-30T14:05:07.123456789Z". */
void time_format_rfc3339(int64_t realtime_ns, char ret[RFC3339_MAX]);
/* The same to the second: "2026-11-30T14:05:07Z". */
void time_format_seconds(int64_t realtime_ns, char ret[RFC3339_MAX]);

#endif
