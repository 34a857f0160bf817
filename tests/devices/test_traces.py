#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Traces: one load at once under blktrace, the program, and under the collector gives the same histograms,
cell by cell (comparison.py says what that is). And the trace's have the totals that blkparse, blkiomon and btt
find in the same files. With bounds that no time comes near every cell is equal, and that is tested, too
(bounds_that_no_time_is_near).
"""
import contextlib
import fcntl
import json
import os
import platform
import struct
import subprocess
import time

from blktrace import (LACKS_FORCED, Batch, Blktrace, Both, Version8, a_null_blk, a_scsi_debug, an_nvme, everything,
                      flushes, forced_write, partitions, with_one_head)
from comparison import (MS, SAME_LOSSES, Comparison, btt, check_blkiomon, check_blkparse, check_service_times,
                        events_of)
from lib import (KIB, MIB, OPS, Skip, between, blkhist, command_line, equal, main, read_file, scratch, show, test,
                 write_file)
from machine import (HOST_BUSY, MEDIUM_ERROR, SCSI_DEBUG, SHORT_TRANSFER, TRANSPORT_ERROR, collect, device_mapper,
                     disk_by_serial, injecting, load, null_blk)
from records import Events


def check_everything(env, device, scheduler):
    device.scheduler(scheduler)
    env.callback(device.queue, 'max_sectors_kb', device.queue('max_sectors_kb'))
    device.queue('max_sectors_kb', 64)
    parts = partitions(env, device)
    with Both(env, Blktrace(env, device)) as both:
        everything(env, device, parts, not LACKS_FORCED)
    events = events_of(both.trace.path)
    snapshot = Comparison(both).check(events)
    equal(snapshot.names(), {device.name, *parts}, 'names')
    assert snapshot.losses['split'] >= 8, snapshot.losses
    check_service_times(events, snapshot, device.name)
    check_blkparse(both.trace, snapshot)


def everything_test(make, scheduler):
    def run(env):
        check_everything(env, make(), scheduler)
    run.__name__ = f'everything_on_{make.__name__}_with_{scheduler.replace("-", "_")}'
    test(run)


for _make, _scheduler in ((a_null_blk, 'none'), (a_null_blk, 'mq-deadline'), (a_scsi_debug, 'mq-deadline'),
                          (an_nvme, 'none')):
    everything_test(_make, _scheduler)


MARGIN = 4 * MS


def is_near(both, bounds):
    """Whether some time is near a bound."""
    ladder = ','.join(f'{b - MARGIN}ns,{b + MARGIN}ns' for b in bounds)
    snapshot = show('-i', both.trace.path, '--start', 'get', '--time', ladder)
    return any(sum(row[1::2]) for key, hist in snapshot.hists.items() if key[1] != 'seek' for row in hist.cells)


def check_exactly(env, device, bounds, function):
    """What is near a bound says nothing: it is the machine's, which others use, too."""
    ladder = ','.join(f'{b}ns' for b in bounds)
    collect()
    blkhist('buckets', device.name, '--time', ladder)
    for _ in range(4):
        with Both(env, Blktrace(env, device)) as both:
            function()
        if not is_near(both, bounds):
            break
    else:
        raise AssertionError('there were always times near the bounds')
    snapshot = Comparison(both, '--time', ladder).check(events_of(both.trace.path), exactly=True)
    used = {bound for op in OPS for bound in snapshot.get(device.name, 'request', op).by_bound()}
    assert len(used) >= 2, f'only these columns have anything: {used}'


@test
def bounds_that_no_time_is_near(env):
    """Requests of 20 ms that wait for each other, and delays of 20, 100 and 200 ms: every cell is equal."""
    device = with_one_head(null_blk(env, queue_mode=2, irqmode=2, completion_nsec=20 * MS, submit_queues=1,
                                    hw_queue_depth=1))
    device.scheduler('mq-deadline')
    device.queue('nr_requests', 16)
    device.queue('nomerges', 2)
    disk, batch = env.disk(device.path), Batch(env)
    check_exactly(env, device, [(10 + 20 * i) * MS for i in range(6)],
                  lambda: batch.write(disk.fd, 8 * KIB, [i * MIB for i in (1, 3, 5, 7)]))

    device = a_scsi_debug()
    disk = env.disk(device.path)
    env.callback(write_file, f'{SCSI_DEBUG}/ndelay', str(1 * MS))
    env.callback(blkhist, 'buckets', device.name, '--time', 'native:2,1us..16s')

    def delays():
        for ms in (20, 100, 200):
            write_file(f'{SCSI_DEBUG}/ndelay', str(ms * MS))
            for i in range(3):
                disk.read(i * MIB, 4 * KIB)
                disk.write(i * MIB + 512 * KIB, 64 * KIB)
        write_file(f'{SCSI_DEBUG}/ndelay', str(1 * MS))
    check_exactly(env, device, [10 * MS, 60 * MS, 150 * MS, 400 * MS], delays)


def sfdisk_dump(device, parts):
    """What `sfdisk -d` would print of them, if they were in a table on the disk."""
    lines = ['label: dos', f'device: {device.path}', 'unit: sectors', '']
    for name in parts:
        start, size = (read_file(f'/sys/class/block/{name}/{what}') for what in ('start', 'size'))
        lines.append(f'/dev/{name} : start={start:>12}, size={size:>12}, type=83')
    return '\n'.join(lines) + '\n'


@test
def smallest_masks(env):
    """Into a pipe. D and C give service time and seek distance, and blkiomon; with -a queue there is everything."""
    device = a_null_blk()
    parts = partitions(env, device)
    directory = scratch(env)
    dump = f'{directory}/dump'
    with open(dump, 'w', encoding='ascii') as f:
        f.write(sfdisk_dump(device, parts))
    for actions in (('issue', 'complete'), ('issue', 'complete', 'queue')):
        path = f'{directory}/{len(actions)}'
        with open(path, 'wb') as f, Both(env, Blktrace(env, device, *actions, stdout=f)) as both:
            everything(env, device, parts, False)
        events = Events(path)
        if 'queue' in actions:
            snapshot = Comparison(both, path=path).check(events)
            kinds = {'service', 'seek', 'request', 'queue'}
        else:
            snapshot = Comparison(both, '--partitions', dump, path=path).check(
                events, ('service', 'seek'), left={'unmatched_complete': both.live.losses['unissued']})
            kinds = {'service', 'seek'}
            check_blkiomon(path, [path], device.name)
        equal({kind for _, kind, _ in snapshot.hists}, kinds, f'kinds with {actions}')
        missing = [note for note in snapshot.data['notes'] if 'no request and queue time' in note]
        equal(len(missing), 0 if 'queue' in actions else 1, f'notes of what is missing: {snapshot.data["notes"]}')
        assert all('-a queue' in note for note in missing), missing
        check_service_times(events, snapshot, device.name)


@test
def times_of_btt(env):
    """
    Where nothing is merged or split: btt counts D2C once for each Q. Requeued or partial ones it takes as they
    come, and flushes, which have no Q, it leaves out.
    """
    device = a_null_blk()
    device.queue('nomerges', 2)
    env.callback(device.queue, 'nomerges', 0)
    with Blktrace(env, device) as trace:
        load(env, device.name, jobs=3)
    theirs = btt(trace.path)
    # By the major number, which is a dynamic one here, it may take the disk for one of dm.
    q2c = 'Q2Cdm' if 'Q2Cdm' in theirs else 'Q2C'
    for name, kind, start in (('D2C', 'service', 'get'), (q2c, 'request', 'queue')):
        snapshot = show('-i', trace.path, '--start', start)
        hists = [snapshot.get(device.name, kind, op) for op in OPS]
        n, total = sum(h.count for h in hists), sum(h.sum for h in hists)
        equal(n, 90, 'requests')
        equal(theirs[name][0], n, f'number of {name}')
        between(-1, theirs[name][1] - total / n, 1, f'mean {name} of btt less that of {kind} times, in ns')


def check_scsi_debug(env, opts, every, function, least):
    device = a_scsi_debug()
    device.scheduler('mq-deadline')
    device.queue('nomerges', 2)
    env.callback(device.queue, 'nomerges', 0)
    with Both(env, Blktrace(env, device)) as both, injecting(opts, every):
        function(device)
    events = events_of(both.trace.path)
    snapshot = Comparison(both).check(events)
    for loss, n in least.items():
        assert snapshot.losses[loss] >= n, f'{loss}: {snapshot.losses}'
    check_blkparse(both.trace, snapshot)
    return snapshot


@test
def requeues(env):
    """Of what was issued, and of what the host would not take: that is requeued several times, never issued."""
    for opts in (TRANSPORT_ERROR, HOST_BUSY):
        check_scsi_debug(env, opts, 5, lambda device: load(env, device.name, jobs=2, discard=False), {'requeued': 7})


@test
def partial_completions(env):
    """Half of it, and then the rest; or up to a bad sector, which may be the first one: then it is nothing."""
    def reads(device):
        disk = env.disk(device.path)
        for i in range(12):
            disk.read(i * MIB, 64 * KIB)
    check_scsi_debug(env, SHORT_TRANSFER, 3, reads, {'partial': 4, 'requeued': 4})

    def bad_sectors(device):
        disk = env.disk(device.path)
        for first in (0x1230, 0x1238, 0x1200):
            with contextlib.suppress(OSError):
                os.preadv(disk.fd, [memoryview(disk.buffer)[:64 * KIB]], first * 512)
    check_scsi_debug(env, MEDIUM_ERROR, 0, bad_sectors, {'partial': 3})


def check_lacking(both, n, itself):
    """@n forced writes that version 7 has nothing of, or not the beginning."""
    trace, name = Comparison(both).trace, both.device.name
    for kind, missing in (('request', n), ('service', n if itself else 0)):
        equal(trace.get(name, kind, 'write').count, both.live.get(name, kind, 'write').count - missing,
              f'writes with {kind} time')
    equal(trace.losses['unmatched_complete'], 0 if itself else n, 'their last C')
    equal(trace.losses['lost'], 0, 'nothing tells')


@test
def forced_writes(env):
    """
    Where the disk does them itself, and where the kernel makes a write and a flush of each: that is completed
    twice, with its data and once more without. On 6.19 and later version 7 lacks the first ones, and the
    beginning of the others.
    """
    for device, itself in ((an_nvme(), True), (disk_by_serial(env, 'virtio'), False)):
        equal(device.queue('fua'), '1' if itself else '0', f'{device.name} does them itself')
        with_one_head(device)
        with Both(env, Blktrace(env, device)) as both:
            flushes(env, device.path, MIB, False)
            for i in range(6):
                forced_write(env, device.path, 8 * MIB + i * MIB)
        if LACKS_FORCED:
            check_lacking(both, 6, itself)
        else:
            snapshot = Comparison(both).check(events_of(both.trace.path))
            check_blkparse(both.trace, snapshot, forced=0 if itself else 6)


BLKZEROOUT = 0x127f


@test
def version_8(env):
    """Which has the forced writes, and write-zeroes."""
    if not LACKS_FORCED:
        raise Skip(f'kernel {platform.release()} has version 7 only')
    device = an_nvme()
    device.scheduler('none')
    device.queue('max_sectors_kb', 64)
    with Both(env, Version8(env, device)) as both:
        everything(env, device, partitions(env, device), True)
        fcntl.ioctl(env.disk(device.path).fd, BLKZEROOUT, struct.pack('QQ', 640 * KIB, 128 * KIB))
    events = events_of(both.trace.path)
    snapshot = Comparison(both).check(events)
    assert snapshot.losses['split'] >= 8, snapshot.losses
    check_service_times(events, snapshot, device.name)


@test
def devices_without_requests(env):
    """A mapped device has bios only, and the remaps of the disk below are not those of partitions."""
    below = with_one_head(disk_by_serial(env, 'virtio'))
    below.queue('nomerges', 2)
    device = device_mapper(env, f'linear {below.path} 2048')
    with Both(env, Blktrace(env, device)) as upper, Both(env, Blktrace(env, below)) as lower:
        load(env, device.name, jobs=2, discard=False)
        flushes(env, device.path, 24 * MIB, False)
    snapshots = [Comparison(both).check(events_of(both.trace.path), flush=flush, alone=False)
                 for both, flush in ((upper, 'request'), (lower, 'service'))]
    for key in SAME_LOSSES:
        equal(sum(s.losses[key] for s in snapshots), upper.live.losses[key], key)


@test
def live_pipe(env):
    """What happens is shown while it goes on, and nothing is missing in the end."""
    device = a_null_blk()
    device.scheduler('none')
    disk = env.disk(device.path)
    end, beginning = os.pipe()
    watch = subprocess.Popen(command_line('watch', '-f', 'json', '-i', '-', '1'), stdin=end, stdout=subprocess.PIPE)
    env.callback(watch.kill)
    os.close(end)
    os.set_blocking(watch.stdout.fileno(), False)
    lines, n, deadline = b'', 0, time.monotonic() + 60
    trace = Blktrace(env, device, 'issue', 'complete', stdout=beginning)
    with trace:
        os.close(beginning)
        while lines.count(b'\n') < 3:
            disk.read(n % 1024 * 4 * KIB, 4 * KIB)
            n += 1
            lines += watch.stdout.read() or b''
            assert time.monotonic() < deadline, 'nothing is shown'
        shown = lines.count(b'\n')
    os.set_blocking(watch.stdout.fileno(), True)
    lines += watch.stdout.read()
    equal(watch.wait(60), 0, 'exit status of watch')
    intervals = [[d['requests'] for d in json.loads(line)['devices'] if d['device'] == device.name]
                 for line in lines.splitlines()]
    assert sum(map(sum, intervals[:shown])), f'nothing is shown of the load: {intervals}'
    equal(sum(map(sum, intervals)), n, f'reads in {len(intervals)} intervals')


if __name__ == '__main__':
    main()
