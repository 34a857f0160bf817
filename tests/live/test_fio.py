#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Loads: our counts equal those of the load itself and those of diskstats, to the unit."""
import os
import shutil
import time

from lib import (BIOS_KNOW_PARTITIONS, KIB, MIB, TIMED, Skip, between, difference, diskstats, diskstats_bytes, equal,
                 main, on_every_kernel, rounds, show, test, unseen, verify)

EVERYWHERE = ('fio_mixed', 'fio_fsync_mq_deadline')

# Loads of one device: name, options. The numbers are such that all of them together take seconds.
LOADS = (
    ('read', dict(rw='randread', bs='4k', iodepth=32, io_size='64m')),
    ('write', dict(rw='randwrite', bs='8k', iodepth=16, io_size='64m')),
    ('mixed', dict(rw='randrw', bssplit='512/20:4k/40:16k/20:64k/15:256k/5', iodepth=8, io_size='96m')),
    ('serial', dict(rw='read', bs='16k', ioengine='psync', io_size='64m')),
    ('trim', dict(rw='trim', bs='64k', ioengine='psync', io_size='48m')),
    ('random trim', dict(rw='randtrim', bs='4k', ioengine='psync', io_size='16m')),
    ('fsync', dict(rw='randwrite', bs='4k', iodepth=4, fsync=8, io_size='16m')),
    ('jobs', dict(rw='randrw', bs='4k', iodepth=8, numjobs=4, io_size='16m')),
)


def check(snapshot, names, before, after, fio):
    """@fio has what the load did to each of @names; the first is the disk and has all of it."""
    total = {}
    for counts in fio.values():
        for op, n in counts.items():
            total[op] = total.get(op, 0) + n
    for name in names:
        rise = difference(after[name], before[name])
        missed = unseen(name)
        counted = difference(rise, missed)
        equal(snapshot.counts(name), counted, f'{name}: we and diskstats')
        expected = total if name == names[0] else {**fio.get(name, {}), 'flush': 0}
        # Each fsync is a flush of the disk, and an empty write of what it was called for.
        empty = {'write': (total if name == names[0] else fio.get(name, {})).get('flush', 0)}
        equal(difference(rise, empty), difference(expected, {}), f'{name}: diskstats and fio')
        for kind in TIMED[1:]:
            got = difference(difference(expected, snapshot.counts(name, kind)), {})
            equal(sum(got.values()) <= sum(missed.values()) and min(got.values(), default=0) >= 0, True,
                  f'{name}: {kind} times, {got} are missing and {missed} unseen')
    # Of all devices; nothing on this machine may be without counters or go uncounted.
    for loss in ('no_counters', 'no_slot'):
        equal(snapshot.losses[loss], 0, f'loss {loss}')


def check_bytes(snapshot, names, rise, fio):
    """As diskstats and fio have them; in every kind, and nothing for a flush."""
    for name in names:
        equal(difference(rise[name], {}), {op: n for op in ('read', 'write', 'discard') if (n := sum(
            b for key, b in fio.bytes.items() if key[1] == op and name in (key[0], names[0])))},
              f'{name}: bytes in diskstats and by fio')
        if unseen(name):
            continue  # how many bytes these had is not known
        for kind in TIMED:
            equal(snapshot.bytes(name, kind), difference(rise[name], {}), f'{name}: bytes, {kind}')


def run_load(env, loop, names, jobs, **options):
    """Without merging, so that what fio submits is what the device gets."""
    loop.queue('nomerges', 2)
    before, bytes_before = diskstats(*names), diskstats_bytes(*names)
    fio = env.fio(*jobs, **options)
    counts, snapshot = fio.result(), show(loop.name)
    check(snapshot, names, before, diskstats(*names), counts)
    after = diskstats_bytes(*names)
    check_bytes(snapshot, names, {n: difference(after[n], bytes_before[n]) for n in names}, fio)
    verify(*names)


def load_test(label, options, scheduler=None):
    def run(env):
        loop = env.loop()
        if scheduler:
            if scheduler not in loop.queue('scheduler'):
                raise Skip(f'the kernel has no {scheduler}')
            loop.queue('scheduler', scheduler)
        env.start()
        run_load(env, loop, [loop.name], [dict(filename=loop.path, **options)], size=loop.size)
    run.__name__ = 'fio_' + label.replace(' ', '_') + ('_' + scheduler.replace('-', '_') if scheduler else '')
    test(on_every_kernel(run) if run.__name__ in EVERYWHERE else run)


for _label, _options in LOADS:
    load_test(_label, _options)
# With a scheduler a request is known by another tag, and may wait.
load_test('mixed', LOADS[2][1], 'mq-deadline')
load_test('fsync', LOADS[6][1], 'mq-deadline')
load_test('jobs', LOADS[7][1], 'bfq')


@test
def partitions_and_disk_at_once(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    jobs = [dict(filename=f'/dev/{p1}', rw='randrw', bs='4k', iodepth=8, io_size='24m'),
            dict(filename=f'/dev/{p2}', rw='randread', bs='16k', iodepth=8, io_size='48m'),
            dict(filename=f'/dev/{p2}', rw='randwrite', bs='4k', iodepth=2, io_size='8m', fsync=32),
            # The disk itself: the first MiB, which no partition has.
            dict(filename=loop.path, rw='randrw', bs='512', iodepth=4, io_size='4m', size=MIB)]
    run_load(env, loop, [loop.name, p1, p2], jobs, size=20 * MIB)


@test
@on_every_kernel
def merging_and_splitting(env):
    """fio's I/O and the device's requests are not the same then; diskstats and we agree, and so do bytes."""
    loop = env.loop()
    loop.queue('max_sectors_kb', 64)
    loop.queue('nomerges', 0)  # the driver's default until 5.10 is not to
    env.start()
    before, bytes_before = diskstats(loop.name), diskstats_bytes(loop.name)
    fio = env.fio(dict(filename=loop.path, rw='write', bs='4k', iodepth=64, iodepth_batch=32),
                  dict(filename=loop.path, rw='read', bs='512k', iodepth=2), size=loop.size)
    counts = fio.result()[loop.name]
    rise, snapshot = difference(diskstats(loop.name)[loop.name], before[loop.name]), show(loop.name)
    equal(snapshot.counts(loop.name), difference(rise, unseen(loop.name)), 'we and diskstats')
    equal(rise['read'], counts['read'] * 8, 'reads of 512 KiB in pieces of 64')
    equal(snapshot.get(loop.name, 'service', 'read').by_size(),
          {64 * KIB: snapshot.counts(loop.name)['read']}, 'their size')
    assert rise['write'] < counts['write'], 'nothing was merged'
    check_bytes(snapshot, [loop.name], {loop.name: difference(diskstats_bytes(loop.name)[loop.name],
                                                              bytes_before[loop.name])}, fio)
    verify(loop.name)


@test
def iops_of_two_cpus_at_once(env):
    """As much as the machine gives: no update is lost between CPUs or to an interrupt."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    jobs = [dict(filename=f'/dev/{p}', rw='randread', bs='4k', iodepth=32, numjobs=2) for p in (p1, p2)]
    run_load(env, loop, [loop.name, p1, p2], jobs, size=16 * MIB, runtime=3)


def root_disk():
    """The disk below the root file system, if it is one that diskstats has and blk-mq serves."""
    device = os.stat('/').st_dev
    try:
        disk = os.path.realpath(f'/sys/dev/block/{os.major(device)}:{os.minor(device)}')
        if os.path.exists(disk + '/partition'):
            disk = os.path.dirname(disk)
        if os.path.isdir(disk + '/mq'):
            return os.path.basename(disk)
    except OSError:
        pass
    raise Skip('the root file system is not on a disk with request queues')


def big_file():
    """Something to read on the root disk."""
    for path in (shutil.which('fio'), shutil.which('python3'), '/bin/bash'):
        if path and os.stat(os.path.realpath(path)).st_dev == os.stat('/').st_dev \
                and os.path.getsize(path) > MIB:
            return os.path.realpath(path)
    raise Skip('no file of some size on the root disk')


@test
def interrupts_during_other_completions(env):
    """The root disk's interrupts meet completions of the loop device; nothing is lost to nesting."""
    disk, path = root_disk(), big_file()
    loop = env.loop()
    env.start()
    fio = env.fio(dict(filename=loop.path, rw='randread', bs='4k', iodepth=32, numjobs=2, size=loop.size),
                  # One at a time: nothing is merged, so that each is a request.
                  dict(filename=path, rw='randread', bs='4k', ioengine='psync', numjobs=4),
                  runtime=5, group_reporting=0)
    counts = fio.result()
    snapshot = show()
    seen = counts[loop.name]['read'] - unseen(loop.name).get('read', 0)
    equal(snapshot.counts(loop.name), {'read': seen}, 'loop device')
    # What is unseen is known to the unit only of a disk at rest, and this one is hardly ever.
    between(counts[os.path.basename(path)]['read'] * 0.999, snapshot.get(disk, 'request', 'read').count, 10**9, disk)
    verify(loop.name)
    equal(snapshot.counts(loop.name, 'service'), {'read': seen}, 'service times')
    for loss in ('no_slot', 'no_counters'):
        equal(snapshot.losses[loss], 0, f'loss {loss}')
    print('#', {k: snapshot.losses[k] for k in ('unseen', 'nested', 'recovered')})


@test
@on_every_kernel
def iostats_off(env):
    """Then the kernel accounts nothing, and may not say when a request began; we still count."""
    loop, p1, _ = env.two_partitions()
    env.start()
    disk = env.disk(loop.path)
    disk.read(0, 8 * KIB)  # the one that has no distance; later, two could be the first at once
    loop.queue('iostats', 0)
    loop.queue('nomerges', 2)
    fio = env.fio(dict(filename=f'/dev/{p1}', rw='randread', bs='4k', iodepth=8, io_size='16m', size='16m'),
                  dict(filename=loop.path, rw='write', bs='64k', ioengine='psync', size=MIB, io_size='1m')).result()
    snapshot = show(loop.name)
    reads, writes = fio[p1]['read'], fio[loop.name]['write']
    equal(snapshot.get(p1, 'service', 'read').by_size(), {4 * KIB: reads} if BIOS_KNOW_PARTITIONS else {},
          'reads of the partition')
    equal(snapshot.get(loop.name, 'service', 'read').by_size(), {4 * KIB: reads, 8 * KIB: 1}, 'reads of the disk')
    equal(snapshot.get(loop.name, 'service', 'write').by_size(), {64 * KIB: writes}, 'writes')
    equal(snapshot.get(loop.name, 'seek').count, reads + writes, 'distances')
    equal(snapshot.get(loop.name, 'request', 'read').count + snapshot.get(loop.name, 'request', 'write').count
          + snapshot.losses['no_start'], reads + writes + 1, 'request times, or known to be missing')
    loop.queue('iostats', 1)
    before = snapshot.get(loop.name, 'request', 'read').count
    for _ in range(10):
        disk.read(0, 4 * KIB)
    equal(show(loop.name).get(loop.name, 'request', 'read').count, before + 10, 'as before')


@test
@on_every_kernel
def started_in_the_middle_of_a_load(env):
    """Requests that were on their way at the start are counted as such, and verify allows for them."""
    loop = env.loop()
    for _ in rounds(4):
        fio = env.fio(dict(filename=loop.path, rw='randread', bs='4k', iodepth=32, numjobs=2), size=loop.size,
                      runtime=60)
        before = diskstats(loop.name)[loop.name]
        while difference(diskstats(loop.name)[loop.name], before).get('read', 0) < 1000:
            assert fio.running(), 'fio ended early'
        env.start()
        verify()
        time.sleep(0.3)
        fio.interrupt()
        fio.result()
        verify()
        snapshot = show(loop.name)
        without = snapshot.get(loop.name, 'request', 'read').count - snapshot.get(loop.name, 'service', 'read').count
        assert without >= 0, 'more service times than request times'
        # Of all devices: others may have had some on their way, but they are early too.
        between(without, snapshot.losses['early'], 10**9, 'early')
        for loss in ('no_issue', 'negative'):
            equal(snapshot.losses[loss], 0, loss)


if __name__ == '__main__':
    main()
