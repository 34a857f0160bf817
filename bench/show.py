# SPDX-License-Identifier: GPL-2.0-only
"""How long `blkhist show -f json` takes with 64 active partitions, and what the maps take.

Usage (as root): ./dev bench show
"""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + '/../tests/live')
import lib  # noqa: E402 the path comes first

LOOPS, PARTITIONS, RUNS = 8, 8, 20


@lib.test
def show(env):
    env.start()
    for _ in range(LOOPS):
        loop = env.loop(PARTITIONS * lib.MIB)
        for number in range(PARTITIONS):
            partition = loop.partition(number + 1, number * lib.MIB, lib.MIB)
            jobs = env.fio({'filename': '/dev/' + partition}, rw='randrw', bssplit='4k/50:64k/50', iodepth=8,
                           size=lib.MIB, loops=20)
            jobs.result()
            lib.blkhist('status')  # tops up the counters that are kept ready
    took = []
    for _ in range(RUNS):
        began = time.monotonic()
        out = lib.blkhist('show', '-f', 'json').stdout
        took.append((time.monotonic() - began) * 1000)
    partitions = {h['partition'] for h in lib.Snapshot(out).data['histograms']} - {None}
    active = sum(p.startswith('loop') for p in partitions)
    print(f'\n{active} active partitions of {LOOPS} disks, {len(out)} bytes of JSON, {RUNS} runs')
    print(f'ms: median {statistics.median(took):.1f}, min {min(took):.1f}, max {max(took):.1f}')
    print(f'memory of all maps: {lib.status()["memory_bytes"]} bytes')


lib.main()
