// SPDX-License-Identifier: GPL-2.0-only
#include "record/writer.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/device.h"
#include "core/util.h"
#include "sources/blktrace/format.h"

#define BUFFER_SIZE 65536
#define RECORD_MAX (TRACE_V7_SIZE + 16)
#define NAMES (1u << 16) /* processes whose names are known at once; power of two */
#define NOTED (1u << 12) /* likewise those that a disk's trace names */

struct stream {
	int fd;
	char *path;
	char *buf; /* whole records */
	size_t len;
	uint64_t written; /* bytes of whole records */
	bool regular;
};

struct disk {
	uint32_t device;
	uint32_t *sequence;     /* by CPU, the last one */
	uint64_t *lost;         /* by CPU, as events have said last */
	uint32_t *noted;        /* pid + 1, by pid */
	struct stream *streams; /* by CPU; NULL: the writer's */
	bool begun;
};

struct writer {
	const struct writer_options *options;
	struct device_list devices;
	struct disk *disks;
	unsigned int n_disks, last;
	struct stream stream; /* of "-" */
	bool made_directory;
	struct name {
		uint32_t pid; /* + 1 */
		char name[16];
	} * names;
	struct writer_totals totals;
};

/* --- streams --- */

/* The bytes of the whole records that @len bytes begin with. */
static size_t whole(const char *buf, size_t len)
{
	size_t at = 0;

	while (at + TRACE_V7_SIZE <= len) {
		struct trace_v7 record;

		memcpy(&record, buf + at, sizeof(record));
		if (at + sizeof(record) + record.payload > len)
			break;
		at += sizeof(record) + record.payload;
	}
	return at;
}

static struct error *stream_failed(struct stream *s, int errnum, size_t done)
{
	/* A pipe keeps what it has got. */
	s->written += whole(s->buf, done);
	s->len = 0;
	if (s->regular && ftruncate(s->fd, (off_t)s->written))
		return error_errno(errno, "cannot cut %s to whole records", s->path);
	return error_errno(errnum, "cannot write %s; what was recorded before is whole", s->path);
}

static struct error *stream_flush(struct stream *s)
{
	size_t done = 0;

	while (done < s->len) {
		ssize_t n = write(s->fd, s->buf + done, s->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return stream_failed(s, errno, done);
		done += (size_t)n;
	}
	s->written += s->len;
	s->len = 0;
	return NULL;
}

static struct error *stream_add(struct stream *s, const void *record, size_t len)
{
	if (!s->buf)
		s->buf = xcalloc(1, BUFFER_SIZE);
	if (s->len + len > BUFFER_SIZE)
		try(stream_flush(s));
	memcpy(s->buf + s->len, record, len);
	s->len += len;
	return NULL;
}

static struct error *stream_create(struct stream *s, char *path)
{
	s->path = path;
	s->regular = true;
	s->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (s->fd >= 0)
		return NULL;
	if (errno == EEXIST)
		return error_new("cannot record to %s: it exists; remove it, or name another "
				 "directory",
				 path);
	return error_errno(errno, "cannot create %s", path);
}

static void stream_deinit(struct stream *s)
{
	if (s->fd != STDOUT_FILENO)
		closep(&s->fd);
	free(s->buf);
	free(s->path);
}

/* --- disks --- */

static const char *disk_name(struct writer *w, uint32_t device, char number[DEVICE_NAME_MAX])
{
	const struct device *d = NULL;

	/* Without a name it is still to be recorded. */
	error_free(device_by_number_now(w->options->root, &w->devices, device, &d));
	if (d)
		return d->name.disk;
	snprintf(number, DEVICE_NAME_MAX, "%u-%u", TRACE_MAJOR(device), TRACE_MINOR(device));
	return number;
}

static struct disk *disk_find(struct writer *w, uint32_t device)
{
	if (w->last < w->n_disks && w->disks[w->last].device == device)
		return &w->disks[w->last];
	for (unsigned int i = 0; i < w->n_disks; i++)
		if (w->disks[i].device == device) {
			w->last = i;
			return &w->disks[i];
		}
	return NULL;
}

static struct disk *disk_create(struct writer *w, uint32_t device)
{
	unsigned int n_cpus = w->options->n_cpus;
	struct disk *d;

	if (w->n_disks == REC_DISKS)
		return NULL;
	w->disks = xreallocarray(w->disks, w->n_disks + 1, sizeof(*w->disks));
	d = &w->disks[w->n_disks++];
	*d = (struct disk){
		.device = device,
		.sequence = xcalloc(n_cpus, sizeof(*d->sequence)),
		.lost = xcalloc(n_cpus, sizeof(*d->lost)),
		.noted = xcalloc(NOTED, sizeof(*d->noted)),
	};
	return d;
}

/* NULL if it is one too many. */
static struct disk *disk_get(struct writer *w, uint32_t device)
{
	struct disk *d = disk_find(w, device);

	return d ? d : disk_create(w, device);
}

/* Readers of a trace stop looking at the first CPU that has no file. */
static struct error *disk_open(struct writer *w, struct disk *d)
{
	unsigned int n_cpus = w->options->n_cpus;
	char number[DEVICE_NAME_MAX];
	const char *name;

	if (d->streams || w->stream.path)
		return NULL;
	name = disk_name(w, d->device, number);
	d->streams = xcalloc(n_cpus, sizeof(*d->streams));
	for (unsigned int i = 0; i < n_cpus; i++)
		d->streams[i].fd = -1;
	for (unsigned int i = 0; i < n_cpus; i++)
		try(stream_create(&d->streams[i],
				  xasprintf("%s/%s.blktrace.%u", w->options->path, name, i)));
	return NULL;
}

struct error *writer_add_disk(struct writer *w, uint32_t device)
{
	struct disk *d = disk_get(w, device);

	return d ? disk_open(w, d) : NULL;
}

uint64_t writer_gap(struct writer *w, unsigned int cpu, const struct rec_event *event)
{
	struct disk *d = disk_get(w, event->device);
	uint64_t gap;

	if (!d)
		return 0;
	gap = event->lost - d->lost[cpu];
	d->lost[cpu] = event->lost;
	return gap;
}

/* --- records --- */

static struct stream *stream_of(struct writer *w, struct disk *d, uint32_t cpu)
{
	return d->streams ? &d->streams[cpu] : &w->stream;
}

static struct error *put(struct writer *w, struct disk *d, const struct trace_v7 *head,
			 const void *payload)
{
	char record[RECORD_MAX];

	memcpy(record, head, sizeof(*head));
	if (head->payload)
		memcpy(record + sizeof(*head), payload, head->payload);
	w->totals.bytes += sizeof(*head) + head->payload;
	return stream_add(stream_of(w, d, head->cpu), record, sizeof(*head) + head->payload);
}

/* A record that is no event, and so has no number. */
static struct error *put_notify(struct writer *w, struct disk *d, const struct rec_event *e,
				enum trace_notify notify, const void *payload, uint16_t len)
{
	const struct trace_v7 head = {
		.magic = TRACE_MAGIC | TRACE_V7,
		.time = notify == NOTIFY_TIMESTAMP ? w->options->begin_ns : e->time,
		.action = CATEGORY_NOTIFY << ACTION_CATEGORY_SHIFT | notify,
		.pid = notify == NOTIFY_TIMESTAMP ? 0 : e->pid,
		.device = d->device,
		.cpu = e->cpu,
		.payload = len,
	};

	return put(w, d, &head, payload);
}

/* The clock's time once per disk, and the name of a process before its first event. */
static struct error *put_notifies(struct writer *w, struct disk *d, const struct rec_event *e)
{
	const struct name *name = &w->names[e->pid & (NAMES - 1)];
	uint32_t *noted = &d->noted[e->pid & (NOTED - 1)];

	if (!d->begun) {
		const uint32_t when[2] = {
			(uint32_t)(w->options->realtime_ns / 1000000000),
			(uint32_t)(w->options->realtime_ns % 1000000000),
		};

		d->begun = true;
		w->totals.disks++;
		try(put_notify(w, d, e, NOTIFY_TIMESTAMP, when, sizeof(when)));
	}
	if (*noted == e->pid + 1 || name->pid != e->pid + 1)
		return NULL;
	*noted = e->pid + 1;
	return put_notify(w, d, e, NOTIFY_PROCESS, name->name, sizeof(name->name));
}

/* As the kernel's blk_status_to_errno() has them; what is not here is EIO. */
static const int errnos[] = {
	[1] = EOPNOTSUPP, [2] = ETIMEDOUT, [3] = ENOSPC, [4] = ENOLINK, [5] = EREMOTEIO,
	[6] = EBADE,      [7] = ENODATA,   [8] = EILSEQ, [9] = ENOMEM,  [10] = EIO,
	[11] = EREMCHG,   [12] = EAGAIN,   [13] = EBUSY,
};

static uint16_t error_number(int32_t error)
{
	int errnum = -error;

	/* Before 5.16 the tracepoint had the errno itself. */
	if (error > 0)
		errnum = error < (int32_t)ARRAY_SIZE(errnos) ? errnos[error] : EIO;
	return (uint16_t)-errnum;
}

struct remap {
	uint32_t from_device, to_device;
	uint64_t from;
};

static struct error *put_event(struct writer *w, struct disk *d, const struct rec_event *e,
			       uint32_t action, const void *payload, uint16_t len)
{
	const struct trace_v7 head = {
		.magic = TRACE_MAGIC | TRACE_V7,
		.sequence = ++d->sequence[e->cpu],
		.time = e->time,
		.sector = e->sector,
		.bytes = e->bytes,
		.action = action,
		.pid = e->pid,
		.device = e->device,
		.cpu = e->cpu,
		.error = error_number(e->error),
		.payload = len,
	};

	w->totals.events++;
	return put(w, d, &head, payload);
}

static struct error *put_remap(struct writer *w, struct disk *d, const struct rec_event *e,
			       uint32_t action)
{
	const struct remap remap = {
		htobe32(e->from_device),
		htobe32(e->device),
		htobe64(e->from),
	};

	return put_event(w, d, e, action, &remap, sizeof(remap));
}

/* A of a request (or of a bio that has none): where it lies in its partition. */
static struct error *put_partition(struct writer *w, struct disk *d, const struct rec_event *e)
{
	const uint32_t events = (CATEGORY_ISSUE | CATEGORY_COMPLETE | CATEGORY_QUEUE)
				<< ACTION_CATEGORY_SHIFT;

	return put_remap(w, d, e,
			 (e->action & ~(events | 0xffff)) | ACTION_REMAP |
				 CATEGORY_QUEUE << ACTION_CATEGORY_SHIFT);
}

struct error *writer_event(struct writer *w, const struct rec_event *e)
{
	struct disk *d = disk_get(w, e->device);
	uint16_t action = (uint16_t)e->action;
	uint64_t number;

	if (!d)
		return NULL;
	try(disk_open(w, d));
	try(put_notifies(w, d, e));
	d->sequence[e->cpu] += (uint32_t)e->lost;
	w->totals.gaps += e->lost;
	switch (action) {
	case ACTION_REMAP:
		return put_remap(w, d, e, e->action);
	case ACTION_SPLIT:
	case ACTION_UNPLUG:
	case ACTION_UNPLUG_TIMER:
		number = htobe64(e->from);
		return put_event(w, d, e, e->action, &number, sizeof(number));
	}
	if (e->from_device && w->options->partitions)
		try(put_partition(w, d, e));
	return put_event(w, d, e, e->action, NULL, 0);
}

void writer_name(struct writer *w, uint32_t pid, const char name[16])
{
	struct name *n = &w->names[pid & (NAMES - 1)];

	if (n->pid == pid + 1 && !memcmp(n->name, name, sizeof(n->name)))
		return;
	n->pid = pid + 1;
	memcpy(n->name, name, sizeof(n->name));
	for (unsigned int i = 0; i < w->n_disks; i++)
		if (w->disks[i].noted[pid & (NOTED - 1)] == pid + 1)
			w->disks[i].noted[pid & (NOTED - 1)] = 0;
}

/* --- the whole --- */

struct error *writer_flush(struct writer *w)
{
	struct error *first = stream_flush(&w->stream);

	/* Every file is left whole, even if one could not be written. */
	for (unsigned int i = 0; i < w->n_disks; i++)
		for (unsigned int k = 0; w->disks[i].streams && k < w->options->n_cpus; k++) {
			struct error *err = stream_flush(&w->disks[i].streams[k]);

			if (first)
				error_free(err);
			else
				first = err;
		}
	return first;
}

struct writer_totals writer_totals(const struct writer *w)
{
	return w->totals;
}

/* A file for every disk and CPU may be more than a process has by default. */
static void allow_files(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static struct error *stream_stdout(struct stream *s)
{
	struct stat st;

	if (isatty(STDOUT_FILENO))
		return error_usage("record: standard output is a terminal, and a trace is not "
				   "for reading; pipe it: blkhist record -o - | blkhist show -i -");
	if (fstat(STDOUT_FILENO, &st))
		return error_errno(errno, "cannot record to standard output");
	*s = (struct stream){
		.fd = STDOUT_FILENO,
		.path = xstrdup("standard output"),
		.regular = S_ISREG(st.st_mode) && !lseek(STDOUT_FILENO, 0, SEEK_CUR),
	};
	return NULL;
}

static struct error *directory_make(struct writer *w)
{
	const char *path = w->options->path;
	struct stat st;

	w->made_directory = !mkdir(path, 0700);
	if (!w->made_directory && errno != EEXIST)
		return error_errno(errno, "cannot create the directory %s", path);
	if (stat(path, &st))
		return error_errno(errno, "cannot record to %s", path);
	if (!S_ISDIR(st.st_mode))
		return error_errno(ENOTDIR, "cannot record to %s", path);
	if (access(path, W_OK | X_OK))
		return error_errno(errno, "cannot record to %s", path);
	return NULL;
}

struct error *writer_open(const struct writer_options *options, struct writer **ret)
{
	cleanup(writer_closep) struct writer *w = xcalloc(1, sizeof(*w));

	w->options = options;
	w->stream.fd = -1;
	w->names = xcalloc(NAMES, sizeof(*w->names));
	if (!strcmp(options->path, "-")) {
		try(stream_stdout(&w->stream));
	} else {
		try(directory_make(w));
		allow_files();
	}
	try(device_list_read(options->root, &w->devices));
	*ret = take(w);
	return NULL;
}

void writer_abandon(struct writer *w)
{
	for (unsigned int i = 0; i < w->n_disks; i++)
		for (unsigned int k = 0; w->disks[i].streams && k < w->options->n_cpus; k++)
			if (w->disks[i].streams[k].fd >= 0)
				unlink(w->disks[i].streams[k].path);
	if (w->made_directory)
		rmdir(w->options->path);
}

void writer_closep(struct writer **writer)
{
	struct writer *w = *writer;

	if (!w)
		return;
	for (unsigned int i = 0; i < w->n_disks; i++) {
		struct disk *d = &w->disks[i];

		for (unsigned int k = 0; d->streams && k < w->options->n_cpus; k++)
			stream_deinit(&d->streams[k]);
		free(d->streams);
		free(d->sequence);
		free(d->lost);
		free(d->noted);
	}
	stream_deinit(&w->stream);
	device_list_deinit(&w->devices);
	free(w->disks);
	free(w->names);
	free(w);
	*writer = NULL;
}
