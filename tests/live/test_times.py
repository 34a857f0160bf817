#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Times are right: bounded from both sides by the clock of the load itself."""
import threading
import time

from delays import frozen_below, in_flight
from lib import (KIB, MIB, TIMED, Skip, between, equal, main, on_every_kernel, read_file, rounds, show, test, unseen,
                 verify)


def at_most(h, bound):
    """How many values of a histogram are known to be at most @bound, one of its bounds."""
    return sum(n for b, n in h.by_bound().items() if b is not None and b <= bound)


def check_below_the_calls(snapshot, name, op, log, queue_least):
    """
    A request is within the system call that waits for it. So for every bound at least as many
    requests are below it as calls were, and the sums are in the same order.
    """
    calls = [ns for _, _, ns in log]
    for kind in TIMED:
        h = snapshot.get(name, kind, op)
        equal(h.count, len(calls), f'{op} {kind}')
        between(queue_least if kind == 'queue' else 1, h.sum, sum(calls), f'sum of {op} {kind}')
        for bound in h.data['bounds']:
            quick = sum(ns <= bound for ns in calls)
            assert at_most(h, bound) >= quick, \
                f'{op} {kind}: {at_most(h, bound)} are at most {bound} ns, of the calls {quick}'
    service, request = snapshot.get(name, 'service', op), snapshot.get(name, 'request', op)
    assert service.sum <= request.sum
    # The sums agree with the buckets: each value is above the bound before and at most at its own.
    for h in (service, request):
        bounds = h.data['bounds']
        below = dict(zip(bounds + [None], [0] + bounds))
        low = sum(n * below[b] for b, n in h.by_bound().items())
        high = sum(n * (b if b is not None else sum(calls)) for b, n in h.by_bound().items())
        between(low, h.sum, high, 'sum and buckets')


def serial_test(stamp):
    def run(env):
        loop = env.loop()
        env.start('--stamp', stamp)
        disk = env.disk(loop.path)
        for i in rounds(1000):
            disk.read(i % 60 * MIB, 4 * KIB if i % 2 else 256 * KIB)
            disk.write(i % 60 * MIB, 4 * KIB)
        for i in range(50):
            disk.discard(i * MIB, MIB)
        snapshot = show(loop.name)
        if unseen(loop.name):
            raise Skip('the kernel did not show all completions')
        for op in ('read', 'write', 'discard'):
            # The kernel's stamp may be as old as the submission.
            check_below_the_calls(snapshot, loop.name, op, disk.log[op], 0 if stamp == 'kernel' else 1)
    run.__name__ = f'serial_requests_are_within_their_calls_stamp_{stamp}'
    test(on_every_kernel(run))


for _stamp in ('own', 'kernel'):
    serial_test(_stamp)


# Words of /sys/block/NAME/stat: milliseconds that the kernel has accounted to requests.
STAT_MS = {'read': 3, 'write': 7}
LATER_NS = 20000


def accounted_ns(name, op):
    return int(read_file(f'/sys/block/{name}/stat').split()[STAT_MS[op]]) * 10**6


@test
def sums_under_load(env):
    """
    The sum of request times is what the kernel accounts itself, and less than the load has measured
    around it. The kernel reads its clock when the waiters have been told, a little later.
    """
    loop = env.loop()
    loop.queue('nomerges', 2)
    for depth in (1, 16, 64):
        env.start()
        before = {op: accounted_ns(loop.name, op) for op in STAT_MS}
        load = env.fio(dict(filename=loop.path, rw='randrw', bs='64k', iodepth=depth), size=loop.size, runtime=2)
        counts = load.result()[loop.name]
        job, snapshot = load.jobs[0], show(loop.name)
        missed = unseen(loop.name)
        total = 0
        for op in STAT_MS:
            h = snapshot.get(loop.name, 'request', op)
            equal(h.count + missed.get(op, 0), counts[op])
            kernel = accounted_ns(loop.name, op) - before[op]
            between(kernel - h.count * LATER_NS - 10**6, h.sum, kernel + 10**6, f'sum of {op} at depth {depth}')
            assert h.sum <= job[op]['lat_ns']['mean'] * counts[op] * 1.01, 'more than fio has measured'
            total += h.sum
        in_flight_mean = total / (job['job_runtime'] * 10**6)
        assert in_flight_mean <= depth * 1.01, f'{in_flight_mean} in flight at depth {depth}'
        print(f'# depth {depth}: {in_flight_mean:.1f} in flight, {total / sum(counts.values()):.0f} ns each')


@test
@on_every_kernel
def known_service_times(env):
    """A device that takes a known time: not less, not more, and in the right buckets."""
    loop = env.loop(64 * MIB)
    with frozen_below(env, loop) as (top, freeze, thaw):
        env.start()
        disk = env.disk(top.path)
        low, high = [], []
        for delay in (0.02, 0.05, 0.1, 0.2):
            freeze()
            writer = threading.Thread(target=disk.write, args=(0, 4 * KIB))
            writer.start()
            try:
                while not in_flight(top.name):
                    time.sleep(0.0005)
                issued = time.monotonic_ns()
                time.sleep(delay)
            finally:
                thawed = time.monotonic_ns()
                thaw()
                writer.join()
            low.append(thawed - issued)
            high.append(disk.log['write'][-1][2])
        snapshot = show(top.name)
        verify(top.name)
        for kind in ('service', 'request'):
            h = snapshot.get(top.name, kind, 'write')
            equal(h.count, len(low), kind)
            between(sum(low), h.sum, sum(high), f'sum of {kind}')
            for bound in h.data['bounds']:
                between(sum(ns <= bound for ns in high), at_most(h, bound), sum(ns <= bound for ns in low),
                        f'{kind} times of at most {bound} ns')
        queue = snapshot.get(top.name, 'queue', 'write')
        equal((queue.count, queue.sum < sum(low) // 10), (len(low), True), 'nothing had to wait before its issue')


@test
@on_every_kernel
def known_queue_times(env):
    """More requests than the device has tags: the rest waits in the scheduler, for a known time."""
    loop = env.loop(64 * MIB)
    with frozen_below(env, loop) as (top, freeze, thaw):
        if 'mq-deadline' not in top.queue('scheduler'):
            raise Skip('needs mq-deadline')
        tags = int(read_file(f'/sys/block/{top.name}/mq/0/nr_tags'))
        top.queue('scheduler', 'mq-deadline')
        top.queue('nr_requests', 2 * tags)
        top.queue('nomerges', 2)
        env.start()
        depth = tags + tags // 4
        freeze()
        load = env.fio(dict(filename=top.path, rw='randwrite', bs='4k', iodepth=depth, iodepth_batch=depth,
                            io_size=4 * KIB * depth), size=top.size)
        try:
            # The kernel says how many the device has; the rest follows at once.
            while in_flight(top.name) < tags:
                assert load.running(), 'fio ended early'
                time.sleep(0.001)
            time.sleep(0.2)
            waiting = time.monotonic_ns()
            time.sleep(0.2)
        finally:
            thawed = time.monotonic_ns()
            thaw()
        n = load.result()[top.name]['write']
        queue, service = (show(top.name).get(top.name, kind, 'write') for kind in ('queue', 'service'))
        equal((queue.count, service.count), (n, n))
        verify(top.name)
        delay = thawed - waiting
        bounds = [b for b in queue.data['bounds'] if b <= delay]
        waited = queue.count - at_most(queue, bounds[-1])
        served = service.count - at_most(service, bounds[-1])
        between(depth - tags, waited, depth - tags, f'requests that waited for {delay} ns before their issue')
        between(tags, served, tags, f'requests that the device took {delay} ns for')
        between((depth - tags) * delay, queue.sum, 2 * depth * delay, 'sum of queue times')


if __name__ == '__main__':
    main()
