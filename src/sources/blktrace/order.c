// SPDX-License-Identifier: GPL-2.0-only
#include "sources/blktrace/order.h"

#include <string.h>

#include "core/util.h"
#include "sources/blktrace.h"

/* Rows of one file; what is beyond shares the first one. No machine has as many CPUs. */
#define ROWS_MAX 16384u
#define NONE UINT32_MAX

/* --- a heap: the least key is on top --- */

struct heap {
	struct {
		uint64_t key;
		uint32_t id;
	} * item;
	uint32_t n, size;
};

static void heap_down(struct heap *h)
{
	__typeof__(*h->item) moved = h->item[0];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < h->n) {
		if (child + 1 < h->n && h->item[child + 1].key < h->item[child].key)
			child++;
		if (h->item[child].key >= moved.key)
			break;
		h->item[i] = h->item[child];
		i = child;
	}
	h->item[i] = moved;
}

static void heap_push(struct heap *h, uint64_t key, uint32_t id)
{
	uint32_t i = h->n++;

	if (h->n > h->size) {
		h->size = h->size * 2 + 8;
		h->item = xreallocarray(h->item, h->size, sizeof(*h->item));
	}
	for (; i && h->item[(i - 1) / 2].key > key; i = (i - 1) / 2)
		h->item[i] = h->item[(i - 1) / 2];
	h->item[i].key = key;
	h->item[i].id = id;
}

static void heap_pop(struct heap *h)
{
	if (--h->n) {
		h->item[0] = h->item[h->n];
		heap_down(h);
	}
}

static void heap_set_top(struct heap *h, uint64_t key)
{
	h->item[0].key = key;
	heap_down(h);
}

/* --- rows of a file --- */

/* An event that is held back. */
struct held {
	struct event event;
	uint32_t next;
};

/* One device on one CPU. */
struct row {
	uint32_t device, cpu;
	uint32_t sequence;   /* of the event read last */
	bool begun;          /* it has had a sequence number */
	uint64_t time;       /* of the event read last */
	uint32_t head, tail; /* held back */
};

struct sorter {
	struct stream stream;
	struct row *rows;
	uint32_t n_rows;
	uint32_t *table; /* numbers of rows by device and CPU; power of two, NONE: free */
	uint32_t table_size;
	uint32_t last_row;
	uint32_t held, limit;
	struct heap heap;              /* of rows that hold something, by time */
	uint64_t first, newest, given; /* time of events */
	uint64_t quiet;                /* nothing comes that happened before this */
	bool begun;
	bool of_cpu;  /* by its name it has one row */
	bool settled; /* and so it seems: no other was seen while its first events were held back */
	bool ended;
	bool ready; /* head is the next event */
	struct event head;
};

struct order {
	struct sorter *sorters;
	unsigned int n;
	struct heap heap; /* of sorters that are ready */
	unsigned int n_unready;
	struct sorter *only; /* all others have ended */
	struct held *pool;
	uint32_t pool_used, free;
	uint64_t late;
};

static uint32_t hash(uint32_t device, uint32_t cpu)
{
	return (uint32_t)(((uint64_t)device << 32 | cpu) * 0x9e3779b97f4a7c15ull >> 32);
}

static void table_grow(struct sorter *s)
{
	uint32_t size = s->table_size ? 2 * s->table_size : 16;

	free(s->table);
	s->table = xcalloc(size, sizeof(*s->table));
	memset(s->table, 0xff, size * sizeof(*s->table));
	s->table_size = size;
	for (uint32_t i = 0; i < s->n_rows; i++) {
		uint32_t at = hash(s->rows[i].device, s->rows[i].cpu) & (size - 1);

		while (s->table[at] != NONE)
			at = (at + 1) & (size - 1);
		s->table[at] = i;
	}
}

/* The row of an event; a new one for the first of its kind. */
static struct row *row_of(struct sorter *s, const struct event *ev)
{
	struct row *row;
	uint32_t at;

	if (s->n_rows) {
		row = &s->rows[s->last_row];
		if (row->device == ev->device && row->cpu == ev->cpu)
			return row;
	}
	if (2 * (s->n_rows + 1) > s->table_size)
		table_grow(s);
	for (at = hash(ev->device, ev->cpu) & (s->table_size - 1); s->table[at] != NONE;
	     at = (at + 1) & (s->table_size - 1)) {
		row = &s->rows[s->table[at]];
		if (row->device == ev->device && row->cpu == ev->cpu) {
			s->last_row = s->table[at];
			return row;
		}
	}
	if (s->n_rows == ROWS_MAX)
		return NULL;
	if (!(s->n_rows & (s->n_rows - 1)))
		s->rows = xreallocarray(s->rows, s->n_rows ? 2 * s->n_rows : 1, sizeof(*row));
	s->table[at] = s->last_row = s->n_rows++;
	row = &s->rows[s->last_row];
	*row = (struct row){ .device = ev->device, .cpu = ev->cpu, .head = NONE, .tail = NONE };
	return row;
}

/* What sequence number and time tell. */
static void check(struct sorter *s, struct row *row, struct event *ev)
{
	uint32_t ahead = ev->sequence - row->sequence;

	ev->lost = 0;
	ev->restart = false;
	if (ev->time < row->time)
		stream_problem(&s->stream, PROBLEM_BACKWARDS, ev->offset, ev->cpu);
	row->time = ev->time;
	if (row->begun && (!ahead || ahead > UINT32_MAX / 2)) {
		stream_problem(&s->stream, PROBLEM_RESTART, ev->offset, ev->cpu);
		ev->restart = true;
	} else if (row->begun) {
		ev->lost = ahead - 1;
	}
	row->begun = true;
	row->sequence = ev->sequence;
}

/* A single time like this would have everything wait for it, or nothing. */
static bool is_wild(const struct sorter *s, const struct event *ev)
{
	return ev->time >= TRACE_TIME_MAX ||
	       (s->begun && ev->time > s->newest && ev->time - s->newest > TRACE_INTERVAL_MAX);
}

/* Takes note of an event that was read. */
static struct row *arrived(struct sorter *s, struct event *ev)
{
	struct row *row = row_of(s, ev);

	/*
	 * Notifies stay where they are in their row, and have no sequence number: blkparse -d,
	 * which makes all times begin at 0, leaves theirs as they were.
	 */
	if (ev->category & CATEGORY_NOTIFY) {
		row = row ? row : &s->rows[0];
		ev->sector = ev->time;
		ev->time = row->time;
		return row;
	}
	if (is_wild(s, ev)) {
		stream_problem(&s->stream, PROBLEM_TIME, ev->offset, ev->time);
		ev->action = ACTION_DAMAGED;
		ev->time = row ? row->time : s->newest;
		return row ? row : &s->rows[0];
	}
	if (row)
		check(s, row, ev);
	if (!s->begun)
		s->first = ev->time;
	s->begun = true;
	if (ev->time > s->newest)
		s->newest = ev->time;
	return row ? row : &s->rows[0];
}

static void hold(struct order *o, struct sorter *s, struct row *row, const struct event *ev)
{
	uint32_t i = o->free;
	struct held *held;

	if (i == NONE)
		i = o->pool_used++;
	else
		o->free = o->pool[i].next;
	held = &o->pool[i];
	held->event = *ev;
	held->next = NONE;
	if (row->head == NONE) {
		row->head = i;
		heap_push(&s->heap, ev->time, (uint32_t)(row - s->rows));
	} else {
		o->pool[row->tail].next = i;
	}
	row->tail = i;
	s->held++;
}

/* Gives the oldest one that is held. */
static void give(struct order *o, struct sorter *s, struct event *ret)
{
	struct row *row = &s->rows[s->heap.item[0].id];
	uint32_t i = row->head;

	*ret = o->pool[i].event;
	row->head = o->pool[i].next;
	o->pool[i].next = o->free;
	o->free = i;
	s->held--;
	if (row->head == NONE) {
		heap_pop(&s->heap);
	} else {
		heap_set_top(&s->heap, o->pool[row->head].event.time);
	}
}

static bool may_give(const struct sorter *s)
{
	uint64_t oldest = s->heap.item[0].key;

	return (s->settled && s->n_rows == 1) || s->ended || s->held == s->limit ||
	       oldest < s->quiet || (s->newest > oldest && s->newest - oldest > TRACE_WINDOW_NS);
}

/* An event is given. */
static inline void note_given(struct order *o, struct sorter *s, const struct event *ev)
{
	if (ev->time >= s->given)
		s->given = ev->time;
	else if (!(ev->category & CATEGORY_NOTIFY))
		o->late++;
}

static bool has_one_row(const struct sorter *s)
{
	return s->settled && s->n_rows == 1 && !s->held;
}

/*
 * The short way for the only row of a file, if its next event is what nearly all are: the next
 * number, and not before the last one.
 */
static inline bool follows(struct sorter *s, struct event *ev)
{
	struct row *row = &s->rows[0];

	if (ev->category & CATEGORY_NOTIFY || ev->device != row->device || ev->cpu != row->cpu ||
	    !row->begun || ev->sequence != row->sequence + 1 || ev->time < s->given ||
	    ev->time - s->newest > TRACE_INTERVAL_MAX)
		return false;
	ev->lost = 0;
	ev->restart = false;
	row->sequence = ev->sequence;
	row->time = s->newest = s->given = ev->time;
	return true;
}

/*
 * Of a file with one row, what can be had at once. If another row turns up after all, that and what
 * follows is held back.
 */
static unsigned int sorter_batch(struct order *o, struct sorter *s, struct event *ret,
				 unsigned int max)
{
	unsigned int given = 0, n;

	if (!has_one_row(s) || s->ended)
		return 0;
	n = stream_batch(&s->stream, ret, max < s->limit ? max : s->limit);
	for (unsigned int i = 0; i < n; i++) {
		struct row *row;

		if (s->n_rows == 1 && follows(s, &ret[i])) {
			given++;
			continue;
		}
		row = arrived(s, &ret[i]);
		if (s->n_rows == 1) {
			note_given(o, s, &ret[i]);
			given++;
		} else {
			hold(o, s, row, &ret[i]);
		}
	}
	return given;
}

static enum stream_state sorter_next(struct order *o, struct sorter *s, struct event *ret)
{
	enum stream_state state;
	struct row *row;

	for (;;) {
		if (s->held && may_give(s)) {
			give(o, s, ret);
			break;
		}
		if (s->ended)
			return STREAM_END;
		state = stream_next(&s->stream, ret);
		if (state == STREAM_END) {
			s->ended = true;
			continue;
		}
		if (state != STREAM_EVENT)
			return state;
		row = arrived(s, ret);
		/* With one row there is nothing to wait for, once it is clear that it is the only
		 * one. */
		if (has_one_row(s))
			break;
		hold(o, s, row, ret);
		s->settled = s->of_cpu &&
			     (s->settled || s->held == s->limit ||
			      (s->newest > s->first && s->newest - s->first > TRACE_WINDOW_NS));
	}
	note_given(o, s, ret);
	return STREAM_EVENT;
}

/* --- several files --- */

struct order *order_create(struct stream *streams, const bool *of_cpu, unsigned int n)
{
	struct order *o = xcalloc(1, sizeof(*o));
	uint32_t most = ORDER_MEMORY / sizeof(struct held);

	o->sorters = xcalloc(n, sizeof(*o->sorters));
	o->n = o->n_unready = n;
	o->free = NONE;
	o->only = n == 1 ? o->sorters : NULL;
	/* Pages that are not used are not there. */
	o->pool = xcalloc(most, sizeof(*o->pool));
	for (unsigned int i = 0; i < n; i++) {
		o->sorters[i].stream = streams[i];
		o->sorters[i].limit = most / n;
		o->sorters[i].of_cpu = of_cpu[i];
		streams[i] = (struct stream){ .fd = -1 };
	}
	return o;
}

void order_destroy(struct order *o)
{
	if (!o)
		return;
	for (unsigned int i = 0; i < o->n; i++) {
		stream_deinit(&o->sorters[i].stream);
		free(o->sorters[i].rows);
		free(o->sorters[i].table);
		free(o->sorters[i].heap.item);
	}
	free(o->sorters);
	free(o->heap.item);
	free(o->pool);
	free(o);
}

/* Makes every file's next event known; STREAM_EVENT: that is so as far as it matters. */
static enum stream_state make_ready(struct order *o)
{
	uint64_t quiet = UINT64_MAX;
	enum stream_state ret = STREAM_EVENT;

	for (unsigned int i = 0; i < o->n; i++) {
		struct sorter *s = &o->sorters[i];
		enum stream_state state;

		if (s->ready || (s->ended && !s->held))
			continue;
		state = sorter_next(o, s, &s->head);
		if (state == STREAM_EVENT) {
			s->ready = true;
			heap_push(&o->heap, s->head.time, i);
			o->n_unready--;
		} else if (state == STREAM_END) {
			o->n_unready--;
		} else {
			ret = state;
			quiet = s->quiet < quiet ? s->quiet : quiet;
		}
	}
	if (ret == STREAM_WAIT && o->heap.n && o->heap.item[0].key < quiet)
		return STREAM_EVENT;
	return ret;
}

enum stream_state order_next(struct order *o, struct event *ret, unsigned int max, unsigned int *n,
			     unsigned int *from)
{
	enum stream_state state;
	struct sorter *s;

	if (o->only) {
		*from = (unsigned int)(o->only - o->sorters);
		*n = sorter_batch(o, o->only, ret, max);
		if (*n)
			return STREAM_EVENT;
		*n = 1;
		return sorter_next(o, o->only, ret);
	}
	*n = 1;
	if (o->n_unready) {
		state = make_ready(o);
		if (state != STREAM_EVENT)
			return state;
	}
	if (!o->heap.n)
		return STREAM_END;
	*from = o->heap.item[0].id;
	s = &o->sorters[*from];
	*ret = s->head;
	if (o->heap.n == 1 && !o->n_unready) {
		o->only = s;
		return STREAM_EVENT;
	}
	state = sorter_next(o, s, &s->head);
	if (state == STREAM_EVENT) {
		heap_set_top(&o->heap, s->head.time);
	} else {
		/* It is asked again, unless it has ended. */
		s->ready = false;
		o->n_unready += state != STREAM_END;
		heap_pop(&o->heap);
	}
	return STREAM_EVENT;
}

void order_advance(struct order *o, uint64_t time_ns)
{
	for (unsigned int i = 0; i < o->n; i++)
		if (time_ns > o->sorters[i].quiet)
			o->sorters[i].quiet = time_ns;
}

void order_stop(struct order *o)
{
	for (unsigned int i = 0; i < o->n; i++)
		o->sorters[i].ended = true;
}

struct stream *order_stream(struct order *o, unsigned int i)
{
	return &o->sorters[i].stream;
}

uint64_t order_late(const struct order *o)
{
	return o->late;
}

uint64_t order_newest(const struct order *o)
{
	uint64_t newest = 0;

	for (unsigned int i = 0; i < o->n; i++)
		if (o->sorters[i].newest > newest)
			newest = o->sorters[i].newest;
	return newest;
}
