// SPDX-License-Identifier: GPL-2.0-only
#include "fuzz.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"

void fuzz_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("does not hold: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	abort();
}

static void must_succeed(struct error *err, const char *what)
{
	if (err)
		fuzz_fail("%s: %s", what, err->message);
}

/* --- files --- */

static const char *const file_names[FUZZ_FILES] = {
	[FUZZ_CPU0] = "set.blktrace.0",
	[FUZZ_CPU1] = "set.blktrace.1",
	[FUZZ_SINGLE] = "single",
	[FUZZ_PARTITIONS] = "partitions",
};

static struct {
	char *dir, *root;
	char *path[FUZZ_FILES];
	int fd[FUZZ_FILES];
} files;

static void files_remove(void)
{
	static const char *const dirs[] = { "sys/class/block", "sys/class", "sys", "" };

	for (int i = 0; i < FUZZ_FILES; i++)
		unlink(files.path[i]);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		cleanup_free char *path = xasprintf("%s/%s", files.dir, dirs[i]);

		rmdir(path);
	}
}

/* Once: making files would take most of the time. */
static void files_make(void)
{
	static const char *const dirs[] = { "sys", "sys/class", "sys/class/block" };
	const char *tmp = getenv("TMPDIR");

	if (files.dir)
		return;
	files.dir = xasprintf("%s/blkhist-fuzz-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(files.dir))
		fuzz_fail("cannot make %s", files.dir);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		cleanup_free char *path = xasprintf("%s/%s", files.dir, dirs[i]);

		if (mkdir(path, 0700))
			fuzz_fail("cannot make %s", path);
	}
	for (int i = 0; i < FUZZ_FILES; i++) {
		files.path[i] = xasprintf("%s/%s", files.dir, file_names[i]);
		files.fd[i] = open(files.path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (files.fd[i] < 0)
			fuzz_fail("cannot make %s", files.path[i]);
	}
	atexit(files_remove);
}

const char *fuzz_file_path(enum fuzz_file file)
{
	files_make();
	return files.path[file];
}

const char *fuzz_root(void)
{
	files_make();
	return files.dir;
}

void fuzz_file_write(enum fuzz_file file, const void *data, size_t size)
{
	files_make();
	if (ftruncate(files.fd[file], 0) ||
	    (size && pwrite(files.fd[file], data, size, 0) != (ssize_t)size))
		fuzz_fail("cannot write %s", files.path[file]);
}

const struct config *fuzz_config(void)
{
	static const char text[] = "[8:16]\nkinds = request,service,seek\n"
				   "[8:32]\nignore = yes\n";
	static const char *const built_in[CONFIG_NR] = {
		[CONFIG_TIME] = "125,1us..1s", [CONFIG_SIZE] = "4KiB,64KiB",
		[CONFIG_SEEK] = "-8,-1,0,8",   [CONFIG_KINDS] = "all",
		[CONFIG_IGNORE] = "no",
	};
	static struct config config;

	if (!config.n) {
		config_init(&config);
		must_succeed(config_parse(text, strlen(text), "fuzz", &config),
			     "the configuration");
		must_succeed(config_complete(&config, built_in), "the configuration");
	}
	return &config;
}

/* --- what must hold --- */

uint64_t fuzz_loss(const struct snapshot *s, const char *name)
{
	for (unsigned int i = 0; i < s->n_losses; i++)
		if (!strcmp(s->losses[i].name, name))
			return s->losses[i].count;
	fuzz_fail("there is no loss \"%s\"", name);
}

/*
 * The sum of a row lies between those of the lower and of the upper bounds of its buckets. What is
 * beyond the last bound has no upper one, and may be so much that the sum has overflown.
 */
static void check_sum(const struct hist *h, unsigned int row)
{
	const uint64_t *counts = hist_row(h, row);
	__int128 low = 0, high = 0;

	for (unsigned int i = 0; i < h->ladder->n; i++) {
		low += (__int128)counts[i] * (i ? h->ladder->bound[i - 1] + 1 : 0);
		high += (__int128)counts[i] * h->ladder->bound[i];
	}
	if (!counts[h->ladder->n] && (h->sums[row] < low || h->sums[row] > high))
		fuzz_fail("%s %s %s, row %u: the sum is %lld, not %lld .. %lld",
			  device_name_own(&h->name), hist_kind_names[h->kind], blk_op_names[h->op],
			  row, (long long)h->sums[row], (long long)low, (long long)high);
}

static bool same_hist(const struct hist *a, const struct hist *b)
{
	return !device_name_compare(&a->name, &b->name) && a->kind == b->kind && a->op == b->op;
}

static const struct hist *find(const struct snapshot *s, const struct hist *like)
{
	for (unsigned int i = 0; i < s->n_hists; i++)
		if (same_hist(&s->hists[i], like))
			return &s->hists[i];
	return NULL;
}

/* A disk has what its partitions have, cell by cell. */
static void check_partitions(const struct snapshot *s, const struct hist *disk)
{
	for (size_t cell = 0; cell < (size_t)disk->n_rows * disk->n_cols; cell++) {
		uint64_t sum = 0;

		for (unsigned int i = 0; i < s->n_hists; i++) {
			const struct hist *h = &s->hists[i];

			if (h->name.partition[0] && !strcmp(h->name.disk, disk->name.disk) &&
			    h->kind == disk->kind && h->op == disk->op)
				sum += h->counts[cell];
		}
		if (sum > disk->counts[cell])
			fuzz_fail("the partitions of %s have more than it", disk->name.disk);
	}
}

static void check_hist(const struct snapshot *s, const struct hist *h)
{
	for (unsigned int row = 0; h->kind < KIND_TIMED && row < h->n_rows; row++)
		check_sum(h, row);
	if (!h->name.partition[0]) {
		check_partitions(s, h);
	} else if (hist_count(h)) {
		struct hist disk = *h;

		disk.name.partition[0] = '\0';
		if (!find(s, &disk))
			fuzz_fail("%s is without its disk", h->name.partition);
	}
	if (hist_count(h) > fuzz_loss(s, "events"))
		fuzz_fail("more requests than events");
	if (!strcmp(h->name.disk, "8:32"))
		fuzz_fail("what is to be ignored is there");
}

/* Every event is in one class, unless it may still come to be. */
static void check_classes(const struct snapshot *s, bool last)
{
	static const char *const classes[] = {
		"matched", "unfinished", "unmatched_complete", "unmatched_requeue",
		"notify",  "no_request", "passthrough",        "stacked",
		"ignored", "unknown",
	};
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		sum += fuzz_loss(s, classes[i]);
	if (sum > fuzz_loss(s, "events") || (last && sum != fuzz_loss(s, "events")))
		fuzz_fail("%llu events, but %llu in all classes",
			  (unsigned long long)fuzz_loss(s, "events"), (unsigned long long)sum);
}

void fuzz_check_rise(const struct snapshot *older, const struct snapshot *newer)
{
	for (unsigned int i = 0; i < older->n_losses; i++)
		if (fuzz_loss(newer, older->losses[i].name) < older->losses[i].count)
			fuzz_fail("%s is less than before", older->losses[i].name);
	for (unsigned int i = 0; i < older->n_hists; i++) {
		const struct hist *a = &older->hists[i], *b = find(newer, a);

		if (!b || !hist_same_shape(a, b))
			fuzz_fail("%s has gone", device_name_own(&a->name));
		for (size_t cell = 0; cell < (size_t)a->n_rows * a->n_cols; cell++)
			if (a->counts[cell] > b->counts[cell])
				fuzz_fail("%s has less than before", device_name_own(&a->name));
	}
}

void fuzz_check_same(const struct snapshot *a, const struct snapshot *b)
{
	for (unsigned int i = 0; i < a->n_losses; i++)
		if (a->losses[i].count != fuzz_loss(b, a->losses[i].name))
			fuzz_fail("%s differs: %llu, %llu", a->losses[i].name,
				  (unsigned long long)a->losses[i].count,
				  (unsigned long long)fuzz_loss(b, a->losses[i].name));
	fuzz_check_rise(a, b);
	fuzz_check_rise(b, a);
}

/* --- reading --- */

static void check_progress(const struct trace *trace)
{
	uint64_t done, total;

	trace_progress(trace, &done, &total);
	if (total && done > total)
		fuzz_fail("%llu of %llu bytes were read", (unsigned long long)done,
			  (unsigned long long)total);
}

static void check_problems(struct trace *trace)
{
	cleanup(buf_deinit) struct buf text = {};
	bool any = trace_problems(trace, &text);

	if (any != (text.len > 0) ||
	    (any && (text.str[text.len - 1] != '\n' || strstr(text.str, "\n\n"))))
		fuzz_fail("the problems are \"%s\"", any ? text.str : "");
}

void fuzz_snapshot(struct trace *trace, struct snapshot *ret)
{
	static const struct trace_selection all = { .kinds = KINDS_ALL, .ops = OPS_ALL };

	trace_snapshot(trace, &all, ret);
	check_classes(ret, false);
	for (unsigned int i = 0; i < ret->n_hists; i++) {
		check_hist(ret, &ret->hists[i]);
		if (i && same_hist(&ret->hists[i], &ret->hists[i - 1]))
			fuzz_fail("%s is there twice", device_name_own(&ret->hists[i].name));
	}
	check_problems(trace);
	check_progress(trace);
}

void fuzz_read(struct trace *trace, struct snapshot *ret)
{
	enum trace_state state;

	while ((state = trace_read(trace, INT64_MAX)) == TRACE_MORE)
		;
	if (state != TRACE_END)
		fuzz_fail("the end is state %d", state);
	fuzz_snapshot(trace, ret);
	check_classes(ret, true);
}
