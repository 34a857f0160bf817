#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A device without requests on this machine's kernel: zram. tests/devices has more of them, in virtual machines."""
import os
import re

from lib import (KIB, MIB, TIMED, Disk, Skip, blkhist, equal, main, read_file, refused, row_bound, show, status, test,
                 uninterrupted, verify, write_file)

CONTROL = '/sys/class/zram-control'
BIO_PROGRAMS = {'block_bio_queue', 'block_bio_complete', 'block_rq_complete_bios', 'block_split'}


def zram(env, size=64 * MIB):
    """A new one; its name."""
    if not os.path.exists(CONTROL):
        raise Skip('the kernel has no zram')
    with uninterrupted():
        number = read_file(f'{CONTROL}/hot_add')
        env.callback(write_file, f'{CONTROL}/hot_remove', number)
    write_file(f'/sys/block/zram{number}/disksize', str(size))
    return f'zram{number}'


def attached():
    return {p['name'] for p in status()['programs'] if p['attached'] and p['bios']}


def others():
    """Other devices without requests, for which the programs stay attached."""
    return [d for d in os.listdir('/sys/block') if not os.path.isdir(f'/sys/block/{d}/mq') and
            read_file(f'/sys/block/{d}/size') != '0']


@test
def single_bios(env):
    name = zram(env)
    env.start()
    disk = env.disk(f'/dev/{name}')
    sizes = (4 * KIB, 8 * KIB, 64 * KIB, 256 * KIB)
    for i, size in enumerate(sizes):
        for n in range(i + 3):
            disk.write(n * MIB, size)
            disk.read(n * MIB, size)
    for n in range(5):
        disk.discard(n * MIB, MIB)
    snapshot = show(name)
    equal(snapshot.counts(name), {op: len(disk.log[op]) for op in ('read', 'write', 'discard')}, 'bios')
    equal(snapshot.bytes(name), {op: sum(size for _, size, _ in disk.log[op])
                                 for op in ('read', 'write', 'discard')}, 'bytes')
    equal({kind for _, kind, _ in snapshot.hists}, {'request', 'seek'}, 'kinds')
    bounds = snapshot.get(name, 'request', 'read').data['size_bounds']
    equal(snapshot.get(name, 'request', 'read').by_size(),
          {row_bound(bounds, size): i + 3 for i, size in enumerate(sizes)}, 'by size')
    for op in ('read', 'write'):
        h = snapshot.get(name, 'request', op)
        assert 0 < h.sum <= sum(ns for _, _, ns in disk.log[op]), f'{op}: longer than the calls around it'
    verify(name)


@test
def load(env):
    name = zram(env)
    env.start()
    fio = env.fio(dict(filename=f'/dev/{name}', rw='randrw', bssplit='4k/50:16k/50', numjobs=2, ioengine='psync',
                       number_ios=5000), size=32 * MIB)
    counts = fio.result()[name]
    equal(show(name).counts(name), {op: counts[op] for op in ('read', 'write')}, 'fio and we')
    verify(name)


@test
def attached_while_it_is_there(env):
    if others():
        raise Skip(f'{others()[0]} has no requests either')
    env.start()
    equal(attached(), set(), 'attached without such a device')
    name = zram(env)
    with open(f'/dev/{name}', 'rb'):
        blkhist('show')
    assert BIO_PROGRAMS <= attached(), attached()
    disk = Disk(f'/dev/{name}')
    disk.read(0, 4 * KIB)
    disk.close()
    equal(show(name).counts(name), {'read': 1}, 'since the command')
    verify(name)
    write_file(f'/sys/block/{name}/reset', '1')
    equal(attached(), set(), 'attached when it has no size any more')


@test
def as_start_says(env):
    name = zram(env)
    env.start('--bios', 'off')
    equal(attached(), set(), 'attached with --bios off')
    refused('show', name, word='--bios off')
    refused('buckets', name, '--time', '1ms', word='--bios off')
    refused('watch', '1', '1', name, word='--bios off')
    refused('start', word='--bios (off)')
    refused('start', '--bios', 'perhaps', status=2, word='perhaps')
    assert re.search(rf'{name} +not counted', blkhist('status').stdout)
    blkhist('stop')
    env.start('--bios', 'on')
    assert BIO_PROGRAMS <= attached(), attached()
    assert re.search(rf'{name} +bios +1 +request seek\n', blkhist('status').stdout)
    env.disk(f'/dev/{name}').read(0, 4 * KIB)
    blkhist('reset', name)
    equal(show(name).hists, {}, 'after a reset')
    blkhist('buckets', name, '--time', '1ms,2ms')
    env.disk(f'/dev/{name}').read(0, 4 * KIB)
    equal(show(name).get(name, 'request', 'read').data['bounds'], [1000000, 2000000], 'bounds')
    for kind in set(TIMED) - {'request'}:
        equal(show(name).get(name, kind, 'read').count, 0, kind)


if __name__ == '__main__':
    main()
