# SPDX-License-Identifier: GPL-2.0-only
"""
What the tests of traces share. They need neither root nor a device: blkhist reads files.

A test is a function of one argument, a Work, whose directory and processes are gone when it ends.
"""
import contextlib
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile

import generate
import lib
import tap
from generate import Device, Partition, Workload, device_number
from lib import BLKHIST, Snapshot, blkhist, equal
from tap import test  # noqa: F401 for the tests

CLASSES = ('matched', 'unfinished', 'unmatched_complete', 'unmatched_requeue', 'notify', 'no_request',
           'passthrough', 'stacked', 'ignored', 'unknown')
CPUS = 4

# Numbers that no machine is likely to have, as the names would be those of its devices.
SDA = device_number(8, 0xffff0)
SDA1 = device_number(8, 0xffff1)
SDA2 = device_number(8, 0xffff2)
NVME = device_number(259, 0xffff3)
NVME_P1 = device_number(259, 0xffff5)
ZRAM = device_number(253, 0xffff7)

WALL = 1_700_000_000 * generate.SECOND + 123_456_789  # 2023-11-14T22:13:20.123456789Z


class Work(contextlib.ExitStack):
    def __enter__(self):
        self.directory = self.enter_context(tempfile.TemporaryDirectory(prefix='blkhist-traces-'))
        return super().__enter__()

    def path(self, name):
        return os.path.join(self.directory, name)

    def file(self, name, data):
        path = self.path(name)
        with open(path, 'wb') as f:
            f.write(data.encode() if isinstance(data, str) else data)
        return path

    def spawn(self, *args, **kwargs):
        command, *rest = args
        process = subprocess.Popen([BLKHIST, command, *UNCONFIGURED, *rest],
                                   **{'stderr': subprocess.PIPE, **kwargs})
        self.callback(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()


def main():
    if not os.access(BLKHIST, os.X_OK):
        sys.exit('BLKHIST must be the path of the program under test')

    def call(function):
        with Work() as work:
            function(work)
    tap.main(call)


def devices():
    """New ones, as they remember what is going on on them."""
    zones = [(1 << 19) + 4096 * i for i in range(4)]
    return [Device(SDA, partitions=(Partition(SDA1, 2048, 40000), Partition(SDA2, 65536, 200000)), zones=zones),
            Device(NVME, partitions=(Partition(NVME_P1, 4096, 100000),)),
            Device(ZRAM, has_requests=False)]


def workload(seed, n=250, scenes=None, begun_before=True, **options):
    load = Workload(seed, devices(), CPUS, **{'wall': WALL, **options})
    return load.tell(n, scenes=scenes, begun_before=begun_before)


# What is set for this machine is not what is tested; of several --config the last one counts.
UNCONFIGURED = ('--config', '/dev/null')


def run(command, *args, **kwargs):
    """A command on traces."""
    return blkhist(command, *UNCONFIGURED, *args, **kwargs)


def refused(command, *args, status=1, words=(), **kwargs):
    """It must fail with one sentence that has all these words, and print nothing else."""
    message = lib.refused(command, *UNCONFIGURED, *args, status=status, **kwargs)
    for word in words:
        assert word in message, f'{word!r} is not in: {message}'


def show(*args, **kwargs):
    """The snapshot of a trace without any problem."""
    r = run('show', '-f', 'json', *args, **kwargs)
    equal(r.stderr, '', 'messages')
    return Snapshot(r.stdout)


def damaged(*args, **kwargs):
    """The snapshot of what can be read of a trace with problems, and the sentences about them."""
    r = run('show', '-f', 'json', *args, status=1, **kwargs)
    lines = r.stderr.splitlines()
    assert lines and all(line.startswith('blkhist: ') for line in lines), r.stderr
    return Snapshot(r.stdout), [line.removeprefix('blkhist: ') for line in lines]


def check_classes(losses):
    equal(sum(losses[name] for name in CLASSES), losses['events'], 'sum of the classes of events')


def check_losses(snapshot, truth, leave_out=()):
    check_classes(snapshot.losses)
    equal(set(snapshot.losses), set(truth.losses), 'names of losses')
    for name, n in truth.losses.items():
        if name not in leave_out:
            equal(snapshot.losses[name], n, f'{name} of {snapshot.losses}')


def occupied(bounds, row):
    """What is not zero, by bound: easier to read than all of it."""
    equal(len(row), len(bounds) + 1, 'columns')
    return {bound: n for bound, n in zip([*bounds, '+inf'], row) if n}


def check_histograms(snapshot, truth):
    """Cell by cell."""
    equal(sorted(snapshot.hists), sorted(truth.values), 'histograms')
    for key, values in truth.values.items():
        h = snapshot.hists[key]
        size_bounds = h.data.get('size_bounds', [])
        counts, sums = generate.cells(values, h.data['bounds'], size_bounds)
        equal(len(h.cells), len(counts), f'rows of {key}')
        for size, got, expected in zip([*size_bounds, '+inf'], h.cells, counts):
            bounds = h.data['bounds']
            equal(occupied(bounds, got), occupied(bounds, expected), f'{key}, size <= {size}')
        equal(h.sums, sums, f'sums of {key}')
        equal(h.data['unit'], 'sectors' if key[1] == 'seek' else 'ns')
        if key[1] != 'seek':
            equal(h.bytes, truth.bytes[key[0], key[2]], f'bytes of {key}')


def check(snapshot, truth):
    """All of it."""
    check_histograms(snapshot, truth)
    check_losses(snapshot, truth)
    equal(snapshot.data['source'], 'blktrace')


def rfc3339(ns):
    moment = datetime.datetime.fromtimestamp(ns // generate.SECOND, datetime.timezone.utc)
    return f'{moment:%Y-%m-%dT%H:%M:%S}.{ns % generate.SECOND:09}Z'


# What a note can be about; a group is a number, or the topic itself.
NOTES = (
    ('begins at Q', r'request and queue time begin at Q, .*--start get at G'),
    ('begins at G', r'request and queue time of (\d+) requests begin at G, when they get a request'),
    ('begins at its first event', r'request and queue time of (\d+) requests begin at their first event, '),
    ('no wall clock', r'the trace does not say what time it was'),
    (None, r'(\S+ has no (?:histograms|request and queue time|service, queue and seek)), '
           r'as the trace has no [CQD] of it; blktrace'),
    (None, r'(\S+ has no service and queue time), as it has bios and no requests'),
    (None, r"the partition (table of '\S+' is of no device) of the trace"),
)


def notes(snapshot):
    """By topic, with the number that they say, if any."""
    ret = {}
    for note in snapshot.data.get('notes', []):
        for topic, pattern in NOTES:
            found = re.match(pattern, note)
            if found:
                ret[topic or found[1]] = int(found[1]) if topic and found.re.groups else None
                break
        else:
            raise AssertionError(f'a note of an unknown kind: {note}')
    return ret


def watch(*args, **kwargs):
    """The objects that watch prints of a trace without any problem."""
    r = run('watch', '-f', 'json', *args, **kwargs)
    equal([line for line in r.stderr.splitlines() if not line.startswith('Note: ')], [], 'messages')
    return [json.loads(line) for line in r.stdout.splitlines()]
