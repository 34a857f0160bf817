#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Single I/Os, one after the other: every cell is known beforehand."""
import os
import random

from lib import (KIB, MIB, TIMED, add_cells, blkhist, difference, diskstats, equal, first_sector, main,
                 on_every_kernel, row_bound, show, test, verify)

SIZES = (512, 1 * KIB, 4 * KIB, 4 * KIB + 512, 8 * KIB, 64 * KIB, 128 * KIB, 128 * KIB + 512, 512 * KIB)


def expected_rows(log, bounds):
    rows = {}
    for _, size, _ in log:
        bound = row_bound(bounds, size)
        rows[bound] = rows.get(bound, 0) + 1
    return rows


def check_against_log(snapshot, name, disk):
    """All counts of a device are what the log of the I/O says, in the rows of their sizes."""
    bounds = snapshot.get(name, 'request', 'read').data['size_bounds']
    for op in ('read', 'write', 'discard'):
        for kind in TIMED:
            # An fsync is a flush, and for the disk also a write of nothing that never reaches the device.
            empty = len(disk.log['flush']) if (op, kind) == ('write', 'request') else 0
            expected = expected_rows(disk.log[op] + [(0, 0, 0)] * empty, bounds)
            equal(snapshot.get(name, kind, op).by_size(), expected, f'{name} {op} {kind}')
    for kind in TIMED:
        h = snapshot.get(name, kind, 'flush')
        equal(h.count, len(disk.log['flush']), f'{name} flush {kind}')
        equal(len(h.cells), 1 if h.count else 0, 'a flush has one row')


def check_sums(snapshot, name, op):
    request, service, queue = (snapshot.get(name, kind, op) for kind in TIMED)
    equal(request.sums, [s + q for s, q in zip(service.sums, queue.sums)],
          f'{op}: request time is service time and queue time')


@test
@on_every_kernel
def counts_are_exact_by_size(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for i, size in enumerate(SIZES):
        for n in range(10 + i):
            disk.read(n * MIB, size)
        for n in range(7 + i):
            disk.write(n * MIB, size)
    snapshot = show(loop.name)
    check_against_log(snapshot, loop.name, disk)
    for op in ('read', 'write'):
        check_sums(snapshot, loop.name, op)
    equal(snapshot.names(), {loop.name}, 'devices shown')
    verify(loop.name)


@test
def bounds_are_inclusive(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for size, n in ((4 * KIB - 512, 1), (4 * KIB, 2), (4 * KIB + 512, 4)):
        for i in range(n):
            disk.read(i * MIB, size)
    equal(show(loop.name).get(loop.name, 'service', 'read').by_size(), {4 * KIB: 3, 8 * KIB: 4})


@test
@on_every_kernel
def discards_and_flushes_are_counted(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    disk.read(0, 4 * KIB)
    for n, size in enumerate((4 * KIB, 64 * KIB, MIB, MIB + 4 * KIB, 8 * MIB, 16 * MIB)):
        for i in range(n + 1):
            disk.discard(i * MIB, size)
    for _ in range(9):
        disk.flush()
    disk.write(0, 4 * KIB)
    snapshot = show(loop.name)
    check_against_log(snapshot, loop.name, disk)
    equal(snapshot.get(loop.name, 'request', 'discard').by_size()[None], 4 + 5 + 6, 'discards beyond 1 MiB')
    for op in ('discard', 'flush'):
        check_sums(snapshot, loop.name, op)
    equal(snapshot.losses['unissued'], 9, 'empty writes of the flushes')
    verify(loop.name)


@test
@on_every_kernel
def forced_writes_keep_their_size(env):
    """A forced write to a disk with a cache is data, then a flush, and only then complete."""
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    before = diskstats(loop.name)[loop.name]
    for i in range(7):
        os.pwritev(disk.fd, [memoryview(disk.buffer)[:64 * KIB]], i * MIB, os.RWF_DSYNC)
    done = difference(diskstats(loop.name)[loop.name], before)
    snapshot = show(loop.name)
    equal(snapshot.counts(loop.name), done, 'as in diskstats')
    # The kernel may add an empty write, for a flush of its own behind the data.
    empty = {512: done['write'] - 7} if done['write'] > 7 else {}
    equal(snapshot.get(loop.name, 'service', 'write').by_size(), {64 * KIB: 7}, 'service time of the data')
    equal(snapshot.get(loop.name, 'request', 'write').by_size(), {64 * KIB: 7, **empty}, 'request time')
    equal((snapshot.losses['unissued'], snapshot.losses['no_issue']), (done['write'] - 7, 0), 'losses')
    verify(loop.name)


@test
def bytes_are_exact(env):
    """Whatever is collected and however a request ends, each counts once; a reset is of one kind."""
    loop = env.loop()
    disk = env.disk(loop.path)
    for args, kinds in (((), TIMED), (('--kinds', 'service,seek'), ('service',)), (('--kinds', 'queue'), ('queue',))):
        env.start(*args)
        for i, size in enumerate(SIZES):
            disk.read(i * MIB, size)
        for i in range(5):  # in two steps: data, then flush
            os.pwritev(disk.fd, [memoryview(disk.buffer)[:64 * KIB]], i * MIB, os.RWF_DSYNC)
        disk.discard(0, 8 * MIB)
        disk.flush()
        expected = {'read': sum(SIZES), 'write': 5 * 64 * KIB, 'discard': 8 * MIB}
        for kind in kinds:
            equal(show(loop.name).bytes(loop.name, kind), expected, f'{args}: {kind}')
    env.start()
    disk.read(0, 64 * KIB)
    disk.write(0, 16 * KIB)
    blkhist('reset', '-k', 'service', '-o', 'read', loop.name)
    disk.read(0, 4 * KIB)
    snapshot = show(loop.name)
    equal(snapshot.bytes(loop.name, 'service'), {'read': 4 * KIB, 'write': 16 * KIB}, 'reset')
    for kind in ('request', 'queue'):
        equal(snapshot.bytes(loop.name, kind), {'read': 68 * KIB, 'write': 16 * KIB}, 'not reset')
    blkhist('reset', loop.name)
    loop.queue('iostats', 0)  # there may be no start stamp then, so no request time
    for i in range(3):
        disk.read(i * MIB, 8 * KIB)
        os.pwritev(disk.fd, [memoryview(disk.buffer)[:64 * KIB]], i * MIB, os.RWF_DSYNC)
    equal(show(loop.name).bytes(loop.name, 'service'), {'read': 24 * KIB, 'write': 192 * KIB}, 'iostats off')


@test
def every_time_ladder_and_kind_works(env):
    """Few bounds, and the most that are possible; only some kinds."""
    loop = env.loop()
    disk = env.disk(loop.path)
    many = ','.join(f'{i}us' for i in range(10, 10 + 128))
    for args, kinds in ((('--time', '1ns'), TIMED), (('--time', many, '--size', '4096'), TIMED),
                        (('--kinds', 'service,seek'), ('service',)), (('--kinds', 'request'), ('request',))):
        env.start(*args)
        for i in range(10):
            disk.read(i * MIB, 8 * KIB)
        snapshot = show(loop.name)
        for kind in TIMED:
            h = snapshot.get(loop.name, kind, 'read')
            equal(h.count, 10 if kind in kinds else 0, f'{args}: {kind}')
            if args == ('--time', '1ns') and kind != 'queue':
                equal(h.by_bound(), {None: 10}, 'nothing takes 1 ns')
        equal(snapshot.get(loop.name, 'seek').count, 9 if 'request' not in args else 0, 'seek')


@test
@on_every_kernel
def partitions_have_their_own_counts(env):
    """The whole disk is their sum and what was sent to it directly, cell by cell."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    disks = {name: env.disk(f'/dev/{name}') for name in (loop.name, p1, p2)}
    for name, n in ((p1, 11), (p2, 5), (loop.name, 3)):
        for i in range(n):
            disks[name].read(i * 64 * KIB, 4 * KIB)
            disks[name].write(i * 64 * KIB, 16 * KIB)
    disks[p1].discard(0, MIB)
    disks[p1].discard(MIB, MIB)
    disks[p2].discard(0, MIB)
    snapshot = show(loop.name)
    equal(snapshot.names(), {loop.name, p1, p2}, 'a disk shows its partitions')
    for name in (p1, p2):
        check_against_log(snapshot, name, disks[name])
    equal(snapshot.counts(loop.name), {'read': 19, 'write': 19, 'discard': 3}, 'whole disk')

    parts, whole = {}, {}
    for key, h in snapshot.hists.items():
        assert h.data['device'] == loop.name and (h.data['partition'] or loop.name) == key[0]
    for name, cells in ((loop.name, whole), (p1, parts), (p2, parts)):
        only = show(name)
        if name != loop.name:
            equal(only.names(), {name}, 'a partition shows itself only')
        only.hists = {(loop.name, *key[1:]): h for key, h in only.hists.items() if key[0] == name}
        add_cells(cells, only)
    direct = {k: n - parts.get(k, 0) for k, n in whole.items()}
    assert all(n >= 0 or k[1] == 'seek' for k, n in direct.items()), direct
    equal(sum(n for k, n in direct.items() if k[1:3] == ('service', 'read') and k[4] != 'sum'), 3, 'direct reads')
    equal(sum(n for k, n in direct.items() if k[1:3] == ('queue', 'write') and k[4] != 'sum'), 3, 'direct writes')
    assert not set(parts) - set(whole), 'a cell of a partition is missing in the disk'
    verify(loop.name, p1, p2)


@test
@on_every_kernel
def flush_of_a_partition_belongs_to_the_disk(env):
    """As in diskstats, operation by operation."""
    loop, p1, _ = env.two_partitions()
    env.start()
    before = diskstats(loop.name, p1)
    disk = env.disk(f'/dev/{p1}')
    disk.write(0, 4 * KIB)
    for _ in range(4):
        disk.flush()
    after, snapshot = diskstats(loop.name, p1), show(loop.name)
    equal(snapshot.counts(loop.name)['flush'], 4)
    for name in (loop.name, p1):
        equal(snapshot.counts(name), difference(after[name], before[name]), f'{name} as in diskstats')
    verify(loop.name, p1)


def expected_seeks(bounds, log):
    """Distances of a log of direct I/O to a device with one head: by bound, and their sum."""
    by_bound, total = {}, 0
    for (offset, size, _), (following, _, _) in zip(log, log[1:]):
        distance = (following - offset - size) // 512
        bound = row_bound(bounds, distance)
        by_bound[bound] = by_bound.get(bound, 0) + 1
        total += distance
    return by_bound, total


def check_seeks(env, offsets, size=4 * KIB):
    """One head is what a loop device has: it has one hardware queue."""
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for offset in offsets:
        disk.read(offset, size)
    h = show(loop.name).get(loop.name, 'seek')
    by_bound, total = expected_seeks(h.data['bounds'], disk.log['read'])
    equal(h.by_bound(), by_bound, 'distances')
    equal(h.sum, total, 'sum of the distances')
    return h


@test
def sequential_reads_have_distance_zero(env):
    equal(check_seeks(env, range(0, 4 * MIB, 4 * KIB)).by_bound(), {0: 1023}, 'all but the first')


@test
@on_every_kernel
def strides_forward_and_backward(env):
    # 4 KiB read and 128 sectors on: the gap is 120 sectors, in the bucket up to 128.
    equal(check_seeks(env, range(0, 100 * 64 * KIB, 64 * KIB)).by_bound(), {128: 99}, 'forward')
    # Backward from an end 8 sectors further: 136 sectors, the bucket -256 < d <= -128.
    equal(check_seeks(env, range(99 * 64 * KIB, -1, -64 * KIB)).by_bound(), {-128: 99}, 'backward')
    # Again and again the same block: 8 sectors back.
    equal(check_seeks(env, [MIB] * 50).by_bound(), {-8: 49}, 'the same place')


@test
def random_distances(env):
    rng = random.Random(1)
    check_seeks(env, [rng.randrange(0, 63 * MIB, 512) for _ in range(2000)])


@test
def seek_is_of_the_disk_and_in_the_partition_of_the_arriving_request(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    one, two = env.disk(f'/dev/{p1}'), env.disk(f'/dev/{p2}')
    gap = first_sector(p2) - first_sector(p1)
    for _ in range(10):
        one.read(0, 4 * KIB)  # from the other partition back, except for the first
        two.read(0, 4 * KIB)
        two.read(4 * KIB, 4 * KIB)
    snapshot = show(loop.name)
    equal((snapshot.get(p1, 'seek').count, snapshot.get(p1, 'seek').sum), (9, -9 * (gap + 16)), p1)
    equal((snapshot.get(p2, 'seek').count, snapshot.get(p2, 'seek').sum), (20, 10 * (gap - 8)), p2)
    equal(snapshot.get(p2, 'seek').by_bound()[0], 10, 'sequential within the second partition')
    equal(snapshot.get(loop.name, 'seek').count, 29, 'whole disk')


@test
def selection_by_kind_and_operation(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for i in range(5):
        disk.read(i * MIB, 4 * KIB)
        disk.write(i * MIB, 4 * KIB)
    everything = {(loop.name, kind, op) for kind in TIMED for op in ('read', 'write')} | {(loop.name, 'seek', 'all')}
    for args, expected in (((), everything),
                           (('-k', 'service'), {k for k in everything if k[1] == 'service'}),
                           (('-k', 'seek,queue'), {k for k in everything if k[1] in ('seek', 'queue')}),
                           (('-o', 'write'), {k for k in everything if k[2] == 'write'}),
                           (('-o', 'read', '-k', 'request,seek'), {(loop.name, 'request', 'read'),
                                                                  (loop.name, 'seek', 'all')}),
                           (('-o', 'flush'), set())):
        for name in (loop.name, loop.path):
            equal(set(show(*args, name).hists), expected, f'show {args} {name}')


@test
def total_is_the_sum_of_the_rows(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for size in SIZES:
        disk.read(0, size)
    rows, total = show(loop.name), show('--total', loop.name)
    equal(set(rows.hists), set(total.hists))
    for key, h in total.hists.items():
        equal(len(h.cells), 1, 'one row')
        equal(h.cells[0], [sum(column) for column in zip(*rows.hists[key].cells)], f'{key}')
        equal((h.count, h.sum), (rows.hists[key].count, rows.hists[key].sum), f'{key}')


@test
def text_has_what_json_has(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for i in range(1234):
        disk.read(0, 4 * KIB)
    for i in range(321):
        disk.write(0, 64 * KIB)
    text, snapshot = blkhist('show', loop.name).stdout, show(loop.name)
    titles = [line for line in text.splitlines() if line.startswith(loop.name)]
    equal(len(titles), len(snapshot.hists), 'tables')
    totals = [int(line.split()[1]) for line in text.splitlines() if line.split()[:1] == ['total']]
    equal(totals.count(1234), len(TIMED), 'tables of reads with their total')
    equal(totals.count(321), len(TIMED), 'tables of writes with their total')
    one_row = blkhist('show', '--total', '-k', 'service', '-o', 'read', loop.name).stdout
    labels = {line.split()[0] for line in one_row.splitlines() if line.startswith(' ')}
    assert 'all' in labels and '4KiB' not in labels, f'rows of --total: {labels}'


if __name__ == '__main__':
    main()
