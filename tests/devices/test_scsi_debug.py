#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""scsi_debug: known delays, errors, partial transfers, requeues, timeouts."""
import contextlib
import os

from lib import KIB, MIB, equal, main, show, test, verify, write_file
from machine import (Trace, check_against_trace, check_every_operation, check_known_times, counts_of, load,
                     scsi_debug)

MS = 10**6
DRIVER = '/sys/bus/pseudo/drivers/scsi_debug'

# Of drivers/scsi/scsi_debug.c, SDEBUG_OPT_*.
MEDIUM_ERROR = 0x2
TIMEOUT = 0x4
RECOVERED_ERROR = 0x8
TRANSPORT_ERROR = 0x10
SHORT_TRANSFER = 0x100
HOST_BUSY = 0x8000


def inject(opts, every_nth):
    """Does this to every so many commands, from now on."""
    write_file(f'{DRIVER}/opts', f'{opts:#x}')
    write_file(f'{DRIVER}/every_nth', str(every_nth))


@contextlib.contextmanager
def injecting(opts, every_nth):
    inject(opts, every_nth)
    try:
        yield
    finally:
        inject(0, 0)


@test
def delay_in_nanoseconds(env):
    # Below 1 ms the driver of some kernels does not wait at all.
    device = scsi_debug(env, ndelay=5 * MS)
    env.start()
    disk = env.disk(device.path)
    for i in range(20):
        disk.read(i * MIB, 4 * KIB)
        disk.write(i * MIB, 64 * KIB)
    snapshot = show(device.name)
    for op in ('read', 'write'):
        for kind in ('service', 'request'):
            check_known_times(snapshot.get(device.name, kind, op), 5 * MS, disk.log[op])
    verify(device.name)


@test
def delay_in_jiffies(env):
    """A jiffy is 1 ms at least."""
    device = scsi_debug(env, delay=20)
    env.start()
    disk = env.disk(device.path)
    for i in range(5):
        disk.read(i * MIB, 4 * KIB)
    check_known_times(show(device.name).get(device.name, 'service', 'read'), 20 * MS, disk.log['read'])


@test
def partitions_and_all_operations(env):
    device = scsi_debug(env, ndelay=1 * MS, lbpu=1, submit_queues=2)
    device.queue('nomerges', 2)
    check_every_operation(env, device)


@test
def medium_errors(env):
    """The first sectors are read, then the request ends with an error: once, with its whole size."""
    device = scsi_debug(env, delay=0, opts=MEDIUM_ERROR, medium_error_start=0x1234, medium_error_count=10)
    env.start()
    disk, failed = env.disk(device.path), 0
    with Trace(device.name) as trace:
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
    device = scsi_debug(env, ndelay=1 * MS)
    env.start()
    with Trace(device.name) as trace, injecting(RECOVERED_ERROR, 5):
        logs = load(env, device.name, discard=False)
    check_against_trace(device, trace, counts_of(*logs.values()))


def check_requeues(env, opts, **parameters):
    device = scsi_debug(env, **{'ndelay': 1 * MS, **parameters})
    device.queue('nomerges', 2)
    env.start()
    with Trace(device.name) as trace, injecting(opts, 5):
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
    device = scsi_debug(env, ndelay=2 * MS)
    env.start()
    disk = env.disk(device.path)
    with Trace(device.name) as trace, injecting(SHORT_TRANSFER, 3):
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
def full_queue(env):
    """The device takes fewer commands than the disk believes: TASK SET FULL, and once more."""
    device = scsi_debug(env, ndelay=5 * MS, max_queue=2)
    write_file(f'/sys/block/{device.name}/device/queue_depth', '8')
    device.queue('nomerges', 2)
    env.start()
    with Trace(device.name) as trace:
        logs = load(env, device.name, jobs=8, each=5, discard=False)
    check_against_trace(device, trace, counts_of(*logs.values()))


@test
def timeouts(env):
    """A command that is lost is issued again after a second: queue time, not service time."""
    device = scsi_debug(env, delay=0)
    write_file(f'/sys/block/{device.name}/device/timeout', '1')
    env.start()
    disk = env.disk(device.path)
    with Trace(device.name) as trace, injecting(TIMEOUT, 3):
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
