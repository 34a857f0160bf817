# SPDX-License-Identifier: GPL-2.0-only
"""What a bench could leave behind."""
import contextlib
import glob
import os
import time

from lib import bpffs_entries, equal, read_file

TRACEFS = '/sys/kernel/tracing'


def _is_traced(path):
    with contextlib.suppress(OSError):  # of a device without a size, on older kernels
        return read_file(path) != '0'
    return False


def state():
    """Before and after it is the same."""
    tracers = [read_file(path) for path in glob.glob(f'{TRACEFS}/current_tracer')]
    return {'loop devices': {n for n in os.listdir('/sys/block') if n.startswith('loop') and len(n) < 7},
            'mounts': sorted(read_file('/proc/self/mounts').splitlines()),
            'directories': glob.glob('/dev/shm/blkhist-bench-*') + glob.glob('/tmp/blkhist-bench-*'),
            'bpffs': bpffs_entries(), 'tracers': tracers,
            'traced': [p for p in glob.glob('/sys/block/*/trace/enable') if _is_traced(p)],
            'traces': sorted(glob.glob('/sys/kernel/debug/block/*/dropped'))}


@contextlib.contextmanager
def unchanged():
    """Others on this machine have loop devices, too: what is gone again a moment later was theirs."""
    before = state()
    yield
    for _ in range(100):
        if (after := state()) == before:
            return
        time.sleep(0.1)
    equal(after, before, 'state of the machine')


def processes(mark):
    """Those that have inherited the mark in their environment."""
    found = []
    for path in glob.glob('/proc/[0-9]*/environ'):
        with contextlib.suppress(OSError), open(path, 'rb') as f:
            if mark.encode() in f.read():
                found.append(int(path.split('/')[2]))
    return found


def none_is_left(mark):
    for _ in range(100):  # those that were killed are for PID 1 to reap
        if not (left := processes(mark)):
            return
        time.sleep(0.1)
    equal(left, [], 'processes')
