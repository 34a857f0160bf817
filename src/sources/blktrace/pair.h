/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From events to requests. A record has neither the request's address nor its tag, so requests are
 * known by device, operation and first sector, and where several are alike at once, by their order.
 *
 * A request begins as one bio, or several that are merged: A, Q, X, G, M, F and I make or find an
 * entry for each at its sector. D takes those that lie within it together: whatever the merges
 * were, the bios of a request follow each other. C ends it, R puts it back.
 *
 * An A of a request, which our own recorder writes, says its partition.
 *
 * No event is left behind: each is in one of the classes of pair_class.
 */
#ifndef BLKHIST_SOURCES_BLKTRACE_PAIR_H
#define BLKHIST_SOURCES_BLKTRACE_PAIR_H

#include "sources/blktrace.h"
#include "sources/blktrace/account.h"
#include "sources/blktrace/format.h"

enum pair_class {
	CLASS_MATCHED,            /* of requests that have ended */
	CLASS_UNFINISHED,         /* of requests that have not */
	CLASS_UNMATCHED_COMPLETE, /* C of nothing that is known */
	CLASS_UNMATCHED_REQUEUE,  /* R likewise */
	CLASS_NOTIFY,
	CLASS_NO_REQUEST,  /* plugging and the like */
	CLASS_PASSTHROUGH, /* of driver commands */
	CLASS_STACKED,     /* A of another device's sectors */
	CLASS_IGNORED,     /* of devices that the configuration ignores */
	CLASS_UNKNOWN,
	CLASS_NR
};

/* Requests or bios, for information. */
enum pair_note {
	NOTE_UNMATCHED_ISSUE, /* issued and not ended */
	NOTE_LOST,            /* events, by sequence numbers */
	NOTE_NEGATIVE,        /* had a negative interval */
	NOTE_NO_START,        /* neither Q nor G nor I */
	NOTE_NO_ISSUE,        /* no D, though its device has them */
	NOTE_UNISSUED,        /* empty flushes, which have none */
	NOTE_AMBIGUOUS,       /* could be the end of several alike */
	NOTE_REQUEUED,
	NOTE_PARTIAL,
	NOTE_SPLIT,
	NOTE_NR
};

/*
 * Requests that have not ended, at most; the oldest ones are given up. No device has as many tags.
 * The fuzzers make it small.
 */
#ifndef PAIR_REQUESTS_MAX
#define PAIR_REQUESTS_MAX (1u << 18)
#endif

struct pair {
	struct account *account;
	enum trace_start start;
	uint64_t classes[CLASS_NR], notes[NOTE_NR];
	uint64_t starts[3]; /* requests by what their time began at: Q, G, another event */
	struct request *requests;
	uint32_t n_requests, size, free;
	struct bucket *table; /* by hash; power of two */
	uint32_t table_size;
	uint32_t oldest, newest; /* list of all by age */
	uint64_t in_flight;      /* of the entries */
};

void pair_init(struct pair *p, struct account *account, enum trace_start start);
void pair_deinit(struct pair *p);

/* False: its action is not known, or its device is one too many. */
bool pair_event(struct pair *p, const struct event *ev);

/* Requests that are issued and have not ended now. */
uint64_t pair_issued(const struct pair *p);

#endif
