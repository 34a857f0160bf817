#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""blkhist bench with the tracers of the kernel, blktrace and ftrace's, which a locked down machine refuses."""
import json
import os
import shutil
import signal
import subprocess
import time
import uuid

import machine
from leftovers import none_is_left, processes, unchanged
from lib import BLKHIST, KIB, blkhist, equal, main, programs_in_path, read_file, test

READS = 500
TRACERS = ('blktrace:0xc0', 'ftrace-blk:0xc0')

# An event as a tracer writes it has 48 bytes or more; issue and completion of every read.
LEAST = 2 * 48 * READS


# Each ioctl of it later than the bench would begin with the workload
SLOW_BLKTRACE = 'exec strace -f -o /dev/null -e trace=ioctl -e inject=ioctl:delay_enter=300000 {blktrace} "$@"'


def arguments(device, reads):
    return ['bench', '-f', 'json', '-r', '6', '-O', '+'.join(TRACERS), '-d', device.name, '--trace-dir', '/dev/shm',
            '--', 'dd', f'if={device.path}', 'of=/dev/null', f'bs={4 * KIB}', f'count={reads}', 'iflag=direct']


def bench_traces_every_read(device, environment=None):
    with unchanged():
        result = json.loads(blkhist(*arguments(device, READS), env=environment).stdout)
    equal({o['name']: o.get('cannot_run') for o in result['observers']}, dict.fromkeys(('none', *TRACERS)), 'observers')
    equal(len(result['rounds']), 6 * 3, 'measured')
    for r in result['rounds']:
        if r['observer'] in TRACERS:
            equal(r['observer_dropped'], 0, f'dropped by {r["observer"]}')
            assert r['observer_bytes'] >= LEAST, r
        else:
            equal(r['observer_bytes'], 0, 'written by none')


@test
def every_read_is_traced(env):
    bench_traces_every_read(machine.null_blk(env))


@test
def traced_from_the_start(env):
    """Also by a blktrace that is slow to start its traces."""
    device = machine.null_blk(env)
    blktrace = shutil.which('blktrace', path=f'{os.environ["PATH"]}:/usr/sbin')
    with programs_in_path({'blktrace': SLOW_BLKTRACE.format(blktrace=blktrace)}) as environment:
        bench_traces_every_read(device, environment)


@test
def killed_while_it_traces(env):
    """The traces are torn down, so that the next ones can be set up; also if blktrace is killed, which leaves them."""
    device = machine.null_blk(env)
    for also in ((), ('blktrace',)):
        mark = str(uuid.uuid4())
        with unchanged():
            process = subprocess.Popen([BLKHIST, *arguments(device, 10 ** 9)], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, env={**os.environ, 'MARK': mark})
            machine.wait_for(lambda: os.path.exists(f'{machine.DEBUGFS}/block/{device.name}/dropped'), 'a trace')
            time.sleep(0.2)
            victims = [pid for pid in processes(mark) if read_file(f'/proc/{pid}/comm') in also]
            equal(len(victims), len(also), f'programs named {also}')
            for pid in (*victims, process.pid):
                os.kill(pid, signal.SIGKILL)
            equal(process.wait(), -signal.SIGKILL, 'status')
            none_is_left(mark)


if __name__ == '__main__':
    main()
