#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
SCSI and NVMe disks that come and go while another disk works. Everything is compared with
/proc/diskstats, as the kernel reads from new disks, too. In a virtual machine only.
"""
import concurrent.futures
import contextlib
import glob
import os
import threading
import time

from lib import KIB, MIB, Disk, diskstats, equal, main, read_file, show, status, test, verify, write_file
from machine import disks, load_module, modprobe, wait_for

ADD_HOST = '/sys/bus/pseudo/drivers/scsi_debug/add_host'
WANTED = 1000  # of each kind, or as many as come in this time, since the machine is emulated
SECONDS = int(os.environ.get('BLKHIST_HOTPLUG_SECONDS', '5'))


def done(names):
    """Requests of each, by operation, as the kernel has counted them."""
    return {name: {op: n for op, n in of.items() if n} for name, of in diskstats(*names).items()}


def settle(names):
    """Waits until the kernel has looked at new disks."""
    seen, quiet = None, 0
    while quiet < 10:
        now = done(names)
        quiet = quiet + 1 if now == seen else 0
        seen = now
        time.sleep(0.005)


def look(names):
    """What we have counted, and the kernel, with no I/O in between."""
    while True:
        before = done(names)
        snapshot = show()
        if done(names) == before:
            return snapshot, before


class Scsi:
    """Disks of scsi_debug, several at once."""
    at_once = 4

    def __init__(self, env):
        load_module('sd_mod')
        modprobe(env, 'scsi_debug', dev_size_mb=8, add_host=0, delay=0)

    def appear(self, n):
        before = disks()
        write_file(ADD_HOST, str(n))
        return sorted(wait_for(lambda: len(disks() - before) == n and disks() - before, f'{n} disks'))

    def go(self, names):
        write_file(ADD_HOST, str(-len(names)))
        wait_for(lambda: not disks() & set(names), 'the end of the disks')


class Nvme:
    """The namespaces of the controller 'several', which is taken off its bus."""
    at_once = 2

    def __init__(self, env):
        load_module('nvme')
        controllers = wait_for(lambda: [c for c in glob.glob('/sys/class/nvme/nvme*')
                                        if self._serial(c) == 'several'], 'the controller')
        self.pci = os.path.realpath(f'{controllers[0]}/device')
        self.names = wait_for(self._namespaces, 'the namespaces')
        env.callback(self.appear, 2)
        self.go(self.names)

    @staticmethod
    def _serial(controller):
        with contextlib.suppress(OSError):
            return read_file(f'{controller}/serial').strip()
        return None

    def _namespaces(self):
        found = [os.path.basename(p) for p in glob.glob('/sys/block/nvme*n*')
                 if os.path.realpath(p).startswith(self.pci + '/')]
        # With native multipath the disks are those of a subsystem.
        if not found:
            found = [os.path.basename(p) for p in glob.glob('/sys/block/nvme*n*')
                     if self._serial(f'{os.path.realpath(p)}/../nvme{os.path.basename(p)[4:].split("n")[0]}')
                     == 'several']
        return sorted(found) if len(found) == 2 else None

    def appear(self, _):
        if not os.path.exists(self.pci):
            write_file('/sys/bus/pci/rescan', '1')
        return wait_for(self._namespaces, 'the namespaces')

    def go(self, names):
        write_file(f'{self.pci}/remove', '1')
        wait_for(lambda: not disks() & set(names), 'the end of the disks')


def open_new(name):
    """None as long as it has a node, but is not there."""
    try:
        return Disk(f'/dev/{name}')
    except OSError:
        return None


def read(name, n):
    with contextlib.closing(wait_for(lambda: open_new(name), f'/dev/{name}')) as disk:
        for i in range(n):
            disk.read(i * 4 * KIB, 4 * KIB)


class Totals:
    def __init__(self):
        self.requests = self.missed = self.disks = 0
        self.names = set()

    def add(self, names):
        """Disks that are about to go, and are idle."""
        self.requests += sum(sum(of.values()) for of in done(names).values())
        self.disks += len(names)
        self.names |= set(names)


def come_and_go(kind, n, totals, most):
    """One round. @most: how many of them can have counters."""
    missed = show().losses['no_counters']
    names = kind.appear(n)
    for i, name in enumerate(names):
        read(name, 1 + (totals.disks + i) % 4)
    settle(names)
    snapshot, expected = look(names)
    counted = {name: of for name, of in ((name, snapshot.counts(name)) for name in names) if of}
    equal(counted, {name: expected[name] for name in counted}, 'disks that are counted')
    equal(len(counted), min(n, most), 'disks that found counters')
    missed = snapshot.losses['no_counters'] - missed
    equal(missed, sum(sum(of.values()) for name, of in expected.items() if name not in counted), 'no_counters')
    totals.missed += missed
    totals.add(names)
    kind.go(names)


def under_load(env, kind):
    load_module('virtio_blk')
    busy = wait_for(lambda: sorted(name for name in disks() if name.startswith('vd')), 'a virtio disk')[0]
    read(busy, 1)
    env.start()
    ready = status()['partitions_ready']
    began = done([busy])[busy]
    fio = env.fio(dict(filename=f'/dev/{busy}', rw='randrw', bs='4k', iodepth=2, rate_iops=100), size=8 * MIB,
                  runtime=600)
    # A fio that is interrupted before it has begun prints nothing.
    wait_for(lambda: done([busy])[busy] != began, 'I/O of fio')
    totals, deadline = Totals(), time.monotonic() + SECONDS
    while totals.disks < WANTED and time.monotonic() < deadline:
        come_and_go(kind, kind.at_once, totals, ready)
        if kind.at_once == ready:
            come_and_go(kind, 2 * ready, totals, ready)
    fio.interrupt()
    fio.result()
    rows, ended = verify(busy), done([busy])[busy]
    for op in ('read', 'write'):
        row = rows[busy, op]
        equal(row['count'] + row['unseen'], ended[op] - began.get(op, 0), f'{op} of the disk that worked all the time')
    snapshot = show('--all')
    gone = sum(sum(of.values()) for name in totals.names for of in snapshot.gone_counts(name))
    equal(snapshot.losses['no_counters'], totals.missed)
    equal(gone + snapshot.losses['given_back'] + totals.missed, totals.requests, f'{gone} gone, {snapshot.losses}')
    print(f'# {totals.disks} disks, {totals.requests} requests, {totals.missed} without counters')


@test
def scsi_disks_come_and_go(env):
    under_load(env, Scsi(env))


@test
def nvme_disks_come_and_go(env):
    under_load(env, Nvme(env))


@test
def disks_go_while_they_work(env):
    """What is in flight when a disk goes is counted for it, or as a completion without counters."""
    kind = Scsi(env)
    env.start()
    for _ in range(5):
        before = show('--all')
        [name] = kind.appear(1)
        settle([name])
        looked_at = sum(done([name])[name].values())
        stop, read_well = threading.Event(), [0]

        def work(path=f'/dev/{name}', stop=stop, read_well=read_well):
            with contextlib.closing(Disk(path)) as disk:
                while not stop.is_set():
                    disk.read(0, 4 * KIB)
                    read_well[0] += 1

        with concurrent.futures.ThreadPoolExecutor(1) as worker:
            end = worker.submit(work)
            wait_for(lambda: read_well[0] > 20, 'some reads')
            kind.go([name])
            # An error, or the end of a disk that has no size any more.
            assert isinstance(end.exception(60), (OSError, AssertionError)), 'reads from a disk that is gone'
        after = show('--all')
        new = sum(sum(of.values()) for of in after.gone_counts(name)) - sum(
            sum(of.values()) for of in before.gone_counts(name))
        new += after.losses['no_counters'] - before.losses['no_counters']
        assert looked_at + read_well[0] <= new <= looked_at + read_well[0] + 2, (looked_at, read_well, new)


if __name__ == '__main__':
    main()
