#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""`blkhist slow`: exactly the requests that took so long, with all that is known of them."""
import contextlib
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

from delays import frozen_below, in_flight
from lib import (KIB, MIB, Skip, between, equal, first_sector, main, on_every_kernel, read_file, refused, subject_is,
                 test, unseen)
from recorder import Attached, Recorder, Slow, attached_links

MS = 10**6
PATIENCE = 60

# A process with a name of its own that writes 4 KiB where it is told to, one line at a time, and says when it has.
SUBMITTER = '''
import mmap, os, sys
open('/proc/self/comm', 'w').write(sys.argv[2])
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
print('ready', flush=True)
for line in sys.stdin:
    os.pwrite(fd, mmap.mmap(-1, 4096), int(line))
    print('done', flush=True)
'''


class Submitter:
    def __init__(self, env, device, name):
        self.process = subprocess.Popen([sys.executable, '-c', SUBMITTER, f'/dev/{device}', name], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        env.callback(self._stop)
        self._expect('ready')

    def _expect(self, word):
        equal(self.process.stdout.readline().strip(), word)

    def _stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE)

    def begin(self, offset):
        self.process.stdin.write(f'{offset}\n')
        self.process.stdin.flush()

    def wait(self):
        self._expect('done')


def frozen(top, freeze, thaw, n, begin, wait):
    """begin() submits @n writes, which take 150 ms at least; wait() waits for them. Returns the times around it."""
    before = time.time_ns()
    freeze()
    try:
        begin()
        while in_flight(top.name) < n:
            time.sleep(0.001)
        time.sleep(0.15)
    finally:
        thaw()
        wait()
    return before, time.time_ns()


def parallel_writes(env, top, freeze, thaw, offsets):
    """Of 4 KiB at these offsets of the disk, slow all of them."""
    disks = [env.disk(top.path) for _ in offsets]
    threads = [threading.Thread(target=d.write, args=(o, 4 * KIB)) for d, o in zip(disks, offsets)]

    def begin():
        for thread in threads:
            thread.start()

    def wait():
        for thread in threads:
            thread.join()
    return frozen(top, freeze, thaw, len(threads), begin, wait)


def of(rows, name):
    """By sector; each request is there once."""
    rows = [row for row in rows if row['device'] == name]
    equal(len({row['sector'] for row in rows}), len(rows), 'places')
    return {row['sector']: row for row in rows}


@test
@on_every_kernel
def what_is_known_of_a_slow_request(env):
    with frozen_below(env, env.loop()) as (top, freeze, thaw):
        part = top.partition(1, MIB, 8 * MIB)
        env.start()
        disk = env.disk(top.path)
        submitters = [Submitter(env, part, 'blkhist-part'), Submitter(env, top.name, 'whole disk')]
        with Slow(env, '--min-time', '100ms', top.name) as slow:
            for i in range(20):
                disk.read(i * 64 * KIB, 4 * KIB)
            before, after = frozen(top, freeze, thaw, 2,
                                   lambda: [s.begin(o) for s, o in zip(submitters, (2 * MIB, 12 * MIB))],
                                   lambda: [s.wait() for s in submitters])
            for i in range(20):
                disk.write(i * 64 * KIB, 4 * KIB)
        rows = of(slow.rows, top.name)
        sectors = first_sector(part) + 2 * MIB // 512, 12 * MIB // 512
        equal((slow.not_shown, slow.lost), (0, 0), 'not shown and lost')
        assert set(sectors) <= set(rows), rows
        for sector, submitter, partition, name in zip(sectors, submitters, (part, None),
                                                      ('blkhist-part', 'whole disk')):
            row = rows.pop(sector)
            equal((row.get('partition'), row['op'], row['bytes'], row['requeues']), (partition, 'write', 4 * KIB, 0))
            equal(row['flags'], ['sync'], 'flags')
            equal((row['pid'], row['process']), (submitter.process.pid, name), 'process')
            between(150 * MS, row['request_ns'], after - before + 10 * MS, 'request time')
            between(140 * MS, row['service_ns'], row['request_ns'], 'service time')
            equal(row['queue_ns'] + row['service_ns'], row['request_ns'], 'queue and service time')
            between(before + 150 * MS - 1000 * MS, row['time_ns'], after + 1000 * MS, 'time of its end')
            check_time(row)
        for row in rows.values():  # of the others only those that really were slow
            assert row['request_ns'] >= 100 * MS, row
        times = [row['time_ns'] for row in slow.rows]
        equal(times, sorted(times), 'order')


def check_time(row):
    """The same, written out."""
    written = datetime.datetime.fromisoformat(re.sub(r'(\.\d{1,6})\d*', r'\1', row['time']).replace('Z', '+00:00'))
    if written.tzinfo is None:
        written = written.astimezone()
    between(-1, written.timestamp() - row['time_ns'] / 10**9, 1, f'{row["time"]} and {row["time_ns"]}')


@test
@on_every_kernel
def everything_if_asked_for(env):
    """Every request takes 1 ns: operations, places, sizes, flags of all kinds of them."""
    loop = env.loop()
    part = loop.partition(1, MIB, 32 * MIB)
    env.start()
    disk, whole = env.disk(f'/dev/{part}'), env.disk(loop.path)
    with Slow(env, '--min-time', '1ns', '-r', '1000000', loop.name) as slow, Recorder(env, loop) as recorder:
        for i in range(5):
            disk.read(i * MIB, 4 * KIB)
            disk.write(i * MIB + 64 * KIB, 16 * KIB)
            disk.discard(i * MIB + 128 * KIB, 128 * KIB)
        whole.read(40 * MIB, 64 * KIB)
        disk.flush()
        os.pwritev(disk.fd, [memoryview(disk.buffer)[:8 * KIB]], 20 * MIB, os.RWF_DSYNC)
    equal((slow.not_shown, slow.lost), (0, 0), 'not shown and lost')
    start = first_sector(part)
    got = sorted((row['op'], row['sector'], row['bytes'], row.get('partition')) for row in slow.rows
                 if row['bytes'])
    expected = [('read', 40 * MIB // 512, 64 * KIB, None), ('write', start + 20 * MIB // 512, 8 * KIB, part)]
    for i in range(5):
        for op, at, size in (('read', 0, 4), ('write', 64, 16), ('discard', 128, 128)):
            expected.append((op, start + (i * MIB + at * KIB) // 512, size * KIB, part))
    equal(got, sorted(expected), 'requests')
    check_flags(slow.rows, recorder.read())
    flushes = [row for row in slow.rows if row['op'] == 'flush']
    between(1, len(flushes), 3, 'flushes')
    equal({row['bytes'] for row in flushes}, {0}, 'bytes of a flush')
    for row in slow.rows:
        if row['op'] in ('read', 'discard') or row['bytes'] == 16 * KIB:
            equal((row['pid'], row['process']), (os.getpid(), read_file('/proc/self/comm')), f'process of {row}')


FLAGS = {'SYNC': 'sync', 'META': 'meta', 'AHEAD': 'ahead', 'FLUSH': 'preflush', 'FUA': 'fua'}


def check_flags(rows, events):
    """Those of a trace, which depend on the kernel; a direct write always has one."""
    flags = {(e.op, e.sector): {name for category, name in FLAGS.items() if e.has(category) and e.op != name[3:]}
             for e in events.of('D')}
    for row in rows:
        if row['bytes'] or row['op'] == 'flush':
            equal(set(row['flags']), flags[row['op'], row['sector']], f'flags of {row}')
        assert row['op'] != 'write' or 'sync' in row['flags'], row


@test
@on_every_kernel
def by_device_and_operation(env):
    loop, p1, p2 = env.two_partitions()
    other = env.loop()
    env.start()
    disks = {name: env.disk(f'/dev/{name}') for name in (loop.name, p1, p2, other.name)}
    choices = {(): (4, 'read', 'write'), (loop.name,): (3, 'read', 'write'), (p1,): (1, 'read', 'write'),
               ('-d', f'{p2},{other.name}'): (2, 'read', 'write'), (f'/dev/{p1}', '--op', 'write'): (1, 'write'),
               (loop.name, '--op', 'read'): (3, 'read'), ('-d', p2, other.name): (2, 'read', 'write')}
    with contextlib.ExitStack() as stack:
        running = {args: stack.enter_context(Slow(env, '--min-time', '1ns', '-r', '1000000', *args))
                   for args in choices}
        for disk in disks.values():
            for i in range(7):
                disk.read(i * 64 * KIB, 4 * KIB)
                disk.write(i * 64 * KIB, 8 * KIB)
    for args, (devices, *ops) in choices.items():
        rows = [row for row in running[args].rows if row['device'] in (loop.name, other.name)]
        equal(len(rows), 7 * devices * len(ops), f'slow {args}')
        equal({row['op'] for row in rows}, set(ops), f'slow {args}')
        assert not args or len(rows) == len(running[args].rows), 'other disks'
        if args == (p1,):
            equal({row['partition'] for row in rows}, {p1})


@test
def number_of_lines(env):
    """It ends by itself."""
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for n in (1, 3):
        slow = Attached(env, 'slow', '-f', 'json', '--min-time', '1ns', '-n', str(n), loop.name)
        for i in range(n - 1):
            disk.read(i * MIB, 4 * KIB)
        time.sleep(0.3)
        equal(slow.process.poll(), None, f'it ends before the {n}th')
        disk.read(32 * MIB, 4 * KIB)
        out, _ = slow.end(signum=None)
        rows = [json.loads(line) for line in out.splitlines()]
        equal([row['sector'] for row in rows], [i * MIB // 512 for i in range(n - 1)] + [32 * MIB // 512])


@test
@on_every_kernel
def not_more_than_so_many_a_second(env):
    """Those that are not shown are counted: nothing is missing."""
    with frozen_below(env, env.loop()) as (top, freeze, thaw):
        env.start()
        for limit in (1, 5):
            with Slow(env, '--min-time', '100ms', '-r', str(limit), top.name) as slow:
                parallel_writes(env, top, freeze, thaw, [i * 64 * KIB for i in range(20)])
            between(limit, len(slow.rows), 3 * limit, f'lines with -r {limit}, all in a moment')
            between(20, len(slow.rows) + slow.not_shown + slow.lost, 20 + 5, 'shown, not shown and lost')
        with Slow(env, '--min-time', '100ms', '-r', '2', top.name) as slow:
            for _ in range(3):
                parallel_writes(env, top, freeze, thaw, [0])
                time.sleep(1)
        equal((len(of_places(slow.rows)), slow.not_shown), (1, 0), 'a slow one a second is shown')
        between(3, len(slow.rows), 4, 'rows')


def of_places(rows):
    return {row['sector'] for row in rows if row['sector'] == 0}


@test
def shown_at_once(env):
    """And not when a buffer is full."""
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for form in ('text', 'json'):
        slow = Attached(env, 'slow', '-f', form, '--min-time', '1ns', loop.name)
        disk.read(0, 4 * KIB)
        os.set_blocking(slow.process.stdout.fileno(), False)
        deadline, data = time.monotonic() + PATIENCE, b''
        while loop.name.encode() not in data or not data.endswith(b'\n'):
            assert time.monotonic() < deadline, f'nothing is shown: {data}'
            data += slow.process.stdout.read() or b''
            time.sleep(0.01)
        os.set_blocking(slow.process.stdout.fileno(), True)
        slow.end(signal.SIGTERM)


@test
def text_has_what_json_has(env):
    loop, p1, _ = env.two_partitions()
    env.start()
    disk = env.disk(f'/dev/{p1}')
    args = ('slow', '--min-time', '1ns', '-r', '1000000', loop.name)
    text, js = Attached(env, *args), Attached(env, *args, '-f', 'json')
    for i in range(10):
        disk.read(i * MIB, 4 * KIB)
        disk.write(i * MIB, 64 * KIB)
    lines = text.end()[0].decode().splitlines()
    rows = [json.loads(line) for line in js.end()[0].splitlines()]
    equal(len(rows), 20, 'requests')
    name = read_file('/proc/self/comm')
    for row in rows:
        [line] = [line for line in lines if re.search(rf'\b{row["sector"]}\b', line) and row['op'] in line.split()]
        for word in (p1, str(row['pid']), name, '4' if row['op'] == 'read' else '64'):
            assert re.search(rf'(^|\W){re.escape(word)}', line), f'{word} is not in: {line}'
        for flag in row['flags']:
            assert flag in line, f'{flag} is not in: {line}'
    heads = [line for line in lines if not any(str(row['sector']) in line for row in rows)]
    assert len(heads) <= 2, f'lines of no request: {heads}'


@test
@on_every_kernel
def what_is_lost_is_known_to_the_unit(env):
    """It is stopped while more requests end than its memory has room for."""
    loop = env.loop()
    loop.queue('nomerges', 2)
    env.start()
    with Slow(env, '--min-time', '1ns', '-r', '1000', loop.name) as slow:
        process = slow.attached.process
        process.send_signal(signal.SIGSTOP)
        load = env.fio(dict(filename=loop.path, rw='randread', bs='4k', iodepth=16, numjobs=2, number_ios=16000),
                       size=loop.size)
        reads = load.result()[loop.name]['read']
        process.send_signal(signal.SIGCONT)
    equal(unseen(loop.name), {}, 'completions that the kernel showed to no program')
    assert slow.lost > 100, slow.lost
    equal(len(slow.rows) + slow.not_shown + slow.lost, reads, 'shown, not shown and lost')


# --- cgroups ---

def cgroup_root():
    """Of the controller of block I/O, version 2 or 1."""
    for path, found in (('/sys/fs/cgroup', '/sys/fs/cgroup/cgroup.controllers'),
                        ('/sys/fs/cgroup/unified', '/sys/fs/cgroup/unified/cgroup.controllers')):
        with contextlib.suppress(OSError):
            if 'io' in read_file(found).split():
                if 'io' not in read_file(f'{path}/cgroup.subtree_control').split():
                    with open(f'{path}/cgroup.subtree_control', 'w', encoding='ascii') as f:
                        f.write('+io')
                return path
    if os.path.exists('/sys/fs/cgroup/blkio/cgroup.procs'):
        return '/sys/fs/cgroup/blkio'
    raise Skip('no cgroups with a controller of block I/O are mounted')


@test
def cgroup_of_the_submitter(env):
    """Also for requests that somebody else completes, and not that of the loop device's own thread."""
    subject_is('finding a cgroup by its number')
    root = cgroup_root()
    loop = env.loop()
    env.start()
    path = f'{root}/blkhist-test-{os.getpid()}'
    os.mkdir(path)
    env.callback(remove_cgroup, path)
    os.mkdir(f'{path}/inner')
    env.callback(remove_cgroup, f'{path}/inner')
    inside, outside = Submitter(env, loop.name, 'inside'), Submitter(env, loop.name, 'outside')
    with open(f'{path}/inner/cgroup.procs', 'w', encoding='ascii') as f:
        f.write(str(inside.process.pid))
    with Slow(env, '--min-time', '1ns', loop.name) as slow:
        for i in range(5):
            for submitter, offset in ((inside, i * MIB), (outside, (i + 30) * MIB)):
                submitter.begin(offset)
                submitter.wait()
    rows = of(slow.rows, loop.name)
    own = os.path.relpath('/' + group_of('self', root).lstrip('/'), '/')
    for i in range(5):
        equal(rows[i * 2048]['process'], 'inside')
        equal(rows[i * 2048]['cgroup'], f'/blkhist-test-{os.getpid()}/inner', 'cgroup')
        equal(rows[(i + 30) * 2048]['cgroup'], '/' if own == '.' else f'/{own}', 'own cgroup')


def group_of(pid, root):
    """Its path below the root of the hierarchy."""
    for line in read_file(f'/proc/{pid}/cgroup').splitlines():
        _, controllers, path = line.split(':', 2)
        if ('blkio' in controllers.split(',')) if root.endswith('blkio') else not controllers:
            return path
    raise AssertionError(f'/proc/{pid}/cgroup has no line for {root}')


def remove_cgroup(path):
    """A moment after the end of its last process."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            return os.rmdir(path)
        time.sleep(0.05)
    raise AssertionError(f'{path} cannot be removed')


# --- ends ---

@test
def ended_and_killed(env):
    loop = env.loop()
    env.start()
    before = attached_links()
    for signum, status in ((signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        slow = Attached(env, 'slow', loop.name)
        out, err = slow.end(signum, status)
        equal(err, '', 'on stderr')
        assert loop.name not in out.decode(), out
    equal(attached_links() - before, set(), 'links that are left')


@test
def closed_pipe(env):
    loop = env.loop()
    env.start()
    end, beginning = os.pipe()
    slow = Attached(env, 'slow', '--min-time', '1ns', loop.name, stdout=beginning)
    os.close(beginning)
    os.close(end)
    disk = env.disk(loop.path)
    deadline = time.monotonic() + PATIENCE
    while slow.process.poll() is None and time.monotonic() < deadline:
        disk.read(0, 4 * KIB)
        time.sleep(0.01)
    assert slow.process.poll() is not None, 'it goes on with nobody to read it'
    assert slow.process.stderr.read().count(b'\n') <= 1
    slow.nothing_is_attached()


@test
def wrong_use(env):
    loop = env.loop()
    env.start()
    before = attached_links()
    for args, status, word in ((('nodisk',), 1, 'nodisk'), ((loop.name, 'nodisk'), 1, 'nodisk'),
                               (('--min-time', '10'), 2, "'10'"), (('--min-time', '-1ms'), 2, '-1ms'),
                               (('--op', 'erase'), 2, 'erase'), (('-f', 'xml'), 2, 'xml'), (('-n', '0'), 2, '0 '),
                               (('-n', 'x'), 2, "'x'"), (('-r', '-1'), 2, "'-1'"), (('-r', 'x'), 2, "'x'"),
                               (('--frob',), 2, '--frob')):
        refused('slow', *args, status=status, word=word, timeout=PATIENCE)
    equal(attached_links() - before, set(), 'links that are left')


if __name__ == '__main__':
    main()
