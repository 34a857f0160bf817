#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""null_blk with requests: known service times, hardware queues, schedulers, shared tags."""
import contextlib
import functools

from lib import KIB, MIB, difference, diskstats, equal, main, test
from machine import (Account, check_against_trace, check_delay, check_every_operation, check_seek,
                     check_together, collect, counts_of, load, null_blk, null_blk_pair, shared)

MS = 10**6
SCHEDULERS = ('none', 'mq-deadline', 'bfq', 'kyber')
HARDWARE_QUEUES = (1, 4)


@test
def service_time_is_in_the_right_bucket(env):
    """A timer ends each request: not a single one may be faster than it."""
    devices = {delay: null_blk(env, queue_mode=2, irqmode=2, completion_nsec=delay)
               for delay in (1 * MS, 10 * MS, 40 * MS)}
    collect()
    for delay, device in devices.items():
        check_delay(env, device, delay)


@functools.cache
def devices_by_queues():
    """One of each number of hardware queues, for all schedulers."""
    devices = [null_blk(shared, queue_mode=2, irqmode=2, completion_nsec=50000, submit_queues=n,
                        memory_backed=1, discard=1) for n in HARDWARE_QUEUES]
    equal([len(device.hardware_queues()) for device in devices], list(HARDWARE_QUEUES), 'hardware queues')
    return devices


def scheduler_test(scheduler):
    def run(env):
        collect()
        for device in devices_by_queues():
            device.scheduler(scheduler)
            device.queue('nomerges', 2)
            with Account(device.name) as trace:
                logs = load(env, device.name)
            check_against_trace(device, trace, counts_of(*logs.values()))
    run.__name__ = f'counts_with_{scheduler.replace("-", "_")}'
    test(run)


for _scheduler in SCHEDULERS:
    scheduler_test(_scheduler)


@test
def partitions_and_all_operations(env):
    """Without and with a cache; the first needs no flush."""
    options = dict(queue_mode=2, memory_backed=1, discard=1)
    check_every_operation(env, null_blk(env, **options), null_blk(env, cache_size=4, **options))


@test
def heads(env):
    """One per hardware queue; one in all if it is rotational."""
    devices = [null_blk(env, queue_mode=2, submit_queues=4) for _ in range(2)]
    devices[1].queue('rotational', 1)
    collect()
    for device, per_queue in zip(devices, (True, False)):
        check_seek(device, env.disk(device.path), per_queue)


@test
def merged_requests_count_once(env):
    """Neighbours become one request in the scheduler; the kernel's own numbers say how many."""
    device = null_blk(env, queue_mode=2, irqmode=2, completion_nsec=5 * MS, hw_queue_depth=1)
    device.scheduler('mq-deadline')
    collect()
    before = diskstats(device.name)[device.name]
    with Account(device.name) as trace:
        fio = env.fio(dict(filename=device.path, rw='write', bs='4k', iodepth=32, iodepth_batch=32),
                      size=2 * MIB)
        asked = fio.result()[device.name]['write']
    snapshot = check_against_trace(device, trace)
    done = difference(diskstats(device.name)[device.name], before)
    equal(snapshot.counts(device.name), done, 'as in diskstats')
    assert done['write'] < asked == 512, f'{done} of {asked} writes: nothing was merged'
    equal(snapshot.bytes(device.name), {'write': 2 * MIB}, 'bytes')


@test
def failed_requests_are_requests(env):
    device = null_blk(env, queue_mode=2, badblocks='+0-1023')
    collect()
    disk = env.disk(device.path)
    with Account(device.name) as trace:
        for i in range(10):
            for function in (disk.read, disk.write):
                with contextlib.suppress(OSError):
                    function(i * 4 * KIB, 4 * KIB)
            disk.read(MIB + i * 4 * KIB, 4 * KIB)
    equal(counts_of(disk.log), {'read': 10}, 'successful')
    equal(sum(e.error != 0 for e in trace.events if e.kind == 'C'), 20, 'failed')
    check_against_trace(device, trace, dict(read=20, write=10))


@test
def shared_tags(env):
    """Two disks whose requests have their tags of one set. The last test, as the driver is loaded anew."""
    shared.close()
    collect.cache_clear()
    collect()
    disks_with_shared_tags = null_blk_pair(env, shared_tags=1, queue_mode=2, irqmode=2, completion_nsec=50000,
                                           submit_queues=4, gb=1, hw_queue_depth=8)
    check_together(env, *disks_with_shared_tags)


if __name__ == '__main__':
    main()
