#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Devices without requests, counted by bios: device mapper, md, zram, brd, null_blk in its bio mode, and
the head of an NVMe multipath device. Each of them and the disk below are both right.
"""
import collections
import os
import platform
import subprocess
import time

from lib import (BIOS_KNOW_PARTITIONS, KIB, MIB, Skip, between, blkhist, equal, main, read_file, refused, row_bound, show,
                 status, test, verify, write_file)
from machine import (Trace, Device, counts_of, device_mapper, disk_by_serial, disks, load, load_module, null_blk,
                     nvme_namespace, settle_disk, unload_module, wait_for)

BIO_PROGRAMS = {'block_bio_queue', 'block_bio_complete', 'block_split'}
KEY = '00112233445566778899aabbccddeeff' * 2


# --- making them ---

# Drivers stay: 5.10 has died of a module's grace period that ended after its unloading.

def brd(env, number=1):
    if not os.path.exists('/dev/ram0'):
        subprocess.run(['modprobe', 'brd', 'rd_nr=2', f'rd_size={64 * MIB // KIB}'], check=True)
    return [Device(env, f'ram{i}') for i in range(number)]


def zram(env):
    load_module('zram')
    write_file('/sys/block/zram0/disksize', str(64 * MIB))
    env.callback(write_file, '/sys/block/zram0/reset', '1')
    return Device(env, 'zram0')


def raid1(env, *members):
    load_module('raid1')
    subprocess.run(['mdadm', '--create', '/dev/md0', '--run', '--level=1', '--assume-clean', '--metadata=1.0',
                    f'--raid-devices={len(members)}', *(d.path for d in members)],
                   check=True, capture_output=True)
    env.callback(subprocess.run, ['mdadm', '--stop', '/dev/md0'], check=True, capture_output=True)
    return Device(env, 'md0')


def bios_of_null_blk(env):
    if not os.path.exists('/sys/module/null_blk'):
        subprocess.run(['modprobe', 'null_blk', 'nr_devices=0'], check=True)
    try:
        device = null_blk(env, queue_mode=0, discard=1)
    except OSError:
        device = None
    if not device or os.path.isdir(f'/sys/block/{device.name}/mq'):
        raise Skip(f'null_blk of kernel {platform.release()} has requests only')
    return device


# --- what is known of them ---

def by_bios(name):
    return next(d for d in status()['disks'] if d['device'] == name)


def check_bios(env, device, kinds=('read', 'write'), flushes=3, in_place=False):
    """
    A load of known sizes on a device against all that is known. Of bios that are sent on in place the
    kernel need not trace the completion: on 6.1 it traces none, since that comes in batches there.
    """
    discard = 'discard' in kinds
    with Trace(device.name, ('queue', 'complete')) as trace:
        logs = load(env, device.name, jobs=3, discard=discard)
        disk = env.disk(device.path)
        for _ in range(flushes):
            disk.flush()
    snapshot = show(device.name)
    log = logs[device.name]
    expected = counts_of(log, disk.log)
    equal(snapshot.counts(device.name), expected, f'bios of {device.name}')
    equal({k for d, k, _ in snapshot.hists if d == device.name}, {'request', 'seek'}, 'kinds')
    # The trace has an empty flush as a write of nothing.
    queued = collections.Counter('flush' if e.op == 'write' and not e.bytes else e.op for e in trace.events
                                 if e.kind == 'Q')
    equal(dict(queued), expected, 'Q')
    if not in_place:
        equal(trace.counts('C'), trace.counts('Q'), 'C and Q')
    for op in kinds:
        hist = snapshot.get(device.name, 'request', op)
        bounds = hist.data['size_bounds']
        rows = {}
        for _, size, _ in log[op]:
            bound = row_bound(bounds, size)
            rows[bound] = rows.get(bound, 0) + 1
        equal(hist.by_size(), rows, f'{op} by size')
        between(0, hist.sum, sum(ns for _, _, ns in log[op]), f'{op} times, and those of the calls')
    equal(snapshot.bytes(device.name), {op: sum(size for _, size, _ in log[op]) for op in kinds}, 'bytes')
    # Of all bios but the flushes, and but the first, there is a distance.
    equal(snapshot.get(device.name, 'seek').count, sum(len(log[op]) for op in kinds) - 1, 'distances')
    equal({k: n for k, n in snapshot.losses.items() if n and k not in ('split', 'unissued', 'recovered', 'nested')},
          {}, 'losses')
    return snapshot, log


def check_below(name, snapshot, log, below):
    """Each read and write, none of which the driver had to split, is one request of the disk below."""
    lower = show(below)
    for op in ('read', 'write'):
        equal(lower.get(below, 'service', op).count, len(log[op]), f'{op} below {name}, on {below}')
    between(0, lower.get(below, 'request', 'read').sum, snapshot.get(name, 'request', 'read').sum,
            'time below, and of the bios')


def fresh(env, device, *start):
    """Starts when the kernel has no more I/O of its own on the device, as at its first opening."""
    env.disk(device.path).read(0, 4 * KIB)
    settle_disk(device)
    env.start(*start)
    equal(by_bios(device.name)['by'], 'bios', 'how it is counted')
    equal(by_bios(device.name)['kinds'], ['request', 'seek'], 'its kinds')


# --- tests ---

def without_others():
    """There must be no other device without requests: this comes before the tests that load brd."""
    if os.path.exists('/sys/module/nvme'):
        unload_module('nvme')
    assert not [name for name in disks() if not os.path.isdir(f'/sys/block/{name}/mq') and
                int(read_file(f'/sys/block/{name}/size'))], 'a device without requests'


def unload(device):
    write_file(f'/sys/block/{device.name}/reset', '1')
    wait_for(lambda: not int(read_file(f'/sys/block/{device.name}/size')), f'the end of {device.name}')


@test
def attached_while_they_are_there(env):
    """By any command; and not at all, or always, as `start --bios` says."""
    def attached():
        return {p['name'] for p in status()['programs'] if p['attached']} & BIO_PROGRAMS

    below = disk_by_serial(env, 'virtio')
    without_others()
    env.start()
    equal(attached(), set(), 'attached without such a device')
    device = device_mapper(env, f'linear {below.path} 0')
    env.disk(device.path).read(0, 4 * KIB)
    blkhist('show')
    env.disk(device.path).read(0, 4 * KIB)
    equal(show(device.name).counts(device.name), {'read': 1}, 'counted since the command')
    equal(attached(), BIO_PROGRAMS, 'attached')
    verify(device.name)
    blkhist('stop')
    env.start('--bios', 'off')
    env.disk(device.path).read(0, 4 * KIB)
    equal(attached(), set(), 'attached with --bios off')
    refused('show', device.name, word='--bios off')
    equal(show().counts(below.name), {'read': 1}, 'the disk below')
    refused('start', '--bios', 'on', word='--bios (off)')
    blkhist('stop')
    env.start('--bios', 'on')
    equal(attached(), BIO_PROGRAMS, 'attached with --bios on')
    refused('start', '--bios', 'perhaps', status=2, word='perhaps')


@test
def gone_again(env):
    """With the last device without requests the programs for bios go, too."""
    without_others()
    device = zram(env)
    env.start()
    assert any(p['attached'] for p in status()['programs'] if p['name'] == 'block_bio_queue')
    unload(device)
    assert not any(p['attached'] for p in status()['programs'] if p['name'] in BIO_PROGRAMS)


def check_mapped(env, below, target):
    """A mapped device and the disk below: neither counts the other's."""
    below.queue('nomerges', 2)
    device = device_mapper(env, target)
    fresh(env, device)
    snapshot, log = check_bios(env, device)
    verify(device.name, below.name)
    check_below(device.name, snapshot, log, below.name)


@test
def linear(env):
    below = disk_by_serial(env, 'virtio')
    check_mapped(env, below, f'linear {below.path} 2048')


@test
def crypt(env):
    below = disk_by_serial(env, 'scsi1')
    check_mapped(env, below, f'crypt aes-xts-plain64 {KEY} 0 {below.path} 0')


@test
def delay(env):
    """A known time, which the disk below does not have."""
    below = disk_by_serial(env, 'virtio')
    device = device_mapper(env, f'delay {below.path} 0 30 {below.path} 0 60')
    fresh(env, device)
    log = load(env, device.name, jobs=3, each=5, discard=False)[device.name]
    for op, ms in (('read', 30), ('write', 60)):
        hist = show(device.name).get(device.name, 'request', op)
        equal(hist.count, len(log[op]), op)
        # The driver's timer counts ticks of the kernel, of at most 10 ms.
        early = [bound for bound in hist.by_bound() if bound is not None and bound < (ms - 10) * 1000000]
        equal(early, [], f'{op} that took less than {ms} ms')
        between((ms - 10) * 1000000 * hist.count, hist.sum, sum(ns for _, _, ns in log[op]), f'sum of {op}')
    verify(device.name, below.name)


@test
def md_raid1(env):
    """On two memory disks, which have no requests either: each write is one bio on each of them."""
    members = brd(env, 2)
    device = raid1(env, *members)
    fresh(env, device)
    # md writes to its superblocks by itself: they are in the members only.
    _, log = check_bios(env, device)
    verify(device.name)
    below = [show(m.name).counts(m.name) for m in members]
    equal(sum(b.get('read', 0) for b in below), len(log['read']), 'reads below')
    for b in below:
        assert b['write'] >= len(log['write']), below


@test
def large_bios_are_counted_once(env):
    """However many pieces the driver makes of them; diskstats has bios or pieces."""
    members = brd(env, 2)
    device = raid1(env, *members)
    device.queue('max_sectors_kb', 64)
    fresh(env, device)
    disk = env.disk(device.path)
    for i in range(6):
        disk.read(i * MIB, 256 * KIB)
    with Trace(device.name, ('queue',)) as trace:
        for i in range(6):
            disk.read(i * MIB, 256 * KIB)
    snapshot = show(device.name)
    equal(snapshot.counts(device.name), {'read': 2 * trace.counts('Q')['read']}, 'bios')
    equal(snapshot.bytes(device.name), {'read': 12 * 256 * KIB}, 'bytes')
    assert snapshot.losses['early'] == 0, snapshot.losses
    verify(device.name)


@test
def zram_and_its_discards(env):
    device = zram(env)
    fresh(env, device)
    check_bios(env, device, ('read', 'write', 'discard'), flushes=0)
    verify(device.name)


@test
def memory_disk(env):
    """Whose driver keeps no statistics on some kernels."""
    [device] = brd(env)
    fresh(env, device)
    check_bios(env, device, flushes=0)
    verify(device.name)


@test
def null_blk_of_bios(env):
    device = bios_of_null_blk(env)
    fresh(env, device)
    check_bios(env, device, flushes=0)  # without a write cache a flush ends before it is seen
    verify(device.name)


@test
def nvme_multipath(env):
    """The bio of the head becomes that of the path: the same, and yet counted as both."""
    env.callback(unload_module, 'nvme')  # it is a device without requests for other tests, too
    head = nvme_namespace(env, 'paths', 1)
    if os.path.isdir(f'/sys/block/{head.name}/mq'):
        raise Skip('this NVMe driver does not join the paths')
    fresh(env, head)
    snapshot, log = check_bios(env, head, in_place=True)
    paths = {h.data['device'] for h in snapshot.hists.values()} - {head.name}
    assert paths, 'show HEAD shows its paths'
    for h in snapshot.hists.values():
        equal(h.data.get('path_of'), None if h.data['device'] == head.name else head.name, 'path_of')
    for op in ('read', 'write'):
        equal(sum(snapshot.get(p, 'service', op).count for p in paths), len(log[op]), f'{op} on all paths')
    text = blkhist('show', head.name).stdout
    assert f', a path of {head.name}' in text, text
    verify()


@test
def partitions(env):
    """Before 5.12 a bio of a partition is one of the disk: the kernel forgets where it came from."""
    device = raid1(env, *brd(env, 2))
    parts = device.two_partitions()
    fresh(env, device)
    logs = load(env, *parts, jobs=2, discard=False)
    snapshot = show(device.name)
    equal(snapshot.counts(device.name), counts_of(*logs.values()), 'of the disk')
    if BIOS_KNOW_PARTITIONS:
        for name in parts:
            equal(snapshot.counts(name), counts_of(logs[name]), name)
            verify(name)
    verify(device.name)


main()
