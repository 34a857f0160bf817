#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Traces that are damaged, or none at all: each is said in a sentence with file and offset, the exit status
is 1, and what can be read gives the known answers.
"""
import os
import re
import struct

import generate
from generate import READ, SECOND, Truth
from lib import USER, between, equal
from tap import Skip
from traces import (CPUS, SDA, check, check_histograms, check_losses, damaged, main, refused, run, show, test,
                    workload)

VERSIONS = (7, 8)
PAYLOAD_AT = {7: 46, 8: 50}
SIZE = {7: 48, 8: 64}


class Bytes:
    """A merged trace as bytes, with the place of each event."""

    def __init__(self, events, version=7):
        self.version = version
        self.events = events
        self.data = bytearray()
        self.at = {}
        for ev in events:
            self.at[ev] = len(self.data)
            self.data += ev.pack(version, '<')

    def has_payload(self, ev):
        return struct.unpack_from('<H', self.data, self.at[ev] + PAYLOAD_AT[self.version])[0] > 0


def find(events, kind, n=20):
    """The n-th event of a kind; behind it there is more of its CPU."""
    return [ev for ev in events if ev.kind == kind][n]


def one_sentence(sentences, *words):
    equal(len(sentences), 1, f'number of sentences: {sentences}')
    for word in words:
        assert str(word) in sentences[0], f'{word!r} is not in: {sentences[0]}'


def without(load, *lost, **options):
    """The truth, if these events are not there, and their numbers are missing."""
    truth = load.truth([ev for ev in load.events if ev not in lost], **options)
    truth.losses['lost'] = sum(ev.sequence > 0 for ev in lost)
    return truth


@test
def a_bad_magic_number_in_the_middle(work):
    """One record is lost, whatever it was: of a plug, of a request's issue, of its end."""
    for version in VERSIONS:
        for seed, kind in ((71, 'P'), (72, 'D'), (73, 'C'), (74, 'A')):
            load = workload(seed, requeues=0, partials=0)
            trace = Bytes(load.events, version)
            ev = find([ev for ev in load.events if kind == 'P' or (ev.request and ev.request.size)], kind)
            trace.data[trace.at[ev]] ^= 0x40
            path = work.file('t', trace.data)
            snapshot, sentences = damaged('-i', path)
            one_sentence(sentences, path, f'offset {trace.at[ev]}')
            truth = without(load, ev)
            check(snapshot, truth)
            # Without its D a request is known by its beginning and end.
            equal(truth.losses['no_issue'], int(kind == 'D'), 'no_issue')


@test
def garbage_in_the_middle(work):
    """Many records, to a place that is not the beginning of one."""
    load = workload(75)
    trace = Bytes(load.events)
    first, last = load.events[1000], load.events[1100]
    begin, end = trace.at[first] + 5, trace.at[last] + 5
    trace.data[begin:end] = os.urandom(end - begin)
    path = work.file('t', trace.data)
    snapshot, sentences = damaged('-i', path)
    assert any(path in s and 'offset' in s for s in sentences), sentences
    lost = load.events[1000:1101]
    # The first one begins as a record, with garbage in it.
    between(len(load.events) - len(lost), snapshot.losses['events'], len(load.events) - len(lost) + 1, 'events')
    missing = sum(ev.sequence > 0 for ev in lost)
    between(missing - 1, snapshot.losses['lost'], missing, 'lost')


@test
def no_magic_number_at_the_beginning(work):
    """What follows is read all the same."""
    load = workload(76)
    trace = Bytes(load.events)
    path = work.file('t', b'\0\1\2\3\4\5\6\7' * 100 + trace.data)
    snapshot, sentences = damaged('-i', path)
    one_sentence(sentences, path, 'offset 0')
    check(snapshot, load.truth())
    path = work.file('none', b'\0\1\2\3\4\5\6\7' * 100_000)
    snapshot, sentences = damaged('-i', path)
    one_sentence(sentences, path, 'offset 0')
    equal(snapshot.losses['events'], 0)


@test
def a_truncated_record(work):
    """At every length that a piece of the last record can have."""
    load = workload(77, n=50, wall=None)
    events = load.events[:-1]
    last = load.events[-1].pack(7, '<')
    truth = load.truth(events)
    data = bytes(Bytes(events).data)
    for n in range(1, len(last)):
        path = work.file('t', data + last[:n])
        snapshot, sentences = damaged('-i', path)
        one_sentence(sentences, path, f'offset {len(data)} ', f'{n} of ')
        check_losses(snapshot, truth)
    check_histograms(snapshot, truth)
    check(show('-i', work.file('t', data)), truth)


@test
def a_truncated_payload(work):
    for version in VERSIONS:
        load = workload(78)
        trace = Bytes(load.events, version)
        ev = next(ev for ev in reversed(load.events) if trace.has_payload(ev))
        n = load.events.index(ev)
        path = work.file('t', trace.data[:trace.at[ev] + SIZE[version] + 3])
        snapshot, sentences = damaged('-i', path)
        one_sentence(sentences, path, f'offset {trace.at[ev]} ')
        check(snapshot, load.truth(load.events[:n]))


@test
def an_absurd_payload(work):
    """The record that claims it is passed over, and nothing else."""
    for version in VERSIONS:
        for length in (4097, 60_000, 65_535):
            load = workload(79)
            trace = Bytes(load.events, version)
            ev = find(load.events, 'U')
            struct.pack_into('<H', trace.data, trace.at[ev] + PAYLOAD_AT[version], length)
            path = work.file('t', trace.data)
            snapshot, sentences = damaged('-i', path)
            one_sentence(sentences, path, f'offset {trace.at[ev]} ', length)
            check(snapshot, without(load, ev))


def add(truths):
    """The truth of several traces, one behind the other."""
    whole, *others = truths
    for other in others:
        for key, values in other.values.items():
            whole.values[key] = whole.values.get(key, []) + values
        for key, n in other.bytes.items():
            whole.bytes[key] = whole.bytes.get(key, 0) + n
        for name, n in other.losses.items():
            whole.losses[name] += n
    return whole


@test
def sequence_numbers_begin_anew(work):
    """Two traces, one behind the other in each file: both are read, and nothing of one belongs to the other."""
    loads = [workload(80, begin=5000 * SECOND), workload(81, begin=9000 * SECOND)]
    for cpu in range(CPUS):
        for load in loads:
            with open(work.path(f't.blktrace.{cpu}'), 'ab') as f:
                f.write(Bytes([ev for ev in load.events if ev.cpu == cpu]).data)
    snapshot, sentences = damaged('-i', work.path('t'))
    equal(len(sentences), CPUS, f'sentences: {sentences}')
    for cpu in range(CPUS):
        first, second = ([ev for ev in load.events if ev.cpu == cpu] for load in loads)
        path = work.path(f't.blktrace.{cpu}')
        again = Bytes(first + second).at[next(ev for ev in second if ev.sequence and ev.device == SDA)]
        found = [s for s in sentences if s.startswith(path) and f'CPU {cpu} ' in s]
        equal(len(found), 1, f'sentences on CPU {cpu}: {sentences}')
        # Of each device, so it is of the first one that begins anew.
        between(len(Bytes(first).data), int(re.search(r'offset (\d+)', found[0])[1]), again, 'offset')
    check(snapshot, add(load.truth() for load in loads))


@test
def time_runs_backwards(work):
    """In one CPU's file: what lies across it may be wrong, and is not averaged in if it is negative."""
    load = workload(82)
    ev = find(load.events, 'P', 10)
    index = load.events.index(ev)
    before = next(e for e in reversed(load.events[:index]) if e.cpu == ev.cpu and e.device == ev.device)
    ev.time = before.time - 1000
    paths = generate.write_per_cpu(work.path('t'), load.events, CPUS)
    mine = Bytes([e for e in load.events if e.cpu == ev.cpu])
    snapshot, sentences = damaged('-i', work.path('t'))
    one_sentence(sentences, paths[ev.cpu], f'offset {mine.at[ev]}', f'CPU {ev.cpu} ', 'backwards')
    truth = load.truth()
    check_histograms(snapshot, truth)
    check_losses(snapshot, truth, {'late'})


@test
def a_request_that_ends_before_its_issue(work):
    """Its service time is negative, and not counted; the request time is right."""
    events = []
    for time, kind in ((1000, 'Q'), (1500, 'G'), (5000, 'D'), (4000, 'C'),
                       (9000, 'Q'), (9100, 'G'), (9200, 'D'), (9900, 'C')):
        events.append(generate.Event(time, 0, kind, SDA, READ | (generate.FS if kind in 'DC' else 0), 64, 4096,
                                     sequence=len(events) + 1))
    path = work.file('t', Bytes(events).data)
    snapshot, sentences = damaged('-i', path)
    one_sentence(sentences, path, f'offset {3 * SIZE[7]}', 'backwards')
    name = generate.device_name(SDA)
    hists = [snapshot.get(name, kind, 'read') for kind in ('request', 'service', 'queue')]
    equal([(h.sum, h.count) for h in hists], [(3000 + 900, 2), (700, 1), (4000 + 200, 2)], 'sums and counts')
    equal((snapshot.losses['negative'], snapshot.losses['matched']), (1, 8), 'negative, matched')


@test
def a_time_that_cannot_be(work):
    """A record with the time of another age is passed over, and holds nothing else up."""
    for time in (2**64 - 1, 2**63, 2**62):
        load = workload(83)
        ev = find(load.events, 'P')
        ev.time = time
        trace = Bytes(load.events)
        path = work.file('t', trace.data)
        snapshot, sentences = damaged('-i', path)
        one_sentence(sentences, path, f'offset {trace.at[ev]}')
        truth = load.truth()
        check_histograms(snapshot, truth)
        equal(snapshot.losses['matched'], truth.losses['matched'], 'matched')


@test
def events_of_unknown_kinds(work):
    load = workload(84, unknown=True, scenes=(('plain', 2), ('noise', 1)))
    n = sum(ev.kind == 'unknown' for ev in load.events)
    assert n > 1
    trace = Bytes(load.events)
    path = work.file('t', trace.data)
    snapshot, sentences = damaged('-i', path)
    one_sentence(sentences, path, f'offset {trace.at[find(load.events, "unknown", 0)]} ', '99', f'{n} such')
    check(snapshot, load.truth())


@test
def begun_and_cut_in_mid_flight(work):
    """Any piece of a trace is a trace: nothing is wrong with it, and every event is accounted for."""
    load = workload(85)
    for first, last in ((100, 2000), (1500, 1700), (1234, 4321)):
        events = load.events[first:last]
        snapshot = show('-i', work.file('t', Bytes(events).data))
        equal(snapshot.losses['events'], last - first, 'events')
        check_losses(snapshot, Truth(load, events), set(snapshot.losses) - {
            'events', 'notify', 'no_request', 'passthrough', 'stacked', 'unknown', 'lost'})


@test
def what_is_no_trace(work):
    empty = work.file('empty', b'')
    snapshot, sentences = damaged('-i', empty)
    one_sentence(sentences, empty, 'empty', 'offset 0')
    equal(snapshot.losses['events'], 0)
    text = work.file('text', '  8,0    3        1     0.000000000   225  Q  RS 0 + 8 [python3]\n'
                             '  8,0    3        2     0.000259696   225  G  RS 0 + 8 [python3]\n')
    _, sentences = damaged('-i', text)
    one_sentence(sentences, text, 'text', 'offset 0', 'blktrace', 'blkparse -d')
    refused('show', '-i', work.directory, words=[work.directory, 'directory'])
    refused('show', '-i', work.path('none'), words=[work.path('none'), 'No such file'])
    refused('show', '-i', '/dev/null', words=['/dev/null'])
    refused('watch', '-i', work.directory, words=[work.directory, 'directory'])


@test
def one_bad_file_of_several(work):
    """The others are read."""
    load = workload(86)
    paths = generate.write_per_cpu(work.path('t'), load.events, CPUS)
    for name, content, words in (('text', b'8,0 3 1 0.000000000 225 Q RS 0 + 8 [x]\n', ['text']),
                                 ('zeroes', bytes(5000), ['offset 0'])):
        bad = work.file(name, content)
        snapshot, sentences = damaged('-i', bad, work.path('t'))
        one_sentence(sentences, bad, *words)
        check(snapshot, load.truth())
    with open(paths[2], 'rb') as f:
        whole = f.read()
    work.file('t.blktrace.2', whole[:-1])
    _, sentences = damaged('-i', work.path('t'))
    one_sentence(sentences, paths[2], 'offset')


@test
def an_error_while_reading(work):
    """A file that can be opened, and not be read; the others are."""
    load = workload(87)
    path = work.file('t', Bytes(load.events).data)
    snapshot, sentences = damaged('-i', '/proc/self/mem', path)
    one_sentence(sentences, '/proc/self/mem', 'offset 0', 'Input/output error')
    check(snapshot, load.truth())


@test
def files_without_permission(work):
    path = work.file('t', b'')
    os.chmod(path, 0)
    # Root may read everything, so it is another user then.
    other = {} if os.geteuid() else {'user': USER}
    try:
        refused('show', '-i', path, words=[path, 'Permission denied'], **other)
    except PermissionError:
        raise Skip('the program is not for everybody') from None


@test
def byte_orders_and_versions_mixed(work):
    """Each file says its own; within one file only the first counts."""
    load = workload(88)
    formats = ((7, '<'), (7, '>'), (8, '<'), (8, '>'))
    for cpu, (version, order) in enumerate(formats):
        generate.write_merged(work.path(f't.blktrace.{cpu}'), [ev for ev in load.events if ev.cpu == cpu],
                              version=version, order=order)
    check(show('-i', work.path('t')), load.truth())
    half = len(load.events) // 2
    data = Bytes(load.events[:half]).data
    path = work.file('mixed', data + b''.join(ev.pack(7, '>') for ev in load.events[half:]))
    snapshot, sentences = damaged('-i', path)
    one_sentence(sentences, path, f'offset {len(data)},')
    check(snapshot, load.truth(load.events[:half]))


@test
def watch_says_it_too(work):
    load = workload(89)
    trace = Bytes(load.events)
    ev = find(load.events, 'P')
    trace.data[trace.at[ev]] ^= 0x40
    path = work.file('t', trace.data)
    r = run('watch', '-i', path, '1s', status=1)
    one_sentence([line for line in r.stderr.splitlines() if not line.startswith('Note: ')], path, trace.at[ev])
    assert r.stdout.count('\n') > 10, r.stdout


if __name__ == '__main__':
    main()
