#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""null_blk with requests: known service times, hardware queues, schedulers."""
from lib import KIB, MIB, main, test
from machine import Trace, check_against_trace, null_blk


@test
def counts_are_exact(env):
    device = null_blk(env, memory_backed=1, discard=1)
    env.start()
    disk = env.disk(device.path)
    with Trace(device.name) as trace:
        for i in range(50):
            disk.read(i * MIB, 4 * KIB)
            disk.write(i * MIB, 64 * KIB)
            disk.discard(i * MIB, MIB)
    check_against_trace(device, trace, dict(read=50, write=50, discard=50))


if __name__ == '__main__':
    main()
