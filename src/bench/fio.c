// SPDX-License-Identifier: GPL-2.0-only
/* fio as the load generator, and what it says about it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <linux/fs.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bench/workload.h"
#include "core/util.h"

#define OUTPUT_MAX (16u << 20)
#define STREAM_BLOCK (64 * 1024)

char *fio_find(void)
{
	static const char *const names[] = { "fio", NULL };

	return program_find(names);
}

/* --- its arguments --- */

struct arguments {
	const char **argv; /* NULL-terminated; the strings are owned */
	unsigned int n;
};

static void arguments_deinit(struct arguments *a)
{
	for (unsigned int i = 0; i < a->n; i++)
		free((void *)a->argv[i]);
	free(a->argv);
}

static void __attribute__((format(printf, 2, 3))) add(struct arguments *a, const char *fmt, ...)
{
	va_list ap;

	a->argv = xreallocarray(a->argv, a->n + 2, sizeof(char *));
	va_start(ap, fmt);
	a->argv[a->n++] = xvasprintf(fmt, ap);
	va_end(ap);
	a->argv[a->n] = NULL;
}

static struct error *device_size(const char *path, uint64_t *ret)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, ret))
		return error_errno(errno, "cannot read the size of %s", path);
	return NULL;
}

/* Threads share the devices; those on one device have a part of it each. */
static struct error *add_threads(struct context *c, struct arguments *a)
{
	unsigned int threads = c->workload->threads, parts;
	uint64_t size, part;

	parts = (threads + c->n_devices - 1) / c->n_devices;
	for (unsigned int i = 0; i < threads; i++) {
		const char *path = c->devices[i % c->n_devices];

		try(device_size(path, &size));
		part = size / parts / STREAM_BLOCK * STREAM_BLOCK;
		if (!part)
			return error_new("%s is too small for %u threads", path, parts);
		add(a, "--name=thread%u", i);
		add(a, "--filename=%s", path);
		add(a, "--offset=%" PRIu64, part * (i / c->n_devices));
		add(a, "--size=%" PRIu64, part);
	}
	return NULL;
}

static struct error *make_arguments(struct context *c, struct arguments *a)
{
	static const char *const always[] = { "--output-format=json", "--thread=1",
					      "--ioengine=libaio",    "--direct=1",
					      "--norandommap=1",      "--randrepeat=1",
					      "--time_based=1",       "--unified_rw_reporting=1",
					      "--lat_percentiles=1" };
	const struct bench_settings *s = c->settings;
	char *program = fio_find();

	add(a, "%s", program ? program : "fio");
	free(program);
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		add(a, "%s", always[i]);
	add(a, "--runtime=%u", s->seconds);
	add(a, "--rw=%s", c->workload->rw);
	add(a, "--iodepth=%u", c->workload->threads ? 1 : s->depth);
	add(a, "--bs=%u", c->workload->threads ? STREAM_BLOCK : 4096);
	if (c->workload->limited)
		add(a, "--rate_iops=%u", s->iops);
	if (c->workload->threads)
		return add_threads(c, a);
	add(a, "--name=all");
	add(a, "--filename=%s", c->devices[0]);
	for (unsigned int i = 1; i < c->n_devices; i++) {
		char *longer = xasprintf("%s:%s", a->argv[a->n - 1], c->devices[i]);

		free((void *)a->argv[a->n - 1]);
		a->argv[a->n - 1] = longer;
	}
	return NULL;
}

/* --- its output --- */

static double get(struct json_object *o, const char *key)
{
	struct json_object *value = json_object_object_get(o, key);

	return value ? json_object_get_double(value) : UNKNOWN;
}

/* Of all jobs together; a quantile is the highest that any of them has. */
static void add_job(struct json_object *job, struct sample *s, unsigned int n)
{
	static const char *const keys[QUANTILES] = { "50.000000", "99.000000", "99.900000" };
	struct json_object *mixed = json_object_object_get(job, "mixed");
	struct json_object *latency = json_object_object_get(mixed, "lat_ns");
	struct json_object *percentile = json_object_object_get(latency, "percentile");
	double rate = get(mixed, "bw_bytes") / 1e6, bytes = get(mixed, "io_bytes");

	s->ios = fmax(s->ios, 0) + get(mixed, "total_ios");
	for (int q = 0; q < QUANTILES; q++)
		s->latency_ns[q] = fmax(s->latency_ns[q], get(percentile, keys[q]));
	s->threads[0] = n ? fmin(s->threads[0], rate) : rate;
	s->threads[1] = fmax(s->threads[1], 0) + rate;
	s->threads[2] = fmax(s->threads[2], rate);
	s->transferred_min = n ? fmin(s->transferred_min, bytes) : bytes;
}

static struct error *read_output(const struct context *c, const char *path, struct sample *s)
{
	cleanup(buf_deinit) struct buf text = {};
	unsigned int n = 0;
	const char *begin;
	struct json_object *o, *jobs;
	double iops = 0;
	size_t n_jobs = 0;

	try(buf_read_file(&text, "what fio printed,", path, OUTPUT_MAX));
	/* It also prints remarks. */
	begin = text.len ? strchr(text.str, '{') : NULL;
	o = begin ? json_tokener_parse(begin) : NULL;
	jobs = json_object_object_get(o, "jobs");
	if (json_object_is_type(jobs, json_type_array))
		n_jobs = json_object_array_length(jobs);
	for (size_t i = 0; i < n_jobs; i++) {
		struct json_object *job = json_object_array_get_idx(jobs, i);

		add_job(job, s, n++);
		iops += get(json_object_object_get(job, "mixed"), "iops");
	}
	json_object_put(o);
	if (!n || s->ios <= 0)
		return error_new("cannot understand what fio printed, or it did no I/O");
	if (c->workload->threads) {
		s->value = s->threads[1];
		s->threads[1] /= n;
		return NULL;
	}
	s->value = iops;
	for (size_t i = 0; i < ARRAY_SIZE(s->threads); i++)
		s->threads[i] = UNKNOWN;
	s->transferred_min = UNKNOWN;
	return NULL;
}

struct error *fio_run(struct context *c, struct sample *s)
{
	cleanup(arguments_deinit) struct arguments a = {};
	cleanup_free char *out = xasprintf("%s/out", c->dir), *err = xasprintf("%s/err", c->dir);
	struct program p = { .out = out, .err = err };

	try(make_arguments(c, &a));
	p.argv = a.argv;
	try(program_run(c, &p));
	return c->interrupted ? NULL : read_output(c, out, s);
}
