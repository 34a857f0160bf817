#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The disks of the virtual machine: virtio-blk, virtio-scsi, NVMe with several namespaces."""
import os

from lib import KIB, difference, diskstats, equal, main, show, test, verify
from machine import (Account, check_against_trace, check_every_operation, check_seek, check_together, collect,
                     disk_by_serial, nvme_namespace)


@test
def partitions_and_all_operations(env):
    devices = disk_by_serial(env, 'virtio'), disk_by_serial(env, 'scsi0'), nvme_namespace(env, 'several', 1)
    for device in devices:
        device.queue('nomerges', 2)
    check_every_operation(env, *devices)


@test
def two_disks_of_one_host(env):
    """Two SCSI disks have their tags of one set."""
    collect()
    check_together(env, disk_by_serial(env, 'scsi0'), disk_by_serial(env, 'scsi1'), discard=True)


@test
def two_namespaces_of_one_controller(env):
    """Two namespaces have theirs of one, too."""
    collect()
    check_together(env, nvme_namespace(env, 'several', 1), nvme_namespace(env, 'several', 2), discard=True)


@test
def heads(env):
    """One of a rotational disk, else one per hardware queue; virtio-blk does not say what it is."""
    devices = {'virtio': disk_by_serial(env, 'virtio'), 'scsi0': disk_by_serial(env, 'scsi0'),
               'scsi1': disk_by_serial(env, 'scsi1'), 'nvme': nvme_namespace(env, 'several', 1)}
    rotational = {name: device.queue('rotational') for name, device in devices.items()}
    equal((rotational['scsi0'], rotational['scsi1'], rotational['nvme']), ('1', '0', '0'), 'rotational')
    collect()
    for name, device in devices.items():
        check_seek(device, env.disk(device.path), per_queue=rotational[name] == '0')


@test
def forced_writes(env):
    """
    NVMe can be told to write through its cache; for virtio-blk the kernel adds a flush, and completes
    the write a second time after it. Kernel 7.3 does not trace the first kind at all in the
    format that blktrace has had so far.
    """
    devices = disk_by_serial(env, 'virtio'), nvme_namespace(env, 'several', 2)
    collect()
    for device in devices:
        disk, before = env.disk(device.path), diskstats(device.name)[device.name]
        with Account(device.name) as trace:
            for i in range(7):
                os.pwritev(disk.fd, [memoryview(disk.buffer)[:64 * KIB]], i * 128 * KIB, os.RWF_DSYNC)
        done = difference(diskstats(device.name)[device.name], before)
        empty = sum(e.kind == 'C' and e.op == 'write' and not e.bytes for e in trace.events)
        forced = empty - show(device.name).losses['unissued'] + trace.losses['unissued']
        equal(forced, 7 if device.queue('fua') == '0' else 0, 'writes that are completed twice')
        if trace.counts('D').get('write'):
            snapshot = check_against_trace(device, trace, forced=forced)
        else:
            print(f'# the trace of {device.name} has no forced writes')
            snapshot = show(device.name)
        verify(device.name)
        equal(snapshot.counts(device.name), done, 'as in diskstats')
        equal(snapshot.get(device.name, 'service', 'write').by_size(), {64 * KIB: 7}, 'service times of the data')
        equal(snapshot.bytes(device.name), {'write': 7 * 64 * KIB}, 'bytes')


if __name__ == '__main__':
    main()
