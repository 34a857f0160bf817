// SPDX-License-Identifier: GPL-2.0-only
#include "sources/blktrace/pair.h"

#include <string.h>

#include "core/units.h"
#include "core/util.h"

#define NONE UINT32_MAX
#define TIME_NONE UINT64_MAX
/*
 * Entries of one hash that are looked at; of more the oldest are given up. More than can be alike
 * by chance, and few enough for a trace that was made to be slow.
 */
#ifndef CHAIN_MAX
#define CHAIN_MAX 1024u
#endif
/* An event makes no more entries than this. */
#define ENTRIES_PER_EVENT 4u
/* Operations that only a key has, beyond enum blk_op. */
#define KEY_ZONE_APPEND OP_NR

enum state {
	FREE,
	QUEUED, /* a bio, or a request that is not at the device */
	ISSUED,
	ENDING, /* its data is written, the flush behind it is not done */
};

/* Flushes that a write asks for: before it, and of itself. */
enum asked {
	ASKED_FLUSH = 1,
	ASKED_FUA = 2,
};

/* What a bio has been through, a bit each. */
enum seen {
	SEEN_REMAP = 1,
	SEEN_QUEUE = 2,
	SEEN_GET = 4,
	SEEN_MERGE = 8,
	SEEN_INSERT = 16,
	SEEN_SPLIT = 32,
	SEEN_REQUEUE = 64,
	SEEN_JOIN = 128, /* M of the request that it was: another one has it now */
};

struct request {
	uint64_t sector; /* the key's */
	uint64_t place;  /* likewise */
	uint64_t start;  /* time of Q, or of what came first; or TIME_NONE */
	uint64_t get;    /* time of G, or TIME_NONE */
	uint64_t issue;  /* time of the last D */
	int64_t seek;
	struct trace_device *device;
	uint32_t bytes; /* what is left of it */
	uint32_t done;  /* by partial completions */
	uint32_t size;  /* at issue, with what was done then */
	uint32_t events;
	uint32_t hash;         /* the key's */
	uint32_t prev, next;   /* with the same hash; next also if it is free */
	uint32_t older, newer; /* by age */
	uint16_t part;
	uint8_t op; /* the key's */
	uint8_t state, seen;
	uint8_t asked; /* for flushes, ASKED_... */
	bool has_seek;
	bool has_part; /* an A said it */
	bool flushes;  /* a sequence of them, and completes twice */
};

/* What an event is looked up by. */
struct key {
	struct trace_device *device;
	uint64_t sector;
	uint64_t place; /* the event's sector: of an append the zone's first, or where it was
			   written */
	uint32_t bytes;
	uint32_t hash;
	uint8_t op;
};

/* Entries of one hash, the oldest first. */
struct bucket {
	uint32_t head, tail, n;
};

_Static_assert(ACCOUNT_PARTS_MAX <= UINT16_MAX, "a part fits");

void pair_init(struct pair *p, struct account *account, enum trace_start start)
{
	*p = (struct pair){
		.account = account,
		.start = start,
		.free = NONE,
		.oldest = NONE,
		.newest = NONE,
	};
}

void pair_deinit(struct pair *p)
{
	free(p->requests);
	free(p->table);
	*p = (struct pair){};
}

/* --- the table --- */

static inline uint32_t hash(const struct trace_device *d, uint64_t sector, uint8_t op)
{
	return (uint32_t)((sector ^ (uint64_t)d->number << 40 ^ (uint64_t)op << 32) *
				  0x9e3779b97f4a7c15ull >>
			  32);
}

static inline struct bucket *bucket_of(const struct pair *p, uint32_t hash_)
{
	return &p->table[hash_ & (p->table_size - 1)];
}

static void chain(struct pair *p, uint32_t i)
{
	struct request *r = &p->requests[i];
	struct bucket *b = bucket_of(p, r->hash);

	r->prev = b->tail;
	r->next = NONE;
	*(b->tail == NONE ? &b->head : &p->requests[b->tail].next) = i;
	b->tail = i;
	b->n++;
}

static void unchain(struct pair *p, uint32_t i)
{
	const struct request *r = &p->requests[i];
	struct bucket *b = bucket_of(p, r->hash);

	*(r->prev == NONE ? &b->head : &p->requests[r->prev].next) = r->next;
	*(r->next == NONE ? &b->tail : &p->requests[r->next].prev) = r->prev;
	b->n--;
}

static void grow(struct pair *p)
{
	p->size = p->size ? 2 * p->size : 256;
	if (p->size > PAIR_REQUESTS_MAX)
		p->size = PAIR_REQUESTS_MAX;
	p->requests = xreallocarray(p->requests, p->size, sizeof(*p->requests));
	for (p->table_size = 1; p->table_size < 2 * p->size;)
		p->table_size *= 2;
	p->table = xreallocarray(p->table, p->table_size, sizeof(*p->table));
	for (uint32_t i = 0; i < p->table_size; i++)
		p->table[i] = (struct bucket){ .head = NONE, .tail = NONE };
	/* By age, so that the order of those that are alike stays. */
	for (uint32_t i = p->oldest; i != NONE; i = p->requests[i].newer)
		chain(p, i);
}

static void release(struct pair *p, uint32_t i)
{
	struct request *r = &p->requests[i];

	unchain(p, i);
	*(r->older == NONE ? &p->oldest : &p->requests[r->older].newer) = r->newer;
	*(r->newer == NONE ? &p->newest : &p->requests[r->newer].older) = r->older;
	r->state = FREE;
	r->next = p->free;
	p->free = i;
	p->n_requests--;
}

/* The request is not counted. */
static void give_up(struct pair *p, uint32_t i)
{
	p->classes[CLASS_UNFINISHED] += p->requests[i].events;
	p->in_flight -= p->requests[i].events;
	p->notes[NOTE_UNMATCHED_ISSUE] += p->requests[i].state == ISSUED;
	release(p, i);
}

/* A new entry, QUEUED; there is room. */
static uint32_t add(struct pair *p, const struct key *key)
{
	uint32_t i = p->free;

	if (i == NONE)
		i = p->n_requests;
	else
		p->free = p->requests[i].next;
	p->n_requests++;
	p->requests[i] = (struct request){
		.sector = key->sector,
		.place = key->place,
		.start = TIME_NONE,
		.get = TIME_NONE,
		.device = key->device,
		.bytes = key->bytes,
		.hash = key->hash,
		.op = key->op,
		.state = QUEUED,
		.older = p->newest,
		.newer = NONE,
	};
	*(p->newest == NONE ? &p->oldest : &p->requests[p->newest].newer) = i;
	p->newest = i;
	chain(p, i);
	return i;
}

static inline bool same_key(const struct request *r, const struct key *key)
{
	return r->sector == key->sector && r->op == key->op && r->device == key->device;
}

/* Makes room for what an event may add. */
static void make_room(struct pair *p, const struct key *key)
{
	struct bucket *b;

	if (p->n_requests + ENTRIES_PER_EVENT > p->size) {
		while (p->n_requests + ENTRIES_PER_EVENT > PAIR_REQUESTS_MAX)
			give_up(p, p->oldest);
		if (p->n_requests + ENTRIES_PER_EVENT > p->size)
			grow(p);
	}
	b = bucket_of(p, key->hash);
	while (b->n > CHAIN_MAX)
		give_up(p, b->head);
}

/* For all entries of the key's hash, the oldest first. */
#define FOR_EACH_ALIKE(p, key, i)                                                                 \
	for (uint32_t i = bucket_of(p, (key)->hash)->head, left_ = CHAIN_MAX; i != NONE && left_; \
	     i = (p)->requests[i].next, left_--)

/*
 * The oldest one that is queued there and has not been through any of @seen. What has no bytes is
 * another kind of thing; appends to one zone are told apart by size.
 */
static inline __attribute__((always_inline)) uint32_t
find_queued(const struct pair *p, const struct key *key, unsigned int seen)
{
	FOR_EACH_ALIKE(p, key, i)
	{
		const struct request *r = &p->requests[i];

		if (same_key(r, key) && r->state == QUEUED && !(r->seen & seen) &&
		    !r->bytes == !key->bytes &&
		    (key->op != KEY_ZONE_APPEND ||
		     (r->place == key->place && r->bytes == key->bytes)))
			return i;
	}
	return NONE;
}

/* The oldest one in @state that has just these bytes, or the newest one. */
static uint32_t find_exact(const struct pair *p, const struct key *key, enum state state,
			   bool newest)
{
	uint32_t found = NONE;

	FOR_EACH_ALIKE(p, key, i)
	{
		const struct request *r = &p->requests[i];

		if (r->state != state || !same_key(r, key) || r->bytes != key->bytes)
			continue;
		if (!newest)
			return i;
		found = i;
	}
	return found;
}

/* --- bios --- */

static void note_event(struct pair *p, uint32_t i)
{
	p->requests[i].events++;
	p->in_flight++;
}

/* Leaves the first @bytes to an entry, and makes another of the rest. */
static void split(struct pair *p, uint32_t i, uint32_t bytes)
{
	struct request *r = &p->requests[i], *n;
	struct key rest = {
		.device = r->device,
		.sector = r->sector + bytes / SECTOR_SIZE,
		.place = r->place + bytes / SECTOR_SIZE,
		.bytes = r->bytes - bytes,
		.op = r->op,
	};

	rest.hash = hash(rest.device, rest.sector, rest.op);
	n = &p->requests[add(p, &rest)];
	/* It is still to be given a request. */
	n->seen = r->seen & (SEEN_REMAP | SEEN_QUEUE);
	n->start = r->start;
	n->part = r->part;
	n->has_part = r->has_part;
	n->asked = r->asked;
	r->bytes = bytes;
	p->notes[NOTE_SPLIT]++;
}

/* What each event of a bio adds, and what an entry must not have been through to be its. */
static const struct {
	uint8_t adds, excludes;
} bio_events[ACTION_NR] = {
	[ACTION_REMAP] = { SEEN_REMAP, 0xff },
	[ACTION_QUEUE] = { SEEN_QUEUE, 0xff & ~SEEN_REMAP },
	[ACTION_SPLIT] = { SEEN_SPLIT, SEEN_GET | SEEN_MERGE | SEEN_INSERT | SEEN_REQUEUE },
	[ACTION_GET_REQUEST] = { SEEN_GET, SEEN_GET | SEEN_MERGE | SEEN_INSERT | SEEN_REQUEUE },
	[ACTION_BACK_MERGE] = { SEEN_MERGE, SEEN_MERGE | SEEN_REQUEUE },
	[ACTION_FRONT_MERGE] = { SEEN_MERGE, SEEN_MERGE | SEEN_REQUEUE },
	[ACTION_INSERT] = { SEEN_INSERT, SEEN_INSERT },
};

/* The flushes that a write asks for. */
static uint8_t asked_by(uint32_t category)
{
	if (!(category & CATEGORY_WRITE))
		return 0;
	return (category & CATEGORY_FLUSH ? ASKED_FLUSH : 0) |
	       (category & CATEGORY_FUA ? ASKED_FUA : 0);
}

/* The distance from the end of what was sent before. */
static void seek(struct request *r, uint64_t sector, uint32_t bytes)
{
	struct trace_device *d = r->device;

	r->has_seek = d->has_head;
	r->seek = (int64_t)(sector - (uint64_t)d->head);
	d->head = (int64_t)(sector + bytes / SECTOR_SIZE);
	d->has_head = true;
}

static void bio_event(struct pair *p, const struct key *key, const struct event *ev)
{
	uint8_t adds = bio_events[ev->action].adds, excludes = bio_events[ev->action].excludes;
	uint32_t i = NONE;
	struct request *r;
	bool is_new;

	if (adds == SEEN_MERGE && ev->category & CATEGORY_FS)
		adds = excludes = SEEN_JOIN;
	if (adds != SEEN_REMAP)
		i = find_queued(p, key, excludes);
	is_new = i == NONE;
	if (is_new)
		i = add(p, key);
	r = &p->requests[i];
	if (r->bytes > key->bytes && adds & (SEEN_SPLIT | SEEN_GET | SEEN_MERGE))
		split(p, i, key->bytes);
	if (is_new || adds == SEEN_QUEUE) {
		r->start = ev->time;
		r->bytes = key->bytes;
	}
	/* Of a device that has no requests, as far as is known: else D sets it anew. */
	if (adds == SEEN_QUEUE && !key->device->has_issue && key->bytes)
		seek(r, ev->sector, key->bytes);
	if (adds == SEEN_GET)
		r->get = ev->time;
	if (adds == SEEN_REMAP) {
		r->part = (uint16_t)account_part_remapped(p->account, key->device, ev);
		r->has_part = r->part;
	}
	r->seen |= adds;
	r->asked |= asked_by(ev->category);
	note_event(p, i);
	/* A alone may be of a device that is traced for its bios only. */
	key->device->has_bio = key->device->has_bio || adds != SEEN_REMAP;
}

/* Adds to a request the bio that follows it. */
static void fold(struct pair *p, struct request *r, uint32_t from)
{
	struct request *b = &p->requests[from];

	/* The partition is that of the bio that came first, of those of which it is known. */
	if (b->has_part && (!r->has_part || b->start < r->start)) {
		r->part = b->part;
		r->has_part = true;
	}
	if (b->start < r->start)
		r->start = b->start;
	if (b->get < r->get)
		r->get = b->get;
	r->seen |= b->seen & SEEN_QUEUE;
	r->bytes += b->bytes;
	r->events += b->events;
	r->asked |= b->asked;
	release(p, from);
}

/* Takes the bios that make up a request together. NONE: not one is known. */
static uint32_t gather(struct pair *p, const struct key *key)
{
	uint32_t i = find_queued(p, key, 0), b;
	uint32_t rest;

	if (i == NONE)
		return NONE;
	if (p->requests[i].bytes > key->bytes)
		split(p, i, key->bytes);
	while ((rest = key->bytes - p->requests[i].bytes) && !(rest % SECTOR_SIZE)) {
		struct key next = *key;

		next.sector += p->requests[i].bytes / SECTOR_SIZE;
		next.bytes = rest;
		next.hash = hash(next.device, next.sector, next.op);
		b = find_queued(p, &next, 0);
		if (b == NONE || b == i)
			break;
		if (p->requests[b].bytes > rest)
			split(p, b, rest);
		fold(p, &p->requests[i], b);
	}
	return i;
}

/* --- requests --- */

static void find_part(struct pair *p, struct request *r, const struct event *ev)
{
	if (!r->has_part && r->op != OP_FLUSH)
		r->part = (uint16_t)account_part_at(p->account, r->device, ev->sector);
}

/*
 * Where requeues are not recorded, a request is issued twice. Another one that is just like it
 * would have been queued before.
 */
static uint32_t find_requeued(const struct pair *p, const struct key *key)
{
	if (!key->device->has_bio || key->op == OP_FLUSH)
		return NONE;
	return find_exact(p, key, ISSUED, true);
}

/* An A of a request, right before its D, or the C of one without D, says its partition only. */
static void remap_request(struct pair *p, const struct key *key, const struct event *ev)
{
	uint32_t i = gather(p, key);
	struct request *r;

	if (i == NONE && !key->bytes)
		i = find_exact(p, key, ENDING, false);
	if (i == NONE)
		i = find_requeued(p, key);
	if (i == NONE)
		i = add(p, key);
	r = &p->requests[i];
	r->bytes = key->bytes;
	r->part = (uint16_t)account_part_remapped(p->account, key->device, ev);
	r->has_part = r->part;
	note_event(p, i);
}

static void issue(struct pair *p, const struct key *key, const struct event *ev)
{
	struct trace_device *d = key->device;
	uint32_t i = gather(p, key);
	struct request *r;

	if (i == NONE) {
		i = find_requeued(p, key);
		p->notes[NOTE_REQUEUED] += i != NONE;
	}
	if (i == NONE)
		i = add(p, key);
	r = &p->requests[i];
	r->state = ISSUED;
	r->issue = ev->time;
	r->bytes = key->bytes;
	r->size = r->done + key->bytes;
	/* What the device is not asked for, the kernel does by flushes of its own. */
	r->flushes = r->asked & ~asked_by(ev->category);
	note_event(p, i);
	find_part(p, r, ev);
	if (!d->has_issue)
		d->has_head = false; /* what bios had set */
	d->has_issue = true;
	if (key->op != OP_FLUSH)
		seek(r, ev->sector, key->bytes);
}

static void requeue(struct pair *p, const struct key *key)
{
	uint32_t i = find_exact(p, key, ISSUED, true);

	if (i == NONE)
		i = find_queued(p, key, 0); /* the driver did not take it */
	if (i == NONE) {
		p->classes[CLASS_UNMATCHED_REQUEUE]++;
		return;
	}
	p->requests[i].state = QUEUED;
	/* It may be inserted again. */
	p->requests[i].seen = (p->requests[i].seen | SEEN_REQUEUE) & (uint8_t)~SEEN_INSERT;
	p->notes[NOTE_REQUEUED]++;
	note_event(p, i);
}

static enum blk_op real_op(const struct request *r)
{
	return r->op == KEY_ZONE_APPEND ? OP_WRITE : (enum blk_op)r->op;
}

/* What is to be counted of a request, and whether one of its times cannot be. */
struct times {
	int64_t ns[KIND_TIMED];
	unsigned int kinds; /* mask */
	bool negative;
};

/* One kind of time, unless it is not known when it began. */
static inline void measure(struct times *t, enum hist_kind kind, uint64_t from, uint64_t to)
{
	if (from == TIME_NONE)
		return;
	if (to < from || to - from > TRACE_INTERVAL_MAX) {
		t->negative = true;
		return;
	}
	t->ns[kind] = (int64_t)(to - from);
	t->kinds |= 1u << kind;
}

static void count(struct pair *p, const struct request *r, const struct times *t)
{
	account_times(r->device, r->part, real_op(r), r->size, t->kinds, t->ns);
	p->notes[NOTE_NEGATIVE] += t->negative;
}

/* When the request began, as it was asked for, or TIME_NONE. */
static uint64_t start_of(struct pair *p, const struct request *r)
{
	bool get = r->get != TIME_NONE && (p->start == TRACE_START_GET || !(r->seen & SEEN_QUEUE));

	if (r->start == TIME_NONE)
		return TIME_NONE;
	p->starts[get ? 1 : r->seen & SEEN_QUEUE ? 0 : 2]++;
	return get ? r->get : r->start;
}

/* The request is over; @t has what else of it is to be counted. */
static void end(struct pair *p, uint32_t i, uint64_t now, struct times *t)
{
	struct request *r = &p->requests[i];

	measure(t, KIND_REQUEST, r->start, now);
	count(p, r, t);
	p->notes[NOTE_NO_START] += r->start == TIME_NONE;
	r->device->parts[r->part].bytes[real_op(r)] += r->size;
	p->classes[CLASS_MATCHED] += r->events;
	p->in_flight -= r->events;
	release(p, i);
}

/* Gives it another key. */
static void move(struct pair *p, uint32_t i, uint64_t sector, uint32_t bytes)
{
	unchain(p, i);
	p->requests[i].sector = sector;
	p->requests[i].bytes = bytes;
	p->requests[i].hash = hash(p->requests[i].device, sector, p->requests[i].op);
	chain(p, i);
}

static void complete_issued(struct pair *p, uint32_t i, const struct key *key, uint64_t now)
{
	struct request *r = &p->requests[i];
	struct times t = {};

	note_event(p, i);
	if (key->bytes < r->bytes && key->bytes) {
		p->notes[NOTE_PARTIAL]++;
		r->done += key->bytes;
		move(p, i, r->sector + key->bytes / SECTOR_SIZE, r->bytes - key->bytes);
		return;
	}
	r->start = start_of(p, r);
	measure(&t, KIND_SERVICE, r->issue, now);
	measure(&t, KIND_QUEUE, r->start, r->issue);
	if (r->has_seek)
		account_seek(r->device, r->part, r->seek);
	if (!r->flushes || !r->size) {
		end(p, i, now, &t);
		return;
	}
	/* It completes once more, without data, when the last flush is done. */
	count(p, r, &t);
	r->state = ENDING;
	move(p, i, r->sector, 0);
}

/* Of a request at the device some of which is left; a bad sector may end it before the first one. */
static bool complete_none(struct pair *p, const struct key *key)
{
	FOR_EACH_ALIKE(p, key, i)
	{
		if (p->requests[i].state != ISSUED || !same_key(&p->requests[i], key))
			continue;
		p->notes[NOTE_PARTIAL]++;
		note_event(p, i);
		return true;
	}
	return false;
}

/* The last completion of a flush sequence, or of a bio, or of a request whose D is missing. */
static void complete_other(struct pair *p, const struct key *key, const struct event *ev)
{
	bool empty_write = !key->bytes && key->op == OP_WRITE;
	bool is_bio = !(ev->category & CATEGORY_FS);
	struct trace_device *d = key->device;
	uint32_t i = empty_write ? find_exact(p, key, ENDING, false) : NONE;

	if (i == NONE) {
		i = gather(p, key);
		if (i == NONE) {
			p->classes[CLASS_UNMATCHED_COMPLETE] += key->bytes ||
								!complete_none(p, key);
			return;
		}
		p->requests[i].size = key->bytes;
		/* Without requests an empty write is the flush itself. */
		if (empty_write && is_bio && p->requests[i].asked & ASKED_FLUSH)
			p->requests[i].op = OP_FLUSH;
		p->requests[i].start = start_of(p, &p->requests[i]);
		find_part(p, &p->requests[i], ev);
		p->notes[NOTE_UNISSUED] += empty_write && !is_bio;
		p->notes[NOTE_NO_ISSUE] += d->has_issue && !empty_write;
		if (p->requests[i].has_seek && is_bio)
			account_seek(d, p->requests[i].part, p->requests[i].seek);
	}
	note_event(p, i);
	end(p, i, ev->time, &(struct times){});
}

/* An append ends where it was written: in the zone that begins last before. */
static uint32_t find_append(const struct pair *p, const struct key *key)
{
	uint32_t found = NONE;

	FOR_EACH_ALIKE(p, key, i)
	{
		const struct request *r = &p->requests[i];

		if (r->state == ISSUED && same_key(r, key) && r->bytes == key->bytes &&
		    r->place <= key->place &&
		    (found == NONE || r->place > p->requests[found].place))
			found = i;
	}
	return found;
}

/* The request that has just this left, or more of it, or (what should not be) less. */
static uint32_t find_issued(struct pair *p, const struct key *key)
{
	/*
	 * Of requests that are alike the oldest should end first. But where requeues cannot be seen,
	 * or events were lost, an old one may have been left over, and would make an outlier up.
	 */
	bool newest = key->device->lossy || !key->device->has_bio;
	uint32_t first = NONE, last = NONE, other = NONE;

	if (key->op == KEY_ZONE_APPEND)
		return find_append(p, key);
	FOR_EACH_ALIKE(p, key, i)
	{
		const struct request *r = &p->requests[i];

		if (r->state != ISSUED || !same_key(r, key))
			continue;
		if (r->bytes == key->bytes) {
			first = first == NONE ? i : first;
			last = i;
		} else if (other == NONE && key->bytes && r->bytes) {
			other = i;
		}
	}
	if (first == NONE)
		return other;
	p->notes[NOTE_AMBIGUOUS] += first != last;
	return newest ? last : first;
}

static void complete(struct pair *p, const struct key *key, const struct event *ev)
{
	uint32_t i = find_issued(p, key);

	key->device->has_complete = true;
	key->device->has_requests |= ev->category & CATEGORY_FS;
	if (i != NONE)
		complete_issued(p, i, key, ev->time);
	else
		complete_other(p, key, ev);
}

/* --- events --- */

/* By the bits FLUSH, WRITE and DISCARD: a write may ask for a flush, and a discard is a write, too.
 */
static uint8_t op_of(uint32_t category)
{
	static const uint8_t ops[8] = {
		OP_READ,    OP_WRITE,   OP_FLUSH,   OP_WRITE,
		OP_DISCARD, OP_DISCARD, OP_DISCARD, OP_DISCARD,
	};
	_Static_assert(CATEGORY_WRITE == 2 && CATEGORY_FLUSH == 4 && CATEGORY_DISCARD == 1 << 13,
		       "bits 0 and 1, and bit 2");

	return ops[(category >> 1 & 3) | (category >> 11 & 4)];
}

/* Another trace of the device begins; its CPUs do so one after the other. */
static void restart(struct pair *p, struct trace_device *d, uint64_t now)
{
	const uint64_t together = 5000000000ull;

	if (d->restarted && now >= d->restarted && now - d->restarted < together)
		return;
	d->restarted = now;
	d->has_head = false;
	for (uint32_t i = p->oldest, newer; i != NONE; i = newer) {
		newer = p->requests[i].newer;
		if (p->requests[i].device == d)
			give_up(p, i);
	}
}

/* CLASS_NR: it is looked at further. The rest are of no request, or none of their own. */
static const uint8_t action_classes[ACTION_NR] = {
	[0] = CLASS_UNKNOWN,
	[ACTION_QUEUE] = CLASS_NR,
	[ACTION_BACK_MERGE] = CLASS_NR,
	[ACTION_FRONT_MERGE] = CLASS_NR,
	[ACTION_GET_REQUEST] = CLASS_NR,
	[ACTION_SLEEP] = CLASS_NO_REQUEST,
	[ACTION_REQUEUE] = CLASS_NR,
	[ACTION_ISSUE] = CLASS_NR,
	[ACTION_COMPLETE] = CLASS_NR,
	[ACTION_PLUG] = CLASS_NO_REQUEST,
	[ACTION_UNPLUG] = CLASS_NO_REQUEST,
	[ACTION_UNPLUG_TIMER] = CLASS_NO_REQUEST,
	[ACTION_INSERT] = CLASS_NR,
	[ACTION_SPLIT] = CLASS_NR,
	[ACTION_BOUNCE] = CLASS_NO_REQUEST,
	[ACTION_REMAP] = CLASS_NR,
	[ACTION_ABORT] = CLASS_NO_REQUEST,
	[ACTION_DRIVER_DATA] = CLASS_NO_REQUEST,
	[ACTION_ZONE_PLUG] = CLASS_NO_REQUEST,
	[ACTION_ZONE_UNPLUG] = CLASS_NO_REQUEST,
	[ACTION_ZONE_MANAGEMENT] = CLASS_NO_REQUEST,
};

/* What is not to be looked at any further; CLASS_NR for the others. */
static inline unsigned int class_of(const struct event *ev, const struct trace_device *d)
{
	if (d->ignored || ev->category & CATEGORY_PASSTHROUGH)
		return d->ignored ? CLASS_IGNORED : CLASS_PASSTHROUGH;
	return ev->action < ACTION_NR ? action_classes[ev->action] : CLASS_UNKNOWN;
}

/* An event of a request, or of a bio that may become one. */
static void request_event(struct pair *p, struct trace_device *d, const struct event *ev)
{
	bool append = ev->category & CATEGORY_ZONE_APPEND;
	struct key key = {
		.device = d,
		.sector = append ? 0 : ev->sector,
		.place = ev->sector,
		.bytes = ev->bytes,
		.op = append ? KEY_ZONE_APPEND : op_of(ev->category),
	};

	key.hash = hash(d, key.sector, key.op);
	make_room(p, &key);
	switch (ev->action) {
	case ACTION_ISSUE:
		issue(p, &key, ev);
		break;
	case ACTION_REQUEUE:
		requeue(p, &key);
		break;
	case ACTION_COMPLETE:
		/* Without the category it only says where an append has been written. */
		if (ev->category & CATEGORY_COMPLETE)
			complete(p, &key, ev);
		else
			p->classes[CLASS_NO_REQUEST]++;
		break;
	case ACTION_REMAP:
		if (ev->to_device && ev->to_device != ev->device)
			p->classes[CLASS_STACKED]++;
		else if (ev->category & CATEGORY_FS)
			remap_request(p, &key, ev);
		else
			bio_event(p, &key, ev);
		break;
	default:
		bio_event(p, &key, ev);
	}
}

bool pair_event(struct pair *p, const struct event *ev)
{
	struct trace_device *d;
	unsigned int class;

	if (ev->category & CATEGORY_NOTIFY) {
		p->classes[CLASS_NOTIFY]++;
		return true;
	}
	d = account_device(p->account, ev->device);
	if (!d) {
		p->classes[CLASS_UNKNOWN]++;
		return false;
	}
	if (ev->lost) {
		p->notes[NOTE_LOST] += ev->lost;
		d->lossy = true;
	}
	if (ev->restart)
		restart(p, d, ev->time);
	class = class_of(ev, d);
	if (class == CLASS_NR)
		request_event(p, d, ev);
	else
		p->classes[class]++;
	return class != CLASS_UNKNOWN;
}

uint64_t pair_issued(const struct pair *p)
{
	uint64_t n = 0;

	for (uint32_t i = p->oldest; i != NONE; i = p->requests[i].newer)
		n += p->requests[i].state == ISSUED;
	return n;
}
