#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A reset loses nothing and counts nothing twice, whatever runs meanwhile."""
from lib import (BIOS_KNOW_PARTITIONS, KIB, MIB, TIMED, Snapshot, add_cells, blkhist, difference, equal, main,
                 reset_print, rounds, show, status, test, unseen, verify)


def some_io(disk, n=10):
    for i in range(n):
        disk.read(i * MIB, 4 * KIB)
        disk.write(i * MIB, 8 * KIB)
    disk.discard(0, MIB)
    disk.flush()


def cells_of(snapshot, *names, rename=None):
    """Cells and sums of some devices, as one dict; @rename puts them under one name, added up."""
    chosen = Snapshot.__new__(Snapshot)
    total = {}
    for name in names:
        chosen.hists = {(rename or name, *key[1:]): h for key, h in snapshot.hists.items() if key[0] == name}
        add_cells(total, chosen)
    return total


def add(total, more):
    for key, n in more.items():
        total[key] = total.get(key, 0) + n


@test
def print_and_reset_under_load_adds_up(env):
    """Partitions are reset all the time, the disk never: cell by cell, the disk has their sum."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    loop.queue('nomerges', 2)
    fio = env.mixed_load(p1, p2)
    printed = {}
    for _ in rounds(12):
        for args in ((p1,), (p2,), ('-k', 'service,seek', p1), ('-o', 'read', p2), (p2, p1)):
            add(printed, cells_of(reset_print(*args), p1, p2, rename=loop.name))
    assert fio.running(), 'the load ended early'
    fio.interrupt()
    counts = fio.result()
    add(printed, cells_of(reset_print(p1, p2), p1, p2, rename=loop.name))
    whole = cells_of(show(loop.name), loop.name)
    # Flushes and their empty writes are of the disk alone, or of what they were called for, as in diskstats.
    whole = {k: n for k, n in whole.items() if n and k[2] != 'flush' and
             (BIOS_KNOW_PARTITIONS or k[2:4] != ('write', 512))}
    printed = {k: n for k, n in printed.items() if n}
    equal(printed, whole, 'printed in all, and never reset')
    total = {op: sum(c.get(op, 0) for c in counts.values()) for op in ('read', 'write', 'discard')}
    rest = difference(difference(total, show(loop.name).counts(loop.name, 'service')), unseen(loop.name))
    equal({op: n for op, n in rest.items() if op != 'flush'}, {}, 'what fio has done and we do not have')
    equal(show(p1, p2).hists, {}, 'everything is reset')
    verify(loop.name, p1, p2)


@test
def resets_of_the_disk_add_up(env):
    """The disk is reset by its name together with its partitions; all of them add up to the load."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    loop.queue('nomerges', 2)
    fio = env.fio(dict(filename=f'/dev/{p1}', rw='randrw', bs='4k', iodepth=8),
                  dict(filename=f'/dev/{p2}', rw='randread', bs='16k', iodepth=4), size=16 * MIB, runtime=2)
    printed = {}
    while fio.running():
        add(printed, cells_of(reset_print(loop.name), loop.name, p1, p2))
    counts = fio.result()
    add(printed, cells_of(reset_print(), loop.name, p1, p2))

    def of(name):
        return {k[1:]: n for k, n in printed.items() if k[0] == name and n}

    parts = {}
    add(parts, of(p1))
    add(parts, of(p2))
    equal(parts, of(loop.name), 'partitions and disk')
    for name in (p1, p2):
        for kind in TIMED:
            for op, n in counts[name].items():
                equal(sum(c for k, c in of(name).items() if k[:2] == (kind, op) and k[3] != 'sum'),
                      n - unseen(name).get(op, 0), f'{name} {kind} {op}')


@test
def only_what_is_selected_is_reset(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    disks = [env.disk(f'/dev/{n}') for n in (loop.name, p1, p2)]
    for disk in disks:
        some_io(disk)
    for args, gone in ((('-k', 'service', p1), lambda k: k[0] == p1 and k[1] == 'service'),
                       (('-k', 'seek', p2), lambda k: k[0] == p2 and k[1] == 'seek'),
                       (('-o', 'write', p2), lambda k: k[0] == p2 and k[2] == 'write'),
                       (('-k', 'queue', '-o', 'discard,read', p1),
                        lambda k: k[0] == p1 and k[1] == 'queue' and k[2] in ('discard', 'read')),
                       ((p1,), lambda k: k[0] == p1),
                       (('-k', 'request', loop.name), lambda k: k[1] == 'request'),
                       ((loop.path,), lambda k: True)):
        before = show(loop.name)
        printed = reset_print(*args)
        after = show(loop.name)
        equal({k: (h.data['counts'], h.bytes) for k, h in printed.hists.items()},
              {k: (h.data['counts'], h.bytes) for k, h in before.hists.items() if gone(k)},
              f'printed by reset {args}')
        equal({k: h.data for k, h in after.hists.items()},
              {k: h.data for k, h in before.hists.items() if not gone(k)}, f'left by reset {args}')
    verify(loop.name, p1, p2)


@test
def counting_goes_on_from_zero(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    sinces = []
    for i in range(1, 6):
        some_io(disk, i)
        h = show(loop.name).get(loop.name, 'request', 'read')
        equal(h.count, i)
        sinces.append(h.data['since'])
        blkhist('reset', '-o', 'read', loop.name)
        assert show(loop.name).get(loop.name, 'request', 'read').count == 0
    equal(sinces, sorted(set(sinces)), 'each reset is the beginning of what follows')
    equal(show(loop.name).get(loop.name, 'service', 'write').count, 1 + 2 + 3 + 4 + 5, 'writes were not reset')
    since = show(loop.name).get(loop.name, 'service', 'write').data['since']
    assert since < sinces[1], 'what was not reset keeps its beginning'
    verify(loop.name)


@test
def reset_without_anything_to_reset(env):
    loop = env.loop()
    env.start()
    equal(reset_print(loop.name).hists, {}, 'nothing was counted')
    disk = env.disk(loop.path)
    disk.read(0, 4 * KIB)
    equal(show(loop.name).get(loop.name, 'request', 'read').count, 1)
    equal(blkhist('reset', loop.name).stdout, '', 'without --print')
    equal(status()['partitions'] >= 1, True, 'partitions in use')


if __name__ == '__main__':
    main()
