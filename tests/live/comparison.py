# SPDX-License-Identifier: GPL-2.0-only
"""
Compares what a trace says, read by blkhist, with the collector's histograms of the same time, and with what
blkparse, blkiomon and btt find in it.

Counts, sizes, bytes, seek distances and losses are equal, to the unit. Times cannot be: both take the
time themselves, one after the other, at D and at C. If a request's time is by `least` to `most` longer for
the collector (distance()), then for every bound

    counts of the trace up to bound - most  <=  the collector's up to bound  <=  the trace's up to bound - least

and this is what must hold, in every row. The trace's counts up to a shifted bound are had by reading it again
with shifted bounds. In each row two times, and one of every FAR, may be farther away: between the two readings of
the clock an interrupt can take its time, and the emulator can go on with another CPU. How many cells differ, and by
how much times do on average, is printed.
"""
import collections
import os
import platform
import re
import subprocess

import records
from lib import KIB, OPS, Hidden, between, blkhist, equal, show

US, MS = 10**3, 10**6
RELEASE = tuple(map(int, platform.release().split('.')[:2]))

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


def events_of(path):
    return records.Events(*records.files(path).values())


class Both:
    """A trace, and the collector's histograms and losses of the same time. The disk is idle at first and at last."""

    def __init__(self, env, trace):
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


# --- the collector ---

def check_service_times(events, snapshot, name):
    """Those of show are these."""
    times = events.service_times()
    for op in OPS:
        hist = snapshot.get(name, 'service', op)
        equal((hist.count, hist.sum), (len(times[op]), sum(times[op])), f'{op}: service times and their sum')


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
        self.live, self.name = both.live, both.device.name
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
        first = name == self.name
        equal(trace.count + first, live.count, f'seek distances of {name}')
        differ = collections.Counter(trace.by_bound()) + collections.Counter({0: int(first)}) - \
            collections.Counter(live.by_bound())
        swaps = events.close_issues(distance('service', 'all')[1]) + 1 + live.count // RARE
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
            say(f'{self.name}: {kind}: {differ} cells differ, {n} times by {distances / n / US:.1f} us on average')
        return self.trace


# --- the other programs ---

def run_beside(path, *command, **kwargs):
    return subprocess.run(command, cwd=os.path.dirname(path), stdout=subprocess.PIPE, check=True, **kwargs).stdout


def blkparse_totals(path):
    """Its summary of all CPUs: count and KiB by what it calls them."""
    summary = run_beside(path, 'blkparse', '-i', os.path.basename(path), text=True).rpartition('Reads Queued')
    rows = re.findall(r'((?:Read|Write)s? \w+): +(\d+)(?:, +(\d+)KiB)?', ''.join(summary[1:]))
    return {name: (int(count), int(kib) if kib else None) for name, count, kib in rows}


def check_blkparse(trace, snapshot, forced=0):
    """
    For blkparse a flush is a read of 0 bytes, a discard is a write. It counts every D, also one that is
    requeued, and every C, also a partial one, and that of a forced write a second time if it takes a flush.
    """
    totals, losses, events = blkparse_totals(trace.path), snapshot.losses, events_of(trace.path)
    name = trace.device.name
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
    process.stdout.read()
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


def btt(path):
    """Number and mean, in ns, of what btt calls them."""
    run_beside(path, 'blkparse', '-i', os.path.basename(path), '-d', 'merged', '-O')
    out = run_beside(path, 'btt', '-i', 'merged', text=True)
    rows = re.findall(r'^(\w+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+)$', out, re.M)
    return {name: (int(n), round(float(mean) * 10**9)) for name, _, mean, _, n in rows}
