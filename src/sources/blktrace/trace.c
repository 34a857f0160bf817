// SPDX-License-Identifier: GPL-2.0-only
/* Files to events, events to requests, requests to a snapshot. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "core/util.h"
#include "sources/blktrace.h"
#include "sources/blktrace/account.h"
#include "sources/blktrace/files.h"
#include "sources/blktrace/order.h"
#include "sources/blktrace/pair.h"

/* Of all files together; each has at least what a record can have. */
#define BUFFERS (16u << 20)
#define BUFFER_MAX (256u << 10)
#define BUFFER_MIN (8u << 10)
#define BATCH 64u
/* Events after which trace_read() returns. */
#define READ_EVENTS 100000u

const char *const trace_start_names[TRACE_START_NR] = {
	[TRACE_START_QUEUE] = "queue",
	[TRACE_START_GET] = "get",
};

struct trace {
	struct account account;
	struct pair pair;
	struct order *order;
	unsigned int n_streams;
	char (*sets)[DEVICE_NAME_MAX]; /* by stream */
	uint64_t events;
	bool begun;
	uint64_t begin, last; /* time of the first event and of the last one, without notifies */
	/* Events that were read and not used yet, all of one stream. */
	struct event batch[BATCH];
	unsigned int batch_at, batch_n, batch_from;
	bool over; /* nothing more comes */
	bool has_wall;
	uint64_t wall_clock, wall_time; /* CLOCK_REALTIME, and the trace's time of that moment */
};

void trace_close(struct trace *t)
{
	if (!t)
		return;
	order_destroy(t->order);
	pair_deinit(&t->pair);
	account_deinit(&t->account);
	free(t->sets);
	free(t);
}

void trace_closep(struct trace **t)
{
	trace_close(*t);
}

/* --- opening --- */

struct streams {
	struct stream *stream;
	unsigned int n;
};

static void streams_deinit(struct streams *s)
{
	for (unsigned int i = 0; i < s->n; i++)
		stream_deinit(&s->stream[i]);
	free(s->stream);
}

/* A set has a file per CPU, and a machine may have more CPUs than a process may open files. */
static void allow_files(unsigned int n)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > n + 64)
		return;
	limit.rlim_cur = limit.rlim_max;
	/* If it cannot be, opening the files says so. */
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static struct error *streams_open(const struct trace_settings *s, struct streams *ret)
{
	cleanup(trace_files_deinit) struct trace_files files = {};
	size_t buffer;

	for (unsigned int i = 0; i < s->n_paths; i++)
		try(trace_files_add(&files, s->paths[i]));
	allow_files(files.n);
	buffer = files.n ? BUFFERS / files.n : 0;
	buffer = buffer > BUFFER_MAX ? BUFFER_MAX : buffer < BUFFER_MIN ? BUFFER_MIN : buffer;
	ret->stream = xcalloc(files.n, sizeof(*ret->stream));
	for (unsigned int i = 0; i < files.n; i++) {
		try(stream_open(files.paths[i], buffer, &ret->stream[ret->n]));
		ret->n++;
	}
	return NULL;
}

struct error *trace_open(const struct trace_settings *s, struct trace **ret)
{
	cleanup(trace_closep) struct trace *t = xcalloc(1, sizeof(*t));
	cleanup(streams_deinit) struct streams streams = {};
	cleanup_free bool *of_cpu = NULL;
	struct error *err;

	t->account.config = s->config;
	if (s->partitions)
		try(partitions_read(s->partitions, &t->account.tables));
	/* Without /sys, devices have no names but their numbers. */
	err = device_list_read(s->root, &t->account.known);
	error_free(err);
	try(streams_open(s, &streams));
	t->n_streams = streams.n;
	t->sets = xcalloc(streams.n, sizeof(*t->sets));
	of_cpu = xcalloc(streams.n, sizeof(*of_cpu));
	for (unsigned int i = 0; i < streams.n; i++)
		of_cpu[i] = trace_set_name(streams.stream[i].path, t->sets[i], sizeof(*t->sets));
	t->order = order_create(streams.stream, of_cpu, streams.n);
	pair_init(&t->pair, &t->account, s->start);
	*ret = take(t);
	return NULL;
}

/* --- reading --- */

/* The kernel notes what time it is when the trace begins. */
static void note_wall(struct trace *t, const struct event *ev)
{
	if (t->has_wall || ev->action != NOTIFY_TIMESTAMP || !ev->from)
		return;
	t->has_wall = true;
	t->wall_clock = ev->from;
	t->wall_time = ev->sector;
}

static void use(struct trace *t, const struct event *ev, unsigned int from)
{
	bool notify = ev->category & CATEGORY_NOTIFY;

	t->events++;
	if (notify) {
		note_wall(t, ev);
	} else {
		if (!t->begun)
			t->begin = ev->time;
		t->begun = true;
		if (ev->time > t->last)
			t->last = ev->time;
	}
	/* What is damaged was said before. */
	if (!pair_event(&t->pair, ev) && ev->action != ACTION_DAMAGED) {
		bool crowd = ev->action && ev->action < ACTION_NR;

		stream_problem(order_stream(t->order, from),
			       crowd ? PROBLEM_CROWD : PROBLEM_UNKNOWN, ev->offset, ev->action);
	}
}

/* The next event; NULL if it is not known, for the reason @ret. */
static struct event *next_event(struct trace *t, enum trace_state *ret)
{
	if (t->batch_at < t->batch_n)
		return &t->batch[t->batch_at];
	t->batch_at = t->batch_n = 0;
	switch (order_next(t->order, t->batch, BATCH, &t->batch_n, &t->batch_from)) {
	case STREAM_EVENT:
		t->account.set = t->sets[t->batch_from];
		return &t->batch[0];
	case STREAM_WAIT:
		*ret = TRACE_WAITING;
		break;
	case STREAM_MORE:
		*ret = TRACE_MORE;
		break;
	case STREAM_END:
		*ret = TRACE_END;
		t->over = true;
		break;
	}
	t->batch_n = 0;
	return NULL;
}

enum trace_state trace_read(struct trace *t, int64_t until_ns)
{
	enum trace_state state = TRACE_MORE;

	for (unsigned int n = 0; n < READ_EVENTS; n++) {
		struct event *ev = next_event(t, &state);

		if (!ev)
			return state;
		if (until_ns != INT64_MAX && (int64_t)ev->time >= until_ns &&
		    !(ev->category & CATEGORY_NOTIFY))
			return TRACE_REACHED;
		t->batch_at++;
		use(t, ev, t->batch_from);
	}
	return TRACE_MORE;
}

struct error *trace_poll(struct trace *t, int stop_fd, int timeout_ms)
{
	cleanup_free struct pollfd *fds = xcalloc(t->n_streams + 1, sizeof(*fds));

	for (unsigned int i = 0; i < t->n_streams; i++) {
		const struct stream *s = order_stream(t->order, i);

		fds[i] =
			(struct pollfd){ .fd = s->pipe && !s->over ? s->fd : -1, .events = POLLIN };
	}
	fds[t->n_streams] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
	if (poll(fds, t->n_streams + 1, timeout_ms) < 0 && errno != EINTR)
		return error_errno(errno, "cannot wait for the trace to go on");
	return NULL;
}

void trace_stop(struct trace *t)
{
	order_stop(t->order);
}

void trace_advance(struct trace *t, int64_t time_ns)
{
	order_advance(t->order, (uint64_t)time_ns);
}

int64_t trace_begin_ns(const struct trace *t)
{
	if (!t->begun && t->batch_at < t->batch_n)
		return (int64_t)t->batch[t->batch_at].time;
	return (int64_t)t->begin;
}

int64_t trace_next_ns(const struct trace *t)
{
	if (t->batch_at < t->batch_n)
		return (int64_t)t->batch[t->batch_at].time;
	return (int64_t)t->last;
}

int64_t trace_newest_ns(const struct trace *t)
{
	return (int64_t)order_newest(t->order);
}

void trace_progress(const struct trace *t, uint64_t *done, uint64_t *total)
{
	bool pipe = false;

	*done = *total = 0;
	for (unsigned int i = 0; i < t->n_streams; i++) {
		const struct stream *s = order_stream(t->order, i);

		*done += s->base + s->pos;
		*total += s->length;
		pipe = pipe || s->pipe;
	}
	if (pipe)
		*total = 0;
}

bool trace_problems(struct trace *t, struct buf *out)
{
	bool any = false;

	for (unsigned int i = 0; i < t->n_streams; i++) {
		const struct stream *s = order_stream(t->order, i);

		for (enum stream_problem problem = 0; problem < PROBLEM_NR; problem++) {
			/* A CPU may well have had nothing to record. */
			if (!s->problems[problem].count || (problem == PROBLEM_EMPTY && t->events))
				continue;
			stream_problem_text(s, problem, out);
			buf_puts(out, "\n");
			any = true;
		}
	}
	return any;
}

/* --- snapshots --- */

static const struct {
	const char *name, *help;
	bool usual; /* every trace may have them */
} classes[CLASS_NR] = {
	[CLASS_MATCHED] = { "matched", "events of requests that have ended, and are counted", true },
	[CLASS_UNFINISHED] = { "unfinished", "events of requests that had not ended when the trace did", true },
	[CLASS_UNMATCHED_COMPLETE] = { "unmatched_complete",
				       "C of nothing that is known: issued before the trace began, or "
				       "the end of a flush sequence", false },
	[CLASS_UNMATCHED_REQUEUE] = { "unmatched_requeue", "R of nothing that is known", false },
	[CLASS_NOTIFY] = { "notify", "notifies: names of processes, messages", true },
	[CLASS_NO_REQUEST] = { "no_request", "events that are not of a request (plugging)", true },
	[CLASS_PASSTHROUGH] = { "passthrough", "events of driver commands, in no histogram", true },
	[CLASS_STACKED] = { "stacked", "A of devices on others, in sectors of another device", true },
	[CLASS_IGNORED] = { "ignored", "events of devices that the configuration ignores", true },
	[CLASS_UNKNOWN] = { "unknown", "events of a kind that is not known, or damaged", false },
}, notes[NOTE_NR] = {
	[NOTE_UNMATCHED_ISSUE] = { "unmatched_issue", "requests that were issued and had not ended when the trace did", true },
	[NOTE_LOST] = { "lost", "events that the trace lacks: gaps in its sequence numbers", false },
	[NOTE_NEGATIVE] = { "negative", "requests with a negative time, or one of over 100 days: it is not counted", false },
	[NOTE_NO_START] = { "no_start", "requests without Q, G and I: service time only", true },
	[NOTE_NO_ISSUE] = { "no_issue", "requests whose D is missing: request time only", false },
	[NOTE_UNISSUED] = { "unissued", "never went to the device (empty flushes): request time only", true },
	[NOTE_AMBIGUOUS] = { "ambiguous", "requests that were alike at once; the times may be exchanged", false },
	[NOTE_REQUEUED] = { "requeued", "requeues; service time counts from the last issue", false },
	[NOTE_PARTIAL] = { "partial", "partial completions; they end nothing, nothing is lost", false },
	[NOTE_SPLIT] = { "split", "bios that were split; each part is a request", true },
};

static void add_losses(const struct trace *t, struct snapshot *snap)
{
	const struct pair *p = &t->pair;
	/* Until then they may still end, and what is counted only rises. */
	uint64_t unfinished = t->over ? p->in_flight : 0, issued = t->over ? pair_issued(p) : 0;

	snapshot_add_loss(snap, "events", "events read; all are in one of the next ten lines",
			  t->events)
		->usual = true;
	for (unsigned int i = 0; i < CLASS_NR; i++)
		snapshot_add_loss(snap, classes[i].name, classes[i].help,
				  p->classes[i] + (i == CLASS_UNFINISHED ? unfinished : 0))
			->usual = classes[i].usual;
	for (unsigned int i = 0; i < NOTE_NR; i++)
		snapshot_add_loss(snap, notes[i].name, notes[i].help,
				  p->notes[i] + (i == NOTE_UNMATCHED_ISSUE ? issued : 0))
			->usual = notes[i].usual;
	snapshot_add_loss(snap, "late", "events that came too late to be put in order",
			  order_late(t->order));
}

#define ALL_EVENTS "blktrace -a queue -a issue -a complete records all that the histograms need"

static void add_notes(const struct trace *t, struct snapshot *snap)
{
	const uint64_t *starts = t->pair.starts;

	for (unsigned int i = 0; i < t->account.n_devices; i++) {
		const struct trace_device *d = t->account.devices[i];
		const char *name = trace_device_name(d);

		if (d->ignored)
			continue;
		if (!d->has_complete)
			snapshot_add_note(
				snap,
				"%s has no histograms, as the trace has no C of it; " ALL_EVENTS,
				name);
		else if (!d->has_bio)
			snapshot_add_note(snap,
					  "%s has no request and queue time, as the trace has no Q "
					  "of it; " ALL_EVENTS,
					  name);
		else if (!d->has_issue && d->has_requests)
			snapshot_add_note(
				snap,
				"%s has no service, queue and seek, as the trace has no D "
				"of it; " ALL_EVENTS,
				name);
		else if (!d->has_issue)
			snapshot_add_note(snap,
					  "%s has no service and queue time, as it has bios and no "
					  "requests",
					  name);
	}
	for (unsigned int i = 0; i < t->account.tables.n; i++) {
		const struct partition_table *table = &t->account.tables.tables[i];
		bool used = false;

		for (unsigned int k = 0; k < t->account.n_devices; k++)
			used = used || t->account.devices[k]->table == table;
		if (!used && t->events)
			snapshot_add_note(
				snap, "the partition table of '%s' is of no device of the trace",
				table->disk);
	}
	if (starts[0])
		snapshot_add_note(
			snap, "request and queue time begin at Q, when the bio is submitted, "
			      "which includes the wait for a free request; with --start get at G, "
			      "where the kernel itself begins");
	if (starts[1])
		snapshot_add_note(snap,
				  "request and queue time of %" PRIu64 " requests begin at G, when "
				  "they get a request%s",
				  starts[1],
				  t->pair.start == TRACE_START_GET ? "" : ", as they have no Q");
	if (starts[2])
		snapshot_add_note(snap,
				  "request and queue time of %" PRIu64 " requests begin at their "
				  "first event, as they have neither Q nor G",
				  starts[2]);
	if (!t->has_wall && t->events)
		snapshot_add_note(snap,
				  "the trace does not say what time it was: times are those of its "
				  "own clock, as if it had begun with 1970");
}

/* CLOCK_REALTIME of a time of the trace. */
static int64_t wall(const struct trace *t, uint64_t time)
{
	/* The trace begins with this moment, unless blkparse -d has made its times begin at 0. */
	if (t->has_wall && (uint64_t)trace_begin_ns(t) >= t->wall_time)
		return (int64_t)(t->wall_clock + time - t->wall_time);
	return (int64_t)(t->wall_clock + time);
}

/* Whether a name, a number, or the path of a node means this device. */
static bool is_named(const struct device_name *name, const char *wanted)
{
	cleanup_free char *number = xasprintf("%u:%u", name->major, name->minor);
	struct stat st;

	if (!strcmp(device_name_own(name), wanted) || !strcmp(number, wanted))
		return true;
	if (!strchr(wanted, '/'))
		return false;
	return !stat(wanted, &st) && S_ISBLK(st.st_mode) && major(st.st_rdev) == name->major &&
	       minor(st.st_rdev) == name->minor;
}

static bool selected(const struct trace_selection *sel, const struct trace_device *d,
		     unsigned int part)
{
	for (unsigned int i = 0; i < sel->n_devices; i++)
		if (is_named(&d->parts[part].name, sel->devices[i]) ||
		    (!sel->alone && is_named(&d->parts[0].name, sel->devices[i])))
			return true;
	return !sel->n_devices && (!part || !sel->alone);
}

struct error *trace_check_devices(struct trace *t, const struct trace_selection *sel)
{
	for (unsigned int i = 0; i < sel->n_devices; i++) {
		cleanup(buf_deinit) struct buf names = {};
		bool found = false;

		for (unsigned int k = 0; k < t->account.n_devices; k++) {
			const struct trace_device *d = t->account.devices[k];

			for (unsigned int part = 0; part < d->n_parts; part++) {
				if (part && !account_is_partition(d, part))
					continue;
				found = found || is_named(&d->parts[part].name, sel->devices[i]);
				buf_printf(&names, "%s%s", names.len ? ", " : "",
					   device_name_own(&d->parts[part].name));
			}
		}
		if (!found)
			return error_new("the trace has no device '%s', but: %s", sel->devices[i],
					 names.len ? names.str : "none at all");
	}
	return NULL;
}

/* One histogram of a part; of part 0 the sum of all, as it stands for the disk. */
static void add_hist(const struct trace *t, const struct trace_device *d, unsigned int part,
		     enum hist_kind kind, enum blk_op op, struct snapshot *snap)
{
	unsigned int to = part ? part + 1 : d->n_parts;
	struct hist *h = NULL;

	for (unsigned int i = part; i < to; i++) {
		const struct hist *from = d->parts[i].hists[kind][op];

		if (!from)
			continue;
		if (!h) {
			h = snapshot_add(snap);
			h->name = d->parts[part].name;
			h->kind = kind;
			h->op = op;
			h->since_ns = wall(t, t->begin);
			hist_init(h, snapshot_ladder(snap, from->ladder),
				  from->sizes ? snapshot_ladder(snap, from->sizes) : NULL);
		}
		hist_merge(h, from);
	}
	for (unsigned int i = part; h && kind != KIND_SEEK && i < to; i++)
		h->bytes += d->parts[i].bytes[op];
}

void trace_snapshot(struct trace *t, const struct trace_selection *sel, struct snapshot *ret)
{
	uint64_t now = sel->time_ns ? (uint64_t)sel->time_ns : t->last;

	*ret = (struct snapshot){
		.source = "blktrace",
		.since_ns = wall(t, (uint64_t)trace_begin_ns(t)),
		.time_ns = wall(t, now),
		.clock_ns = (int64_t)now,
	};
	for (unsigned int i = 0; i < t->account.n_devices; i++) {
		const struct trace_device *d = t->account.devices[i];

		for (unsigned int part = 0; part < d->n_parts; part++) {
			if ((part && !account_is_partition(d, part)) || !selected(sel, d, part))
				continue;
			for (enum hist_kind kind = 0; kind < KIND_NR; kind++)
				for (enum blk_op op = 0; op < (kind == KIND_SEEK ? 1 : OP_NR); op++)
					if (sel->kinds & 1u << kind &&
					    (kind == KIND_SEEK || sel->ops & 1u << op))
						add_hist(t, d, part, kind, op, ret);
		}
	}
	add_losses(t, ret);
	add_notes(t, ret);
	snapshot_sort(ret);
}
