# SPDX-License-Identifier: GPL-2.0-only
"""How long `blkhist show -i` takes for a long trace and how much memory, beside blkparse and btt,
beside blkiomon, and beside reading the file and doing nothing with it.

Usage: ./dev bench trace; ROUNDS=10 in the environment for more than 5 rounds.

The trace is a real one (tests/traces/data) over and over, with its times and sequence numbers going
on, in memory (tmpfs): 2 million events, 100 MB. Every program reads the same files, on one CPU, in turn
within every round. What they have read is looked at, too: a program that left out half would be fast.
"""
import contextlib
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLE = HERE + '/../tests/traces/data/nvme-reads.blktrace.0'
BLKHIST = os.environ['BLKHIST']
MEASURED = os.path.dirname(BLKHIST) + '/bench/measured'
CPU = max(os.sched_getaffinity(0))

# What the sample holds, found by pairing its records by hand, and where its records have what.
REQUESTS, SERVICE_SUM_NS = 963, 53_878_701
RECORD = struct.Struct('<IIQQIIIIIHH')  # magic, sequence, time, ..., device, cpu, error, pdu_len
SEQUENCE_AND_TIME, CPU_NUMBER = (struct.Struct('<IQ'), 4), (struct.Struct('<I'), 40)
PAUSE_NS = 10_000  # between the end of one repetition and the beginning of the next one

REPETITIONS = 297  # 2,002,671 records
MIB = 1 << 20


class Part:
    """What one file has of one repetition; written over and over."""

    def __init__(self):
        self.data, self.stamps, self.sequences = bytearray(), [], {}

    def add(self, record, cpu):
        _, sequence, when, *_ = RECORD.unpack_from(record)
        at = len(self.data)
        self.data += record
        CPU_NUMBER[0].pack_into(self.data, at + CPU_NUMBER[1], cpu)
        if sequence:  # notifies have none
            sequence = self.sequences[cpu] = self.sequences.get(cpu, 0) + 1
        self.stamps.append((at + SEQUENCE_AND_TIME[1], sequence, when, cpu))

    def repetition(self, number, period):
        pack, steps = SEQUENCE_AND_TIME[0].pack_into, self.sequences
        for at, sequence, when, cpu in self.stamps:
            pack(self.data, at, sequence and sequence + number * steps[cpu], when + number * period)
        return self.data


def sample_records():
    with open(SAMPLE, 'rb') as sample:
        data = sample.read()
    at = 0
    while at < len(data):
        end = at + RECORD.size + RECORD.unpack_from(data, at)[-1]
        yield data[at:end]
        at = end


class Layout:
    """A way to spread the records over CPUs, and over files."""

    def __init__(self, title, cpus, files):
        self.title, self.cpus, self.files = title, cpus, files

    @contextlib.contextmanager
    def trace(self, directory, repetitions):
        """In a directory of its own, as long as it is needed."""
        with tempfile.TemporaryDirectory(dir=directory) as own:
            yield self._write(own, repetitions)

    def _write(self, directory, repetitions):
        records = list(sample_records())
        period = RECORD.unpack_from(records[-1])[2] - RECORD.unpack_from(records[0])[2] + PAUSE_NS
        parts = {number: Part() for number in self.files}
        for i, record in enumerate(records):
            # A request has seven events: with five at a time it is on two CPUs.
            cpu = self.cpus[i // 5 % len(self.cpus)]
            parts[cpu if cpu in parts else self.files[0]].add(record, cpu)
        paths = []
        for number, part in parts.items():
            paths.append(f'{directory}/trace.blktrace.{number}')
            with open(paths[-1], 'wb') as file:
                for n in range(repetitions):
                    file.write(part.repetition(n, period))
        return Trace(directory, paths, repetitions, merged=len(self.cpus) > len(self.files),
                     records=repetitions * len(records))


# blkparse takes a file that is called .1 only beside one that is called .0, and of any file only the
# records of the CPU in its name.
ONE_FILE = Layout('one file, one CPU', cpus=(1,), files=(1,))
PER_CPU = Layout('4 files, one per CPU', cpus=(0, 1, 2, 3), files=(0, 1, 2, 3))
MERGED = Layout('one file, merged from 4 CPUs', cpus=(0, 1, 2, 3), files=(0,))


class Trace:
    def __init__(self, directory, paths, repetitions, merged, records):
        self.directory, self.paths, self.merged, self.records = directory, paths, merged, records
        self.requests, self.service_sum = repetitions * REQUESTS, repetitions * SERVICE_SUM_NS
        self.bytes = sum(map(os.path.getsize, paths))
        if not os.path.exists(f'{directory}/trace.blktrace.0'):
            open(f'{directory}/trace.blktrace.0', 'wb').close()


def must(condition, what):
    if not condition:
        sys.exit(f'bench trace: {what}')


class Run:
    """A command, run on one CPU: seconds and kB."""

    def __init__(self, trace, command, stdin=None):
        with open(stdin or os.devnull, 'rb') as file:
            self._run(trace, command, file)

    def _run(self, trace, command, stdin):
        r = subprocess.run(['taskset', '-c', str(CPU), MEASURED, *command], stdin=stdin, capture_output=True,
                           text=True, check=False, cwd=trace.directory)
        must(r.returncode == 0, f'{command} failed: {r.stderr}')
        ns, self.kb = map(int, r.stdout.split())
        self.seconds = ns / 1e9


class Piped(Run):
    """Its input comes through a pipe."""

    def __init__(self, trace, command):
        with subprocess.Popen(['cat', *trace.paths], stdout=subprocess.PIPE) as cat:
            self._run(trace, command, cat.stdout)


def output(trace, *command, stdin=subprocess.DEVNULL):
    return subprocess.run(command, check=True, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, cwd=trace.directory).stdout


# --- the programs ---

def blkhist_command(trace, *args):
    return [BLKHIST, 'show', '-i', trace.paths[0], *args]


def blkhist(trace):
    return Run(trace, blkhist_command(trace)).seconds


def blkhist_has_read_it(trace):
    out = json.loads(output(trace, *blkhist_command(trace, '-f', 'json')))
    reads = {(h['kind'], h['op']): h for h in out['histograms'] if not h['partition']}
    service = reads['service', 'read']
    must((service['count'], service['sum']) == (trace.requests, trace.service_sum),
         f'blkhist found {service["count"]} reads of {service["sum"]} ns, not {trace.requests} of '
         f'{trace.service_sum}')
    must(out['losses']['events'] == trace.records,
         f'blkhist read {out["losses"]["events"]} records, not {trace.records}')


def plain_read(trace):
    return sum(Run(trace, ['dd', 'bs=256k', 'status=none', f'if={path}', 'of=/dev/null']).seconds
               for path in trace.paths)


DUMP = 'dump'  # what blkparse makes for btt


def blkparse_and_btt(trace):
    """blkparse takes the records of several CPUs from a pipe only."""
    if trace.merged:
        first = Run(trace, ['blkparse', '-q', '-O', '-d', DUMP, '-i', '-'], trace.paths[0])
    else:
        first = Run(trace, ['blkparse', '-q', '-O', '-d', DUMP, 'trace'])
    return first.seconds + Run(trace, ['btt', '-i', DUMP]).seconds


def blkparse_and_btt_have_read_it(trace):
    size = os.path.getsize(f'{trace.directory}/{DUMP}')
    must(size == trace.bytes, f'blkparse wrote {size} bytes of {trace.bytes}')
    requests = re.search(r'^D2C .* (\d+)$', output(trace, 'btt', '-i', DUMP), re.M)[1]
    must(int(requests) == trace.requests, f'btt found {requests} requests, not {trace.requests}')


def blkiomon(trace):
    """It reads one stream. What it has found it prints every so many seconds, and not at the end."""
    if len(trace.paths) > 1:
        return None
    return Run(trace, ['blkiomon', '-I', '3600', '-h', '-'], trace.paths[0]).seconds


def blkiomon_has_read_it(trace):
    if len(trace.paths) > 1:
        return
    with subprocess.Popen(['sh', '-c', f'cat {trace.paths[0]}; sleep 2.5'], stdout=subprocess.PIPE) as cat:
        out = output(trace, 'blkiomon', '-I', '1', '-h', '-', stdin=cat.stdout)
    requests = sum(map(int, re.findall(r'^d2c read .*?num (\d+)', out, re.M)))
    must(requests == trace.requests, f'blkiomon found {requests} requests, not {trace.requests}')


PROGRAMS = {
    'plain read': plain_read,
    'blkparse + btt': blkparse_and_btt,
    'blkiomon': blkiomon,
    'blkhist': blkhist,
}
CHECKS = (blkparse_and_btt_have_read_it, blkiomon_has_read_it, blkhist_has_read_it)


# --- the tables ---

def times(trace, layout, rounds_wanted):
    """One line per program: medians over the rounds, also of its time as a multiple of blkhist's."""
    rounds = []
    for number in range(rounds_wanted + 1):
        result = {name: program(trace) for name, program in PROGRAMS.items()}
        if number == 0:  # the first one finds the files in no cache of a CPU, and is not counted
            for check in CHECKS:
                check(trace)
        else:
            rounds.append(result)
    print(f'\n{layout.title}: {trace.records} events, {trace.bytes} bytes\n')
    print(f'{"":16} {"seconds":>8} {"min":>8} {"max":>8} {"million events/s":>17} {"times blkhist":>14}')
    for name in PROGRAMS:
        if rounds[0][name] is None:
            continue
        took = [r[name] for r in rounds]
        median = statistics.median(took)
        ratio = statistics.median(r[name] / r['blkhist'] for r in rounds)
        print(f'{name:16} {median:8.4f} {min(took):8.4f} {max(took):8.4f} {trace.records / median / 1e6:17.1f} '
              f'{ratio:14.2f}', flush=True)


def memory(directory, layout, piped=False):
    """kB that blkhist takes for traces of 64 MiB and of 1 GiB."""
    kb = []
    for size in (64 * MIB, 1024 * MIB):
        with layout.trace(directory, size // os.path.getsize(SAMPLE)) as trace:
            if piped:
                kb.append(Piped(trace, [BLKHIST, 'show', '-i', '-']).kb)
            else:
                kb.append(Run(trace, blkhist_command(trace)).kb)
    title = layout.title + (', by a pipe' if piped else '')
    print(f'{title:42} {kb[0]:10} {kb[1]:10} {kb[1] / kb[0]:8.3f}', flush=True)


def versions():
    with open('/proc/cpuinfo', encoding='utf-8') as cpuinfo:
        model = re.search(r'^model name\s*: (.*)$', cpuinfo.read(), re.M)
    options = {BLKHIST: '--version', 'blkparse': '-V', 'btt': '-V', 'blkiomon': '-V'}
    tools = [subprocess.run(command, capture_output=True, text=True, check=False) for command in options.items()]
    print(f'{model[1] if model else os.uname().machine}, {os.cpu_count()} CPUs, Linux {os.uname().release}')
    print(', '.join(re.sub(' version', '', (t.stdout or t.stderr).strip()) for t in tools))
    print(time.strftime('%Y-%m-%d', time.gmtime()))


def room(directory):
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


def main():
    rounds_wanted = int(os.environ.get('ROUNDS', '5'))
    # In memory, where there is enough: the largest trace, and for the others what blkparse makes of them.
    enough = os.path.isdir('/dev/shm') and room('/dev/shm') > 1200 * MIB
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(
            prefix='blkhist-bench-', dir='/dev/shm' if enough else None))
        versions()
        print(f'{rounds_wanted} rounds, all on CPU {CPU}')
        for layout in (ONE_FILE, PER_CPU, MERGED):
            with layout.trace(directory, REPETITIONS) as trace:
                times(trace, layout, rounds_wanted)
        print(f'\n{"kB of memory at most":42} {"64 MiB":>10} {"1 GiB":>10} {"ratio":>8}')
        for layout in (ONE_FILE, PER_CPU, MERGED):
            memory(directory, layout)
        memory(directory, MERGED, piped=True)


main()
