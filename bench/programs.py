# SPDX-License-Identifier: GPL-2.0-only
"""
What the measurements of CPU time per I/O on this machine share: the load, and the time of programs.

kernel.bpf_stats_enabled times every run of every program. A run of an empty program has a price of
its own (calling it and reading the clock twice); it is measured, too, and taken off for every run.
"""
import contextlib
import json
import os
import subprocess
import time

import lib

SECONDS = 3
SETTLE = 1
STATS = '/proc/sys/kernel/bpf_stats_enabled'


class Observer:
    """Something that is started, leaves programs attached, and is stopped."""

    def __init__(self, name, start=None, command=None):
        self.name, self._start, self._command = name, start, command
        self.process = None

    def __enter__(self):
        if self._command:
            self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL)
        else:
            lib.blkhist(*self._start)

    def __exit__(self, *_):
        if self._command:
            self.process.kill()
            self.process.wait()
        else:
            lib.blkhist('stop')

    def process_ns(self):
        """CPU time that its own threads have taken so far."""
        total = 0
        for thread in os.listdir(f'/proc/{self.process.pid}/task') if self.process else ():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total += int(lib.read_file(f'/proc/{self.process.pid}/task/{thread}/schedstat').split()[0])
        return total


def empty():
    return Observer('empty', command=[os.path.dirname(os.environ['BLKHIST']) + '/bench/empty-programs'])


def programs():
    out = subprocess.run(['bpftool', '-j', 'prog', 'show'], check=True, capture_output=True).stdout
    return {p['id']: p for p in json.loads(out)}


class Measured:
    """fio, 4 KiB random reads and writes at queue depth 32, under an observer that is running already."""

    def __init__(self, env, observer, before, loop):
        start, process = {i: p for i, p in programs().items() if i not in before}, observer.process_ns()
        fio = env.fio({'filename': loop.path}, rw='randrw', bs='4k', iodepth=32, runtime=SECONDS)
        fio.result()
        end = programs()
        self.runs = sum(end[i].get('run_cnt', 0) - p.get('run_cnt', 0) for i, p in start.items())
        self.ns = sum(end[i].get('run_time_ns', 0) - p.get('run_time_ns', 0) for i, p in start.items())
        self.process_ns = observer.process_ns() - process
        self.ios = sum(job[op]['total_ios'] for job in fio.jobs for op in ('read', 'write'))

    def net(self, per_run):
        """ns of programs per I/O, if an empty one takes @per_run."""
        return (self.ns - self.runs * per_run) / self.ios


def measure(env, observer, loop):
    before = set(programs())
    with observer:
        time.sleep(SETTLE)
        return Measured(env, observer, before, loop)


def per_run(env, loop):
    m = measure(env, empty(), loop)
    return m.ns / m.runs


def statistics_of_programs(env, on):
    env.callback(lib.write_file, STATS, lib.read_file(STATS))
    lib.write_file(STATS, str(int(on)))
