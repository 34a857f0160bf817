# SPDX-License-Identifier: GPL-2.0-only
"""What collecting costs: CPU time of the programs per I/O, beside biolatency of libbpf-tools, and
what a device without requests loses by it.

Usage (as root): ./dev bench cost; ROUNDS=10 in the environment for more than 5 rounds.

kernel.bpf_stats_enabled times every run of every program. A run of an empty program has a price of
its own (calling it and reading the clock twice); it is measured in every round and taken off for
every run. All observers are measured once per round, in turn, under the same load: fio, 4 KiB
random reads and writes, queue depth 32, on a loop device over a file in memory.

The second table has a device without requests, zram, with blkhist and without it in turn, and no
statistics of programs: time per I/O of one fio thread, which submits and completes each I/O itself.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + '/../tests/live')
import lib  # noqa: E402 the path comes first

SECONDS = 3
SETTLE = 1
STATS = '/proc/sys/kernel/bpf_stats_enabled'


class Observer:
    """Something that is started, leaves programs attached, and is stopped."""

    def __init__(self, name, start=None, stop=None, command=None):
        self.name, self._start, self._stop, self._command = name, start, stop, command

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


def programs():
    out = subprocess.run(['bpftool', '-j', 'prog', 'show'], check=True, capture_output=True).stdout
    return {p['id']: p for p in json.loads(out)}


def measure(env, observer, loop):
    """Runs, ns and I/Os of all programs that the observer has attached."""
    before = set(programs())
    with observer:
        time.sleep(SETTLE)
        start = {i: p for i, p in programs().items() if i not in before}
        fio = env.fio({'filename': loop.path}, rw='randrw', bs='4k', iodepth=32, runtime=SECONDS)
        fio.result()
        end = programs()
    runs = {i: end[i].get('run_cnt', 0) - p.get('run_cnt', 0) for i, p in start.items()}
    ns = sum(end[i].get('run_time_ns', 0) - p.get('run_time_ns', 0) for i, p in start.items())
    ios = sum(job[op]['total_ios'] for job in fio.jobs for op in ('read', 'write'))
    return sum(runs.values()), ns, ios


def table(rounds):
    """One line per observer: medians over the rounds of ns per I/O, and of the ratio to biolatency."""
    print(f'{"observer":22} {"ns/IO":>8} {"min":>8} {"max":>8} {"of biolatency":>14} {"IOPS":>9}')
    for name in rounds[0]:
        cost = [r[name]['net'] for r in rounds]
        line = f'{name:22} {statistics.median(cost):8.0f} {min(cost):8.0f} {max(cost):8.0f}'
        if 'biolatency -D' in rounds[0]:
            ratio = statistics.median(r[name]['net'] / r['biolatency -D']['net'] for r in rounds)
            line += f' {ratio:14.3f}'
        else:
            line += f' {"-":>14}'
        print(line + f' {statistics.median(r[name]["ios"] for r in rounds) / SECONDS:9.0f}')


def statistics_of_programs(env, on):
    env.callback(lib.write_file, STATS, lib.read_file(STATS))
    lib.write_file(STATS, str(int(on)))


@lib.test
def cost(env):
    rounds_wanted = int(os.environ.get('ROUNDS', '5'))
    observers = [
        Observer('blkhist', ('start',)),
        Observer('blkhist, kernel stamp', ('start', '--stamp', 'kernel')),
        Observer('blkhist, request only', ('start', '--kinds', 'request')),
        Observer('blkhist, bios attached', ('start', '--bios', 'on')),
    ]
    biolatency = shutil.which('biolatency') or shutil.which('biolatency-bpfcc')
    if biolatency:
        observers.append(Observer('biolatency -D', command=[biolatency, '-D', '1000', '1']))
    else:
        print('biolatency is not installed: no comparison')
    empty = Observer('empty', command=[os.path.dirname(os.environ['BLKHIST']) + '/bench/empty-programs'])
    loop = env.loop(512 * lib.MIB)
    statistics_of_programs(env, True)

    rounds = []
    for _ in range(rounds_wanted):
        runs, ns, _ = measure(env, empty, loop)
        per_run = ns / runs
        result = {}
        for observer in observers:
            runs, ns, ios = measure(env, observer, loop)
            result[observer.name] = {'net': (ns - runs * per_run) / ios, 'ios': ios}
        rounds.append(result)
        print(f'# round {len(rounds)}: an empty program takes {per_run:.0f} ns', file=sys.stderr)
    print(f'\nLinux {os.uname().release}, {os.cpu_count()} CPUs, {rounds_wanted} rounds of {SECONDS} s; '
          'net of empty programs\n')
    table(rounds)


def zram(env):
    """One of its own."""
    if not os.path.exists('/sys/class/zram-control'):
        subprocess.run(['modprobe', 'zram'], check=False)
    try:
        number = lib.read_file('/sys/class/zram-control/hot_add')
    except FileNotFoundError:
        raise lib.Skip('the kernel has no zram') from None
    env.callback(lib.write_file, '/sys/class/zram-control/hot_remove', number)
    lib.write_file(f'/sys/block/zram{number}/disksize', str(512 * lib.MIB))
    return f'/dev/zram{number}'


def time_per_io(env, path, start=None):
    """ns, of one thread that does one I/O after the other."""
    if start:
        lib.blkhist(*start)
    try:
        fio = env.fio({'filename': path}, rw='randrw', bs='4k', ioengine='psync', runtime=SECONDS)
        fio.result()
    finally:
        if start:
            lib.blkhist('stop')
    return SECONDS * 1e9 / sum(job[op]['total_ios'] for job in fio.jobs for op in ('read', 'write'))


@lib.test
def cost_without_requests(env):
    rounds_wanted = int(os.environ.get('ROUNDS', '5'))
    path = zram(env)
    statistics_of_programs(env, False)
    time_per_io(env, path)  # its pages are allocated
    rounds = [(time_per_io(env, path), time_per_io(env, path, ('start',))) for _ in range(rounds_wanted)]
    without, with_it = (statistics.median(r[i] for r in rounds) for i in (0, 1))
    ratio = statistics.median(b / a for a, b in rounds)
    spread = [b - a for a, b in rounds]
    print(f'\nzram, one thread, {rounds_wanted} rounds of {SECONDS} s\n')
    print(f'{"":22} {"ns/IO":>8}')
    print(f'{"without blkhist":22} {without:8.0f}')
    print(f'{"blkhist":22} {with_it:8.0f}')
    print(f'{"difference":22} {statistics.median(spread):8.0f}  (min {min(spread):.0f}, max {max(spread):.0f}; '
          f'ratio {ratio:.3f})')


lib.main()
