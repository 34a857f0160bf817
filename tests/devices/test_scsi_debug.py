#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""scsi_debug: known delays, errors, partial transfers, requeues, timeouts."""
import contextlib
import functools
import os

from lib import KIB, MIB, equal, main, read_file, test, write_file
from machine import (HOST_BUSY, MEDIUM_ERROR, RECOVERED_ERROR, SCSI_DEBUG, SHORT_TRANSFER, TIMEOUT, TRANSPORT_ERROR,
                     Account, check_against_trace, check_delay, check_every_operation, check_known_times, collect,
                     counts_of, injecting, load, scsi_debug, shared)

MS = 10**6


@functools.cache
def the_disk():
    """One for all tests: the driver can be told anew at any time."""
    collect()
    device = scsi_debug(shared, lbpu=1, submit_queues=2, medium_error_start=0x1234, medium_error_count=10)
    device.queue('nomerges', 2)
    return device


def disk_with_delay(ns):
    """Below 1 ms, other than 0, the driver of some kernels does not wait at all."""
    device = the_disk()
    write_file(f'{SCSI_DEBUG}/ndelay', str(ns))
    return device


@test
def delays(env):
    """In nanoseconds and in jiffies, of which one is 1 ms at least."""
    device = the_disk()
    for setting, value, delay in (('ndelay', 5 * MS, 5 * MS), ('delay', 20, 20 * MS)):
        write_file(f'{SCSI_DEBUG}/{setting}', str(value))
        check_delay(env, device, delay)


@test
def partitions_and_all_operations(env):
    device = disk_with_delay(1 * MS)
    check_every_operation(env, device)


@test
def medium_errors(env):
    """The first sectors are read, then the request ends with an error: once, with its whole size."""
    device = disk_with_delay(0)
    disk, failed = env.disk(device.path), 0
    with Account(device.name) as trace, injecting(MEDIUM_ERROR, 0):
        for first in (0x1230, 0x1238, 0x1200):
            with contextlib.suppress(OSError):
                got = os.preadv(disk.fd, [memoryview(disk.buffer)[:64 * KIB]], first * 512)
                assert got < 64 * KIB, 'a bad sector has been read'
            failed += 1
        disk.read(0, 64 * KIB)
    snapshot = check_against_trace(device, trace, dict(read=failed + 1))
    equal(snapshot.get(device.name, 'request', 'read').by_size(), {64 * KIB: 4}, 'whole sizes')
    assert snapshot.losses['partial'] >= 2, 'what was read before the bad sector'


@test
def recovered_errors(env):
    device = disk_with_delay(1 * MS)
    with Account(device.name) as trace, injecting(RECOVERED_ERROR, 5):
        logs = load(env, device.name, discard=False)
    check_against_trace(device, trace, counts_of(*logs.values()))


def check_requeues(env, opts):
    device = disk_with_delay(1 * MS)
    with Account(device.name) as trace, injecting(opts, 5):
        logs = load(env, device.name, jobs=2, discard=False)
    snapshot = check_against_trace(device, trace, counts_of(*logs.values()))
    assert snapshot.losses['requeued'] >= 40 // 5 - 1, snapshot.losses
    return snapshot


@test
def transport_errors_are_tried_again(env):
    check_requeues(env, TRANSPORT_ERROR)


@test
def busy_host(env):
    """The driver takes them back before they have begun."""
    check_requeues(env, HOST_BUSY)


@test
def partial_transfers(env):
    """Half of it; the rest is issued again: one request, of the whole size."""
    device = disk_with_delay(2 * MS)
    disk = env.disk(device.path)
    with Account(device.name) as trace, injecting(SHORT_TRANSFER, 3):
        for i in range(12):
            disk.read(i * MIB, 64 * KIB)
    snapshot = check_against_trace(device, trace, dict(read=12))
    service = snapshot.get(device.name, 'service', 'read')
    equal(service.by_size(), {64 * KIB: 12}, 'sizes')
    losses = snapshot.losses
    assert losses['partial'] >= 4, losses
    equal(losses['partial'], losses['requeued'], 'the rest of each is issued again')
    # Two turns, of which only the last is service time: the first is queue time.
    check_known_times(service, 2 * MS, disk.log['read'])
    queue = snapshot.get(device.name, 'queue', 'read')
    assert queue.sum >= 2 * MS * losses['partial'], f'queue times {queue.sum} ns'
    equal(queue.sum + service.sum, snapshot.get(device.name, 'request', 'read').sum, 'request time is both')


@test
def timeouts(env):
    """A command that is lost is issued again after a second: queue time, not service time."""
    device = disk_with_delay(0)
    timeout = f'/sys/block/{device.name}/device/timeout'
    env.callback(write_file, timeout, read_file(timeout))
    write_file(timeout, '1')
    disk = env.disk(device.path)
    with Account(device.name) as trace, injecting(TIMEOUT, 3):
        for i in range(3):
            disk.read(i * MIB, 4 * KIB)
    snapshot = check_against_trace(device, trace, dict(read=3))
    lost = snapshot.losses['requeued']
    assert lost >= 1, 'no command was lost'
    queue, service = (snapshot.get(device.name, kind, 'read') for kind in ('queue', 'service'))
    least = lost * 900 * MS  # the kernel counts this time in jiffies
    assert queue.sum >= least, f'queue times {queue.sum} ns'
    assert service.sum <= sum(ns for _, _, ns in disk.log['read']) - least, f'service times {service.sum} ns'


if __name__ == '__main__':
    main()
