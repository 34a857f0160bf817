#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""blkhist bench: its statistics, what it measures, and that it leaves the machine as it found it."""
import collections
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
import xml.dom.minidom

from leftovers import none_is_left, processes, unchanged
from tap import diagnose
from lib import (BLKHIST, KIB, MIB, Skip, as_user, between, blkhist, bpffs_mounted, equal, main,
                 mount_bpffs, program_for_everybody, programs_in_path, read_file, refused, show, test, unmount_bpffs,
                 write_file)

QUICK = ('-r', '6', '-t', '1', '--size', '16MiB')


def bench(*args, **kwargs):
    return json.loads(blkhist('bench', '-f', 'json', *args, **kwargs).stdout)


def analysis(result, observer, unit):
    return next(a for a in result['analysis'] if (a['observer'], a['unit']) == (observer, unit))


# --- statistics ---

def result_file(directory, observers, trim=1, more=True):
    """A result with these values by observer, CPU time being what the value is."""
    n = len(observers['none'])
    rounds = [{'round': i + 1, 'place': k + 1, 'observer': name, 'value': values[i], 'ios': 1000000,
               'cpu_seconds': values[i]}
              for i in range(n) for k, (name, values) in enumerate(observers.items())]
    path = f'{directory}/result.json'
    write_file(path, json.dumps({
        'schema': 'blkhist-bench/1', 'time': '', 'kernel': '', 'blkhist': '', 'fio': '', 'workload': 'randread',
        'details': '', 'unit': 'IOPS', 'more_is_better': more, 'cpus': 2, 'load': 0, 'rounds_wanted': n,
        'trim': trim, 'seed': 1, 'interrupted': False, 'observers': [{'name': name} for name in observers],
        'rounds': rounds}))
    return path


def reference_interval(differences):
    """
    The interval as what the test does not reject: for each range between two means of pairs, where the
    rank sum does not change, ranks are formed and the chance of such a sum is counted out.
    """
    n = len(differences)
    ways = collections.Counter({0: 1})  # subsets of the ranks, by their sum
    for rank in range(1, n + 1):
        ways = ways + collections.Counter({s + rank: w for s, w in ways.items()})

    def rejected(center):
        ranked = sorted((abs(d - center), d > center) for d in differences)
        positive = sum(rank for rank, (_, above) in enumerate(ranked, 1) if above)
        low = min(positive, n * (n + 1) // 2 - positive)
        return sum(w for s, w in ways.items() if s <= low) / 2 ** n <= 0.025

    means = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(differences, 2))
    kept = [(a, b) for a, b in zip(means, means[1:]) if not rejected((a + b) / 2)]
    return statistics.median(means), kept[0][0], kept[-1][1]


def close(got, expected, what):
    between(expected - 1e-9 * abs(expected) - 1e-12, got, expected + 1e-9 * abs(expected) + 1e-12, what)


@test
def statistics_against_a_reference(_env):
    rng = random.Random(5)
    with tempfile.TemporaryDirectory() as directory:
        for n, trim, more in ((6, 1, True), (7, 2, False), (10, 1, True), (13, 0, False), (40, 3, True)):
            values = {'none': [rng.gauss(1000, 30) for _ in range(n)],
                      'a': [rng.lognormvariate(7, 0.1) for _ in range(n)]}
            result = bench('--from', result_file(directory, values, trim, more))
            for name, of_name in values.items():
                kept = sorted(of_name)[trim:n - trim]
                row = analysis(result, name, 'IOPS')
                for key, expected in (('min', kept[0]), ('max', kept[-1]), ('avg', statistics.fmean(kept)),
                                      ('stddev', statistics.stdev(kept))):
                    close(row[key], expected, f'{key} of {n} rounds without {trim}')
            for unit, sign in (('IOPS', -1 if more else 1), ('CPU us per I/O', 1)):
                costs = [sign * (a / none - 1) for a, none in zip(values['a'], values['none'])]
                row = analysis(result, 'a', unit)
                for key, expected in zip(('cost', 'cost_low', 'cost_high'), reference_interval(costs)):
                    close(row[key], expected, f'{key} of {unit} in {n} rounds')


@test
def printed_again_it_is_the_same(_env):
    rng = random.Random(6)
    with tempfile.TemporaryDirectory() as directory:
        path = result_file(directory, {name: [rng.gauss(100, 5) for _ in range(8)] for name in ('none', 'a')})
        first = blkhist('bench', '--from', path, '-f', 'json').stdout
        write_file(path, first)
        equal(blkhist('bench', '--from', path, '-f', 'json').stdout, first, 'JSON of JSON')


def verdicts(rng, trials, cost):
    """Of an observer with this cost, with noise that all have, and noise of its own."""
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(trials):
            common = [rng.gauss(1000, 50) for _ in range(10)]
            values = {'none': [c * rng.gauss(1, 0.01) for c in common],
                      'a': [c * rng.gauss(1, 0.01) / (1 + cost) for c in common]}
            yield analysis(bench('--from', result_file(directory, values)), 'a', 'IOPS')


@test
def what_costs_nothing_is_not_found_to(_env):
    equals = sum('no difference' in row['verdict'] for row in verdicts(random.Random(1), 20, 0))
    between(19, equals, 20, 'trials in which there is no difference')


@test
def a_known_cost_is_found(_env):
    rows = list(verdicts(random.Random(2), 200, 0.08))
    assert all(row['verdict'].startswith('costs ') for row in rows), rows
    # 1 / 1.08 of the IOPS; of 200 intervals of 95 % some ten do not hold
    between(180, sum(row['cost_low'] <= 1 - 1 / 1.08 <= row['cost_high'] for row in rows), 199, 'intervals that hold')


# --- real observers whose cost is known ---

# Half a CPU for a second, whatever else runs.
WORK = '''
import time
began = time.monotonic()
for n in range(1, 11):
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    time.sleep(max(0, began + 0.1 * n - time.monotonic()))
'''

# Burns a fourth of the time that passes, and says how much when it is ended.
BURN = '''
import signal, sys, time
def end(*_):
    with open(sys.argv[1], "a") as f:
        print(time.process_time(), file=f)
    sys.exit()
signal.signal(signal.SIGINT, end)
while True:
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    time.sleep(0.06)
'''


class Busy(Exception):
    pass


def attempts(function):
    """An interval of 95 % is allowed to be wrong once in 20 times; other work on the machine disturbs."""
    for last in (False, False, False, True):
        try:
            return function()
        except (AssertionError, Busy) as failure:
            if last and isinstance(failure, Busy):
                raise Skip(f'this machine is too busy to measure it: {failure}') from None
            if last:
                raise
            diagnose(f'once more: {failure}')


@test
def what_a_program_burns_is_found(_env):
    def attempt():
        with tempfile.TemporaryDirectory() as directory:
            for name, text in (('work', WORK), ('burn', BURN)):
                write_file(f'{directory}/{name}.py', text)
            burner = f'command:exec {sys.executable} {directory}/burn.py {directory}/burnt'
            result = bench('-O', burner, '-O', 'command:exec sleep 100', '-r', '12', '--',
                           sys.executable, f'{directory}/work.py')
            burnt = [float(line) for line in read_file(f'{directory}/burnt').split()][1:]  # the first is the trial
        equal(len(burnt), 12, 'rounds with it')
        used, own, passed = (sum(values) for values in zip(*(
            (r['cpu_seconds'], 0.55, r['seconds']) for r in result['rounds'])))
        others = (used - own - sum(burnt)) / passed
        baseline = [r['cpu_seconds'] for r in result['rounds'] if r['observer'] == 'none']
        share = statistics.median(burnt) / statistics.median(baseline)
        found = analysis(result, burner, 'CPU seconds')
        nothing = analysis(result, 'command:exec sleep 100', 'CPU seconds')
        try:
            between(found['cost_low'], share, found['cost_high'], f'its share; {found}')
            assert found['cost_low'] > 0 and found['verdict'].startswith('costs '), found
            assert 'no difference' in nothing['verdict'], nothing
        except AssertionError as failure:
            if others > 0.2:
                raise Busy(f'others used {others:.2f} CPUs') from failure
            raise
        diagnose(f'burnt {share:.3f}, found {found["verdict"]}; others used {others:.2f} CPUs')

    attempts(attempt)


# --- what is measured ---

@test
def smoke(_env):
    """Nearly all observers; in a minute, if fio takes no longer than it is told."""
    observers = ('none', 'blkhist', 'blkhist-stopped', 'biolatency', 'ftrace-blk:0xc0', 'blktrace:0xc0',
                 'blkhist-record:issue,complete')
    with tempfile.TemporaryDirectory() as directory, unchanged():
        result = bench(*QUICK, '-w', 'randread', '-O', '+'.join(observers), '--plot', f'{directory}/plot.svg',
                       '--seed', '3')
        write_file(f'{directory}/result.json', json.dumps(result))
        text = blkhist('bench', '--from', f'{directory}/result.json').stdout
        svg = xml.dom.minidom.parse(f'{directory}/plot.svg')
    equal([o['name'] for o in result['observers']], list(observers), 'observers')
    able = [o['name'] for o in result['observers'] if 'cannot_run' not in o]
    assert set(able) >= {'none', 'blkhist', 'blkhist-stopped'}, result['observers']
    for o in result['observers']:
        line = next(words for words in reversed(text.splitlines()) if words.startswith(o['name'] + ' '))
        assert o.get('cannot_run', '') in line, line
    equal(sorted((r['round'], r['observer']) for r in result['rounds']),
          sorted(itertools.product(range(1, 7), able)), 'measured')
    orders = {tuple(r['observer'] for r in result['rounds'] if r['round'] == n) for n in range(1, 7)}
    assert len(orders) > 1, 'all rounds had the same order'
    for r in result['rounds']:
        assert 0 < r['value'] <= r['ios'] and r['cpu_seconds'] > 0 and r['context_switches'] > 0, r
        assert 0 < r['latency_p50_ns'] <= r['latency_p99_ns'] <= r['latency_p99.9_ns'], r
        equal(r['observer_bytes'] > 0, r['observer'] not in ('none', 'blkhist', 'blkhist-stopped'),
              f'whether {r["observer"]} has written')
    equal(len(svg.getElementsByTagName('circle')), 2 * 6 * (len(able) - 1), 'dots')
    assert 'Observer' in text and 'Min val      Avg val      Max val      Std Dev' in text, text


# Stops blkhist record, which bench runs by the name exe, while there is more to be read than buffers hold.
STOP = '''
import glob, os, signal, subprocess, sys
stopped = []
for path in glob.glob("/proc/[0-9]*/stat"):
    try:
        with open(path) as f:
            pid, name, _, parent = f.read().split()[:4]
    except OSError:
        continue
    if name == "(exe)" and int(parent) == os.getppid():
        stopped.append(int(pid))
for pid in stopped:
    os.kill(pid, signal.SIGSTOP)
subprocess.run(["dd", "if=" + sys.argv[1], "of=/dev/null", "bs=512", "iflag=direct", "count=32768"], check=True)
for pid in stopped:
    os.kill(pid, signal.SIGCONT)
'''


@test
def what_an_observer_loses(env):
    loop = env.loop(16 * MIB)
    with tempfile.TemporaryDirectory() as directory:
        write_file(f'{directory}/stop.py', STOP)
        result = bench('-r', '6', '-O', 'blkhist-record:all', '-d', loop.name, '--', sys.executable,
                       f'{directory}/stop.py', loop.path)
    for r in result['rounds']:
        if r['observer'] == 'none':
            equal(r['observer_dropped'], None, 'lost by none')
        else:
            # Q, G, D and C at least, of what does not find room: the buffer of a CPU holds some 20,000 events.
            between(32768, r['observer_dropped'], 20 * 32768, 'lost events')


@test
def what_the_workload_leaves_behind(_env):
    """Is ended, and does not belong to what was measured."""
    with unchanged():
        result = bench('-r', '6', '-O', 'command:true', '--', 'sh', '-c', 'sleep 60 & true')
    # To end it takes two seconds, as a shell lets nothing in the background be interrupted.
    between(0, statistics.median(r['seconds'] for r in result['rounds']), 1.5, 'seconds')


@test
def workloads(_env):
    with unchanged():
        writers = bench(*QUICK, '-w', 'writers', '-O', 'none', '-n', '3')
        fsmake = bench(*QUICK, '-w', 'fsmake', '-O', 'none', '-n', '2', '--fs', 'ext3')
        limited = bench(*QUICK, '-w', 'ratelimited', '-O', 'none', '--iops', '500')
        mixed = bench(*QUICK, '-w', 'randrw', '-O', 'none', '--depth', '4')
    for result, unit in ((writers, 'MB/s'), (fsmake, 'seconds'), (limited, 'IOPS'), (mixed, 'IOPS')):
        equal((result['unit'], len(result['rounds'])), (unit, 6), result['workload'])
    for r in writers['rounds']:
        assert 0 < r['thread_min'] <= r['thread_avg'] <= r['thread_max'] and r['thread_bytes_min'] > 0, r
        close(r['value'], 10 * r['thread_avg'], 'throughput of ten threads')
    for r in fsmake['rounds']:
        between(0.001, r['value'], r['seconds'], 'time of making file systems')
        equal(r['ios'], None, 'I/Os that nobody counts')
    for r in limited['rounds']:
        between(1, r['value'], 525, 'IOPS with a limit of 500')


@test
def given_devices(env):
    loop = env.loop(16 * MIB)
    result = bench(*QUICK, '-w', 'randread', '-O', 'none', '-d', loop.name)
    assert f'on {loop.path}' in result['details'], result['details']
    refused('bench', *QUICK, '-w', 'randrw', '-d', loop.path, status=2, word='--overwrite')
    with open(loop.path, 'rb') as f:
        equal(f.read(MIB), bytes(MIB), 'what is on the device')
    bench(*QUICK, '-w', 'randrw', '-O', 'none', '-d', loop.path, '--overwrite')
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(['mkfs.ext4', '-Fq', loop.path], check=True)
        subprocess.run(['mount', '-t', 'ext4', loop.path, directory], check=True)
        try:
            refused('bench', *QUICK, '-w', 'fsmake', '-d', loop.path, '--overwrite', word='in use')
        finally:
            subprocess.run(['umount', directory], check=True)


# --- it leaves all as it was ---

ENDED = ('none', 'blkhist', 'ftrace-blk:all', 'biolatency', 'command:sleep 1000 & sleep 1000')


def ended_by(signum, after, *args):
    """Runs a bench and ends it @after seconds; what it printed, and its exit status."""
    mark = str(uuid.uuid4())
    with unchanged():
        process = subprocess.Popen([BLKHIST, 'bench', '-f', 'json', '-r', '20', '-t', '1', '--size', '16MiB', *args],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, 'MARK': mark})
        time.sleep(after)
        assert process.poll() is None, process.communicate()
        process.send_signal(signum)
        out, err = process.communicate(timeout=120)
        none_is_left(mark)
    return out, err, process.returncode


@test
def interrupted(_env):
    for after in (0.3, 12):
        out, err, status = ended_by(signal.SIGINT, after, '-O', ENDED[1], '-O', ENDED[4])
        equal((status, err), (0, ''), 'status and standard error')
        result = json.loads(out)
        equal(result['interrupted'], True, 'interrupted')
        if after > 1:
            assert result['rounds'], 'nothing was measured'


@test
def killed(_env):
    rng = random.Random(11)
    for _ in range(8):
        out, _, status = ended_by(signal.SIGKILL, rng.uniform(0.05, 10), *itertools.chain(*(('-O', o) for o in ENDED)))
        equal((status, out), (-signal.SIGKILL, ''), 'status and output')
    for after in (0.3, 0.7, 1.1):
        ended_by(signal.SIGKILL, after, '-w', 'fsmake', '-O', 'none', '--size', '64MiB', '-r', '200')


@test
def the_guard_is_killed(_env):
    """Then bench itself puts all back, and ends as soon as it would need it."""
    mark = str(uuid.uuid4())
    with unchanged():
        process = subprocess.Popen([BLKHIST, 'bench', '-r', '20', '-t', '1', '--size', '16MiB', '-O', 'blkhist'],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, 'MARK': mark})
        time.sleep(3)
        [guard] = [pid for pid in processes(mark)
                   if pid != process.pid and read_file(f'/proc/{pid}/comm') == os.path.basename(BLKHIST)]
        os.kill(guard, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        equal((process.returncode, err.count('\n')), (1, 1), f'status, and lines of {err}')


@test
def a_running_collector_is_left_alone(env):
    loop = env.loop()
    env.start()
    env.disk(loop.path).read(0, 4 * KIB)
    before = show(loop.name).data['histograms']
    refused('bench', *QUICK, word='blkhist stop')
    equal(show(loop.name).data['histograms'], before, 'histograms')


@test
def what_was_not_mounted_is_not_afterwards(_env):
    unmount_bpffs()
    try:
        result = bench('-r', '6', '-O', 'blkhist', '-O', 'blkhist-stopped', '--', 'true')
        equal(bpffs_mounted(), False, 'whether the bpffs is mounted')
    finally:
        mount_bpffs()
    equal(len(result['rounds']), 18, 'measured')


# --- bad input ---

@test
def wrong_use(_env):
    with unchanged():
        for args, word in ((('-O', 'nosuch'), 'nosuch'), (('-O', 'blktrace'), 'behind the colon'),
                           (('-O', 'blktrace:0x'), 'MASK'), (('-O', 'blktrace:0x10000'), 'MASK'),
                           (('-O', 'blkhist:seek'), 'request|bios'), (('-O', 'none:1'), 'takes nothing'),
                           (('-O', 'command:'), 'behind the colon'), (('-O', 'blkhist+blkhist'), 'twice'),
                           (('-w', 'nosuch'), 'nosuch'), (('-w', 'randread', '--', 'true'), 'command'),
                           (('-w', 'randread', 'randrw'), 'command'),
                           (('-w', 'command'), 'command'), (('-r', '5'), 'interval'), (('-r', '201'), '200'),
                           (('-r', '6', '--trim', '3'), '--trim'), (('-r', 'many'), '--rounds'),
                           (('--size', '100'), '--size'), (('--seconds', '0'), '--seconds'),
                           (('-w', 'fsmake', '--fs', 'nosuchfs'), 'nosuchfs'), (('-n', '65'), 'loop devices'),
                           (('-d', ','), '--device'), (('-d', ','.join('a' * 65)), '64'), (('-O', '+'), '--observer'),
                           (('-n', '2', '--', 'true'), '--loops'), (('-f', 'xml'), 'xml')):
            refused('bench', *args, status=2, word=word)
        for args, word in ((('--dir', '/nonexistent'), '/nonexistent'),
                           (('--trace-dir', '/nonexistent'), '/nonexistent'),
                           (('-d', 'nosuchdisk'), 'nosuchdisk'), (('-d', '/dev/null'), 'no block device'),
                           (('--from', '/nonexistent'), '/nonexistent'), (('--from', '/proc/self/status'), 'no result'), (('--from', '/dev/zero'), '/dev/zero'),
                           (('--', '/nonexistent/command'), '/nonexistent/command'), (('--', 'false'), 'exit status 1'),
                           (('--size', '1024TiB'), '--size')):
            refused('bench', *args, word=word)


@test
def damaged_results(_env):
    """Cut or changed anywhere, a result is refused in one sentence or read, but no crash."""
    rng = random.Random(4)
    with tempfile.TemporaryDirectory() as directory:
        path = result_file(directory, {name: [rng.gauss(100, 5) for _ in range(8)] for name in ('none', 'a')})
        text = read_file(path)
        for _ in range(150):
            at = rng.randrange(len(text))
            instead = rng.choice(['', '-', '[', '{}', 'null', '1e99', '1e999', 'NaN', '-Infinity', '"'])
            write_file(path, text[:at] + instead + text[at + rng.randrange(9):])
            r = blkhist('bench', '--from', path, '--plot', '/dev/null', status=None)
            assert r.returncode in (0, 1) and r.stderr.count('\n') == r.returncode, (r.returncode, r.stderr)
        for number in ('1e999', 'NaN', 'Infinity'):
            write_file(path, text.replace('1000000', number, 1))
            refused('bench', '--from', path, word='ios')


@test
def what_it_needs(_env):
    for_everybody = program_for_everybody()
    with unchanged():
        refused('bench', '-w', 'randread', word='no program fio', env={**os.environ, 'PATH': '/nonexistent'})
        refused('bench', command=[*as_user(), for_everybody], word='root')
        subprocess.run(['mount', '--bind', '/dev/null', '/dev/loop-control'], check=True)
        try:
            refused('bench', *QUICK, word='no loop device')
        finally:
            subprocess.run(['umount', '/dev/loop-control'], check=True)


@test
def an_observer_that_cannot_run(_env):
    """One that fails is listed with the reason, and the others are measured."""
    skipped = ''.join(f'echo WARNING: could not attach probe kprobe:{probe}, skipping. >&2\n'
                      for probe in ('__blk_account_io_done', 'blk_account_io_done'))
    programs = {'biolatency': 'echo it has no licence >&2; exit 3', 'biolatency.bt': '',
                'bpftrace': f'{skipped}echo Tracing; exec sleep 100'}
    with programs_in_path(programs) as environment:
        result = bench(*QUICK[:2], '-O', 'biolatency+bpftrace', '--', 'true', env=environment)
    reasons = {o['name']: o.get('cannot_run') for o in result['observers']}
    assert 'it has no licence' in reasons['biolatency'], reasons
    assert 'none of its probes' in reasons['bpftrace'], reasons
    equal({r['observer'] for r in result['rounds']}, {'none'}, 'measured')


@test
def an_observer_that_ends(_env):
    """While the workload runs, it has not seen all of it; only a command may, if it says that all is well."""
    early, late, well = 'command:exit 3', 'command:sleep 0.5; echo it is full >&2; exit 3', 'command:true'
    result = bench('-r', '6', '-O', early, '-O', late, '-O', well, '--', 'sleep', '0.8')
    reasons = {o['name']: o.get('cannot_run', '') for o in result['observers']}
    equal({name: bool(reason) for name, reason in reasons.items()},
          {'none': False, early: True, late: True, well: False}, 'observers that are out')
    assert reasons[late].endswith('while the workload ran: it is full'), reasons
    equal(collections.Counter(r['observer'] for r in result['rounds']), {'none': 6, well: 6}, 'measured')


@test
def a_workload_that_fails(_env):
    """What was measured before is shown, and the reason."""
    with tempfile.TemporaryDirectory() as directory, unchanged():
        # The warm-up, three rounds of two observers, and one observer of the fourth.
        script = f'echo >>{directory}/runs; test $(wc -l <{directory}/runs) -lt 9 || {{ echo it is full >&2; exit 5; }}'
        r = blkhist('bench', '-f', 'json', '-r', '6', '-O', 'command:true', '--', 'sh', '-c', script, status=1)
        assert 'round 4' in r.stderr and 'it is full' in r.stderr and r.stderr.count('\n') == 1, r.stderr
        result = json.loads(r.stdout)
        equal((len(result['rounds']), analysis(result, 'none', 'seconds')['rounds']), (7, 3), 'runs and whole rounds')
        write_file(f'{directory}/result', r.stdout)
        assert 'It ended early: round 4' in blkhist('bench', '--from', f'{directory}/result').stdout


main()
