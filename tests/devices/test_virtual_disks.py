#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The disks of the virtual machine: virtio-blk, virtio-scsi, NVMe with several namespaces."""
import os

from lib import KIB, difference, diskstats, equal, main, show, test, verify
from machine import (Trace, check_against_trace, check_every_operation, check_seek, counts_of, disk_by_serial, load,
                     nvme_namespace)


def disks_by_kind(env):
    return {'virtio_blk': lambda: disk_by_serial(env, 'virtio'),
            'virtio_scsi': lambda: disk_by_serial(env, 'scsi0'),
            'nvme': lambda: nvme_namespace(env, 'several', 1)}


def operations_test(kind):
    def run(env):
        device = disks_by_kind(env)[kind]()
        device.queue('nomerges', 2)
        check_every_operation(env, device)
    run.__name__ = f'partitions_and_all_operations_of_{kind}'
    test(run)


for _kind in ('virtio_blk', 'virtio_scsi', 'nvme'):
    operations_test(_kind)


@test
def two_disks_of_one_host(env):
    """Two SCSI disks have their tags of one set."""
    check_together(env, disk_by_serial(env, 'scsi0'), disk_by_serial(env, 'scsi1'))


@test
def two_namespaces_of_one_controller(env):
    check_together(env, nvme_namespace(env, 'several', 1), nvme_namespace(env, 'several', 2))


def check_together(env, *devices):
    for device in devices:
        device.queue('nomerges', 2)
    env.start()
    one, other = devices
    with Trace(one.name) as trace_one, Trace(other.name) as trace_other:
        logs = load(env, one.name, other.name, jobs=3)
    for device, trace in zip(devices, (trace_one, trace_other)):
        check_against_trace(device, trace, counts_of(logs[device.name]))


@test
def heads(env):
    """One of a rotational disk, else one per hardware queue."""
    check_seek(env, disk_by_serial(env, 'scsi0'), per_queue=False)
    check_seek(env, disk_by_serial(env, 'scsi1'), per_queue=True)
    check_seek(env, nvme_namespace(env, 'several', 1), per_queue=True)
    check_seek(env, disk_by_serial(env, 'virtio'), per_queue=disk_by_serial(env, 'virtio').queue('rotational') == '0')


@test
def forced_writes(env):
    """
    NVMe and SCSI can be told to write through their cache; for virtio-blk the kernel adds a flush,
    and completes the write a second time after it.
    """
    for device in (disk_by_serial(env, 'virtio'), nvme_namespace(env, 'several', 2)):
        env.start()
        disk, before = env.disk(device.path), diskstats(device.name)[device.name]
        with Trace(device.name) as trace:
            for i in range(7):
                os.pwritev(disk.fd, [memoryview(disk.buffer)[:64 * KIB]], i * 128 * KIB, os.RWF_DSYNC)
        done = difference(diskstats(device.name)[device.name], before)
        sequences = sum(e.action == 'complete' and e.op == 'write' and not e.bytes for e in trace.events)
        snapshot = check_against_trace(device, trace, forced=sequences - show(device.name).losses['unissued'])
        equal(snapshot.counts(device.name), done, 'as in diskstats')
        equal(snapshot.get(device.name, 'service', 'write').by_size(), {64 * KIB: 7}, 'service times of the data')
        equal(snapshot.bytes(device.name), {'write': 7 * 64 * KIB}, 'bytes')
        verify(device.name)


if __name__ == '__main__':
    main()
