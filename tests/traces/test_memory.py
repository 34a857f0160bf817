#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The memory that reading takes does not depend on the length of a trace, and nothing of a long one is lost."""
import array
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import generate
from generate import FS, READ, SYNC
from lib import between, equal
from traces import NVME, SDA, main, test

MIB = 1 << 20
SMALL, LARGE = 64 * MIB, 512 * MIB
RECORD = 48
WORDS = RECORD // 4
SEQUENCE, TIME_LOW, TIME_HIGH = 1, 2, 3  # words of a record
BLOCK_NS = 1 << 28  # the low words of the times come again after 16 blocks
CPUS = 2
F_SETPIPE_SZ = 1031  # of linux/fcntl.h
REQUESTS = 5000

class Row:
    """The records of a device on a CPU, over and over, later and later."""

    def __init__(self, events):
        data = b''.join(ev.pack(7, '<' if sys.byteorder == 'little' else '>') for ev in events)
        self.words = array.array('I', data)
        times = [ev.time for ev in events]
        self.low = [array.array('I', [t + i * BLOCK_NS for t in times]) for i in range(16)]
        self.n = len(events)

    def block(self, turn):
        self.words[SEQUENCE::WORDS] = array.array('I', range(turn * self.n + 1, (turn + 1) * self.n + 1))
        self.words[TIME_LOW::WORDS] = self.low[turn % 16]
        self.words[TIME_HIGH::WORDS] = array.array('I', [turn // 16]) * self.n
        return self.words


def requests():
    """
    Reads of two devices, each of which takes a hundred times as long as the next one is away. Those that end
    in the next block stand at the beginning of theirs. Returns the rows by CPU, and the number of these.
    """
    rows = {(cpu, device): [] for cpu in range(CPUS) for device in (SDA, NVME)}
    step = BLOCK_NS // REQUESTS
    later = 0
    for i in range(REQUESTS):
        device, sector, begin = (SDA, NVME)[i % 2], 8 * i, i * step
        cpu, end = i // 2 % CPUS, i // 4 % CPUS
        later += begin + 100 * step >= BLOCK_NS
        for delay, kind, where in ((1, 'Q', cpu), (300, 'G', cpu), (9000, 'D', cpu), (100 * step, 'C', end)):
            category = READ | SYNC | (FS if kind in 'DC' else 0)
            rows[where, device].append(generate.Event((begin + delay) % BLOCK_NS, where, kind, device, category,
                                                      sector, 4096))
    for events in rows.values():
        events.sort(key=lambda ev: ev.time)
    return {cpu: [Row(rows[cpu, device]) for device in (SDA, NVME)] for cpu in range(CPUS)}, later


def turns(size):
    return size // (4 * REQUESTS * RECORD)


def peak_memory(pid):
    """KiB. The process is writing more than its pipe can take, so it is still there."""
    with open(f'/proc/{pid}/status') as f:
        return int(re.search(r'^VmHWM:\s+(\d+) kB$', f.read(), re.M)[1])


def measured(work, size, later, *args, feed=None):
    """KiB that blkhist needed at most. What it shows of that many bytes must be right."""
    read_end, write_end = os.pipe()
    work.callback(os.close, read_end)
    between(1, fcntl.fcntl(write_end, F_SETPIPE_SZ, 4096), 4096, 'size of the pipe')
    process = work.spawn('show', '-f', 'json', '-i', *args, stdin=subprocess.PIPE, stdout=write_end)
    os.close(write_end)
    if feed:
        feed(process.stdin)
    process.stdin.close()
    process.stdin = None  # for communicate(), which would close it once more
    text = os.read(read_end, 1)
    kib = peak_memory(process.pid)
    while got := os.read(read_end, 65536):
        text += got
    equal((process.wait(timeout=60), process.stderr.read()), (0, b''), 'exit status and errors')
    assert len(text) > 8192, 'it did not have to wait'
    data = json.loads(text)
    equal(data['losses']['events'], turns(size) * 4 * REQUESTS, 'events')
    equal((data['losses']['lost'], data['losses']['late']), (0, 0), 'lost, late')
    served = sum(h['count'] for h in data['histograms'] if h['kind'] == 'service')
    equal(served, turns(size) * REQUESTS - later, 'requests')
    return kib


@test
def files_of_cpus(work):
    rows, later = requests()
    with tempfile.TemporaryDirectory(prefix='blkhist-traces-', dir='/dev/shm') as directory:
        peaks = []
        for size in (SMALL, LARGE):
            for cpu, of_cpu in rows.items():
                with open(f'{directory}/t.blktrace.{cpu}', 'wb', buffering=0) as f:
                    for turn in range(turns(size)):
                        for row in of_cpu:
                            f.write(row.block(turn))
            peaks.append(measured(work, size, later, f'{directory}/t'))
        print(f'# {peaks[0]} KiB for {SMALL // MIB} MiB, {peaks[1]} KiB for {LARGE // MIB} MiB')
        between(0.9 * peaks[0], peaks[1], 1.1 * peaks[0], 'KiB at most')
        between(0, peaks[1], 64 << 10, 'KiB at most')
        a_file_is_interrupted(work, f'{directory}/t')


def a_file_is_interrupted(work, path):
    """It says how far it has come, and shows that. This file is long enough to be in its middle then."""
    process = work.spawn('show', '-f', 'json', '-i', path, stdout=subprocess.PIPE, text=True)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    equal(process.returncode, 1, f'exit status; {err}')
    done, total = map(int, re.fullmatch(r'blkhist: interrupted after (\d+) of (\d+) bytes .*\n', err).groups())
    equal(total, turns(LARGE) * 4 * REQUESTS * RECORD, 'bytes')
    # A little more has been read than is counted.
    between(done // RECORD - 1_000_000, json.loads(out)['losses']['events'], done // RECORD, 'events')


@test
def a_pipe(work):
    """As blktrace writes one: what a CPU has, and then what the next one has."""
    rows, later = requests()
    peaks = []
    for size in (SMALL, LARGE):
        def feed(pipe, size=size):
            for turn in range(turns(size)):
                for of_cpu in rows.values():
                    for row in of_cpu:
                        pipe.write(row.block(turn))
        peaks.append(measured(work, size, later, '-', feed=feed))
    print(f'# {peaks[0]} KiB for {SMALL // MIB} MiB, {peaks[1]} KiB for {LARGE // MIB} MiB')
    between(0.9 * peaks[0], peaks[1], 1.1 * peaks[0], 'KiB at most')
    between(0, peaks[1], 64 << 10, 'KiB at most')


if __name__ == '__main__':
    main()
