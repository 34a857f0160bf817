# SPDX-License-Identifier: GPL-2.0-only
"""What reading a file of the tree costs: CPU time of the process that serves it, at 1,000 reads a second.

Usage (as root): ./dev bench files; ROUNDS=5 in the environment for more than 3 rounds.

A read is open, read to the end, close. The time is that of /proc/PID/stat, of the process and the
children that it has waited for, as a share of one CPU; that of the reader is not in it.
"""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + '/../tests/live')
import lib  # noqa: E402 the path comes first
import tree  # noqa: E402

SECONDS = 5
RATE = 1000
TICKS = os.sysconf('SC_CLK_TCK')


def cpu_time(pid):
    """Seconds in user mode and in the kernel."""
    with open(f'/proc/{pid}/stat') as f:
        words = f.read().rsplit(')', 1)[1].split()
    utime, stime, cutime, cstime = map(int, words[11:15])
    return (utime + cutime) / TICKS, (stime + cstime) / TICKS


def read(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return len(tree.read_all(fd))
    finally:
        os.close(fd)


def measure(server, path):
    """Reads per second, and shares of one CPU in user mode and in the kernel, in percent."""
    before, began = cpu_time(server), time.monotonic()
    n = 0
    while (passed := time.monotonic() - began) < SECONDS:
        if passed * RATE < n:
            time.sleep(n / RATE - passed)
        read(path)
        n += 1
    after, took = cpu_time(server), time.monotonic() - began
    return n / took, *(100 * (b - a) / took for a, b in zip(before, after))


@lib.test
def files(env):
    rounds_wanted = int(os.environ.get('ROUNDS', '3'))
    loop, p1, _ = env.two_partitions()
    env.start()
    mounted = tree.Tree(env)
    for name in (p1, loop.name):
        env.fio({'filename': f'/dev/{name}'}, rw='randrw', bssplit='4k/50:64k/50', iodepth=8, size=16 * lib.MIB,
                loops=5).result()
    read_histo = 'read_request_histo'
    wanted = {'disk': mounted(loop.name, read_histo), 'partition': mounted(loop.name, p1, read_histo),
              'seek of the disk': mounted(loop.name, 'seek_histo')}
    results = {name: [] for name in wanted}
    for _ in range(rounds_wanted):
        for name, path in wanted.items():
            results[name].append(measure(mounted.server, path))
    print(f'\nLinux {os.uname().release}, {os.cpu_count()} CPUs, {rounds_wanted} rounds of {SECONDS} s, '
          f'{len(os.listdir("/sys/class/block"))} disks and partitions\n')
    print(f'{"file":18} {"bytes":>7} {"reads/s":>8} {"user %":>7} {"kernel %":>9} {"CPU %":>6} {"max":>6}')
    for name, of in results.items():
        rate, user, kernel = (statistics.median(r[i] for r in of) for i in range(3))
        both = [r[1] + r[2] for r in of]
        print(f'{name:18} {read(wanted[name]):7} {rate:8.0f} {user:7.1f} {kernel:9.1f} '
              f'{statistics.median(both):6.1f} {max(both):6.1f}')
    print('asked for: under 10 % of one CPU')


lib.main()
