#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""blkhist watch -i, and show -i of a pipe: intervals of the trace's own time, and of one that goes on."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time

import generate
from generate import MS, SECOND
from lib import Snapshot, between, equal
from traces import (CPUS, NVME, SDA, SDA1, SDA2, WALL, ZRAM, check, check_classes, main, rfc3339, run, test,
                    watch, workload)

ROW = re.compile(r'(\d\d:\d\d:\d\d) (\S+) +(read|write|discard|flush) +(\S+) +(\S+)(.*)')
DISKS = {generate.device_name(n) for n in (SDA, NVME, ZRAM)}
PARTITIONS = {generate.device_name(n) for n in (SDA1, SDA2)}


def rows(objects):
    """(interval, name, operation): what watch says."""
    return {(i, d['partition'] or d['device'], d['op']): d for i, o in enumerate(objects) for d in o['devices']}


def intervals(load, truth, length, names):
    """What ended in which interval: requests and bytes by (interval, name, operation)."""
    begin = load.first.time
    requests, size, services = {}, {}, {}
    for end, name, op, n_bytes, service_end in truth.ends:
        if name not in names:
            continue
        if op != 'flush':
            key = (end - begin) // length, name, op
            requests[key] = requests.get(key, 0) + 1
            if n_bytes:
                size[key] = size.get(key, 0) + n_bytes
        if service_end is not None:
            key = (service_end - begin) // length, name, op
            services[key] = services.get(key, 0) + 1
    return requests, size, services


@test
def intervals_add_up_to_the_whole(work):
    load = workload(51, begun_before=False)
    truth = load.truth()
    generate.write_merged(work.path('t'), load.events)
    span = load.last.time - load.first.time
    for length in (100 * MS, SECOND, 3700 * MS, 100 * SECOND):
        objects = watch('-i', work.path('t'), f'{length}ns', '-p')
        equal(len(objects), span // length + 1, 'intervals')
        requests, size, services = intervals(load, truth, length, DISKS | PARTITIONS)
        found = {k: v for k, v in rows(objects).items() if k[1] in DISKS | PARTITIONS}
        equal({k: d['request']['count'] for k, d in found.items() if d['request']}, requests, 'requests')
        equal({k: d['service']['count'] for k, d in found.items() if d['service']}, services, 'services')
        not_flush = {k: d for k, d in found.items() if k[2] != 'flush'}
        equal({k: d['requests'] for k, d in not_flush.items() if d['requests']}, requests, 'IOPS')
        equal({k: d['bytes'] for k, d in found.items() if d['bytes']}, size, 'bytes')
        for key, values in truth.values.items():
            name, kind, op = key
            if kind in ('request', 'service') and name in DISKS:
                got = [d[kind]['sum_ns'] for k, d in found.items() if k[1:] == (name, op) and d[kind]]
                equal(sum(got), sum(v for _, v in values), f'sum of {key}')
        for name, n in truth.losses.items():
            equal(sum(o['losses'][name] for o in objects), n, name)


@test
def the_times_of_intervals(work):
    load = workload(52)
    generate.write_merged(work.path('t'), load.events)
    objects = watch('-i', work.path('t'), '700ms')
    begin, end = load.first.time, load.last.time
    shift = WALL - load.begin
    for i, o in enumerate(objects):
        equal((o['schema'], o['source']), ('blkhist-watch/1', 'blktrace'))
        reached = min(begin + (i + 1) * 700 * MS, end + 1)  # the last one ends behind the last event
        equal(o['time'], rfc3339(reached + shift), f'end of interval {i}')
        equal(o['interval_ns'], reached - (begin + i * 700 * MS), f'length of interval {i}')


@test
def idle_intervals_and_count(work):
    """Nothing begins in seconds 4.2 to 6.9; what took long may end there."""
    load = workload(53, requeues=0, partials=0, begun_before=False)
    truth = load.truth()
    generate.write_merged(work.path('t'), load.events)
    requests, _, services = intervals(load, truth, SECOND // 10, DISKS)
    busy = {k[0] for k in (*requests, *services)}
    objects = watch('-i', work.path('t'), '100ms')
    equal({i for i, o in enumerate(objects) if o['devices']}, busy, 'intervals with I/O')
    assert len(objects) - len(busy) > 20, 'the test tests something'
    equal(watch('-i', work.path('t'), '100ms', '7'), objects[:7], 'the first seven')
    text = run('watch', '-i', work.path('t'), '100ms', '60').stdout.splitlines()
    equal(sum(line.endswith('no I/O') for line in text), len(set(range(60)) - busy), 'lines of idle intervals')
    found = [m for m in map(ROW.fullmatch, text) if m]
    equal(len(found), sum(len(o['devices']) for o in objects[:60]), 'lines of the others')
    assert max(map(len, text)) <= 100, text


@test
def what_is_watched(work):
    load = workload(54)
    generate.write_merged(work.path('t'), load.events)
    sda, sda1 = generate.device_name(SDA), generate.device_name(SDA1)
    for args, names, ops in (((), DISKS, {'read', 'write', 'discard', 'flush'}),
                             (('-d', sda), {sda}, {'read', 'write', 'discard', 'flush'}),
                             (('-d', f'{sda1},{sda}'), {sda1, sda}, {'read', 'write', 'discard', 'flush'}),
                             (('-d', sda, '-p'), {sda, sda1, generate.device_name(SDA2)},
                              {'read', 'write', 'discard', 'flush'}),
                             (('-o', 'discard'), {sda, generate.device_name(NVME)}, {'discard'})):
        found = rows(watch('-i', work.path('t'), '100s', *args))
        equal(({k[1] for k in found}, {k[2] for k in found}), (names, ops), f'{args}')
    r = run('watch', '-i', work.path('t'), '-d', 'none', status=1)
    assert "'none'" in r.stderr and f'{sda}, ' in r.stderr, r.stderr


@test
def chunks_of_cpus(work):
    """A stream that is half a second out of order has the same intervals."""
    load = workload(55)
    generate.write_merged(work.path('merged'), load.events)
    generate.write_chunked(work.path('chunked'), load.events, load.rng)
    equal(watch('-i', work.path('chunked'), '100ms', '-p'), watch('-i', work.path('merged'), '100ms', '-p'))


# --- pipes ---

def errors(text):
    return [line for line in text.splitlines() if not line.startswith('Note: ')]


class Feed:
    """Writes events to a pipe as time goes by, as blktrace does: each CPU's now and then."""

    def __init__(self, work, load, every=0.1):
        self.load = load
        self.every = every
        self.read_end, self.write_end = os.pipe()
        self.stop = threading.Event()
        work.callback(self.close)
        self.began = None
        self.thread = threading.Thread(target=self._run)

    def start(self):
        os.close(self.read_end)
        self.read_end = -1
        self.began = time.monotonic()
        self.thread.start()

    def _run(self):
        at, first, events = 0, self.load.first.time, self.load.events
        while at < len(events) and not self.stop.wait(self.every):
            now = first + int((time.monotonic() - self.began) * SECOND)
            chunk = []
            while at < len(events) and events[at].time < now:
                chunk.append(events[at])
                at += 1
            for cpu in range(CPUS):
                os.write(self.write_end, b''.join(ev.pack(7, '<') for ev in chunk if ev.cpu == cpu))

    def close(self):
        self.stop.set()
        if self.thread.is_alive():
            self.thread.join()
        for fd in (self.read_end, self.write_end):
            if fd >= 0:
                os.close(fd)
        self.read_end = self.write_end = -1


def lines_with_times(process, n, timeout=10):
    """The first n lines, and when each came."""
    lines, text = [], b''
    end = time.monotonic() + timeout
    while len(lines) < n:
        left = end - time.monotonic()
        assert left > 0 and select.select([process.stdout], [], [], left)[0], f'{len(lines)} of {n} lines came'
        got = os.read(process.stdout.fileno(), 65536)
        assert got, f'it ended after {len(lines)} of {n} lines: {process.stderr.read()}'
        *whole, text = (text + got).split(b'\n')
        lines += [(line.decode(), time.monotonic()) for line in whole]
    return lines


def short_load(seed, seconds=3):
    load = generate.Workload(seed, [generate.Device(SDA)], CPUS, wall=WALL)
    return load.tell(200, seconds=seconds, gap=None)


@test
def a_live_pipe(work):
    """A report comes soon after its interval, though more comes later, and they add up."""
    load = short_load(56)
    feed = Feed(work, load)
    process = work.spawn('watch', '-i', '-', '500ms', '-f', 'json', stdin=feed.read_end, stdout=subprocess.PIPE)
    feed.start()
    lines = lines_with_times(process, 5)
    for i, (_, when) in enumerate(lines):
        # What comes half a second late is waited for.
        between(0.5 * (i + 1) - 0.05, when - feed.began, 0.5 * (i + 1) + 1.9, f'interval {i}')
    feed.thread.join()
    os.close(feed.write_end)
    feed.write_end = -1
    rest, err = process.communicate(timeout=60)
    equal((process.returncode, errors(err.decode())), (0, []), 'exit status and errors')
    objects = [json.loads(line) for line in [*(line for line, _ in lines), *rest.decode().splitlines()]]
    truth = load.truth()
    for name in ('matched', 'unfinished', 'late'):
        equal(sum(o['losses'][name] for o in objects), truth.losses[name], name)
    got = {op: sum(d['requests'] for k, d in rows(objects).items() if k[2] == op) for op in ('read', 'write')}
    equal(got, {op: len(truth.values[generate.device_name(SDA), 'request', op]) for op in got}, 'requests')


@test
def a_pipe_that_pauses(work):
    """Nothing comes for a while: the interval is reported all the same, and the next ones are idle."""
    load = short_load(57, seconds=0.4)
    read_end, write_end = os.pipe()
    work.callback(os.close, write_end)
    process = work.spawn('watch', '-i', '-', '500ms', '-f', 'json', stdin=read_end, stdout=subprocess.PIPE)
    os.close(read_end)
    began = time.monotonic()
    os.write(write_end, b''.join(ev.pack(7, '<') for ev in load.events if ev.time < load.begin + SECOND // 2))
    (first, when), *_ = lines_with_times(process, 1)
    between(0, when - began, 2.5, 'seconds until the report')
    assert json.loads(first)['devices'], first
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    equal(process.returncode, 0, 'exit status')


def interrupted(work, command, load, n):
    """What a command says that is interrupted when it has read the first n events of a pipe."""
    read_end, write_end = os.pipe()
    work.callback(os.close, write_end)
    process = work.spawn(*command, stdin=read_end, stdout=subprocess.PIPE)
    data = b''.join(ev.pack(7, '<') for ev in load.events[:n])
    sent = 0
    while sent < len(data):
        sent += os.write(write_end, data[sent:sent + 65536])
    while select.select([read_end], [], [], 0)[0]:
        time.sleep(0.005)
    os.close(read_end)
    time.sleep(0.1)  # it has it, and looks at it
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


@test
def show_is_interrupted(work):
    """It shows what was read so far."""
    load = workload(58)
    n = len(load.events) // 2
    status, out, err = interrupted(work, ('show', '-i', '-', '-f', 'json'), load, n)
    equal((status, err), (0, ''), 'exit status and errors')
    snapshot = Snapshot(out)
    equal(snapshot.losses['events'], n, 'events')
    check_classes(snapshot.losses)
    assert snapshot.hists


@test
def watch_is_interrupted(work):
    load = workload(59)
    status, out, err = interrupted(work, ('watch', '-i', '-', '1s', '-f', 'json'), load, len(load.events))
    equal((status, errors(err)), (0, []), 'exit status and errors')
    assert len(out.splitlines()) > 5, out


@test
def progress_on_a_terminal(work):
    """While there is nothing to show yet; it is wiped out in the end."""
    load = workload(60)
    data = b''.join(ev.pack(7, '<') for ev in load.events)
    master, slave = pty.openpty()
    read_end, write_end = os.pipe()
    work.callback(os.close, master)
    process = work.spawn('show', '-i', '-', '-f', 'json', stdin=read_end, stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    os.close(read_end)
    text = b''
    with open(write_end, 'wb', buffering=0) as f:
        for at in range(0, len(data), 4096):
            f.write(data[at:at + 4096])
            if b'reading the trace: 0.' not in text and select.select([master], [], [], 0.1)[0]:
                text += os.read(master, 4096)
    assert b'reading the trace: 0.' in text, text
    out, _ = process.communicate(timeout=60)
    check(Snapshot(out), load.truth())
    assert os.read(master, 4096).endswith(b'\r\033[K'), 'it is left there'


@test
def nowhere_to_write(work):
    load = workload(62)
    generate.write_merged(work.path('t'), load.events)
    for command in (('show', '-i', work.path('t')), ('watch', '-i', work.path('t'), '1s')):
        with open('/dev/full', 'w') as full:
            process = work.spawn(*command, stdout=full)
            _, err = process.communicate(timeout=60)
        equal(process.returncode, 1, 'exit status')
        assert err.startswith(b'blkhist: ') and b'No space left' in err, err


@test
def the_reader_goes_away(work):
    """As head does: watch ends, and does not read the rest of a trace in vain."""
    load = workload(61)
    generate.write_merged(work.path('t'), load.events)
    read_end, write_end = os.pipe()
    process = work.spawn('watch', '-i', work.path('t'), '10ms', stdout=write_end)
    os.close(write_end)
    os.close(read_end)
    process.communicate(timeout=60)
    assert process.returncode in (1, -signal.SIGPIPE), process.returncode


if __name__ == '__main__':
    main()
