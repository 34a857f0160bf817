#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Bounds can be set while it runs; no request is missing in the comparison with diskstats after it."""
from lib import (BIOS_KNOW_PARTITIONS, KIB, MIB, TIMED, blkhist, equal, main, on_every_kernel, refused, rounds, show, stale_pins, status,
                 test, verify)

COARSE = ('--time', '1ms,10ms,100ms', '--size', '4KiB,64KiB', '--seek', '-1,0,1')
FINE = ('--time', 'log2,1us..1s', '--size', 'log2,512..1MiB', '--seek', 'log2,1..1GiB')


def bounds(*args):
    """Name of a ladder: its bounds, as text."""
    return dict(line.split(' ', 1) for line in blkhist('buckets', *args).stdout.splitlines())


def shape(h):
    return h.data['bounds'], h.data.get('size_bounds')


@test
def default_and_own_bounds(env):
    loop, other = env.loop(), env.loop()
    env.start('--time', '1ms,2ms', '--size', '8KiB')
    equal(bounds()['time'], '1ms,2ms')
    equal(bounds(loop.name), bounds(), 'a device has the default')
    blkhist('buckets', loop.name, *COARSE)
    equal(bounds(loop.name), {'time': '1ms,10ms,100ms', 'size': '4KiB,64KiB', 'seek': '-1,0,1'})
    equal(bounds(other.name), bounds(), 'of this device only')
    blkhist('buckets', loop.path, '--time', '5ms')
    equal(bounds(loop.name), {'time': '5ms', 'size': '4KiB,64KiB', 'seek': '-1,0,1'}, 'the others stay')
    for device in (loop, other):
        disk = env.disk(device.path)
        for i in range(5):
            disk.read(i * MIB, 16 * KIB)
    snapshot = show()
    h = snapshot.get(loop.name, 'request', 'read')
    equal(shape(h), ([5000000], [4096, 65536]))
    equal(h.by_size(), {65536: 5})
    equal(snapshot.get(loop.name, 'seek').data['bounds'], [-1, 0, 1])
    equal(snapshot.get(loop.name, 'seek').by_bound(), {None: 4})
    equal(shape(snapshot.get(other.name, 'request', 'read')), ([1000000, 2000000], [8192]))
    equal(snapshot.get(other.name, 'request', 'read').by_size(), {None: 5})
    verify(loop.name, other.name)


@test
def partitions_have_the_bounds_of_their_disk(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    disks = {n: env.disk(f'/dev/{n}') for n in (loop.name, p1, p2)}
    disks[p1].read(0, 4 * KIB)
    blkhist('buckets', p1, *COARSE)  # by the name of either
    equal(show(loop.name).hists, {}, 'they begin anew')
    for name in disks:
        equal(bounds(name), bounds(loop.name), name)
        disks[name].read(0, 4 * KIB)
    snapshot = show(loop.name)
    for name, count in ((loop.name, 3), (p1, 1), (p2, 1)):
        h = snapshot.get(name, 'service', 'read')
        equal((shape(h), h.count), (([10**6, 10**7, 10**8], [4096, 65536]), count), name)
    equal(snapshot.losses['other_ladder'], 0)
    verify(loop.name, p1, p2)


@test
def a_partition_that_comes_later_has_them_too(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    blkhist('buckets', loop.name, *COARSE)
    for name in (p1, p2):  # first I/O after the change, and with nobody there
        env.disk(f'/dev/{name}').read(0, 4 * KIB)
    loop2 = env.loop()
    blkhist('buckets', loop2.name, *COARSE)
    late = loop2.partition(1, MIB, MIB)
    env.disk(f'/dev/{late}').read(0, 4 * KIB)
    blkhist('status')  # the next command, whichever, sees to it
    for name in (p1, p2, late):
        env.disk(f'/dev/{name}').read(0, 4 * KIB)
        equal(shape(show(name).get(name, 'request', 'read')), ([10**6, 10**7, 10**8], [4096, 65536]), name)
    verify(loop.name, p1, p2, loop2.name, late)


@test
def the_same_bounds_change_nothing(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for args in (('--time', bounds()['time']), ('--size', 'log2,512..1MiB'), COARSE, COARSE):
        disk.read(0, 4 * KIB)
        before = show(loop.name)
        blkhist('buckets', loop.name, *args)
        after = show(loop.name)
        if bounds(loop.name)['time'] == bounds()['time'] or args is COARSE and before.get(
                loop.name, 'request', 'read').data['bounds'][0] == 10**6:
            equal({k: h.data for k, h in after.hists.items()}, {k: h.data for k, h in before.hists.items()}, args)
        else:
            equal(after.hists, {}, 'other bounds begin anew')


@test
@on_every_kernel
def changes_under_load_lose_no_request(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    loop.queue('nomerges', 2)
    fio = env.mixed_load(p1, p2)
    for _ in rounds(12):
        for args in (COARSE, FINE):
            blkhist('buckets', loop.name, *args)
            snapshot = show(loop.name)
            for key, h in snapshot.hists.items():
                columns = 4 if args is COARSE else len(h.data['bounds']) + 1
                equal({len(row) for row in h.cells}, {columns}, f'columns of {key}')
    assert fio.running(), 'the load ended early'
    fio.interrupt()
    counts = fio.result()
    rows = {key: row['count'] + row['unseen'] for key, row in verify(loop.name, p1, p2).items()}
    for name in (p1, p2):
        for op, n in counts[name].items():
            if op != 'flush':
                extra = counts[name].get('flush', 0) if op == 'write' and BIOS_KNOW_PARTITIONS else 0
                equal(rows[name, op], n + extra, f'{name} {op}: we and fio')
    equal(rows[loop.name, 'flush'], counts[p1]['flush'], 'flushes')
    equal(stale_pins(), set(), 'pins that nothing refers to')


@test
def losses_survive_a_change(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for _ in range(5):
        disk.flush()
    before = show(loop.name).losses
    assert sum(before.values()), 'empty writes of flushes are noted'
    blkhist('buckets', loop.name, *COARSE)
    blkhist('buckets', loop.name, *FINE)
    equal({k: n for k, n in show(loop.name).losses.items() if k in ('unissued', 'no_issue')},
          {k: n for k, n in before.items() if k in ('unissued', 'no_issue')})
    verify(loop.name)


@test
def reset_and_change_together(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for i in range(1, 5):
        for _ in range(i):
            disk.read(0, 4 * KIB)
        blkhist('reset', loop.name)
        disk.read(0, 4 * KIB)
        equal([show(loop.name).get(loop.name, k, 'read').count for k in TIMED], [1] * 3, 'after a reset')
        blkhist('buckets', loop.name, *(COARSE if i % 2 else FINE))
        disk.read(0, 4 * KIB)
        equal([show(loop.name).get(loop.name, k, 'read').count for k in TIMED], [1] * 3, 'after a change')
    verify(loop.name)


@test
def refused_bounds_change_nothing(env):
    loop = env.loop()
    env.start()
    env.disk(loop.path).read(0, 4 * KIB)
    before = show(loop.name).data['histograms']
    for args, word in (((loop.name, '--time', '10'), '10'), ((loop.name, '--time', '2ms,1ms'), '1ms'),
                       ((loop.name, '--size', ','.join(f'{i}KiB' for i in range(1, 18))), '17KiB'),
                       ((loop.name, '--time', 'log3,1us..1s'), 'log3'), ((loop.name, '--seek', 'x'), 'x'),
                       ((loop.name, '--time', ''), None), (('--time', '1ms'), 'name'),
                       ((loop.name, 'another', '--time', '1ms'), 'another')):
        refused('buckets', *args, status=2, word=word)
    refused('buckets', 'nosuchdisk', '--time', '1ms', word='nosuchdisk')
    equal(show(loop.name).data['histograms'], before)
    equal(status()['losses']['other_ladder'], 0)


if __name__ == '__main__':
    main()
