# SPDX-License-Identifier: GPL-2.0-only
"""
What observers of block I/O cost, in instructions per I/O: in virtual machines of one CPU, whose clock
counts the instructions that are executed, so that no noise is in it.

Usage: ./dev vm-bench [-j N] [-n READS] [--json FILE] [-o OBSERVER]... [KERNEL...]

Each kernel is booted twice, the second time with the observers in the opposite order. The command fails
if the two differ by more than 1 % in any figure. -j says how many machines run at once; -n is the number
of reads that are measured, of a null_blk device, after a tenth of it to warm up; -o names observers.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
sys.path.insert(0, TOP + '/vm')
import kernels  # noqa: E402 the path comes first
import run  # noqa: E402

KERNELS = ('6.12', '7')
OBSERVERS = ('none', 'empty programs', 'blkhist', 'blkhist, kernel stamp', 'blkhist, request only',
             'blkhist, service only', 'blkhist, stopped', 'biolatency -D', 'blktrace, all', 'blktrace, 0xd0',
             'blktrace, 0xc0', 'record, all', 'record, Q D C', 'record, D C', 'record, slow only')

# blktrace makes its file longer, and fills it with zeroes, by 8 MiB at a time: what issue and completion of
# so many reads take is four times that.
READS = 4 * (8 << 20) // (2 * 48)
TOLERANCE = 0.01
TIMEOUT = 3600

# One CPU, so that all that is executed is of the load or caused by it. Where the processor has fast
# instructions for strings, kernels copy by bytes with them, which a counter of instructions takes for as
# many instructions as there are bytes; without, it is one for eight.
MACHINE = {'cpu': 'max,-erms,-fsrm', 'cpus': 1, 'disks': False, 'options': ('-icount', 'shift=0')}


class Failure(Exception):
    pass


# --- measuring ---

def one_boot(kernel, observers, reads):
    """What instructions.py says: of the machine, and of each observer by name."""
    command = ['/usr/bin/python3', f'{HERE}/instructions.py', str(reads // 10), str(reads), *observers]
    plan = {'commands': [{'name': 'instructions', 'command': command, 'timeout': TIMEOUT}],
            'environment': {'BLKHIST': f'{TOP}/build/blkhist'}}
    with run.run_plan(kernel, plan, ['machine'], TIMEOUT, **MACHINE) as (work, [death]):
        log = run.read(f'{work}/results/instructions.log')
        if death:
            raise Failure(f'{os.path.basename(kernel)}: {death}\n{log}\n{run.console(work, "machine")}')
    try:
        machine, *results = map(json.loads, log.splitlines())
    except ValueError:
        raise Failure(f'{os.path.basename(kernel)}: {log}') from None
    if len(results) != len(observers):
        raise Failure(f'{os.path.basename(kernel)}: no end: {log}')
    return machine, {r['observer']: r for r in results}


class Row:
    """An observer, in two boots."""

    def __init__(self, name, results, reads):
        self.name, self.results, self._reads = name, results, reads
        self.cannot_run = results[0].get('cannot_run') or results[1].get('cannot_run')
        self.measured = all('total' in r for r in results)

    def per_io(self, what):
        """The mean of both."""
        return sum(r[what] for r in self.results) / len(self.results) / self._reads

    @property
    def total(self):
        return self.per_io('total')

    @property
    def elsewhere(self):
        """Instructions that were executed while another process than that of the load was running."""
        return self.total - self.per_io('own')

    @property
    def events(self):
        """What is written is of the reads to warm up, too."""
        return self.per_io('events') / 1.1 if 'events' in self.results[0] else None

    @property
    def bytes(self):
        return self.per_io('bytes') / 1.1 if 'bytes' in self.results[0] else None

    @property
    def lost(self):
        return max(r['lost'] for r in self.results) if 'lost' in self.results[0] else None

    @property
    def spread(self):
        """By how much the two differ, as a part of the larger one."""
        a, b = (r['total'] for r in self.results)
        return abs(a - b) / max(a, b)

    def faults(self):
        """Sentences on what makes its figures worthless."""
        for r in self.results:
            if 'failed' in r:
                yield f'{self.name}: {r["failed"]}'
            elif 'total' in r:
                if abs(r['loop'] / r['expected'] - 1) > TOLERANCE:
                    yield (f'{self.name}: a loop of {r["expected"]} instructions takes {r["loop"]} ns: the clock '
                           'does not count instructions')
                if r['sleeps']:
                    yield f'{self.name}: the load has waited {r["sleeps"]} times, while the clock was running'
        if self.measured and self.spread > TOLERANCE:
            yield f'{self.name}: two boots differ by {100 * self.spread:.2f} %, by more than 1 %'


class Kernel:
    """One kernel's rows, by name of observer."""

    def __init__(self, boots, observers, reads):
        self.release = boots[0][0]['kernel']
        self.rows = {name: Row(name, [results[name] for _, results in boots], reads) for name in observers}
        self.faults = [fault for row in self.rows.values() for fault in row.faults()]


def measure(lines, observers, reads, jobs):
    """Of every line its Kernel, in turn."""
    fetched = kernels.fetch(lines)
    for line, kernel in fetched.items():
        if isinstance(kernel, Exception):
            raise Failure(str(kernel))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        boots = {line: [pool.submit(one_boot, kernel, order, reads) for order in (observers, observers[::-1])]
                 for line, kernel in fetched.items()}
        try:
            for of_kernel in boots.values():
                yield Kernel([boot.result() for boot in of_kernel], observers, reads)
        finally:
            pool.shutdown(cancel_futures=True)


# --- printing ---

def versions():
    """Of qemu and of what is measured; kernels are Debian's, and so are the tools."""
    qemu = subprocess.run(['qemu-system-x86_64', '--version'], capture_output=True, text=True, check=True).stdout
    blkhist = subprocess.run([f'{TOP}/build/blkhist', '--version'], capture_output=True, text=True, check=True).stdout
    tools = subprocess.run(['dpkg-query', '-W', '-f', ', ${Package} ${Version}', 'blktrace', 'libbpf-tools'],
                           capture_output=True, text=True, check=False).stdout
    return f'qemu {re.search(r"version ([^ ]+)", qemu)[1]}, {blkhist.strip()}{tools}'


def number(value, form):
    return '' if value is None else format(value, form)


def table(kernel):
    """Markdown."""
    print('| observer | instructions per I/O | more than none | ratio | in other processes | events per I/O '
          '| bytes per I/O | lost |')
    print('| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |')
    none = kernel.rows['none'].total
    for row in kernel.rows.values():
        if row.measured:
            print(f'| {row.name} | {row.total:.0f} | {round(row.total - none)} | {row.total / none:.3f} | '
                  f'{row.elsewhere:.0f} | {number(row.events, ".2f")} | {number(row.bytes, ".0f")} '
                  f'| {number(row.lost, "d")} |')
        elif row.cannot_run:
            print(f'| {row.name} | does not run | | | | | | |')


def report(kernel, reads):
    print(f'Linux {kernel.release}, {versions()}, {time.strftime("%Y-%m-%d", time.gmtime())}\n')
    table(kernel)
    widest = max((row for row in kernel.rows.values() if row.measured), key=lambda row: row.spread)
    print(f'\n2 boots, {reads} reads each; they differ by {100 * widest.spread:.2f} % at most ({widest.name}).')
    for row in kernel.rows.values():
        if row.cannot_run:
            print(f'{row.name}: {row.cannot_run}')
    for fault in kernel.faults:
        print(f'NOT OK: {fault}')
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(
        prog='vm-bench', usage='./dev vm-bench [-j N] [-n READS] [--json FILE] [-o OBSERVER]... [KERNEL...]')
    parser.add_argument('-j', type=int, default=1, dest='jobs')
    parser.add_argument('-n', type=int, default=READS, dest='reads')
    parser.add_argument('--json')
    parser.add_argument('-o', action='append', dest='observers', choices=OBSERVERS, metavar='OBSERVER')
    parser.add_argument('kernel', nargs='*', default=KERNELS)
    arguments = parser.parse_args()
    # All others are compared with none.
    observers = ['none', *(o for o in arguments.observers or OBSERVERS if o != 'none')]
    done = []
    try:
        for kernel in measure(arguments.kernel, observers, arguments.reads, arguments.jobs):
            report(kernel, arguments.reads)
            done.append(kernel)
    except Failure as e:
        sys.exit(f'vm-bench: {e}')
    if arguments.json:
        with open(arguments.json, 'w', encoding='utf-8') as f:
            json.dump([{'kernel': k.release, 'versions': versions(), 'reads': arguments.reads,
                        'boots': [{name: row.results[i] for name, row in k.rows.items()} for i in (0, 1)]}
                       for k in done], f, indent=1)
    sys.exit(any(kernel.faults for kernel in done))


if __name__ == '__main__':
    main()
