#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""null_blk with requests: known service times, hardware queues, schedulers, shared tags."""
import contextlib
import functools

from lib import KIB, MIB, Skip, diskstats, difference, equal, main, show, test, verify, write_file
from machine import (Device, Trace, check_against_trace, check_every_operation, check_known_times, check_seek,
                     counts_of, disks, load, modprobe, null_blk)

MS = 10**6
SCHEDULERS = ('none', 'mq-deadline', 'bfq', 'kyber')
HARDWARE_QUEUES = (1, 4)


@test
def service_time_is_in_the_right_bucket(env):
    """A timer ends each request: not a single one may be faster than it."""
    for delay in (1 * MS, 10 * MS, 40 * MS):
        device = null_blk(env, queue_mode=2, irqmode=2, completion_nsec=delay)
        env.start()
        disk = env.disk(device.path)
        for i in range(10):
            disk.read(i * MIB, 4 * KIB)
            disk.write(i * MIB, 64 * KIB)
        snapshot = show(device.name)
        for op in ('read', 'write'):
            for kind in ('service', 'request'):
                check_known_times(snapshot.get(device.name, kind, op), delay, disk.log[op])
        verify(device.name)


def scheduler_test(queues, scheduler):
    def run(env):
        device = null_blk(env, queue_mode=2, irqmode=2, completion_nsec=50000, submit_queues=queues,
                          memory_backed=1, discard=1)
        equal(len(device.hardware_queues()), queues, 'hardware queues')
        device.scheduler(scheduler)
        device.queue('nomerges', 2)
        env.start()
        with Trace(device.name) as trace:
            logs = load(env, device.name)
        check_against_trace(device, trace, counts_of(*logs.values()))
    run.__name__ = f'counts_with_{queues}_hardware_queues_and_{scheduler.replace("-", "_")}'
    test(run)


for _queues in HARDWARE_QUEUES:
    for _scheduler in SCHEDULERS:
        scheduler_test(_queues, _scheduler)


@test
def partitions_and_all_operations(env):
    """Without a cache of its own it needs no flush: an fsync asks for nothing then."""
    check_every_operation(env, null_blk(env, memory_backed=1, discard=1), flush=False)


@test
def flushes_of_a_cache(env):
    device = null_blk(env, memory_backed=1, discard=1, cache_size=4)
    check_every_operation(env, device)


@test
def one_head_per_hardware_queue(env):
    check_seek(env, null_blk(env, queue_mode=2, submit_queues=4), per_queue=True)


@test
def one_head_of_a_rotational_disk(env):
    device = null_blk(env, queue_mode=2, submit_queues=4)
    device.queue('rotational', 1)
    check_seek(env, device, per_queue=False)


@test
def merged_requests_count_once(env):
    """Neighbours become one request in the scheduler; the kernel's own numbers say how many."""
    device = null_blk(env, queue_mode=2, irqmode=2, completion_nsec=5 * MS, hw_queue_depth=1)
    device.scheduler('mq-deadline')
    env.start()
    before = diskstats(device.name)[device.name]
    with Trace(device.name) as trace:
        fio = env.fio(dict(filename=device.path, rw='write', bs='4k', iodepth=32, iodepth_batch=32),
                      size=2 * MIB)
        asked = fio.result()[device.name]['write']
    snapshot = check_against_trace(device, trace)
    done = difference(diskstats(device.name)[device.name], before)
    equal(snapshot.counts(device.name), done, 'as in diskstats')
    assert done['write'] < asked == 512, f'{done} of {asked} writes: nothing was merged'
    equal(snapshot.bytes(device.name), {'write': 2 * MIB}, 'bytes')


@test
def shared_tags(env):
    """Two disks whose requests have their tags of one set."""
    before = disks()
    modprobe(env, 'null_blk', nr_devices=2, shared_tags=1, queue_mode=2, irqmode=2, completion_nsec=50000,
             submit_queues=4, gb=1, hw_queue_depth=8)
    one, other = sorted(disks() - before)
    devices = [Device(env, name) for name in (one, other)]
    for device in devices:
        device.queue('nomerges', 2)
    env.start()
    with Trace(one) as trace_one, Trace(other) as trace_other:
        logs = load(env, one, other, discard=False)
    for device, trace in zip(devices, (trace_one, trace_other)):
        equal(show(device.name).counts(device.name), counts_of(logs[device.name]), device.name)
        check_against_trace(device, trace, counts_of(logs[device.name]))


@test
def failed_requests_are_requests(env):
    device = null_blk(env, queue_mode=2, badblocks='+0-1023')
    env.start()
    disk = env.disk(device.path)
    with Trace(device.name) as trace:
        for i in range(10):
            for function in (disk.read, disk.write):
                with contextlib.suppress(OSError):
                    function(i * 4 * KIB, 4 * KIB)
            disk.read(MIB + i * 4 * KIB, 4 * KIB)
    equal(counts_of(disk.log), {'read': 10}, 'successful')
    equal(sum(e.error != 0 for e in trace.events if e.action == 'complete'), 20, 'failed')
    check_against_trace(device, trace, dict(read=20, write=10))


if __name__ == '__main__':
    main()
