#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Traces: one load at once under blktrace, the program, and under the collector gives the same histograms,
cell by cell. And the trace's have the totals that blkparse, blkiomon and btt find in the same files.

Counts, sizes, bytes, seek distances and losses are equal, to the unit. Times cannot be: both take the
time themselves, one after the other, at D and at C. If a request's time is by `least` to `most` longer for
the collector (distance()), then for every bound

    counts of the trace up to bound - most  <=  the collector's up to bound  <=  the trace's up to bound - least

and this is what must hold, in every row. The trace's counts up to a shifted bound are had by reading it again
with shifted bounds. In each row two times, and one of every FAR, may be farther away: between the two readings of
the clock an interrupt can take its time, and the emulator can go on with another CPU. How many cells differ, and by
how much times do on average, is printed. With bounds that no time comes near every cell is equal, and that is tested,
too (bounds_that_no_time_is_near).
"""
import collections
import contextlib
import ctypes
import fcntl
import functools
import glob
import json
import mmap
import os
import platform
import re
import signal
import struct
import subprocess
import tempfile
import time

from lib import (KIB, MIB, OPS, Hidden, Skip, between, blkhist, command_line, equal, main, read_file, show, test,
                 write_file)
from machine import (BLKTRACESTART, BLKTRACESTOP, BLKTRACETEARDOWN, BUFFER_SIZE, BUFFERS, DEBUGFS, Device, HOST_BUSY,
                     MEDIUM_ERROR, SCSI_DEBUG, SHORT_TRANSFER, TRANSPORT_ERROR, collect, device_mapper,
                     disk_by_serial, in_parallel, injecting, load, null_blk, nvme_namespace, read_trace, scsi_debug,
                     shared, wait_for)

US, MS = 10**3, 10**6
RELEASE = tuple(map(int, platform.release().split('.')[:2]))

# From 6.19 on version 7 of the record, which blktrace 1.2 asks for, lacks every event whose category has
# FUA, or is of write-zeroes or a zone: __blk_add_trace() takes what is above BLK_TC_END_V1, which is the bit
# of FUA, for something that this version cannot express. They get no sequence number, so nothing tells.
LACKS_FORCED = RELEASE >= (6, 19)

# Since 6.9 the kernel reads the clock once for all requests of a plug, so that the later ones of a batch have
# begun before they were submitted, by all that the submitter has done meanwhile.
STARTS_AT_PLUG = RELEASE >= (6, 9)

FAR, RARE = 16, 64


def distance(kind, op):
    """
    By how much a time is longer for the collector, in ns: at least, at most. Its start is the kernel's, which is
    taken shortly before G.
    """
    if STARTS_AT_PLUG and kind != 'service':
        return -100 * US, (100 * US if op == 'read' else 3 * MS)
    return -100 * US, 100 * US


# --- blktrace ---

POLL, FUTEX = '7', '202'


class Blktrace:
    """The program, tracing a disk while in `with`: into files, or into @stdout."""

    def __init__(self, env, device, *actions, stdout=None):
        self.device = device
        self.directory = scratch(env)
        self.path = f'{self.directory}/t'
        self._command = ['blktrace', '-d', device.path, '-D', self.directory, '-o', '-' if stdout else 't',
                         *(f'--act-mask={a}' for a in actions)]
        self._stdout = stdout or subprocess.PIPE
        self.process = None
        self._env = env

    def _calls(self):
        """The system calls that its threads are in, that of the first one first."""
        assert self.process.poll() is None, f'blktrace: {self.process.communicate()}'
        calls = []
        for thread in sorted(os.listdir(f'/proc/{self.process.pid}/task'), key=int):
            with open(f'/proc/{self.process.pid}/task/{thread}/syscall', encoding='ascii') as f:
                calls.append(f.read().split()[0])
        return calls

    def _tracing(self):
        """
        It says nothing when it has begun, and writes nothing before a buffer is full. But a thread for each
        CPU waits for data, when it has been let go, and then the first thread starts the trace and waits.
        """
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return os.path.exists(f'{DEBUGFS}/block/{self.device.name}/dropped') and \
                self._calls() == [FUTEX] + [POLL] * os.cpu_count()
        return False

    def __enter__(self):
        self.process = subprocess.Popen(self._command, stdout=self._stdout, stderr=subprocess.PIPE, text=True)
        self._env.callback(self._kill)
        for _ in range(3):
            wait_for(self._tracing, 'tracing by blktrace')
            time.sleep(0.01)
        return self

    def _kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        if not kind:
            equal(self.process.returncode, 0, f'exit status of blktrace: {err}')
            assert self._stdout != subprocess.PIPE or '(dropped 0)' in out, f'events are lost: {out}'


class Version8:
    """What blktrace of 6.19 asks the kernel for, without that program: records of version 8, in files."""
    SETUP = struct.Struct('=64sQIIQQII88x')
    BLKTRACESETUP2 = 3 << 30 | SETUP.size << 16 | 0x12 << 8 | 142
    EVERYTHING = 0xffffffff

    def __init__(self, env, device):
        self.device = device
        self.directory = scratch(env)
        self.path = f'{self.directory}/t'
        self._fd = env.disk(device.path).fd

    def __enter__(self):
        setup = bytearray(self.SETUP.pack(b'', self.EVERYTHING, BUFFER_SIZE, BUFFERS, 0, 0, 0, 0))
        fcntl.ioctl(self._fd, self.BLKTRACESETUP2, setup)
        fcntl.ioctl(self._fd, BLKTRACESTART)
        return self

    def __exit__(self, *_):
        fcntl.ioctl(self._fd, BLKTRACESTOP)
        for path in glob.glob(f'{DEBUGFS}/block/{self.device.name}/trace[0-9]*'):
            with open(path, 'rb') as f, open(f'{self.path}.blktrace.{path.rsplit("trace", 1)[1]}', 'wb') as to:
                to.write(f.read())
        fcntl.ioctl(self._fd, BLKTRACETEARDOWN)


def scratch(env):
    """A directory in memory, of this test."""
    return env.enter_context(tempfile.TemporaryDirectory(prefix='blkhist-test-', dir='/dev/shm'))


class Both:
    """A trace, and the collector's histograms and losses of the same time. The disk is idle at first and at last."""

    def __init__(self, env, trace):
        collect()
        self.trace, self.device = trace, trace.device
        self._disk = env.disk(self.device.path)
        self.live = self._losses = None

    def __enter__(self):
        self._disk.read(0, 4 * KIB)  # the collector's head is behind this
        self.trace.__enter__()
        blkhist('reset', self.device.name)
        self._losses = show(self.device.name).losses
        self._disk.read(4 * KIB, 4 * KIB)
        return self

    def __exit__(self, kind, *rest):
        if not kind:
            self.live = show(self.device.name)
        self.trace.__exit__(kind, *rest)
        if not kind:
            self.live.losses = {k: n - self._losses.get(k, 0) for k, n in self.live.losses.items()}
            missed = {k: self.live.losses[k] for k in ('unseen', 'no_issue', 'no_slot', 'no_counters')
                      if self.live.losses[k]}
            if missed:
                raise Hidden(f'the collector has missed {missed}')


# --- what the test makes of a trace itself ---

class Events:
    """Of blktrace's files, or of what it wrote into a pipe, in order of time."""

    def __init__(self, *paths):
        self.all = []
        for path in paths:
            with open(path, 'rb') as f:
                self.all += read_trace(f.read())
        self.all.sort(key=lambda e: e.time)

    def service_times(self):
        """D to C, in ns, by operation. Holds for requests of places of their own that end in one piece."""
        issued, times = {}, {op: [] for op in OPS}
        for e in self.all:
            if e.action == 'issue':
                issued[e.op, e.sector, e.bytes] = e.time
            elif e.action == 'complete' and (e.op, e.sector, e.bytes) in issued:
                times[e.op].append(e.time - issued.pop((e.op, e.sector, e.bytes)))
        equal(issued, {}, 'D without C')
        return times

    def close_issues(self):
        """Neighbours that the collector may have seen the other way round."""
        issues = [e.time for e in self.all if e.action == 'issue' and e.op != 'flush']
        return sum(b - a < distance('service', 'all')[1] for a, b in zip(issues, issues[1:]))

    def issues(self, *ops):
        return sum(e.action == 'issue' and e.op in ops for e in self.all)

    def check_service_times(self, snapshot, name):
        """Those of show are these."""
        times = self.service_times()
        for op in OPS:
            hist = snapshot.get(name, 'service', op)
            equal((hist.count, hist.sum), (len(times[op]), sum(times[op])), f'{op}: service times and their sum')


def events_of(trace):
    return Events(*glob.glob(f'{trace.path}.blktrace.*'))


# --- comparison with the collector ---

def say(text):
    print(f'# traces: {text}')


def cumulative(hist, row):
    """Counts up to each of the bounds."""
    total, ret = 0, {}
    for bound, n in zip(hist.data['bounds'], hist.cells[row]):
        total += n
        ret[bound] = total
    return ret


IN_CLASSES = ('matched', 'unfinished', 'unmatched_complete', 'unmatched_requeue', 'notify', 'no_request',
              'passthrough', 'stacked', 'ignored', 'unknown')
SAME_LOSSES = ('requeued', 'partial', 'unissued')
NONE_OF = ('unfinished', 'unmatched_complete', 'unmatched_requeue', 'unknown', 'lost', 'late', 'negative',
           'ambiguous', 'no_issue', 'unmatched_issue')


class Comparison:
    """Of a trace with what the collector has of the same time."""

    def __init__(self, both, *options, path=None):
        self.live, self.device = both.live, both.device
        self._arguments = ('-i', path or both.trace.path, '--start', 'get', *options)
        self.trace = show(*self._arguments)
        self._shifted = {}

    def _read_shifted(self, bounds, by):
        if by not in self._shifted:
            ladder = ','.join(f'{b - by}ns' for b in bounds if b > by)
            self._shifted[by] = show(*self._arguments, '--time', ladder)
        return self._shifted[by]

    def _check_near(self, key):
        live = self.live.hists[key]
        least, most = distance(*key[1:])
        low, high = (self._read_shifted(live.data['bounds'], by).hists[key] for by in (most, least))
        for row in range(len(live.cells)):
            below, above = cumulative(low, row), cumulative(high, row)
            far = 2 + sum(live.cells[row]) // FAR
            for bound, n in cumulative(live, row).items():
                between(below.get(bound - most, 0) - far, n, above[bound - least] + far,
                        f'{key}, row {row}: times up to {bound} ns')

    def _check_times(self, key, exactly):
        """Returns how many there are, how many cells differ, and the sum of the distances."""
        live, trace = self.live.hists[key], self.trace.hists[key]
        equal(trace.data['bounds'], live.data['bounds'], f'bounds of {key}')
        equal(trace.by_size(), live.by_size(), f'{key} by size')
        equal(trace.bytes, live.bytes, f'bytes of {key}')
        if exactly:
            equal(trace.cells, live.cells, f'cells of {key}')
        else:
            self._check_near(key)
        differ = sum(a != b for r, s in zip(live.cells, trace.cells) for a, b in zip(r, s))
        return live.count, differ, live.sum - trace.sum

    def _check_seek(self, name, events):
        """
        What was asked of the disk first has a distance for the collector, which is 0, and none in a trace.
        A pair that the collector has seen the other way round gives three other distances; but those of the
        disk have the same sum, if none was issued twice.
        """
        live, trace = (s.get(name, 'seek') for s in (self.live, self.trace))
        first = name == self.device.name
        equal(trace.count + first, live.count, f'seek distances of {name}')
        differ = collections.Counter(trace.by_bound()) + collections.Counter({0: int(first)}) - \
            collections.Counter(live.by_bound())
        swaps = events.close_issues() + 1 + live.count // RARE
        between(0, sum(differ.values()), 3 * swaps, f'seek distances of {name} that differ')
        if first and not self.trace.losses['requeued']:
            equal(trace.sum, live.sum, f'sum of the seek distances of {name}')

    def _check_losses(self, left):
        losses = self.trace.losses
        equal({k: losses[k] for k in NONE_OF if losses[k]}, left, 'losses of the trace')
        equal(sum(losses[k] for k in IN_CLASSES), losses['events'], 'events in classes')

    def check(self, events, kinds=('request', 'service', 'queue', 'seek'), exactly=False, left=None,
              flush='service', alone=True):
        """
        Everything of these kinds. A flush that the kernel makes has no start in a trace, so service time
        only. @left: losses of the trace that are right. @alone: no other disk had any I/O; the collector's
        losses are those of all. Returns the trace's histograms.
        """
        expected = {(name, kind, op) for name, kind, op in self.live.hists
                    if kind in kinds and (op != 'flush' or kind == flush)}
        equal({key for key in self.trace.hists if key[1] in kinds}, expected, 'histograms')
        self._check_losses(left or {})
        if 'request' in kinds and alone:
            equal({k: self.trace.losses[k] for k in SAME_LOSSES}, {k: self.live.losses[k] for k in SAME_LOSSES},
                  'losses of both')
        found = collections.defaultdict(list)
        for key in sorted(expected):
            if key[1] == 'seek':
                self._check_seek(key[0], events)
            else:
                found[key[1]].append(self._check_times(key, exactly))
        for kind, of in found.items():
            n, differ, distances = map(sum, zip(*of))
            say(f'{self.device.name}: {kind}: {differ} cells differ, {n} times by {distances / n / US:.1f} us on average')
        return self.trace


# --- loads ---

class Batch:
    """Several writes given to the kernel in one call, in this order: neighbours become one request."""
    SETUP, DESTROY, GETEVENTS, SUBMIT = 206, 207, 208, 209
    IOCB = struct.Struct('=QIIHhIQQqQII')
    PWRITE = 1

    def __init__(self, env):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._context = ctypes.c_ulong(0)
        self._call(self.SETUP, 64, ctypes.byref(self._context))
        env.callback(self._call, self.DESTROY, self._context)
        self._buffer = mmap.mmap(-1, 64 * KIB)

    def _call(self, number, *arguments):
        ret = self._libc.syscall(number, *arguments)
        assert ret >= 0, f'system call {number}: {os.strerror(ctypes.get_errno())}'
        return ret

    def write(self, fd, size, offsets):
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        blocks = [ctypes.create_string_buffer(self.IOCB.pack(0, 0, 0, self.PWRITE, 0, fd, address, size, offset, 0, 0, 0))
                  for offset in offsets]
        n = len(blocks)
        pointers = (ctypes.c_void_p * n)(*map(ctypes.addressof, blocks))
        equal(self._call(self.SUBMIT, self._context, n, pointers), n, 'writes submitted')
        events = ctypes.create_string_buffer(32 * n)
        equal(self._call(self.GETEVENTS, self._context, n, n, events, None), n, 'writes done')
        equal([struct.unpack_from('=q', events, 32 * i + 16)[0] for i in range(n)], [size] * n, 'their results')


def forced_write(env, path, offset):
    fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_DSYNC | os.O_CLOEXEC)
    env.callback(os.close, fd)
    equal(os.pwrite(fd, mmap.mmap(-1, 4 * KIB), offset), 4 * KIB, 'written')


def single(env, path, start, stride, n, discard=False):
    disk = env.disk(path)
    for at in range(start, start + n * stride, stride):
        disk.read(at, 4 * KIB)
        disk.write(at + 16 * KIB, 16 * KIB)
        if discard:
            disk.discard(at + 64 * KIB, 64 * KIB)


def splits(env, path, start):
    """Larger than the 64 KiB that a request may have."""
    disk = env.disk(path)
    for at in range(start, start + 2 * MIB, 512 * KIB):
        disk.read(at, 160 * KIB)
        disk.write(at + 256 * KIB, 192 * KIB)


def merges(env, path, start):
    """Behind each other, in front of each other, and such that join two requests."""
    disk, batch = env.disk(path), Batch(env)
    for order in ((0, 1, 2, 3, 8), (3, 2, 1, 0), (0, 2, 1, 4, 3, 5, 9)):
        batch.write(disk.fd, 4 * KIB, [start + 4 * KIB * i for i in order])
        start += MIB


def flushes(env, path, start, forced):
    disk = env.disk(path)
    for at in range(start, start + 4 * 16 * KIB, 16 * KIB):
        disk.write(at, 4 * KIB)
        disk.flush()
        if forced:
            forced_write(env, path, at + 8 * KIB)


def everything(env, device, parts, forced):
    """
    All kinds of I/O at once, each to places of its own. To the disk itself only outside of its partitions:
    before 5.12 the kernel goes by the place. Flushes only to the disk: of those to a partition a trace does not
    say so. Discards one at a time: the kernel makes one request of several that are far from each other, and
    a trace has only the first one's place in it.
    """
    discard = device.queue('discard_max_bytes') != '0'
    one, other = (f'/dev/{name}' for name in parts)
    run = functools.partial
    in_parallel([run(single, env, device.path, 64 * KIB, 64 * KIB, 8),
                 run(single, env, one, 0, 128 * KIB, 16, discard),
                 run(single, env, other, 0, 128 * KIB, 8),
                 run(splits, env, one, 8 * MIB),
                 run(merges, env, one, 16 * MIB),
                 run(merges, env, other, 16 * MIB),
                 run(flushes, env, device.path, device.size - MIB, forced)])


# --- disks ---

def with_one_head(device):
    """Else the collector has one per hardware queue, of which a trace does not know."""
    shared.callback(device.queue, 'rotational', device.queue('rotational'))
    device.queue('rotational', 1)
    return device


@functools.cache
def a_null_blk():
    return with_one_head(null_blk(shared, queue_mode=2, irqmode=2, completion_nsec=500 * US, memory_backed=1,
                                  discard=1, cache_size=4, submit_queues=1, hw_queue_depth=4))


@functools.cache
def a_scsi_debug():
    device = with_one_head(scsi_debug(shared, lbpu=1, medium_error_start=0x1234, medium_error_count=10))
    write_file(f'{SCSI_DEBUG}/ndelay', str(1 * MS))
    return device


@functools.cache
def an_nvme():
    return with_one_head(nvme_namespace(shared, 'several', 1))


def partitions(env, device):
    """For this test: of what goes to the disk, kernels before 5.12 would have something in them."""
    return Device(env, device.name).two_partitions()


# --- the other programs ---

def run_in(trace, *command, **kwargs):
    return subprocess.run(command, cwd=trace.directory, stdout=subprocess.PIPE, check=True, **kwargs).stdout


def blkparse_totals(trace):
    """Its summary of all CPUs: count and KiB by what it calls them."""
    summary = run_in(trace, 'blkparse', '-i', 't', text=True).rpartition('Reads Queued')
    rows = re.findall(r'((?:Read|Write)s? \w+): +(\d+)(?:, +(\d+)KiB)?', ''.join(summary[1:]))
    return {name: (int(count), int(kib) if kib else None) for name, count, kib in rows}


def check_blkparse(trace, snapshot, forced=0):
    """
    For blkparse a flush is a read of 0 bytes, a discard is a write. It counts every D, also one that is
    requeued, and every C, also a partial one, and that of a forced write a second time if it takes a flush.
    """
    totals, losses, events, name = blkparse_totals(trace), snapshot.losses, events_of(trace), trace.device.name
    requests = {op: snapshot.get(name, 'request', op).count for op in OPS}
    size = snapshot.bytes(name)
    equal((totals['Read Dispatches'][0], totals['Write Dispatches'][0]),
          (events.issues('read', 'flush'), events.issues('write', 'discard')), 'D')
    issued = sum(snapshot.get(name, 'service', op).count for op in OPS)
    between(issued, events.issues(*OPS), issued + losses['requeued'], 'D, of service times and requeues')
    # Only reads are completed in parts here.
    completed = {'Reads': requests['read'] + snapshot.get(name, 'service', 'flush').count + losses['partial'],
                 'Writes': requests['write'] + requests['discard'] + forced}
    equal({rw: totals[f'{rw} Completed'][0] for rw in completed}, completed, 'C')
    equal((totals['Reads Completed'][1] * KIB, totals['Writes Completed'][1] * KIB),
          (size.get('read', 0), size.get('write', 0) + size.get('discard', 0)), 'bytes of C')
    equal(totals['Reads Requeued'][0] + totals['Writes Requeued'][0], losses['requeued'], 'R')
    equal(totals['Reads Queued'][0] + totals['Writes Queued'][0] + losses['split'] - totals['Read Merges'][0] -
          totals['Write Merges'][0], sum(requests.values()), 'Q and what was split off, without what was merged')


BLKIOMON_SIZES = [0] + [1024 << i for i in range(14)]
BLKIOMON_D2C = [0] + [8 << i for i in range(23)]  # in us, of which it drops fractions


def blkiomon(path):
    """Its histograms, sizes and D2C, of a trace of D and C."""
    process = subprocess.Popen(['blkiomon', '-I', '1', '-h', '-'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with open(path, 'rb') as f:
        process.stdin.write(f.read())
    process.stdin.flush()
    out = b''
    while b'bidirectional' not in out:  # what has come within a second; at the end of its input it would say nothing
        data = os.read(process.stdout.fileno(), 65536)
        assert data, 'blkiomon has ended'
        out += data
    process.stdin.close()
    process.stdout.close()
    equal(process.wait(10), 0, 'exit status of blkiomon')
    texts = re.findall(rb'(\w+) histogram [^:]*:\n(.*?)\n(?=\S)', out, re.S)
    return {name.decode(): [int(n) for n in re.findall(rb':\s+(\d+)', text)] for name, text in texts}


def check_blkiomon(path, snapshot_arguments, name):
    """Cell by cell, all operations together, as it does not tell them apart."""
    theirs = blkiomon(path)
    times = ','.join(f'{us * 1000 + 999}ns' for us in BLKIOMON_D2C)
    sizes = ','.join(f'{size or 1}B' for size in BLKIOMON_SIZES)
    snapshot = show('-i', *snapshot_arguments, '--time', times, '--size', sizes)
    d2c, by_size = ([0] * (len(bounds) + 1) for bounds in (BLKIOMON_D2C, BLKIOMON_SIZES))
    for op in OPS:
        for row, cells in enumerate(snapshot.get(name, 'service', op).cells):
            by_size[row] += sum(cells)
            d2c = [a + b for a, b in zip(d2c, cells)]
    assert sum(d2c), 'nothing was compared'
    equal(theirs['d2c'], d2c, 'D2C of blkiomon, and service times')
    equal(theirs['sizes'], by_size, 'sizes of blkiomon, and ours')


def btt(trace):
    """Number and mean, in ns, of what btt calls them."""
    run_in(trace, 'blkparse', '-i', 't', '-d', 'merged', '-O')
    out = run_in(trace, 'btt', '-i', 'merged', text=True)
    rows = re.findall(r'^(\w+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+)$', out, re.M)
    return {name: (int(n), round(float(mean) * 10**9)) for name, _, mean, _, n in rows}


# --- tests ---

def check_everything(env, device, scheduler):
    device.scheduler(scheduler)
    env.callback(device.queue, 'max_sectors_kb', device.queue('max_sectors_kb'))
    device.queue('max_sectors_kb', 64)
    parts = partitions(env, device)
    with Both(env, Blktrace(env, device)) as both:
        everything(env, device, parts, not LACKS_FORCED)
    events = events_of(both.trace)
    snapshot = Comparison(both).check(events)
    equal(snapshot.names(), {device.name, *parts}, 'names')
    assert snapshot.losses['split'] >= 8, snapshot.losses
    events.check_service_times(snapshot, device.name)
    check_blkparse(both.trace, snapshot)


def everything_test(make, scheduler):
    def run(env):
        check_everything(env, make(), scheduler)
    run.__name__ = f'everything_on_{make.__name__}_with_{scheduler.replace("-", "_")}'
    test(run)


for _make, _scheduler in ((a_null_blk, 'none'), (a_null_blk, 'mq-deadline'), (a_scsi_debug, 'mq-deadline'),
                          (an_nvme, 'none')):
    everything_test(_make, _scheduler)


MARGIN = 4 * MS


def is_near(both, bounds):
    """Whether some time is near a bound."""
    ladder = ','.join(f'{b - MARGIN}ns,{b + MARGIN}ns' for b in bounds)
    snapshot = show('-i', both.trace.path, '--start', 'get', '--time', ladder)
    return any(sum(row[1::2]) for key, hist in snapshot.hists.items() if key[1] != 'seek' for row in hist.cells)


def check_exactly(env, device, bounds, function):
    """What is near a bound says nothing: it is the machine's, which others use, too."""
    ladder = ','.join(f'{b}ns' for b in bounds)
    collect()
    blkhist('buckets', device.name, '--time', ladder)
    for _ in range(4):
        with Both(env, Blktrace(env, device)) as both:
            function()
        if not is_near(both, bounds):
            break
    else:
        raise AssertionError('there were always times near the bounds')
    snapshot = Comparison(both, '--time', ladder).check(events_of(both.trace), exactly=True)
    used = {bound for op in OPS for bound in snapshot.get(device.name, 'request', op).by_bound()}
    assert len(used) >= 2, f'only these columns have anything: {used}'


@test
def bounds_that_no_time_is_near(env):
    """Requests of 20 ms that wait for each other, and delays of 20, 100 and 200 ms: every cell is equal."""
    device = with_one_head(null_blk(env, queue_mode=2, irqmode=2, completion_nsec=20 * MS, submit_queues=1,
                                    hw_queue_depth=1))
    device.scheduler('mq-deadline')
    device.queue('nr_requests', 16)
    device.queue('nomerges', 2)
    disk, batch = env.disk(device.path), Batch(env)
    check_exactly(env, device, [(10 + 20 * i) * MS for i in range(6)],
                  lambda: batch.write(disk.fd, 8 * KIB, [i * MIB for i in (1, 3, 5, 7)]))

    device = a_scsi_debug()
    disk = env.disk(device.path)
    env.callback(write_file, f'{SCSI_DEBUG}/ndelay', str(1 * MS))
    env.callback(blkhist, 'buckets', device.name, '--time', 'native:2,1us..16s')

    def delays():
        for ms in (20, 100, 200):
            write_file(f'{SCSI_DEBUG}/ndelay', str(ms * MS))
            for i in range(3):
                disk.read(i * MIB, 4 * KIB)
                disk.write(i * MIB + 512 * KIB, 64 * KIB)
        write_file(f'{SCSI_DEBUG}/ndelay', str(1 * MS))
    check_exactly(env, device, [10 * MS, 60 * MS, 150 * MS, 400 * MS], delays)


def sfdisk_dump(device, parts):
    """What `sfdisk -d` would print of them, if they were in a table on the disk."""
    lines = ['label: dos', f'device: {device.path}', 'unit: sectors', '']
    for name in parts:
        start, size = (read_file(f'/sys/class/block/{name}/{what}') for what in ('start', 'size'))
        lines.append(f'/dev/{name} : start={start:>12}, size={size:>12}, type=83')
    return '\n'.join(lines) + '\n'


@test
def smallest_masks(env):
    """Into a pipe. D and C give service time and seek distance, and blkiomon; with -a queue there is everything."""
    device = a_null_blk()
    parts = partitions(env, device)
    directory = scratch(env)
    dump = f'{directory}/dump'
    with open(dump, 'w', encoding='ascii') as f:
        f.write(sfdisk_dump(device, parts))
    for actions in (('issue', 'complete'), ('issue', 'complete', 'queue')):
        path = f'{directory}/{len(actions)}'
        with open(path, 'wb') as f, Both(env, Blktrace(env, device, *actions, stdout=f)) as both:
            everything(env, device, parts, False)
        events = Events(path)
        if 'queue' in actions:
            snapshot = Comparison(both, path=path).check(events)
            kinds = {'service', 'seek', 'request', 'queue'}
        else:
            snapshot = Comparison(both, '--partitions', dump, path=path).check(
                events, ('service', 'seek'), left={'unmatched_complete': both.live.losses['unissued']})
            kinds = {'service', 'seek'}
            check_blkiomon(path, [path], device.name)
        equal({kind for _, kind, _ in snapshot.hists}, kinds, f'kinds with {actions}')
        missing = [note for note in snapshot.data['notes'] if 'no request and queue time' in note]
        equal(len(missing), 0 if 'queue' in actions else 1, f'notes of what is missing: {snapshot.data["notes"]}')
        assert all('-a queue' in note for note in missing), missing
        events.check_service_times(snapshot, device.name)


@test
def times_of_btt(env):
    """
    Where nothing is merged or split: btt counts D2C once for each Q. Requeued or partial ones it takes as they
    come, and flushes, which have no Q, it leaves out.
    """
    device = a_null_blk()
    device.queue('nomerges', 2)
    env.callback(device.queue, 'nomerges', 0)
    with Blktrace(env, device) as trace:
        load(env, device.name, jobs=3)
    theirs = btt(trace)
    # By the major number, which is a dynamic one here, it may take the disk for one of dm.
    q2c = 'Q2Cdm' if 'Q2Cdm' in theirs else 'Q2C'
    for name, kind, start in (('D2C', 'service', 'get'), (q2c, 'request', 'queue')):
        snapshot = show('-i', trace.path, '--start', start)
        hists = [snapshot.get(device.name, kind, op) for op in OPS]
        n, total = sum(h.count for h in hists), sum(h.sum for h in hists)
        equal(n, 90, 'requests')
        equal(theirs[name][0], n, f'number of {name}')
        between(-1, theirs[name][1] - total / n, 1, f'mean {name} of btt less that of {kind} times, in ns')


def check_scsi_debug(env, opts, every, function, least):
    device = a_scsi_debug()
    device.scheduler('mq-deadline')
    device.queue('nomerges', 2)
    env.callback(device.queue, 'nomerges', 0)
    with Both(env, Blktrace(env, device)) as both, injecting(opts, every):
        function(device)
    events = events_of(both.trace)
    snapshot = Comparison(both).check(events)
    for loss, n in least.items():
        assert snapshot.losses[loss] >= n, f'{loss}: {snapshot.losses}'
    check_blkparse(both.trace, snapshot)
    return snapshot


@test
def requeues(env):
    """Of what was issued, and of what the host would not take: that is requeued several times, never issued."""
    for opts in (TRANSPORT_ERROR, HOST_BUSY):
        check_scsi_debug(env, opts, 5, lambda device: load(env, device.name, jobs=2, discard=False), {'requeued': 7})


@test
def partial_completions(env):
    """Half of it, and then the rest; or up to a bad sector, which may be the first one: then it is nothing."""
    def reads(device):
        disk = env.disk(device.path)
        for i in range(12):
            disk.read(i * MIB, 64 * KIB)
    check_scsi_debug(env, SHORT_TRANSFER, 3, reads, {'partial': 4, 'requeued': 4})

    def bad_sectors(device):
        disk = env.disk(device.path)
        for first in (0x1230, 0x1238, 0x1200):
            with contextlib.suppress(OSError):
                os.preadv(disk.fd, [memoryview(disk.buffer)[:64 * KIB]], first * 512)
    check_scsi_debug(env, MEDIUM_ERROR, 0, bad_sectors, {'partial': 3})


def check_lacking(both, n, itself):
    """@n forced writes that version 7 has nothing of, or not the beginning."""
    trace, name = Comparison(both).trace, both.device.name
    for kind, missing in (('request', n), ('service', n if itself else 0)):
        equal(trace.get(name, kind, 'write').count, both.live.get(name, kind, 'write').count - missing,
              f'writes with {kind} time')
    equal(trace.losses['unmatched_complete'], 0 if itself else n, 'their last C')
    equal(trace.losses['lost'], 0, 'nothing tells')


@test
def forced_writes(env):
    """
    Where the disk does them itself, and where the kernel makes a write and a flush of each: that is completed
    twice, with its data and once more without. On 6.19 and later version 7 lacks the first ones, and the
    beginning of the others.
    """
    for device, itself in ((an_nvme(), True), (disk_by_serial(env, 'virtio'), False)):
        equal(device.queue('fua'), '1' if itself else '0', f'{device.name} does them itself')
        with_one_head(device)
        with Both(env, Blktrace(env, device)) as both:
            flushes(env, device.path, MIB, False)
            for i in range(6):
                forced_write(env, device.path, 8 * MIB + i * MIB)
        if LACKS_FORCED:
            check_lacking(both, 6, itself)
        else:
            snapshot = Comparison(both).check(events_of(both.trace))
            check_blkparse(both.trace, snapshot, forced=0 if itself else 6)


BLKZEROOUT = 0x127f


@test
def version_8(env):
    """Which has the forced writes, and write-zeroes."""
    if not LACKS_FORCED:
        raise Skip(f'kernel {platform.release()} has version 7 only')
    device = an_nvme()
    device.scheduler('none')
    device.queue('max_sectors_kb', 64)
    with Both(env, Version8(env, device)) as both:
        everything(env, device, partitions(env, device), True)
        fcntl.ioctl(env.disk(device.path).fd, BLKZEROOUT, struct.pack('QQ', 640 * KIB, 128 * KIB))
    events = events_of(both.trace)
    snapshot = Comparison(both).check(events)
    assert snapshot.losses['split'] >= 8, snapshot.losses
    events.check_service_times(snapshot, device.name)


@test
def devices_without_requests(env):
    """A mapped device has bios only, and the remaps of the disk below are not those of partitions."""
    below = with_one_head(disk_by_serial(env, 'virtio'))
    below.queue('nomerges', 2)
    device = device_mapper(env, f'linear {below.path} 2048')
    with Both(env, Blktrace(env, device)) as upper, Both(env, Blktrace(env, below)) as lower:
        load(env, device.name, jobs=2, discard=False)
        flushes(env, device.path, 24 * MIB, False)
    snapshots = [Comparison(both).check(events_of(both.trace), flush=flush, alone=False)
                 for both, flush in ((upper, 'request'), (lower, 'service'))]
    for key in SAME_LOSSES:
        equal(sum(s.losses[key] for s in snapshots), upper.live.losses[key], key)


@test
def live_pipe(env):
    """What happens is shown while it goes on, and nothing is missing in the end."""
    device = a_null_blk()
    device.scheduler('none')
    disk = env.disk(device.path)
    end, beginning = os.pipe()
    watch = subprocess.Popen(command_line('watch', '-f', 'json', '-i', '-', '1'), stdin=end, stdout=subprocess.PIPE)
    env.callback(watch.kill)
    os.close(end)
    os.set_blocking(watch.stdout.fileno(), False)
    lines, n, deadline = b'', 0, time.monotonic() + 60
    trace = Blktrace(env, device, 'issue', 'complete', stdout=beginning)
    with trace:
        os.close(beginning)
        while lines.count(b'\n') < 3:
            disk.read(n % 1024 * 4 * KIB, 4 * KIB)
            n += 1
            lines += watch.stdout.read() or b''
            assert time.monotonic() < deadline, 'nothing is shown'
        shown = lines.count(b'\n')
    os.set_blocking(watch.stdout.fileno(), True)
    lines += watch.stdout.read()
    equal(watch.wait(60), 0, 'exit status of watch')
    intervals = [[d['requests'] for d in json.loads(line)['devices'] if d['device'] == device.name]
                 for line in lines.splitlines()]
    assert sum(map(sum, intervals[:shown])), f'nothing is shown of the load: {intervals}'
    equal(sum(map(sum, intervals)), n, f'reads in {len(intervals)} intervals')


if __name__ == '__main__':
    main()
