#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Devices that come and go while it collects, with nobody resident."""
import contextlib
import os

from lib import (KIB, MIB, TIMED, Disk, blkhist, difference, diskstats, equal, main, on_every_kernel,
                 refused, show, status, test, verify)


def read(path, n, size=4 * KIB):
    """Opened for the moment only, so that the device can go."""
    with contextlib.closing(Disk(path)) as disk:
        for i in range(n):
            disk.read(i * size, size)


@test
@on_every_kernel
def a_new_device_is_counted_from_its_first_io(env):
    env.start()
    loop = env.loop()
    before = diskstats(loop.name)[loop.name]  # udev, where there is one, has read from it
    seen = show(loop.name).counts(loop.name)
    equal(seen, difference(before, {}), 'what was read before the test could')
    read(loop.path, 12)
    equal(show(loop.name).counts(loop.name)['read'], seen.get('read', 0) + 12)
    equal(show(loop.name).losses['no_counters'], 0)
    verify(loop.name)


@test
def used_devices_are_ready_at_the_start(env):
    """However many they are: nobody runs a command between the start and their first I/O."""
    loops = [env.loop() for _ in range(7)]
    for loop in loops:
        env.disk(loop.path).read(0, 4 * KIB)
    env.start()
    for loop in loops:
        env.disk(loop.path).read(0, 4 * KIB)
    snapshot = show()
    for loop in loops:
        equal(snapshot.counts(loop.name), {'read': 1}, loop.name)
    equal(snapshot.losses['no_counters'], 0)
    verify(*[loop.name for loop in loops])


@test
def more_new_devices_than_spare_counters(env):
    """As many as are kept ready are counted at once; the next command makes room for more."""
    env.start()
    ready = status()['partitions_ready']
    loops = [env.loop(MIB) for _ in range(ready)]
    for i, loop in enumerate(loops):
        read(loop.path, i + 1)
    for i, loop in enumerate(loops):
        equal(show(loop.name).counts(loop.name)['read'] >= i + 1, True, f'{i}')
    verify(*(loop.name for loop in loops))
    equal(status()['partitions_ready'], ready, 'ready again')
    equal(status()['losses']['no_counters'], 0)
    more = env.loop(MIB)
    read(more.path, 5)
    verify(more.name)


@test
@on_every_kernel
def a_new_partition_is_counted_from_its_first_io(env):
    loop = env.loop()
    env.start()
    read(loop.path, 3)
    p5 = loop.partition(5, 8 * MIB, 8 * MIB)
    read(f'/dev/{p5}', 9)
    snapshot = show(loop.name)
    equal((snapshot.counts(p5), snapshot.counts(loop.name)), ({'read': 9}, {'read': 12}))
    verify(loop.name, p5)


@test
@on_every_kernel
def a_reused_number_begins_at_zero(env):
    loop = env.loop()
    env.start()
    read(loop.path, 100)
    blkhist('reset', '-k', 'service', loop.name)
    read(loop.path, 10)
    equal([show(loop.name).get(loop.name, k, 'read').count for k in TIMED], [110, 10, 110])
    blkhist('buckets', loop.name, '--time', '1ms')
    old = diskstats(loop.name)[loop.name]
    loop.detach()
    equal(show().get(loop.name, 'request', 'read').count, 0, 'nothing is shown of a device without a file')
    loop.attach()
    new = difference(diskstats(loop.name)[loop.name], old).get('read', 0)  # by udev, if there is one
    equal(show(loop.name).counts(loop.name).get('read', 0), new, 'a new file begins at zero')
    read(loop.path, 7, 8 * KIB)
    h = show(loop.name).get(loop.name, 'service', 'read')
    equal(h.count, new + 7)
    equal(h.by_size()[8 * KIB], 7)
    assert h.data['bounds'] != [1000000], 'bounds of the old file'
    # The kernel's own statistics go on as if it were one device; so does the comparison.
    verify(loop.name)


@test
def a_reused_number_with_partitions(env):
    loop, p1, _ = env.two_partitions()
    env.start()
    read(f'/dev/{p1}', 20)
    loop.detach()
    loop.attach()
    equal(show(loop.name).get(p1, 'request', 'read').count, 0, 'the old partition')
    p1 = loop.partition(1, 2 * MIB, 4 * MIB)
    read(f'/dev/{p1}', 4)
    equal(show(p1).counts(p1), {'read': 4})
    verify(loop.name, p1)


@test
def devices_come_and_go_often(env):
    """More of them than there are counters: those of devices that are gone are given back."""
    env.start()
    most = status()['partitions_max']
    rounds = min(most + 20, 300)
    for i in range(rounds):
        loop = env.loop(MIB)
        read(loop.path, 2)
        equal(show(loop.name).counts(loop.name)['read'] >= 2, True, f'device {i}')
        loop.remove()
    equal(status()['losses']['no_counters'], 0)
    verify()


@test
def added_and_removed_numbers(env):
    env.start()
    loop = env.loop(attach=False)
    show(loop.name)
    loop.attach()
    read(loop.path, 3)
    verify(loop.name)
    loop.remove()
    refused('show', loop.name, word=loop.name)
    refused('show', loop.path, word=loop.path)
    assert loop.name not in blkhist('show').stdout
    verify()


@test
def names_that_do_not_exist(env):
    loop = env.loop()
    env.start()
    read(loop.path, 1)
    for name in ('nosuchdisk', loop.name + 'p1', '/dev/nosuchdisk', '', loop.name + 'x', '../' + loop.name):
        refused('show', name, word=name)
        refused('show', '-f', 'json', loop.name, name, word=name)
        refused('reset', name, word=name)
        refused('reset', loop.name, name, word=name)
    refused('show', '/dev/null', word='/dev/null')
    refused('show', '/etc/passwd', word='/etc/passwd')
    equal(show(loop.name).counts(loop.name), {'read': 1}, 'nothing was reset')
    link = f'/dev/shm/blkhist-test-link-{os.getpid()}'
    os.symlink(loop.path, link)
    env.callback(os.unlink, link)
    equal(show(link).counts(loop.name), {'read': 1}, 'a link is as good as the device')


if __name__ == '__main__':
    main()
