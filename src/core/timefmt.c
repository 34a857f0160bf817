// SPDX-License-Identifier: GPL-2.0-only
#include "core/timefmt.h"

#include <stdio.h>

int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct tm utc(int64_t realtime_ns)
{
	time_t seconds = realtime_ns / 1000000000;
	struct tm tm = {};

	gmtime_r(&seconds, &tm);
	return tm;
}

void time_format_seconds(int64_t realtime_ns, char ret[RFC3339_MAX])
{
	struct tm tm = utc(realtime_ns);

	strftime(ret, RFC3339_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void time_format_rfc3339(int64_t realtime_ns, char ret[RFC3339_MAX])
{
	struct tm tm = utc(realtime_ns);
	size_t n = strftime(ret, RFC3339_MAX, "%Y-%m-%dT%H:%M:%S", &tm);

	snprintf(ret + n, RFC3339_MAX - n, ".%09dZ", (int)(realtime_ns % 1000000000));
}
