# SPDX-License-Identifier: GPL-2.0-only
"""
What recording costs per I/O, beside blktrace with the same events: in virtual machines, in instructions,
as ./dev vm-bench measures it; and on this machine, in CPU time, where blktrace may not be allowed to run.

Usage (as root): ./dev bench record; ROUNDS=10 in the environment for more than 5 rounds on this machine.

On this machine: CPU time of the programs in the kernel, net of empty programs, and of the process that
writes the files, into memory. All are measured in every round, in turn, under the load of programs.py.
"""
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + '/../tests/live')
import lib  # noqa: E402 the path comes first
import vm  # noqa: E402
from programs import SECONDS, Observer, measure, per_run, statistics_of_programs  # noqa: E402

# Pairs with the same events. On null_blk blktrace's 0xd0 is the same as all, and record has all but requeue
# in it, too: the rest of its first category is not asked for one by one.
IN_MACHINES = ('none', 'blkhist', 'blktrace, all', 'record, all', 'record, Q D C', 'blktrace, 0xc0', 'record, D C',
               'record, slow only')


class Recorder(Observer):
    """Writes into memory. Afterwards it tells how much that was."""

    def __init__(self, name, loop, *options):
        super().__init__(name)
        self._options = ('-d', loop.name, *options)

    def __enter__(self):
        self._directory = tempfile.TemporaryDirectory(prefix='blkhist-bench-', dir='/dev/shm')
        self.process = subprocess.Popen([os.environ['BLKHIST'], 'record', '-o', f'{self._directory.name}/r',
                                         *self._options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def __exit__(self, *_):
        with self._directory as directory:
            self.process.send_signal(signal.SIGINT)
            said = self.process.communicate()[1]
            if self.process.returncode:
                raise RuntimeError(f'{self.name}: {said}')
            self.events, self.lost = (int(re.search(rf'(\d+) {what}', said)[1]) for what in ('events', 'lost'))
            self.bytes = sum(entry.stat().st_size for entry in os.scandir(f'{directory}/r'))


@lib.test
def in_virtual_machines(env):
    for kernel in vm.measure(vm.KERNELS, IN_MACHINES, vm.READS, os.cpu_count()):
        print()
        vm.report(kernel, vm.READS)
        assert not kernel.faults


def one_round(env, observers, loop):
    empty = per_run(env, loop)
    result = {}
    for observer in observers:
        m = measure(env, observer, loop)
        events = observer.events + observer.lost if isinstance(observer, Recorder) else 0
        result[observer.name] = {
            'programs': m.net(empty), 'process': m.process_ns / m.ios, 'iops': m.ios / SECONDS,
            'events': events / m.ios, 'bytes': observer.bytes / m.ios if events else 0,
            'lost': observer.lost / m.ios if events else 0}
    return result


@lib.test
def on_this_machine(env):
    rounds_wanted = int(os.environ.get('ROUNDS', '5'))
    loop = env.loop(512 * lib.MIB)
    observers = [Observer('blkhist', ('start',)),
                 Recorder('record, all', loop, '-a', 'all'),
                 Recorder('record, Q D C', loop, '-a', 'queue,issue,complete'),
                 Recorder('record, D C', loop, '-a', 'issue,complete'),
                 Recorder('record, slow only', loop, '-a', 'issue,complete', '--min-time', '10s')]
    statistics_of_programs(env, True)
    rounds = [one_round(env, observers, loop) for _ in range(rounds_wanted)]
    print(f'\nLinux {os.uname().release}, {os.cpu_count()} CPUs, {rounds_wanted} rounds of {SECONDS} s; ns per I/O, '
          'net of empty programs\n')
    print(f'{"observer":20} {"programs":>9} {"min":>6} {"max":>6} {"process":>8} {"events/IO":>10} {"bytes/IO":>9} '
          f'{"lost/IO":>8} {"IOPS":>8}')
    for name in rounds[0]:
        median = {what: statistics.median(r[name][what] for r in rounds) for what in rounds[0][name]}
        cost = [r[name]['programs'] for r in rounds]
        print(f'{name:20} {median["programs"]:9.0f} {min(cost):6.0f} {max(cost):6.0f} {median["process"]:8.0f} '
              f'{median["events"]:10.2f} {median["bytes"]:9.1f} {median["lost"]:8.4f} {median["iops"]:8.0f}')


lib.main()
