#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What `blkhist record` writes: against the collector, /proc/diskstats, fio, and the programs that read such files."""
import collections
import contextlib
import json
import os
import subprocess
import threading
import time

import records
from comparison import (MS, RELEASE, Both, Comparison, blkparse_totals, btt, check_blkiomon, check_service_times,
                        events_of)
from delays import frozen_below, in_flight
from lib import (BIOS_KNOW_PARTITIONS, KIB, MIB, OPS, Snapshot, between, blkhist, command_line, difference, diskstats,
                 diskstats_bytes, equal, first_sector, main, on_cpu, on_every_kernel, read_file, scratch, show, test,
                 unseen)
from recorder import SMALL, Recorder, gaps, in_order
from tap import IN_VM

# Events of -a, and the letters that each means.
EVENTS = {'queue': 'Q', 'remap': 'A', 'split': 'X', 'get': 'G', 'merge': 'MF', 'insert': 'I', 'issue': 'D',
          'requeue': 'R', 'complete': 'C', 'plug': 'PUT'}


def device_number(name):
    device = os.stat(f'/dev/{name}').st_rdev
    return os.major(device) << 20 | os.minor(device)


def mixed(env, loop, p1, p2):
    """
    Reads, writes, flushes and discards, none of them merged, and never two of the same place at once, which
    nobody can tell apart afterwards. Returns what fio has counted. In a virtual machine they are few: the
    more there are, the more likely is one for which the kernel does not run a program.
    """
    loop.queue('nomerges', 2)
    size = 8 * MIB // (8 if IN_VM else 1)
    jobs = [dict(filename=f'/dev/{p1}', rw='randrw', bs='4k', iodepth=8, size=size, fsync=16),
            dict(filename=f'/dev/{p1}', rw='randrw', bs='16k', iodepth=4, offset=8 * MIB, size=size),
            dict(filename=f'/dev/{p2}', rw='randread', bs='4k', iodepth=16, size=size),
            dict(filename=f'/dev/{p2}', rw='randtrim', bs='64k', ioengine='psync', offset=8 * MIB, size=size),
            dict(filename=loop.path, rw='randrw', bs='512', iodepth=4, size=size // 32)]
    return env.fio(*jobs, norandommap=0).result()


def total(fio):
    """Of all devices together, by operation."""
    return {op: n for op, n in ((op, sum(of.get(op, 0) for of in fio.values())) for op in OPS) if n}


# --- histograms ---

@test
@on_every_kernel
def histograms_equal_the_collectors(env):
    """By default those that begin at D."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    with Both(env, Recorder(env, loop)) as both:
        fio = mixed(env, loop, p1, p2)
    equal(both.trace.lost, 0, 'lost')
    events = events_of(both.trace.path)
    empty = total(fio)['flush']
    # Of those of the disk itself there is no A, and so the end alone.
    snapshot = Comparison(both).check(events, ('service', 'seek'), alone=False,
                                      left={} if BIOS_KNOW_PARTITIONS else {'unmatched_complete': empty})
    equal(snapshot.losses['unissued'], empty if BIOS_KNOW_PARTITIONS else 0, 'empty writes')
    equal({kind for _, kind, _ in snapshot.hists}, {'service', 'seek'}, 'kinds')
    equal(snapshot.names(), {loop.name, p1, p2}, 'names')
    check_service_times(events, snapshot, loop.name)


@test
@on_every_kernel
def with_get_also_request_and_queue(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    with Both(env, Recorder(env, loop, '-a', 'get,issue,complete')) as both:
        fio = mixed(env, loop, p1, p2)
    equal(both.trace.lost, 0, 'lost')
    snapshot = Comparison(both).check(events_of(both.trace.path), alone=False)
    equal(snapshot.losses['unissued'], total(fio)['flush'], 'empty writes')
    equal(snapshot.names(), {loop.name, p1, p2}, 'names')


@test
@on_every_kernel
def single_requests_are_equal_cell_by_cell(env):
    """One after the other, so that nobody can see them in another order: seek distances are equal, too."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    disks = [env.disk(path) for path in (f'/dev/{p1}', f'/dev/{p2}')]
    with Both(env, Recorder(env, loop, '-a', 'get,issue,complete')) as both:
        for i in range(100):
            disks[i % 2].read(i * 97 % 25 * MIB, 4 * KIB)
            disks[i % 3 % 2].write(i * 31 % 25 * MIB + 64 * KIB, 16 * KIB)
    events = events_of(both.trace.path)
    snapshot = Comparison(both).check(events, alone=False)
    for name in (p1, p2):
        equal(snapshot.get(name, 'seek').by_bound(), both.live.get(name, 'seek').by_bound(), f'distances of {name}')
    equal(snapshot.get(loop.name, 'seek').sum, both.live.get(loop.name, 'seek').sum, 'sum of the distances')
    check_service_times(events, snapshot, loop.name)


# --- counts ---

def remaps(of, partitions):
    """
    Counts by partition and operation, by the A that stands before each D, and before the C of an empty write,
    which has no D ('empty'). @of are the records of a file in their order. Of the disk itself there is none.
    """
    starts = {device_number(name): (name, first_sector(name)) for name in partitions}
    counts, before = {name: collections.Counter() for name in partitions}, None
    for r in (r for r in of if not r.is_notify):
        if before and before.kind == 'A':
            assert before.has('FS'), f'{before} is of a bio'
            equal((r.time, r.sector, r.bytes, r.pid, r.device, r.op),
                  (before.time, before.sector, before.bytes, before.pid, before.device, before.op), 'D of an A')
            number, sector = before.remapped_from()
            name, start = starts[number]
            if r.kind == 'C' and not r.bytes:
                equal((sector, r.op), (0, 'write'), f'sector in {name}, and operation of an empty one')
                counts[name]['empty'] += 1
            else:
                equal(r.kind, 'D', f'what follows {before}')
                equal(sector, r.sector - start, f'sector in {name}')
                counts[name][r.op] += 1
        elif r.kind == 'D':
            assert not r.bytes or not any(start <= r.sector < start + sectors(name)
                                          for name, start in starts.values()), f'D of a partition without an A: {r}'
        before = r
    return counts


def sectors(partition):
    return int(read_file(f'/sys/class/block/{partition}/size'))


@test
@on_every_kernel
def counts_equal_those_of_diskstats_and_fio(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    before, bytes_before = diskstats(loop.name, p1, p2), diskstats_bytes(loop.name)
    with Recorder(env, loop) as recorder:
        fio = mixed(env, loop, p1, p2)
    rise = {name: difference(of, before[name]) for name, of in diskstats(loop.name, p1, p2).items()}
    equal(unseen(loop.name), {}, 'completions that the kernel showed to no program')
    files = recorder.files()
    equal((gaps(files), recorder.lost), (0, 0), 'gaps and lost')
    events = recorder.read()
    empty = {'write': total(fio)['flush']}
    equal(events.counts('C'), rise[loop.name], 'C and diskstats')
    equal(events.counts('D'), difference(rise[loop.name], empty), 'D and diskstats, without empty writes')
    equal(events.counts('D'), total(fio), 'D and fio')
    equal({op: sum(e.bytes for e in events.of('C') if e.op == op) for op in ('read', 'write', 'discard')},
          difference(diskstats_bytes(loop.name)[loop.name], bytes_before[loop.name]), 'bytes')
    of_partitions = collections.defaultdict(collections.Counter)
    for of in files.values():
        for name, counts in remaps(of, (p1, p2)).items():
            of_partitions[name] += counts
    for name in (p1, p2):
        expected = {'empty' if op == 'flush' else op: n for op, n in fio[name].items()}
        if not BIOS_KNOW_PARTITIONS:  # these are accounted to the disk then
            expected.pop('empty', None)
        equal(dict(of_partitions[name]), expected, f'A of {name}')
    equal(recorder.events, len(events.all), 'events, as said at the end')


@test
def without_a_collector(env):
    loop = env.loop()
    disk = env.disk(loop.path)
    env.start()
    blkhist('stop')
    with Recorder(env, loop) as recorder:
        for i in range(20):
            disk.read(i * MIB, 4 * KIB)
    events = recorder.read()
    equal(events.counts('D'), {'read': 20})
    between(19, events.counts('C')['read'], 20, 'C, of which the kernel may hide one')


# --- files ---

@test
@on_every_kernel
def what_a_record_says(env):
    """Of single reads on each CPU, whose time, process and place are known."""
    loop, p1, _ = env.two_partitions()
    env.start()
    disk, start = env.disk(f'/dev/{p1}'), first_sector(p1)
    calls = []
    began = time.time()
    with Recorder(env, loop, '-a', 'queue,get,issue,complete') as recorder:
        names = set(os.listdir(recorder.directory))
        for i in range(40):
            for cpu in sorted(os.sched_getaffinity(0)):
                with on_cpu(cpu):
                    before = time.monotonic_ns()
                    disk.read(len(calls) * 16 * KIB, 4 * KIB)
                    calls.append((cpu, before, time.monotonic_ns()))
    ended = time.time()
    files = recorder.files()
    equal((gaps(files), recorder.lost), (0, 0), 'gaps and lost')
    equal(names, {f'{loop.name}.blktrace.{cpu}' for cpu in range(len(files))}, 'files at the beginning')
    equal(set(os.listdir(recorder.directory)), names, 'files at the end')
    equal(set(files), set(range(len(files))), 'CPUs')
    assert len(files) >= os.cpu_count(), files.keys()
    everything = [r for of in files.values() for r in of]
    equal({r.device for r in everything if r.kind not in ('process', 'message')}, {device_number(loop.name)}, 'device')
    for of in files.values():
        in_order(of)

    by_sector = collections.defaultdict(list)
    for r in everything:
        if not r.is_notify and r.kind != 'A':
            by_sector[r.sector].append(r)
    equal(len(by_sector), len(calls), 'places')
    for i, (cpu, before, after) in enumerate(calls):
        of = sorted(by_sector[start + i * 16 * KIB // 512], key=lambda r: (r.time, 'QGDC'.index(r.kind)))
        equal(''.join(r.kind for r in of), 'QGDC', 'events of a read')
        times = [before, *(r.time for r in of), after]
        equal(times, sorted(times), 'their times, and those around the call')
        equal({(r.bytes, r.op, r.error) for r in of}, {(4 * KIB, 'read', 0)})
        equal({r.cpu for r in of[:3]}, {cpu}, 'CPU')
        equal({r.pid for r in of[:3]}, {os.getpid()}, 'process')

    check_notifies(files, began, ended)


def check_notifies(files, began, ended):
    """The wall clock first, and the name of a process before its first event."""
    notes = {kind: [r for of in files.values() for r in of if r.kind == kind] for kind in ('timestamp', 'process')}
    events = [r for of in files.values() for r in of if not r.is_notify]
    assert notes['timestamp'], 'nothing says what time it was'
    for note in notes['timestamp']:
        seconds, ns = note.native('II')
        wall = seconds * 10**9 + ns - note.time
        for e in events:
            between((began - 1) * 10**9, wall + e.time, (ended + 1) * 10**9, 'wall clock')
        assert note.time <= min(e.time for e in events), 'it is later than events'
    assert any(of and of[0].kind == 'timestamp' for of in files.values()), 'it is not first in any file'
    named = {note.pid: note.payload.rstrip(b'\0').decode() for note in notes['process']}
    for pid in {e.pid for e in events if e.kind in 'QD'}:
        assert pid in named, f'no name of process {pid}'
    equal(named[os.getpid()], read_file('/proc/self/comm'), 'own name')
    for note in notes['process']:
        later = [e.time for e in events if e.pid == note.pid]
        assert not later or note.time <= min(later), f'{named[note.pid]} is named late'


def alike(events, *kinds):
    """
    What is the same for everybody who sees these events; of all kinds if none is named. Since 7.0 a task can
    go on on another CPU from one program to the next.
    """
    return collections.Counter((e.kind, e.sector, e.bytes, e.category, e.cpu if RELEASE < (7, 0) else 0, e.pid,
                                e.payload, e.error) for e in events.all if not kinds or e.kind in kinds)


@test
def two_recorders_and_a_stream(env):
    """At once they have the same; a stream is in the order of time."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    path = f'{scratch(env)}/stream'
    with open(path, 'wb') as f:
        with Recorder(env, loop, '-a', 'all', stdout=f) as stream, Recorder(env, loop, '-a', 'all') as files:
            mixed(env, loop, p1, p2)
    equal((stream.lost, files.lost), (0, 0), 'lost')
    merged = records.read(path)
    equal(merged[0].kind, 'timestamp', 'the first of all')
    in_order(merged)
    named = {0: 'swapper'}
    for r in merged:
        if r.kind == 'process':
            named[r.pid] = r.payload.rstrip(b'\0').decode()
        elif not r.is_notify:
            assert r.pid in named, f'process {r.pid} has no name yet'
    equal({named[r.pid] for r in merged if r.kind == 'Q'}, {'fio'}, 'names of those that submit')
    by_cpu = collections.defaultdict(list)
    for r in merged:
        by_cpu[r.cpu].append(r)
    equal(gaps({cpu: of for cpu, of in by_cpu.items()}), 0, 'gaps')
    differ = alike(records.Events(path))
    differ.subtract(alike(files.read()))
    equal({k: n for k, n in differ.items() if n}, {}, 'in one only')
    assert {'Q', 'G', 'D', 'C', 'A'} <= {r.kind for r in merged}
    one, other = show('-i', path), show('-i', files.path)
    equal({k: h.count for k, h in one.hists.items()}, {k: h.count for k, h in other.hists.items()}, 'show')


@test
def into_show_and_watch(env):
    """Through a pipe, while it goes on."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    disk = env.disk(loop.path)
    readers, recorders = [], contextlib.ExitStack()
    for args in (('show', '-f', 'json', '-i', '-'), ('watch', '-f', 'json', '-i', '-', '1')):
        end, beginning = os.pipe()
        reader = subprocess.Popen(command_line(*args), stdin=end, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        env.callback(reader.wait)
        env.callback(reader.kill)
        readers.append(reader)
        os.close(end)
        recorders.enter_context(Recorder(env, loop, '-a', 'get,issue,complete', stdout=beginning))
        os.close(beginning)
    with recorders:
        fio = mixed(env, loop, p1, p2)
        time.sleep(1.5)
        disk.read(0, 4 * KIB)  # what shows that another second has begun
    outputs = [reader.communicate(timeout=60) for reader in readers]
    equal([reader.returncode for reader in readers], [0, 0], f'exit status: {outputs}')
    issued = {**total(fio), 'read': total(fio)['read'] + 1}
    ended = {**issued, 'write': issued['write'] + issued['flush']}
    snapshot = Snapshot(outputs[0][0])
    equal({op: snapshot.get(loop.name, 'service', op).count for op in OPS}, issued, 'service times')
    equal(difference(snapshot.counts(loop.name), ended), {'flush': -issued['flush']}, 'request times')
    lines = [json.loads(line) for line in outputs[1][0].splitlines()]
    assert len(lines) >= 2, 'one interval only'
    watched = sum(d['requests'] for line in lines for d in line['devices'] if d['device'] == loop.name)
    between(sum(issued.values()), watched, sum(ended.values()), f'requests in {len(lines)} intervals')


# --- other programs ---

READS, WRITES = ('read', 'flush'), ('write', 'discard')


def check_blkparse(path):
    """Its summary has as many of each kind as there are. A flush is a read for it, a discard is a write."""
    totals, events = blkparse_totals(path), events_of(path)
    for direction, ops in (('Read', READS), ('Write', WRITES)):
        for label, kinds in ((f'{direction}s Queued', 'Q'), (f'{direction} Dispatches', 'D'),
                             (f'{direction}s Completed', 'C'), (f'{direction} Merges', 'MF'),
                             (f'{direction}s Requeued', 'R')):
            of = [e for e in events.of(*kinds) if e.op in ops]
            equal(totals[label][0], len(of), f'{label} of blkparse, and {kinds}')
            if totals[label][1] is not None and kinds != 'MF':
                equal(totals[label][1], sum(e.bytes for e in of) // KIB, f'KiB of {label}')
    assert events.of('D') and events.of('C')


@test
def blkparse_reads_it(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    with Recorder(env, loop, '-a', 'all') as everything, Recorder(env, loop) as default:
        mixed(env, loop, p1, p2)
        merges_and_splits(env, loop, p1)
    for recorder in (everything, default):
        check_blkparse(recorder.path)


@test
def blkiomon_and_btt_read_it(env):
    """Into a pipe, as blkiomon wants it; btt wants Q."""
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    path = f'{scratch(env)}/stream'
    with open(path, 'wb') as f:
        with Recorder(env, loop, stdout=f) as stream, \
                Recorder(env, loop, '-a', 'queue,get,insert,issue,complete') as files:
            for i in range(60):
                disk.read(i * MIB, 4 * KIB)
                disk.write(i * MIB + 64 * KIB, 64 * KIB)
                disk.discard(i * MIB + 256 * KIB, 64 * KIB)
    equal((stream.lost, files.lost), (0, 0), 'lost')
    check_blkiomon(path, [path], loop.name)
    theirs = btt(files.path)
    for name, kind, start in (('D2C', 'service', 'get'), ('Q2C', 'request', 'queue')):
        snapshot = show('-i', files.path, '--start', start)
        hists = [snapshot.get(loop.name, kind, op) for op in OPS]
        n, sum_ns = sum(h.count for h in hists), sum(h.sum for h in hists)
        equal((theirs[name][0], n), (180, 180), f'number of {name}')
        between(-1, theirs[name][1] - sum_ns / n, 1, f'mean {name} of btt less that of {kind} times, in ns')


@test
def fio_replays_it(env):
    """
    On another disk it does as much, operation by operation and to the byte. What has discards in it fio replays
    through the page cache: then its own count has to do.
    """
    one, other = env.loop(), env.loop()
    env.start()
    path = f'{scratch(env)}/stream'
    for loop in (one, other):
        loop.queue('nomerges', 2)
    jobs = [dict(filename=one.path, rw='randrw', bs='4k', iodepth=8, size=8 * MIB),
            dict(filename=one.path, rw='randrw', bs='64k', iodepth=4, offset=16 * MIB, size=8 * MIB)]
    discards = dict(filename=one.path, rw='randtrim', bs='64k', ioengine='psync', offset=32 * MIB, size=8 * MIB)
    for load in (jobs, [*jobs, discards]):
        before, bytes_before = diskstats(one.name, other.name), diskstats_bytes(one.name, other.name)
        with open(path, 'wb') as f:
            with Recorder(env, one, '-a', 'queue,issue,complete', stdout=f):
                env.fio(*load, norandommap=0).result()
        fio = env.fio(dict(read_iolog=path, replay_redirect=other.path, replay_no_stall=1, iodepth=8))
        [replayed] = fio.result().values()
        rise, rise_bytes = ({name: difference(after, was[name]) for name, after in now.items()}
                            for now, was in ((diskstats(one.name, other.name), before),
                                             (diskstats_bytes(one.name, other.name), bytes_before)))
        equal(set(rise[one.name]), {'read', 'write', *(['discard'] if discards in load else [])}, 'operations')
        equal(replayed, rise[one.name], 'number')
        if discards not in load:
            equal(rise[other.name], rise[one.name], 'number of requests')
            equal(rise_bytes[other.name], rise_bytes[one.name], 'bytes of requests')


# --- filters ---

@test
@on_every_kernel
def by_device(env):
    loop, p1, p2 = env.two_partitions()
    other = env.loop()
    env.start()
    disks = {name: env.disk(f'/dev/{name}') for name in (loop.name, p1, p2, other.name)}
    numbers = {loop.name: 3, p1: 5, p2: 7, other.name: 11}
    wanted = {loop.name: 15, f'/dev/{loop.name}': 15, p1: 5, f'/dev/{p2}': 7, f'{p1},{p2}': 12,
              f'{p1},{other.name}': 16, f'{loop.name},{other.name}': 26, f'{loop.name},{p1}': 15}
    with contextlib.ExitStack() as stack:
        recorders = {names: stack.enter_context(Recorder(env, loop, *SMALL, names=names)) for names in wanted}
        for name, n in numbers.items():
            for i in range(n):
                disks[name].write(i * 16 * KIB, 4 * KIB)
    for names, recorder in recorders.items():
        disks_of = {loop.name} | ({other.name} if other.name in names else set())
        equal({name.split('.')[0] for name in os.listdir(recorder.directory)}, disks_of, f'disks of {names}')
        events = [e for name in disks_of for e in recorder.read(name).all]
        for kind in 'DC':
            equal(sum(e.kind == kind for e in events), wanted[names], f'{kind} with -d {names}')
        equal({e.device for e in events}, {device_number(name) for name in disks_of}, 'devices')
        if names in (p1, p2):
            start = first_sector(names)
            equal({e.sector for e in events}, {start + i * 32 for i in range(numbers[names])}, f'places in {names}')


@test
def all_devices(env):
    """Without -d; a disk has files from its first record on."""
    loop, idle = env.loop(), env.loop()
    env.start()
    disk = env.disk(loop.path)
    with Recorder(env, loop, names='') as recorder:
        disk.read(0, 4 * KIB)
    equal(recorder.read().counts('D'), {'read': 1})
    equal(set(recorder.files()), set(range(len(recorder.files()))), 'CPUs')
    assert not records.files(f'{recorder.directory}/{idle.name}'), 'files of a disk that did nothing'


@test
@on_every_kernel
def by_operation(env):
    loop, p1, _ = env.two_partitions()
    env.start()
    disk = env.disk(f'/dev/{p1}')
    choices = ('read', 'write', 'discard', 'flush', 'read,discard')
    with contextlib.ExitStack() as stack:
        recorders = {ops: stack.enter_context(Recorder(env, loop, *SMALL, '--op', ops)) for ops in choices}
        for i in range(10):
            disk.write(i * MIB, 4 * KIB)
            disk.read(i * MIB, 4 * KIB)
            if i < 7:
                disk.flush()
            if i < 5:
                disk.discard(i * MIB, 64 * KIB)
    issued = {'read': 10, 'write': 10, 'discard': 5, 'flush': 7}
    for ops, recorder in recorders.items():
        events = recorder.read()
        expected = {op: n for op, n in issued.items() if op in ops.split(',')}
        equal(events.counts('D'), expected, f'D with --op {ops}')
        # Empty writes, which are never issued, end.
        equal(events.counts('C'), {op: n + 7 * (op == 'write') for op, n in expected.items()}, f'C with --op {ops}')
        equal(gaps(recorder.files()), 0, 'gaps: what is left out has no number')


def merges_and_splits(env, loop, partition):
    """In such a way that there is something of every kind but R."""
    loop.queue('nomerges', 0)
    loop.queue('max_sectors_kb', 64)
    path, fewer = f'/dev/{partition}', 8 if IN_VM else 1
    env.fio(dict(filename=path, rw='write', bs='4k', iodepth=64, iodepth_batch=32, size=4 * MIB // fewer,
                 offset=2 * MIB),
            dict(filename=path, rw='read', bs='512k', iodepth=2, size=8 * MIB // fewer, offset=8 * MIB)).result()


@test
@on_every_kernel
def each_event_alone(env):
    """Each gives what all together have of its kind, and nothing else."""
    loop, p1, p2 = env.two_partitions()
    if 'mq-deadline' in loop.queue('scheduler'):
        loop.queue('scheduler', 'mq-deadline')
    env.start()
    with contextlib.ExitStack() as stack:
        everything = stack.enter_context(Recorder(env, loop, '-a', 'all'))
        recorders = {name: stack.enter_context(Recorder(env, loop, *SMALL, '-a', name)) for name in EVENTS}
        merges_and_splits(env, loop, p2)
        disk = env.disk(f'/dev/{p1}')
        for i in range(10):
            disk.read(i * MIB, 4 * KIB)
            disk.write(i * MIB + 64 * KIB, 4 * KIB)
            disk.flush()
    equal(everything.lost, 0, 'lost')
    whole = everything.read()
    equal({'U' if e.kind == 'T' else e.kind for e in whole.all} - {'I', 'F'}, set('QAXGMDCPU'), 'kinds')
    assert not any(e.has('FS') for e in whole.of('A')), 'A of a request beside those of bios'
    for name, recorder in recorders.items():
        equal(recorder.lost, 0, f'lost with -a {name}')
        events, letters = recorder.read(), EVENTS[name]
        differ = alike(events, *letters)
        differ.subtract(alike(whole, *letters))
        equal({k: n for k, n in differ.items() if n}, {}, f'-a {name}, and all')
        # Before 5.12 an empty write belongs to the disk, so that its C has no A.
        others = {e.kind for e in events.all} - set(letters)
        allowed = [{'A'}] if name == 'issue' else [set(), {'A'}] if name == 'complete' else [set()]
        assert others in allowed, f'with -a {name}: {others}'
        equal(gaps(recorder.files()), 0, f'gaps with -a {name}')
    equal(sum(sum(remaps(of, (p1, p2))[p1].values()) for of in recorders['issue'].files().values()), 20,
          'D of the partition')


# --- slow requests ---

@test
@on_every_kernel
def every_request_is_slow(env):
    """With a least time that all have, there is all that there is without: each event was kept, and then sent."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    kept = ('--min-time', '1ns')
    for events in ('all', 'get,issue,complete'):
        with Recorder(env, loop, '-a', events) as without, Recorder(env, loop, '-a', events, *kept) as least:
            mixed(env, loop, p1, p2)
            merges_and_splits(env, loop, p1)
        equal((without.lost, least.lost), (0, 0), 'lost')
        differ = alike(least.read())
        differ.subtract(alike(without.read()))
        differ = sorted((k, n) for k, n in differ.items() if n and k[0] not in 'PUT')
        equal(differ[:20], [], f'-a {events}: {len(differ)} with a least time less those without')
        for of in least.files().values():
            in_order(of)
        equal(gaps(least.files()), 0, 'gaps')


def slow_writes(env, top, freeze, thaw, places):
    """Writes of 4 KiB to (device, offset) that take 200 ms at least."""
    disks = [(env.disk(f'/dev/{name}'), offset) for name, offset in places]
    freeze()
    writers = [threading.Thread(target=disk.write, args=(offset, 4 * KIB)) for disk, offset in disks]
    try:
        for writer in writers:
            writer.start()
        while in_flight(top.name) < len(places):
            time.sleep(0.001)
        time.sleep(0.2)
    finally:
        thaw()
        for writer in writers:
            writer.join()


def quick_ones(env, name, begin):
    disk = env.disk(f'/dev/{name}')
    for i in range(10):
        disk.read(begin + i * 16 * KIB, 4 * KIB)
        disk.write(begin + i * 16 * KIB + 8 * KIB, 4 * KIB)


def span(events):
    """From the first to the last event, by place."""
    times = collections.defaultdict(list)
    for e in events.all:
        if e.kind not in 'PUT':
            times[e.op, e.sector].append(e.time)
    return {place: max(of) - min(of) for place, of in times.items()}


@test
@on_every_kernel
def only_slow_requests(env):
    """Exactly those, each with all its events, in the order of time. Each is at a place of its own."""
    with frozen_below(env, env.loop()) as (top, freeze, thaw):
        part = top.partition(1, MIB, 8 * MIB)
        env.start()
        limits = ('--min-time', '100ms')
        with Recorder(env, top, '-a', 'all') as everything, Recorder(env, top, '-a', 'all', *limits) as slow, \
                Recorder(env, top, *limits) as default, Recorder(env, top, '--op', 'read', *limits) as reads, \
                Recorder(env, top, '-a', 'all', '--min-time', '3600s') as never:
            quick_ones(env, part, 0)
            slow_writes(env, top, freeze, thaw, [(part, MIB), (part, MIB + 64 * KIB), (top.name, 10 * MIB)])
            quick_ones(env, part, 2 * MIB)
            slow_writes(env, top, freeze, thaw, [(top.name, 11 * MIB), (part, 4 * MIB)])
            quick_ones(env, top.name, 12 * MIB)
    whole = everything.read()
    spans = span(whole)
    start = first_sector(part)
    known = {('write', sector) for sector in (start + 2048, start + 2048 + 128, 20480, 22528, start + 8192)}
    places = {place for place, ns in spans.items() if ns >= 100 * MS}
    assert known <= places, f'slow are {known}, of {spans}'
    print(f'# {len(places - known)} were slow by themselves')
    doubtful = {place for place, ns in spans.items() if 95 * MS <= ns < 105 * MS}
    for recorder, kinds in ((slow, 'QAXGMFIDRC'), (default, 'DC')):
        events = recorder.read()
        got = {(e.op, e.sector) for e in events.all if e.kind in kinds}
        equal(got - doubtful, places - doubtful, 'slow requests')
        expected = alike_of(whole, kinds, got)
        equal(alike_of(events, kinds, got), expected, f'their events of {kinds}')
        equal((gaps(recorder.files()), recorder.lost), (0, 0), 'gaps and lost')
        for of in recorder.files().values():
            in_order(of)
    of_part = [e for e in default.read().of('A') if e.has('FS')]
    equal(sorted(e.sector for e in of_part if ('write', e.sector) in known),
          sorted(sector for _, sector in known if start <= sector < start + 8 * MIB // 512), 'A of the partition')
    for recorder in (never, reads):
        left = [e for e in recorder.read().all if e.kind not in 'PUT' and (e.op, e.sector) not in doubtful]
        equal([e for e in left if recorder is never or ('write', e.sector) in known], [], 'what is not slow')
    snapshot = show('-i', default.path)
    assert snapshot.get(top.name, 'service', 'write').count >= 5, 'show has them'


def alike_of(events, kinds, places):
    return collections.Counter((e.kind, e.sector, e.bytes, e.category, e.pid) for e in events.all
                               if e.kind in kinds and (e.op, e.sector) in places)


if __name__ == '__main__':
    main()
