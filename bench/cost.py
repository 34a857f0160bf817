# SPDX-License-Identifier: GPL-2.0-only
"""What collecting costs: CPU time of the programs per I/O, beside biolatency of libbpf-tools, and
what a device without requests loses by it.

Usage (as root): ./dev bench cost; ROUNDS=10 in the environment for more than 5 rounds.

The time is that of programs.py, net of empty programs, which are measured in every round. All observers
are measured once per round, in turn, under the same load: fio, 4 KiB random reads and writes, queue
depth 32, on a loop device over a file in memory.

The second table has a device without requests, zram, with blkhist and without it in turn, and no
statistics of programs: time per I/O of one fio thread, which submits and completes each I/O itself.
"""
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + '/../tests/live')
import lib  # noqa: E402 the path comes first
from programs import SECONDS, Observer, measure, per_run, statistics_of_programs  # noqa: E402


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
    loop = env.loop(512 * lib.MIB)
    statistics_of_programs(env, True)

    rounds = []
    for _ in range(rounds_wanted):
        empty = per_run(env, loop)
        result = {}
        for observer in observers:
            measured = measure(env, observer, loop)
            result[observer.name] = {'net': measured.net(empty), 'ios': measured.ios}
        rounds.append(result)
        print(f'# round {len(rounds)}: an empty program takes {empty:.0f} ns', file=sys.stderr)
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
