// SPDX-License-Identifier: GPL-2.0-only
/* Rounds: what is set up, measured and put back. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench/machine.h"
#include "bench/observer.h"
#include "bench/workload.h"
#include "config.h"
#include "core/timefmt.h"
#include "core/util.h"

#define PROBE_MS 200

const char *const bench_observers_usual[] = {
	"none",
	"blkhist",
	"blkhist:request",
	"blkhist:bios",
	"blkhist-stopped",
	"blktrace:all",
	"blktrace:0xd0",
	"blktrace:0xc0",
	"ftrace-blk:all",
	"ftrace-blk:0xd0",
	"ftrace-blk:0xc0",
	"biolatency",
	"bpftrace",
	"blkhist-record:issue,complete",
	NULL,
};

bool bench_is_workload(const char *name)
{
	const struct workload_type *type;
	struct error *err = workload_find(name, &type);

	error_free(err);
	return !err;
}

void bench_help(struct buf *out)
{
	buf_puts(out, "Workloads:\n");
	for (unsigned int i = 0; i < n_workload_types; i++)
		buf_printf(out, "  %-24s %s\n", workload_types[i].name, workload_types[i].help);
	buf_puts(out, "\nObservers:\n");
	for (unsigned int i = 0; i < n_observer_types; i++) {
		const struct observer_type *t = &observer_types[i];
		cleanup_free char *name =
			!t->parameter      ? xstrdup(t->name) :
			t->needs_parameter ? xasprintf("%s:%s", t->name, t->parameter) :
					     xasprintf("%s[:%s]", t->name, t->parameter);

		buf_printf(out, "  %-24s %s\n", name, t->help);
	}
}

/* --- a round --- */

struct bench {
	struct context context;
	struct observer observers[OBSERVERS_MAX];
	struct result *result;
	int64_t began; /* of the rounds */
	unsigned int done, total;
};

static const struct sample sample_unknown = {
	.value = UNKNOWN,
	.ios = UNKNOWN,
	.seconds = UNKNOWN,
	.cpu_s = UNKNOWN,
	.switches = UNKNOWN,
	.bytes = UNKNOWN,
	.dropped = UNKNOWN,
	.latency_ns = { UNKNOWN, UNKNOWN, UNKNOWN },
	.threads = { UNKNOWN, UNKNOWN, UNKNOWN },
	.transferred_min = UNKNOWN,
};

static struct error *workload_measure(struct context *c, struct sample *s)
{
	struct machine before;

	try(machine_read(&before));
	try(c->workload->run(c, s));
	s->cpu_s = c->ended.cpu_s - before.cpu_s;
	s->switches = c->ended.switches - before.switches;
	s->seconds = c->ended.seconds - before.seconds;
	return NULL;
}

/* One that fails is out from @round on (0: before the first), and says why; the others go on. */
static void observer_out(struct bench *b, unsigned int i, unsigned int round, struct error *err)
{
	b->result->observers[i].reason = xstrdup(err->message);
	b->total -= b->context.settings->rounds - round;
	error_free(err);
}

static struct error *measure(struct bench *b, unsigned int i, struct sample *s)
{
	struct context *c = &b->context;
	struct observer *o = &b->observers[i];
	struct error *err = observer_start(o, c), *also;

	if (err) {
		observer_out(b, i, s->round, err);
		return NULL;
	}
	err = c->interrupted ? NULL : workload_measure(c, s);
	also = observer_stop(o, c);
	if (err) {
		error_free(also);
		return err;
	}
	if (also) {
		observer_out(b, i, s->round, also);
		return NULL;
	}
	s->bytes = o->bytes;
	s->dropped = o->dropped;
	if (!c->interrupted)
		result_add(b->result, s);
	return NULL;
}

static void tell(struct bench *b, unsigned int round, unsigned int i)
{
	const struct context *c = &b->context;
	double left = workload_seconds(c, c->workload);
	cleanup_free char *line = NULL;

	if (!c->settings->progress)
		return;
	if (b->done)
		left = (double)(clock_ns(CLOCK_MONOTONIC) - b->began) / 1e9 / b->done;
	left *= b->total - b->done;
	line = xasprintf("round %u of %u, %s: %.0f min %02.0f s left", round, c->settings->rounds,
			 b->observers[i].name, (double)((int)left / 60), (double)((int)left % 60));
	c->settings->progress(line);
}

static struct error *run_round(struct bench *b, unsigned int round, uint64_t *seed)
{
	struct result *r = b->result;
	unsigned int order[OBSERVERS_MAX];

	for (unsigned int i = 0; i < r->n_observers; i++)
		order[i] = i;
	shuffle(order, r->n_observers, seed);
	for (unsigned int k = 0; k < r->n_observers && !b->context.interrupted; k++) {
		struct sample s = sample_unknown;

		if (r->observers[order[k]].reason)
			continue;
		s.observer = order[k];
		s.round = round;
		s.place = k + 1;
		tell(b, round, order[k]);
		try(measure(b, order[k], &s));
		b->done++;
	}
	return NULL;
}

/* --- before the rounds --- */

/* Starts each for a moment. */
static void probe(struct bench *b)
{
	struct context *c = &b->context;
	struct result *r = b->result;

	for (unsigned int i = 0; i < r->n_observers && !c->interrupted; i++) {
		struct error *err;

		if (c->settings->progress)
			c->settings->progress("trying the observers");
		err = observer_start(&b->observers[i], c);
		if (!err) {
			if (b->observers[i].type->start)
				context_sleep(c, PROBE_MS);
			err = observer_stop(&b->observers[i], c);
		}
		if (err)
			observer_out(b, i, 0, err);
	}
}

/* The baseline comes first. */
static struct error *observers_parse(struct bench *b)
{
	const struct bench_settings *s = b->context.settings;
	struct result *r = b->result;
	struct observer o;

	try(observer_parse("none", &b->observers[0]));
	r->observers[r->n_observers++].name = xstrdup("none");
	for (unsigned int i = 0; i < s->n_observers; i++) {
		try(observer_parse(s->observers[i], &o));
		for (unsigned int k = 1; k < r->n_observers; k++)
			if (!strcmp(o.name, r->observers[k].name))
				return error_usage("observer '%s' is given twice", o.name);
		if (!o.type->start)
			continue;
		if (r->n_observers == OBSERVERS_MAX)
			return error_usage("more than %d observers are given", OBSERVERS_MAX - 1);
		b->observers[r->n_observers] = o;
		r->observers[r->n_observers++].name = xstrdup(o.name);
	}
	return NULL;
}

static struct error *rounds_check(const struct bench_settings *s)
{
	if (s->rounds < STATS_ROUNDS_MIN)
		return error_usage("%u rounds give no interval of 95 %%, it takes %d; see --rounds",
				   s->rounds, STATS_ROUNDS_MIN);
	if (s->rounds > STATS_ROUNDS_MAX)
		return error_usage("%u rounds are more than %d, the most; see --rounds", s->rounds,
				   STATS_ROUNDS_MAX);
	if (s->rounds < 2 * s->trim + 2)
		return error_usage(
			"%u rounds are too few to drop the %u highest and lowest of them; "
			"see --trim",
			s->rounds, s->trim);
	return NULL;
}

static void describe(struct bench *b)
{
	const struct context *c = &b->context;
	struct result *r = b->result;
	cleanup(buf_deinit) struct buf details = {};
	char now[RFC3339_MAX];
	struct utsname u = {};

	uname(&u);
	time_format_seconds(clock_ns(CLOCK_REALTIME), now);
	workload_details(c, c->workload, &details);
	r->kernel = xstrdup(u.release);
	r->version = xstrdup(BLKHIST_VERSION);
	r->time = xstrdup(now);
	r->cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
	if (getloadavg(&r->load, 1) != 1)
		r->load = 0;
	r->workload = xstrdup(c->workload->name);
	r->unit = xstrdup(c->workload->unit);
	r->details = take(details.str);
	r->more_is_better = c->workload->more_is_better;
	r->rounds = c->settings->rounds;
	r->trim = c->settings->trim;
	r->seed = c->settings->seed;
}

static struct error *set_up(struct bench *b)
{
	struct context *c = &b->context;
	const struct bench_settings *s = c->settings;
	unsigned int n_loops = s->n_loops && c->workload->n_loops ? s->n_loops :
								    c->workload->n_loops;

	if (n_loops > BENCH_DEVICES_MAX)
		return error_usage("more than %d loop devices are asked for", BENCH_DEVICES_MAX);
	try(directory_make(c, s->dir, &c->dir));
	try(directory_make(c, s->trace_dir, &c->trace_dir));
	try(workload_check(c, c->workload, &b->result->fio));
	return devices_open(c, n_loops, c->workload->writes);
}

static struct error *run_rounds(struct bench *b)
{
	struct context *c = &b->context;
	struct sample unused = sample_unknown;
	uint64_t seed = c->settings->seed;

	try(set_up(b));
	describe(b);
	b->total = b->result->n_observers * c->settings->rounds;
	probe(b);
	if (c->settings->progress)
		c->settings->progress("warming up");
	if (!c->interrupted)
		try(c->workload->run(c, &unused));
	b->began = clock_ns(CLOCK_MONOTONIC);
	for (unsigned int round = 1; round <= c->settings->rounds && !c->interrupted; round++) {
		struct error *err = run_round(b, round, &seed);

		if (err && !b->result->n_samples)
			return err;
		if (err) {
			b->result->failed = xasprintf("round %u: %s", round, err->message);
			error_free(err);
			break;
		}
	}
	b->result->interrupted = c->interrupted;
	return NULL;
}

struct error *bench_run(const struct bench_settings *settings, struct result *ret)
{
	cleanup(result_deinit) struct result r = {};
	struct bench b = { .context.settings = settings, .result = &r };
	struct context *c = &b.context;
	struct error *err, *left;

	try(rounds_check(settings));
	try(workload_find(settings->workload, &c->workload));
	try(observers_parse(&b));
	if (settings->collector_runs())
		return error_new(
			"a collector is running, and its histograms would be lost; stop it "
			"first: blkhist stop");
	try(guard_start(&c->guard));
	err = run_rounds(&b);
	left = guard_end(c->guard);
	for (unsigned int i = 0; i < c->n_devices; i++)
		free(c->devices[i]);
	free(c->dir), free(c->trace_dir);
	if (err) {
		error_free(left);
		return err;
	}
	if (left)
		r.not_undone = xstrdup(left->message);
	error_free(left);
	*ret = r;
	r = (struct result){};
	return NULL;
}
