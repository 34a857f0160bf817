#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Traces of some kinds of events only: what they can say is right, and what they cannot is said."""
import generate
from generate import COMPLETE, DISCARD, ISSUE, QUEUE, READ, REQUEUE, WRITE
from lib import equal
from traces import (NVME, SDA, ZRAM, check, check_classes, check_histograms, check_losses, main, notes, show,
                    test, workload)

LONE = generate.device_name(ZRAM)  # it has no requests, so no issues
ALL = {generate.device_name(SDA), generate.device_name(NVME), LONE}

# A requeue that is not recorded leaves an issue over.
UNSEEN = {'matched', 'unfinished', 'unmatched_complete', 'unmatched_issue', 'requeued', 'partial', 'ambiguous'}


def traced(work, events, *options):
    generate.write_merged(work.path('t'), events)
    return show('-i', work.path('t'), *options)


def missing(snapshot):
    """What the notes say that devices lack, and that each says which mask has it, if any."""
    for note in snapshot.data['notes']:
        assert ' has no ' not in note or note.startswith(LONE) or \
            'blktrace -a queue -a issue -a complete' in note, note
    return {topic for topic in notes(snapshot) if ' has no ' in topic}


@test
def issues_and_completions(work):
    """Service times and distances need no more."""
    load = workload(21, requeues=0)
    truth = load.truth(load.masked(ISSUE | COMPLETE))
    snapshot = traced(work, truth.events)
    equal({key[1] for key in truth.values}, {'service', 'seek'}, 'kinds that there can be')
    check(snapshot, truth)
    equal(missing(snapshot), {f'{name} has no request and queue time' for name in ALL}, 'notes')


@test
def issues_completions_and_requeues(work):
    load = workload(22)
    truth = load.truth(load.masked(ISSUE | COMPLETE | REQUEUE))
    check(traced(work, truth.events), truth)


@test
def requeues_that_are_not_seen(work):
    """The service time is from the last issue all the same."""
    load = workload(23, requeues=0.3, partials=0)
    for mask in (ISSUE | COMPLETE, ISSUE | COMPLETE | QUEUE):
        truth = load.truth(load.masked(mask))
        snapshot = traced(work, truth.events)
        check_losses(snapshot, truth, UNSEEN | {'split'})
        check_histograms(snapshot, truth)


@test
def without_requeues_and_splits(work):
    """All times, by the smallest mask that has them."""
    load = workload(24, requeues=0)
    truth = load.truth(load.masked(ISSUE | COMPLETE | QUEUE))
    snapshot = traced(work, truth.events)
    check_histograms(snapshot, truth)
    check_losses(snapshot, truth, {'split'})
    equal(missing(snapshot), {f'{LONE} has no service and queue time'}, 'notes')


@test
def without_the_events_of_bios(work):
    """No Q: request time begins when there is a request, and a note says so."""
    load = workload(25)
    truth = load.truth(load.only(lambda ev: ev.kind not in 'AQ'))
    snapshot = traced(work, truth.events)
    check_histograms(snapshot, truth)
    ended = sum(bool(request.got) and request.ended is not None for request in load.requests)
    equal(notes(snapshot)['begins at G'], ended, 'requests whose time begins at G')


@test
def arrivals_and_completions(work):
    """
    Request time is all there is. What was merged is known by its sectors. No mask gives this: masks have
    the events between, too.
    """
    load = workload(26, requeues=0, partials=0, scenes=(('plain', 1),), begun_before=False)
    truth = load.truth(load.only(lambda ev: ev.kind in 'AQC'))
    snapshot = traced(work, truth.events)
    kinds = {(key[1], key[0] == LONE) for key in truth.values}
    equal(kinds, {('request', False), ('request', True), ('seek', True)}, 'kinds that there can be')
    check_histograms(snapshot, truth)
    equal(missing(snapshot), {f'{name} has no service, queue and seek' for name in ALL - {LONE}} |
          {f'{LONE} has no service and queue time'}, 'notes')


@test
def nothing_ends(work):
    load = workload(27)
    truth = load.truth(load.masked(ISSUE | QUEUE))
    snapshot = traced(work, truth.events)
    equal((snapshot.hists, snapshot.losses['matched']), ({}, 0), 'histograms')
    check_classes(snapshot.losses)
    equal(missing(snapshot), {f'{name} has no histograms' for name in ALL}, 'notes')


@test
def nothing_begins(work):
    load = workload(28)
    events = load.masked(COMPLETE)
    snapshot = traced(work, events)
    equal(snapshot.hists, {}, 'histograms')
    check_classes(snapshot.losses)
    ends = sum(ev.kind == 'C' for ev in events)
    equal(snapshot.losses['unmatched_complete'] + snapshot.losses['passthrough'], ends, 'ends')
    equal(missing(snapshot), {f'{name} has no request and queue time' for name in ALL}, 'notes')


@test
def one_operation(work):
    """Masks of operations are right as they are: all that one of these records is there."""
    load = workload(29)
    for mask in (READ, WRITE, DISCARD):
        truth = load.truth(load.masked(mask))
        check(traced(work, truth.events), truth)


@test
def masks_are_a_union(work):
    """
    -a read -a issue: all of the reads, and all issues. Of the other operations nothing ends, and two issues
    in one place are taken for a requeue.
    """
    load = workload(30, requeues=0)
    truth = load.truth(load.masked(READ | ISSUE))
    snapshot = traced(work, truth.events)
    check_histograms(snapshot, truth)
    check_losses(snapshot, truth, {'unmatched_issue', 'requeued'})


if __name__ == '__main__':
    main()
