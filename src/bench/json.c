// SPDX-License-Identifier: GPL-2.0-only
/* The result as JSON, in the schema "blkhist-bench/1", and back. */
#include <json-c/json.h>
#include <math.h>
#include <string.h>

#include "bench/result.h"
#include "core/util.h"

#define SCHEMA "blkhist-bench/1"
/* Some three times what the most rounds of the most observers take. */
#define FILE_MAX (8u << 20)
#define SAMPLES_MAX (OBSERVERS_MAX * STATS_ROUNDS_MAX)

/* Members that are strings, and those of a sample that are numbers; both ways. */
static const struct {
	const char *key;
	size_t offset;
} strings[] = {
	{ "time", offsetof(struct result, time) },
	{ "kernel", offsetof(struct result, kernel) },
	{ "blkhist", offsetof(struct result, version) },
	{ "fio", offsetof(struct result, fio) },
	{ "workload", offsetof(struct result, workload) },
	{ "details", offsetof(struct result, details) },
	{ "unit", offsetof(struct result, unit) },
}, numbers[] = {
	{ "value", offsetof(struct sample, value) },
	{ "ios", offsetof(struct sample, ios) },
	{ "seconds", offsetof(struct sample, seconds) },
	{ "cpu_seconds", offsetof(struct sample, cpu_s) },
	{ "context_switches", offsetof(struct sample, switches) },
	{ "observer_bytes", offsetof(struct sample, bytes) },
	{ "observer_dropped", offsetof(struct sample, dropped) },
	{ "latency_p50_ns", offsetof(struct sample, latency_ns[P50]) },
	{ "latency_p99_ns", offsetof(struct sample, latency_ns[P99]) },
	{ "latency_p99.9_ns", offsetof(struct sample, latency_ns[P99_9]) },
	{ "thread_min", offsetof(struct sample, threads[0]) },
	{ "thread_avg", offsetof(struct sample, threads[1]) },
	{ "thread_max", offsetof(struct sample, threads[2]) },
	{ "thread_bytes_min", offsetof(struct sample, transferred_min) },
};

static void add_string(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, json_object_new_string(value));
}

static void add_whole(struct json_object *o, const char *key, int64_t value)
{
	json_object_object_add(o, key, json_object_new_int64(value));
}

static void add_bool(struct json_object *o, const char *key, bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}

static void add_real(struct json_object *o, const char *key, double value)
{
	json_object_object_add(o, key, json_object_new_double(value));
}

/* What is unknown is null. */
static void add_number(struct json_object *o, const char *key, double value)
{
	if (value < 0)
		json_object_object_add(o, key, NULL);
	else if (value < 1e15 && floor(value) == value)
		add_whole(o, key, (int64_t)value);
	else
		add_real(o, key, value);
}

static struct json_object *observers_json(const struct result *r)
{
	struct json_object *array = json_object_new_array();

	for (unsigned int i = 0; i < r->n_observers; i++) {
		struct json_object *o = json_object_new_object();

		add_string(o, "name", r->observers[i].name);
		if (r->observers[i].reason)
			add_string(o, "cannot_run", r->observers[i].reason);
		json_object_array_add(array, o);
	}
	return array;
}

static struct json_object *rounds_json(const struct result *r)
{
	struct json_object *array = json_object_new_array();

	for (unsigned int i = 0; i < r->n_samples; i++) {
		const struct sample *s = &r->samples[i];
		struct json_object *o = json_object_new_object();

		add_whole(o, "round", s->round);
		add_whole(o, "place", s->place);
		add_string(o, "observer", r->observers[s->observer].name);
		for (size_t k = 0; k < ARRAY_SIZE(numbers); k++)
			add_number(o, numbers[k].key,
				   *(const double *)((const char *)s + numbers[k].offset));
		json_object_array_add(array, o);
	}
	return array;
}

static struct json_object *analysis_json(const struct result *r, enum metric m,
					 unsigned int observer)
{
	cleanup(analysis_deinit) struct analysis a = {};
	cleanup(buf_deinit) struct buf words = {};
	struct json_object *o = json_object_new_object();

	result_analyse(r, m, observer, &a);
	add_string(o, "observer", r->observers[observer].name);
	add_string(o, "unit", result_unit(r, m));
	add_whole(o, "rounds", a.n);
	if (a.has_summary) {
		add_real(o, "min", a.summary.min);
		add_real(o, "avg", a.summary.avg);
		add_real(o, "max", a.summary.max);
		add_real(o, "stddev", a.summary.stddev);
	}
	if (a.has_interval) {
		verdict(&a.interval, &words);
		add_real(o, "cost", a.interval.estimate);
		add_real(o, "cost_low", a.interval.low);
		add_real(o, "cost_high", a.interval.high);
		add_string(o, "verdict", words.str);
	}
	return o;
}

void result_json(const struct result *r, struct buf *out)
{
	struct json_object *o = json_object_new_object(), *analysis = json_object_new_array();

	add_string(o, "schema", SCHEMA);
	for (size_t k = 0; k < ARRAY_SIZE(strings); k++)
		add_string(o, strings[k].key,
			   *(char *const *)((const char *)r + strings[k].offset));
	add_bool(o, "more_is_better", r->more_is_better);
	add_number(o, "cpus", r->cpus);
	add_real(o, "load", r->load);
	add_whole(o, "rounds_wanted", r->rounds);
	add_whole(o, "trim", r->trim);
	add_whole(o, "seed", (int64_t)r->seed);
	add_bool(o, "interrupted", r->interrupted);
	if (r->failed)
		add_string(o, "failed", r->failed);
	json_object_object_add(o, "observers", observers_json(r));
	json_object_object_add(o, "rounds", rounds_json(r));
	for (enum metric m = 0; m < METRIC_NR; m++)
		for (unsigned int i = 0; i < r->n_observers; i++)
			if (!r->observers[i].reason)
				json_object_array_add(analysis, analysis_json(r, m, i));
	json_object_object_add(o, "analysis", analysis);
	buf_puts(out, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
								JSON_C_TO_STRING_NOSLASHESCAPE));
	buf_puts(out, "\n");
	json_object_put(o);
}

/* --- and back --- */

static struct error *wrong(const char *path, const char *what)
{
	return error_new("cannot use %s: it is no result of blkhist bench: %s", path, what);
}

/* NULL if there is no such key, or it is no string. */
static const char *get_string(struct json_object *o, const char *key)
{
	struct json_object *value = json_object_object_get(o, key);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

static int64_t get_whole(struct json_object *o, const char *key)
{
	return json_object_get_int64(json_object_object_get(o, key));
}

static bool get_bool(struct json_object *o, const char *key)
{
	return json_object_get_boolean(json_object_object_get(o, key));
}

/* The elements of an array; 0 if it is none. */
static size_t get_array(struct json_object *o, const char *key, struct json_object **ret)
{
	*ret = json_object_object_get(o, key);
	return json_object_is_type(*ret, json_type_array) ? json_object_array_length(*ret) : 0;
}

static struct error *read_observers(const char *path, struct json_object *all, struct result *r)
{
	struct json_object *array;
	size_t n = get_array(all, "observers", &array);

	if (!n || n > OBSERVERS_MAX)
		return wrong(path, "observers");
	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(array, i);
		const char *name = get_string(o, "name"), *reason = get_string(o, "cannot_run");

		if (!name)
			return wrong(path, "an observer without a name");
		r->observers[r->n_observers++] =
			(struct result_observer){ xstrdup(name), reason ? xstrdup(reason) : NULL };
	}
	return NULL;
}

static struct error *read_sample(const char *path, struct json_object *o, const struct result *r,
				 struct sample *s)
{
	const char *name = get_string(o, "observer");
	int64_t round = get_whole(o, "round");

	while (name && s->observer < r->n_observers && strcmp(name, r->observers[s->observer].name))
		s->observer++;
	if (!name || s->observer == r->n_observers)
		return wrong(path, "a round of an unknown observer");
	if (round < 1 || round > r->rounds)
		return wrong(path, "the number of a round");
	s->round = (unsigned int)round;
	s->place = (unsigned int)get_whole(o, "place");
	for (size_t k = 0; k < ARRAY_SIZE(numbers); k++) {
		struct json_object *value = json_object_object_get(o, numbers[k].key);
		double number = value ? json_object_get_double(value) : UNKNOWN;

		if (!isfinite(number))
			return wrong(path, numbers[k].key);
		*(double *)((char *)s + numbers[k].offset) = number;
	}
	if (s->value < 0 || s->cpu_s < 0)
		return wrong(path, "a round without value or cpu_seconds");
	return NULL;
}

static struct error *read_all(const char *path, struct json_object *o, struct result *r)
{
	const char *schema = get_string(o, "schema");
	int64_t rounds = get_whole(o, "rounds_wanted"), trim = get_whole(o, "trim");
	struct json_object *samples;
	size_t n = get_array(o, "rounds", &samples);

	if (!schema || strcmp(schema, SCHEMA))
		return wrong(path, "schema");
	if (rounds < 1 || rounds > STATS_ROUNDS_MAX || trim < 0 || trim > rounds)
		return wrong(path, "rounds_wanted or trim");
	for (size_t k = 0; k < ARRAY_SIZE(strings); k++) {
		const char *text = get_string(o, strings[k].key);

		*(char **)((char *)r + strings[k].offset) = xstrdup(text ? text : "");
	}
	r->more_is_better = get_bool(o, "more_is_better");
	r->interrupted = get_bool(o, "interrupted");
	if (get_string(o, "failed"))
		r->failed = xstrdup(get_string(o, "failed"));
	r->cpus = json_object_get_double(json_object_object_get(o, "cpus"));
	r->load = json_object_get_double(json_object_object_get(o, "load"));
	if (!isfinite(r->cpus) || !isfinite(r->load))
		return wrong(path, "cpus or load");
	r->seed = (uint64_t)get_whole(o, "seed");
	r->rounds = (unsigned int)rounds;
	r->trim = (unsigned int)trim;
	try(read_observers(path, o, r));
	if (n > SAMPLES_MAX)
		return wrong(path, "too many rounds");
	for (size_t i = 0; i < n; i++) {
		struct sample s = {};

		try(read_sample(path, json_object_array_get_idx(samples, i), r, &s));
		result_add(r, &s);
	}
	return NULL;
}

struct error *result_read(const char *path, struct result *ret)
{
	cleanup(result_deinit) struct result r = {};
	cleanup(buf_deinit) struct buf text = {};
	struct json_object *o;
	struct error *err;

	try(buf_read_file(&text, "the result", path, FILE_MAX));
	o = text.len ? json_tokener_parse(text.str) : NULL;
	if (!json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		return wrong(path, "no JSON object");
	}
	err = read_all(path, o, &r);
	json_object_put(o);
	if (err)
		return err;
	*ret = r;
	r = (struct result){};
	return NULL;
}
