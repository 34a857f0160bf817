#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
A real trace, of another machine: 963 reads of 4096 bytes of one NVMe partition, whose times are known from
pairing them by other means. Its file is called .0, its records say CPU 1.
"""
import os

from lib import equal
from traces import main, notes, show, test

SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'data', 'nvme-reads.blktrace.0')
READS = 963


def name_here(number, disk=None):
    """As /sys has it, if this machine has such a disk, or such a partition of that disk."""
    link = f'/sys/dev/block/{number}'
    if not os.path.exists(link) or os.path.exists(f'{link}/partition') != bool(disk):
        return number
    *_, parent, name = os.readlink(link).split('/')
    return name if disk in (None, parent) else number


DISK = name_here('259:0')
PARTITION = name_here('259:3', DISK)
# Of each kind the least and the largest time, and the sum of all.
KNOWN = {'service': (52_471, 102_460, 53_878_701), 'request': (53_029, 103_591, 54_514_424)}


@test
def its_known_figures(work):
    for kind, (least, largest, total) in KNOWN.items():
        for bounds, counts in (((least - 1, largest), [0, READS, 0]),
                               ((least, largest - 1), [1, READS - 2, 1])):
            ladder = ','.join(f'{b}ns' for b in bounds)
            snapshot = show('-i', SAMPLE, '-k', kind, '--time', ladder, '--size', '4095,4096')
            equal(set(snapshot.hists), {(DISK, kind, 'read'), (PARTITION, kind, 'read')}, 'histograms')
            for h in snapshot.hists.values():
                nothing = [0, 0, 0]
                # Of the least and of the largest there may be several; here there is one of each.
                equal(h.cells, [nothing, counts, nothing], f'{kind} at {bounds}')
                equal((h.sum, h.count, h.bytes), (total, READS, READS * 4096), kind)


@test
def its_events(work):
    snapshot = show('-i', SAMPLE)
    known = {'events': 6743, 'matched': 5 * READS, 'no_request': 2 * READS, 'notify': 2}
    equal({name: n for name, n in snapshot.losses.items() if n}, known, 'losses')
    equal(notes(snapshot), {'begins at Q': None, 'no wall clock': None}, 'notes')
    request, service, queue = (snapshot.get(DISK, kind, 'read').sum for kind in ('request', 'service', 'queue'))
    equal(queue, request - service, 'queue time')
    equal(snapshot.get(PARTITION, 'seek').count, READS - 1, 'distances')


if __name__ == '__main__':
    main()
