#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
`blkhist record` and blktrace, the program, at once, with the collector: the same events, and the same histograms.

Event by event, of one kind and place, on the same CPU and by the same process, there are as many in both, with the
same category, error and payload. What blktrace has and a recorder has not: S, which no -a asks for, as newer kernels
have none. What a recorder has and blktrace has not: forced writes on kernels whose version 7 lacks them; there it is
compared with version 8.

Times are taken by each for itself, one after the other: most are within NEAR of each other. In an emulator one of
every FAR may be farther away. Since 7.0 a task can go on on another CPU between the two, which is rare.
"""
import collections
import functools
import itertools
import time

from blktrace import (LACKS_FORCED, Blktrace, Both, Version8, a_null_blk, a_scsi_debug, an_nvme, everything,
                      flushes, forced_write, partitions, with_one_head)
from comparison import FAR, MS, RARE, RELEASE, US, Comparison, blkparse_totals, events_of
from lib import KIB, MIB, OPS, between, equal, first_sector, main, read_file, show, test, write_file
from machine import (HOST_BUSY, SCSI_DEBUG, TRANSPORT_ERROR, device_mapper, disk_by_serial, in_parallel, injecting,
                     load, null_blk)
from recorder import Recorder, Slow, gaps, in_order

NEAR = 100 * US

# What -a queue, issue and complete of blktrace mean, which are masks.
OF_MASKS = 'queue,remap,get,merge,insert,plug,issue,complete'


class Together:
    """A trace, and a recorder within it, of the same disk."""

    def __init__(self, env, trace, *args):
        self.trace, self.device, self.path = trace, trace.device, trace.path
        self.recorder = Recorder(env, trace.device, *(args or ('-a', 'all')))

    def __enter__(self):
        self.trace.__enter__()
        self.recorder.__enter__()
        return self

    def __exit__(self, *exc):
        self.recorder.__exit__(*exc)
        self.trace.__exit__(*exc)


# --- event by event ---

LEFT_OUT = {'S'}
CAN_MOVE = RELEASE >= (7, 0)


def what(e):
    """What is the same for both; of version 8 what version 7 has room for."""
    return e.kind, e.sector, e.bytes, e.category & 0xffff, e.pid, e.error, e.payload


def differences(ours, theirs, key):
    differ = collections.Counter(map(key, ours))
    differ.subtract(collections.Counter(map(key, theirs)))
    return sorted((k, n) for k, n in differ.items() if n)


def check_events(together):
    theirs = [e for e in events_of(together.path).all if e.kind not in LEFT_OUT]
    ours = together.recorder.read().all
    differ = differences(ours, theirs, what)
    equal(differ[:20], [], f'{len(ours)} events of ours less {len(theirs)} of blktrace, {len(differ)} differ')
    moved = differences(ours, theirs, lambda e: (what(e), e.cpu))
    between(0, len(moved), 2 * (1 + len(ours) // RARE) if CAN_MOVE else 0, f'events on another CPU: {moved[:20]}')
    check_times(ours, theirs)
    equal((gaps(together.recorder.files()), together.recorder.lost), (0, 0), 'gaps and lost')
    return collections.Counter(e.kind for e in ours)


def check_times(ours, theirs):
    """Of those that are alike, the first and the first, and so on."""
    rows = collections.defaultdict(lambda: ([], []))
    for i, events in enumerate((ours, theirs)):
        for e in events:
            rows[what(e)][i].append(e.time)
    distances = [a - b for one, other in rows.values() for a, b in zip(sorted(one), sorted(other))]
    far = [d for d in distances if abs(d) > NEAR]
    between(0, len(far), 2 + len(distances) // FAR, f'events with times far from each other: {far[:10]}')
    print(f'# traces: {len(distances)} events, {sum(distances) / len(distances) / US:.1f} us later on average, '
          f'{len(far)} are far away')


def check_histograms(together):
    """What show makes of both."""
    theirs, ours = (show('-i', path, '--start', 'get') for path in (together.path, together.recorder.path))
    equal(set(ours.hists), set(theirs.hists), 'histograms')
    for key, h in theirs.hists.items():
        if key[1] != 'seek':
            equal((ours.hists[key].by_size(), ours.hists[key].bytes), (h.by_size(), h.bytes), f'{key}')
        else:
            equal(ours.hists[key].count, h.count, f'{key}')
    losses = [{k: n for k, n in s.losses.items() if k not in ('events', 'notify')} for s in (ours, theirs)]
    equal(losses[0], losses[1], 'losses')


def check_summary(together):
    """That of blkparse."""
    equal(blkparse_totals(together.recorder.path), blkparse_totals(together.path), 'summaries of blkparse')


def check_all(env, device, scheduler):
    device.scheduler(scheduler)
    env.callback(device.queue, 'max_sectors_kb', device.queue('max_sectors_kb'))
    device.queue('max_sectors_kb', 64)
    parts = partitions(env, device)
    with Both(env, Together(env, Blktrace(env, device))) as both:
        everything(env, device, parts, not LACKS_FORCED)
    kinds = check_events(both.trace)
    assert set('QGMFDCXAP') <= set(kinds) and {'U', 'T'} & set(kinds), kinds
    check_histograms(both.trace)
    check_summary(both.trace)
    path = both.trace.recorder.path
    snapshot = Comparison(both, path=path).check(events_of(path))
    equal(snapshot.names(), {device.name, *parts}, 'names')


def all_events_test(make, scheduler):
    def run(env):
        check_all(env, make(), scheduler)
    run.__name__ = f'all_events_of_{make.__name__}_with_{scheduler.replace("-", "_")}'
    test(run)


for _make, _scheduler in ((a_null_blk, 'none'), (a_null_blk, 'mq-deadline'), (a_scsi_debug, 'mq-deadline'),
                          (an_nvme, 'none')):
    all_events_test(_make, _scheduler)


@test
def masks_of_blktrace(env):
    """Of the disk alone: beside D a recorder has the partition, if A is not asked for."""
    device = a_null_blk()
    for masks, events in ((('issue', 'complete'), 'issue,complete'), (('queue', 'issue', 'complete'), OF_MASKS)):
        with Both(env, Together(env, Blktrace(env, device, *masks), '-a', events)) as both:
            load(env, device.name, jobs=3)
            flushes(env, device.path, 60 * MIB, False)
        check_events(both.trace)
        check_histograms(both.trace)
        check_summary(both.trace)


def check_kept(kept, events):
    """
    Until a request ends only some of its events are kept; those of many requeues are not, and counted as lost.
    @events are all since Both has begun, with the read that it does then. Of the two recorders one is always
    the first to read the clock, and in emulation that can be milliseconds before the other.
    """
    begun = itertools.dropwhile(lambda e: e.sector != events[0].sector, kept.read().all)
    ours = collections.Counter(map(what, begun))
    equal(ours - collections.Counter(map(what, events)), collections.Counter(), 'recorded of slow ones only')
    missing = collections.Counter(map(what, events)) - ours
    equal(sum(missing.values()), kept.lost, f'lost, and what is not recorded: {missing}')
    equal(gaps(kept.files()) + kept.at_end, kept.lost, 'gaps')


@test
def requeues(env):
    for opts in (TRANSPORT_ERROR, HOST_BUSY):
        device = a_scsi_debug()
        device.scheduler('mq-deadline')
        device.queue('nomerges', 2)
        env.callback(device.queue, 'nomerges', 0)
        with Slow(env, '--min-time', '1ns', '-r', '1000000', device.name) as slow, \
                Recorder(env, device, '--min-time', '1ns', '-a', 'insert,issue,requeue,complete') as kept, \
                Both(env, Together(env, Blktrace(env, device))) as both, injecting(opts, 5):
            load(env, device.name, jobs=2, discard=False)
        kinds = check_events(both.trace)
        check_kept(kept, [e for e in both.trace.recorder.read().all if e.kind in 'IDRC'])
        assert kinds['R'] >= 7, kinds
        check_histograms(both.trace)
        check_summary(both.trace)
        equal(sum(row['requeues'] for row in slow.rows), kinds['R'], 'requeues that slow shows')
        of_place = collections.Counter((e.op, e.sector) for e in both.trace.recorder.read().of('R'))
        for row in slow.rows:
            if row['bytes']:
                equal(row['requeues'], of_place.get((row['op'], row['sector']), 0), f'requeues of {row}')


@test
def forced_writes(env):
    """Those that version 7 lacks, too."""
    for device, itself in ((an_nvme(), True), (disk_by_serial(env, 'virtio'), False)):
        device.scheduler('none')
        with_one_head(device)
        trace = Version8(env, device) if LACKS_FORCED else Blktrace(env, device)
        with Slow(env, '--min-time', '1ns', '-r', '1000000', device.name) as slow, \
                Both(env, Together(env, trace)) as both:
            flushes(env, device.path, MIB, True)
            for i in range(6):
                forced_write(env, device.path, 8 * MIB + i * MIB)
        check_events(both.trace)
        check_histograms(both.trace)
        events = both.trace.recorder.read()
        forced = {e.sector for e in events.of('Q') if e.has('FUA')}
        equal(len(forced), 10, 'forced bios')
        got = [row for row in slow.rows if row['bytes'] and row['sector'] in forced]
        equal(len(got), 10, 'forced writes that slow shows')
        equal({'fua' in row['flags'] for row in got}, {itself}, f'flags of {device.name}')
        Comparison(both, path=both.trace.recorder.path).check(events)


@test
def devices_without_requests(env):
    """Bios, and those of a disk below, which come from another device."""
    below = with_one_head(disk_by_serial(env, 'virtio'))
    below.queue('nomerges', 2)
    env.callback(below.queue, 'nomerges', 0)
    device = device_mapper(env, f'linear {below.path} 2048')
    with Both(env, Together(env, Blktrace(env, device))) as upper, \
            Both(env, Together(env, Blktrace(env, below))) as lower:
        load(env, device.name, jobs=2, discard=False)
        flushes(env, device.path, 24 * MIB, False)
    kinds = check_events(upper.trace)
    equal(kinds['Q'], kinds['C'], 'Q and C')
    check_events(lower.trace)
    for both, flush in ((upper, 'request'), (lower, 'service')):
        check_histograms(both.trace)
        path = both.trace.recorder.path
        Comparison(both, path=path).check(events_of(path), flush=flush, alone=False)


# --- slow requests ---

SLOW, LIMIT = 400, 200  # ms; what is not slow takes far less, even in an emulator


def work(env, *devices):
    """A load on several disks at once. Returns (device, operation, sector, bytes) of each, and what its calls took."""
    logs = {device.name: {op: [] for op in OPS} for device in devices}

    def run(device, job):
        disk = env.disk(device.path)
        for i in range(4):
            disk.read((i * 4 + job) * 256 * KIB, 4 * KIB)
            disk.write((i * 4 + job) * 256 * KIB + 128 * KIB, 16 * KIB)
        for op, log in disk.log.items():
            logs[device.name][op] += log
    in_parallel([functools.partial(run, device, job) for device in devices for job in range(4)])
    return {(name, op, offset // 512, size): ns for name, of in logs.items() for op, log in of.items()
            for offset, size, ns in log}


def doubtful(calls, slow):
    """Requests that are not meant to be slow, whose calls took so long that they may have been."""
    return {key for key, ns in calls.items() if key not in slow and ns >= LIMIT * MS}


def check_slow(rows, names, expected, unsure, beside_requests=True):
    """Exactly these, each once, in the order in which they ended."""
    got = [(row['device'], row['op'], row['sector'], row['bytes']) for row in rows if row['device'] in names]
    equal(len(set(got)), len(got), 'requests that are shown twice')
    equal(set(got) - unsure, set(expected), 'slow requests')
    times = [row['time_ns'] for row in rows]
    equal(times, sorted(times), 'order')
    for row in rows:
        assert row['request_ns'] >= LIMIT * MS, row
        equal(('service_ns' in row, 'queue_ns' in row), (beside_requests, beside_requests), f'times of {row}')


def check_recorded(recorder, names, kinds, expected, unsure):
    """Of each request that was slow, these kinds of events and no others, in the order of time."""
    for name in names:
        by_place = collections.defaultdict(list)
        for e in recorder.read(name).all:
            if e.kind not in 'PUTA':
                by_place[name, e.op, e.sector, e.bytes].append(e)
        got = {key: ''.join(e.kind for e in of) for key, of in by_place.items() if key not in unsure}
        equal(got, {key: kinds for key in expected if key[0] == name}, f'recorded of {name}')
        files = recorder.files(name)
        equal(gaps(files), 0, 'gaps')
        for of in files.values():
            in_order(of)


@test
def two_disks_of_which_one_is_slow(env):
    """Told by nothing but the time."""
    quick, slow_disk = (null_blk(env, queue_mode=2, irqmode=2, completion_nsec=ns, hw_queue_depth=16)
                        for ns in (100 * US, SLOW * MS))
    names = (quick.name, slow_disk.name)
    for device in (quick, slow_disk):
        device.scheduler('none')
    limit, both = f'{LIMIT}ms', ','.join(names)
    with Slow(env, '--min-time', limit) as slow, \
            Recorder(env, quick, '--min-time', limit, '-a', 'queue,get,issue,complete', names=both) as full, \
            Recorder(env, quick, '--min-time', limit, names=both) as default, \
            Recorder(env, quick, '--min-time', '3600s', '-a', 'all', names=both) as never:
        calls = work(env, quick, slow_disk)
    expected = {key for key in calls if key[0] == slow_disk.name}
    equal(len(expected), 32)
    unsure = doubtful(calls, expected)
    assert len(unsure) < 8, f'the machine is too slow for this: {unsure}'
    check_slow(slow.rows, names, expected, unsure)
    equal((slow.not_shown, slow.lost), (0, 0), 'not shown and lost')
    check_recorded(full, names, 'QGDC', expected, unsure)
    check_recorded(default, names, 'DC', expected, unsure)
    for name in names:
        equal([e for e in never.read(name).all if e.kind not in 'PUT'], [], f'recorded of {name} above an hour')
    for row in slow.rows:
        if row['device'] == slow_disk.name:
            between(SLOW * MS - 20 * MS, row['service_ns'], row['request_ns'], 'service time')
            equal(row['process'], read_file('/proc/self/comm'), 'process')
    snapshot = show('-i', f'{default.directory}/{slow_disk.name}')
    equal(snapshot.counts(slow_disk.name, 'service'), {'read': 16, 'write': 16}, 'service times')


@test
def a_mapped_device_whose_writes_are_slow(env):
    """It has bios only: their time is from Q to C."""
    below = disk_by_serial(env, 'virtio')
    device = device_mapper(env, f'delay {below.path} 2048 0 {below.path} 2048 {SLOW}')
    limit = f'{LIMIT}ms'
    with Slow(env, '--min-time', limit, device.name) as slow, \
            Recorder(env, device, '--min-time', limit, '-a', 'all') as full:
        calls = work(env, device)
    expected = {key for key in calls if key[1] == 'write'}
    unsure = doubtful(calls, expected)
    check_slow(slow.rows, (device.name,), expected, unsure, beside_requests=False)
    check_recorded(full, (device.name,), 'QC', expected, unsure)


@test
def scsi_debug_with_a_delay(env):
    """Slow from one moment on to another."""
    device = a_scsi_debug()
    device.scheduler('mq-deadline')
    disk, expected, unsure = env.disk(device.path), set(), set()
    with Slow(env, '--min-time', f'{LIMIT}ms', device.name) as slow:
        for i in range(15):
            is_slow = i % 5 == 3
            write_file(f'{SCSI_DEBUG}/ndelay', str((SLOW if is_slow else 1) * MS))
            time.sleep(0.05)
            disk.read(i * MIB, 4 * KIB)
            disk.write(i * MIB + 64 * KIB, 4 * KIB)
            for op, at in (('read', 0), ('write', 64 * KIB)):
                key = device.name, op, (i * MIB + at) // 512, 4 * KIB
                if is_slow:
                    expected.add(key)
                elif disk.log[op][-1][2] >= LIMIT * MS:
                    unsure.add(key)
        write_file(f'{SCSI_DEBUG}/ndelay', str(1 * MS))
    check_slow(slow.rows, (device.name,), expected, unsure)


@test
def a_partition_of_a_slow_disk(env):
    device = null_blk(env, queue_mode=2, irqmode=2, completion_nsec=SLOW * MS, hw_queue_depth=16)
    device.scheduler('none')
    one, other = partitions(env, device)
    start = first_sector(one)
    limit = f'{LIMIT}ms'
    with Slow(env, '--min-time', limit, one) as slow, \
            Recorder(env, device, '--min-time', limit, names=one) as recorder:
        disks = [env.disk(f'/dev/{name}') for name in (one, other, one)]
        in_parallel([functools.partial(disk.write, i * MIB, 4 * KIB) for i, disk in enumerate(disks)])
    expected = {(device.name, 'write', start + i * MIB // 512, 4 * KIB) for i in (0, 2)}
    check_slow(slow.rows, (device.name,), expected, set())
    equal({row['partition'] for row in slow.rows}, {one}, 'partitions')
    check_recorded(recorder, (device.name,), 'DC', expected, set())
    of = recorder.read().of('A')
    equal(sorted(e.remapped_from()[1] for e in of), [0, 2 * MIB // 512], 'A')


if __name__ == '__main__':
    main()
