# SPDX-License-Identifier: GPL-2.0-only
"""
What the device tests share: drivers and their parameters, the disks of the virtual machine,
partitions, and the kernel's own trace of a disk.

They load drivers with parameters of their own and write to every disk: only in a virtual machine.
"""
import atexit
import collections
import concurrent.futures
import contextlib
import fcntl
import functools
import glob
import os
import platform
import random
import struct
import subprocess
import sys
import time

import records
from lib import (KIB, MIB, OPS, Env, Skip, between, blkhist, equal, on_cpu, read_file, row_bound, show, verify,
                 write_file)

# What the whole program acquires; a test has an Env of its own.
shared = Env()
atexit.register(shared.close)

CONFIGFS = '/sys/kernel/config'
DEBUGFS = '/sys/kernel/debug'

if 'BLKHIST_VM' not in os.environ:
    print('1..0 # SKIP needs a virtual machine, see vm/run.py')
    sys.exit(0)


# --- drivers ---

def module_path(name):
    """Where the kernel has it; None if it is built in, raises Skip if it has not got it."""
    r = subprocess.run(['modinfo', '-n', name], capture_output=True, text=True, check=False)
    if r.returncode:
        raise Skip(f'kernel {platform.release()} has no {name}')
    return None if r.stdout.startswith('(builtin)') else r.stdout.strip()


def module_parameters(name):
    r = subprocess.run(['modinfo', '-F', 'parm', name], capture_output=True, text=True, check=False)
    return {line.split(':')[0] for line in r.stdout.splitlines()}


def load_module(name):
    """Loads a driver as it is; it stays."""
    if module_path(name):
        subprocess.run(['modprobe', name], check=True)


def unload_module(name):
    if not os.path.exists(f'/sys/module/{name}'):
        return
    for _ in range(100):  # somebody may just be closing its devices
        # Not modprobe -r, which also unloads configfs: on 5.10 that ends in a fault soon after.
        if subprocess.run(['rmmod', name], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.05)
    raise AssertionError(f'{name} cannot be unloaded')


def modprobe(env, name, **parameters):
    """Loads a driver with parameters, for this test alone; Skip if it does not know one of them."""
    module_path(name)
    unknown = set(parameters) - module_parameters(name)
    if unknown:
        raise Skip(f'{name} of kernel {platform.release()} has no {", ".join(sorted(unknown))}')
    unload_module(name)
    env.callback(unload_module, name)
    subprocess.run(['modprobe', name, *(f'{k}={v}' for k, v in parameters.items())], check=True)


@functools.cache
def collect():
    """
    Starts the collector, once: starting takes a second here. A test resets what it looks at; devices
    that it adds are counted from their first request on. Those of the machine are there before: a driver
    that brings more at once than there are counters ready for has reads that are not counted.
    """
    for serial in ('virtio', 'scsi0', 'scsi1'):
        disk_by_serial(shared, serial)
    for serial, nsid in (('several', 1), ('several', 2), ('paths', 1)):
        nvme_namespace(shared, serial, nsid)
    shared.start()


def wait_for(condition, what):
    """The value of condition() as soon as it is true."""
    deadline = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < deadline, f'{what} does not come to be'
        time.sleep(0.01)
    return value


def disks():
    return set(os.listdir('/sys/block'))


# --- block devices ---

class Device:
    """A whole disk; its partitions go with the test."""

    def __init__(self, env, name):
        self.name = name
        self.path = f'/dev/{name}'
        wait_for(lambda: os.path.exists(self.path), self.path)
        self.size = int(read_file(f'/sys/block/{name}/size')) * 512
        self._env = env

    def partition(self, number, start, length):
        """Adds one, in bytes; returns its name."""
        before = set(os.listdir(f'/sys/block/{self.name}'))
        subprocess.run(['addpart', self.path, str(number), str(start // 512), str(length // 512)],
                       check=True)
        self._env.callback(subprocess.run, ['delpart', self.path, str(number)], check=True)
        [name] = set(os.listdir(f'/sys/block/{self.name}')) - before
        wait_for(lambda: os.path.exists(f'/dev/{name}'), f'/dev/{name}')
        return name

    def two_partitions(self):
        """Two that leave the first and the last MiB to the disk."""
        half = (self.size // MIB - 2) // 2 * MIB
        return self.partition(1, MIB, half), self.partition(2, MIB + half, half)

    def queue(self, name, value=None):
        path = f'/sys/block/{self.name}/queue/{name}'
        if value is not None:
            write_file(path, str(value))
        return read_file(path)

    def scheduler(self, name):
        """Sets it; Skip if the kernel has not got it."""
        with contextlib.suppress(Skip):  # what is built in is not always known to modinfo
            load_module({'kyber': 'kyber-iosched'}.get(name, name))
        if name not in self.queue('scheduler'):
            raise Skip(f'kernel {platform.release()} has no {name}')
        self.queue('scheduler', name)

    def hardware_queues(self):
        """Their CPUs."""
        queues = sorted(glob.glob(f'/sys/block/{self.name}/mq/*'), key=lambda p: int(os.path.basename(p)))
        return [[int(cpu) for cpu in read_file(f'{q}/cpu_list').split(',') if cpu.strip()] for q in queues]


@functools.cache
def _null_blk_directory():
    module_path('null_blk')
    if not os.path.exists('/sys/module/null_blk'):
        subprocess.run(['modprobe', 'null_blk', 'nr_devices=0'], check=True)
    if not os.path.exists(f'{CONFIGFS}/nullb'):
        subprocess.run(['mount', '-t', 'configfs', 'configfs', CONFIGFS], check=True)
        shared.callback(subprocess.run, ['umount', CONFIGFS], check=True)
    return f'{CONFIGFS}/nullb'


def null_blk(env, **attributes):
    """One made in configfs; Skip if the driver does not know one of the attributes."""
    directory = f'{_null_blk_directory()}/blkhist{len(disks())}'
    before = disks()
    os.mkdir(directory)
    env.callback(os.rmdir, directory)
    if os.path.exists(f'{directory}/poll_queues'):  # one by default, beside the others
        attributes = {'poll_queues': 0, **attributes}
    for attribute, value in {'size': 64, **attributes}.items():
        if not os.path.exists(f'{directory}/{attribute}'):
            raise Skip(f'null_blk of kernel {platform.release()} has no {attribute}')
        write_file(f'{directory}/{attribute}', str(value))
    write_file(f'{directory}/power', '1')
    env.callback(write_file, f'{directory}/power', '0')
    [name] = disks() - before
    return Device(env, name)


def null_blk_pair(env, **parameters):
    """Two made when the driver is loaded, which has parameters that configfs has not."""
    unload_module('null_blk')
    _null_blk_directory.cache_clear()
    before = disks()
    modprobe(env, 'null_blk', nr_devices=2, **parameters)
    return [Device(env, name) for name in sorted(disks() - before)]


def scsi_disks(vendor):
    return [path.split('/')[3] for path in sorted(glob.glob('/sys/block/sd*/device/vendor'))
            if read_file(path) == vendor]


def scsi_debug(env, **parameters):
    """The only disk of a scsi_debug host."""
    load_module('sd_mod')
    modprobe(env, 'scsi_debug', **{'dev_size_mb': 64, **parameters})
    # It is looked at in the background.
    [name] = wait_for(lambda: scsi_disks('Linux'), 'the disk of scsi_debug')
    device = Device(env, name)
    settle_disk(device)
    return device


SCSI_DEBUG = '/sys/bus/pseudo/drivers/scsi_debug'

# Of drivers/scsi/scsi_debug.c, SDEBUG_OPT_*.
MEDIUM_ERROR = 0x2
TIMEOUT = 0x4
RECOVERED_ERROR = 0x8
TRANSPORT_ERROR = 0x10
SHORT_TRANSFER = 0x100
HOST_BUSY = 0x8000


def inject(opts, every_nth):
    """Does this to every so many commands, from now on."""
    write_file(f'{SCSI_DEBUG}/opts', f'{opts:#x}')
    write_file(f'{SCSI_DEBUG}/every_nth', str(every_nth))


@contextlib.contextmanager
def injecting(opts, every_nth):
    inject(opts, every_nth)
    try:
        yield
    finally:
        inject(0, 0)


def settle_disk(device):
    """Waits until the kernel has no more I/O of its own on a new disk."""
    seen, quiet = None, 0
    while quiet < 10:
        now = read_file(f'/sys/block/{device.name}/stat')
        quiet = quiet + 1 if now == seen else 0
        seen = now
        time.sleep(0.02)


def _scsi_serial(name):
    with open(f'/sys/block/{name}/device/vpd_pg80', 'rb') as f:
        return f.read()[4:].decode().strip()


def disk_by_serial(env, serial):
    """A disk of the virtual machine as vm/run.py names them, other than those of NVMe."""
    load_module('virtio_blk')
    load_module('virtio_scsi')
    load_module('sd_mod')

    def find():
        for name in disks():
            with contextlib.suppress(OSError):
                if name.startswith('vd') and read_file(f'/sys/block/{name}/serial') == serial:
                    return name
                if name.startswith('sd') and _scsi_serial(name) == serial:
                    return name
        return None

    return Device(env, wait_for(find, f'the disk {serial}'))


def nvme_namespace(env, serial, nsid):
    """A namespace by its controller's serial; of several paths their common disk."""
    load_module('nvme')

    def find():
        for path in glob.glob('/sys/class/nvme-subsystem/*/nvme*n*') + glob.glob('/sys/class/nvme/*/nvme*n*'):
            name = os.path.basename(path)
            with contextlib.suppress(OSError):
                if os.path.exists(f'/sys/block/{name}') and int(read_file(f'/sys/block/{name}/size')) and \
                        read_file(f'{path}/device/serial') == serial and \
                        int(read_file(f'/sys/block/{name}/nsid')) == nsid:
                    return name
        return None

    return Device(env, wait_for(find, f'namespace {nsid} of {serial}'))


def device_mapper(env, table):
    """A device of one target, of 32 MiB, which is less than any disk of the machine has."""
    for module in ('dm-mod', f'dm-{table.split()[0]}'):
        if module != 'dm-linear':
            load_module(module)
    before = disks()
    subprocess.run(['dmsetup', 'create', 'test', '--table', f'0 {32 * MIB // 512} {table}'], check=True)
    env.callback(remove_device_mapper)
    [name] = disks() - before
    return Device(env, name)


def remove_device_mapper():
    for _ in range(100):  # a moment after its last close
        if subprocess.run(['dmsetup', 'remove', 'test'], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.05)
    raise AssertionError('the mapped device cannot be removed')


# --- loads ---

def in_parallel(functions):
    """Runs them in threads, and raises what one of them has raised."""
    with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        for future in [pool.submit(f) for f in functions]:
            future.result()


def load(env, *names, jobs=4, each=10, discard=True):
    """
    Concurrent I/O to each of these block devices, never twice to the same place nor to two that adjoin,
    so that nothing is merged. Returns what was done: the logs of lib.Disk, by name.
    """
    logs = {name: {op: [] for op in OPS} for name in names}

    def run(name, job):
        disk = env.disk(f'/dev/{name}')
        size = int(read_file(f'/sys/class/block/{name}/size')) * 512
        places = [job * 128 * KIB + i * jobs * 128 * KIB for i in range(each * 3)]
        assert places[-1] + 64 * KIB <= size
        random.Random(job).shuffle(places)
        for _ in range(each):
            disk.read(places.pop(), 4 * KIB)
            disk.write(places.pop(), 16 * KIB)
            if discard:
                disk.discard(places.pop(), 64 * KIB)
        for op, log in disk.log.items():
            logs[name][op] += log

    in_parallel([functools.partial(run, name, job) for name in names for job in range(jobs)])
    return logs


def counts_of(*logs):
    """How many there were, by operation."""
    counts = {op: sum(len(log.get(op, ())) for log in logs) for op in OPS}
    return {op: n for op, n in counts.items() if n}


def check_known_times(hist, low_ns, log):
    """Each took low_ns at least, and not longer than the call around it."""
    equal(hist.count, len(log), 'requests')
    for bound in hist.data['bounds']:
        at_most = sum(n for b, n in hist.by_bound().items() if b is not None and b <= bound)
        between(sum(ns <= bound for _, _, ns in log), at_most, len(log) if low_ns <= bound else 0,
                f'times of at most {bound} ns where {low_ns} ns are known')
    between(low_ns * len(log), hist.sum, sum(ns for _, _, ns in log), 'their sum')


def check_delay(env, device, delay):
    """Reads and writes of a device that takes a known time for each."""
    blkhist('reset', device.name)
    disk = env.disk(device.path)
    for i in range(10):
        disk.read(i * MIB, 4 * KIB)
        disk.write(i * MIB, 64 * KIB)
    snapshot = show(device.name)
    for op in ('read', 'write'):
        for kind in ('service', 'request'):
            check_known_times(snapshot.get(device.name, kind, op), delay, disk.log[op])
    verify(device.name)


# Until 5.11 the kernel accounts a request to the partition in which it lies, whatever it was sent to.
ACCOUNTS_BY_SECTOR = tuple(map(int, platform.release().split('.')[:2])) < (5, 12)


def inside(partition, log):
    """What of a log of the disk lies in a partition of it."""
    first = int(read_file(f'/sys/class/block/{partition}/start')) * 512
    last = first + int(read_file(f'/sys/class/block/{partition}/size')) * 512
    return {op: [entry for entry in log[op] if first <= entry[0] < last] for op in log}


def check_every_operation(env, *devices):
    """A load on each disk and on two partitions of it at once, against all that is known of it."""
    collect()
    for device in devices:
        parts = device.two_partitions()
        with Account(device.name) as trace:
            logs = load(env, device.name, *parts, jobs=2, discard=device.queue('discard_max_bytes') != '0')
            disk = env.disk(device.path)
            for i in range(5):
                disk.write(i * 32 * KIB, 4 * KIB)
                disk.flush()
        if device.queue('write_cache') == 'write through':
            disk.log['flush'] = []  # the kernel asks for none
        snapshot = check_against_trace(device, trace, counts_of(*logs.values(), disk.log))
        for name in parts:
            verify(name)
            direct = inside(name, logs[device.name]) if ACCOUNTS_BY_SECTOR else {}
            equal(snapshot.counts(name), counts_of(logs[name], direct), f'requests of {name}')
        equal(snapshot.names(), {device.name, *parts}, 'names')


def check_together(env, one, other, discard=False):
    """Two devices that share their tags, at once: nothing is taken for the other's."""
    for device in (one, other):
        device.queue('nomerges', 2)
    with Account(one.name) as trace_one, Account(other.name) as trace_other:
        logs = load(env, one.name, other.name, jobs=3, discard=discard)
    for device, trace in ((one, trace_one), (other, trace_other)):
        check_against_trace(device, trace, counts_of(logs[device.name]))


def check_seek(device, disk, per_queue):
    """
    Two processors read a place of their own in sequence, in turns. Each distance is from the end of
    what was read before through the same hardware queue, or on the whole disk.
    """
    queues = {cpu: i for i, cpus in enumerate(device.hardware_queues()) for cpu in cpus}
    cpus = sorted(os.sched_getaffinity(0))
    one, other = cpus[0], next(cpu for cpu in cpus if queues[cpu] != queues[cpus[0]])
    ends, distances = {}, []
    for i in range(20):
        if i == 1:  # each head is somewhere now
            blkhist('reset', device.name)
            distances.clear()
        for cpu, at in ((one, 0), (other, 8 * MIB), (other, 8 * MIB + 4 * KIB)):
            offset, head = at + i * 8 * KIB, queues[cpu] if per_queue else 0
            with on_cpu(cpu):
                disk.read(offset, 4 * KIB)
            distances.append((offset - ends.get(head, 0)) // 512)
            ends[head] = offset + 4 * KIB
    hist = show(device.name).get(device.name, 'seek')
    expected = collections.Counter(row_bound(hist.data['bounds'], d) for d in distances)
    equal(hist.by_bound(), dict(expected), 'seek distances')
    equal(hist.sum, sum(distances), 'sum of the seek distances')
    verify(device.name)


# --- the kernel's trace ---

BLKTRACESETUP = 0xc0481273
BLKTRACESTART = 0x1274
BLKTRACESTOP = 0x1275
BLKTRACETEARDOWN = 0x1276
SETUP = struct.Struct('=32sHxxIIxxxxQQIxxxx')
BUFFERS, BUFFER_SIZE = 4, 512 * 1024


class Trace:
    """
    What blktrace sees of a disk while in `with`: the kernel side of it, without the program, whose
    beginning nobody can wait for.
    """

    def __init__(self, name, actions=('issue', 'complete', 'requeue')):
        self.name = name
        self.mask = sum(records.CATEGORIES[a.upper()] for a in actions)
        self.events = []

    def __enter__(self):
        self._fd = os.open(f'/dev/{self.name}', os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        setup = bytearray(SETUP.pack(b'', self.mask, BUFFER_SIZE, BUFFERS, 0, 0, 0))
        fcntl.ioctl(self._fd, BLKTRACESETUP, setup)
        fcntl.ioctl(self._fd, BLKTRACESTART)
        return self

    def __exit__(self, *_):
        try:
            fcntl.ioctl(self._fd, BLKTRACESTOP)
            directory = f'{DEBUGFS}/block/{self.name}'
            equal(int(read_file(f'{directory}/dropped')), 0, 'events that the trace lacks')
            for path in glob.glob(f'{directory}/trace[0-9]*'):
                self.events += (r for r in records.read(path) if r.kind in 'QRDC')
        finally:
            fcntl.ioctl(self._fd, BLKTRACETEARDOWN)
            os.close(self._fd)
        self.events.sort(key=lambda e: e.time)

    def counts(self, kind):
        """Events by operation."""
        return dict(collections.Counter(e.op for e in self.events if e.kind == kind))

    def taken_back(self):
        """Issues that ended in a requeue. Holds for requests none of which begins where another ends."""
        at_device, counts = set(), collections.Counter()
        for e in self.events:
            if e.kind == 'R' and (e.op, e.sector) in at_device:
                counts[e.op] += 1
            at_device.discard((e.op, e.sector))
            if e.kind == 'D':
                at_device.add((e.op, e.sector))
            elif e.kind == 'C':  # what is left of it, if it was a partial completion
                at_device.add((e.op, e.sector + e.bytes // 512))
        return counts

    def bytes(self):
        """Completed, by operation, without those that have none."""
        total = collections.Counter()
        for e in self.events:
            if e.kind == 'C' and e.op in OPS:
                total[e.op] += e.bytes
        return {op: n for op, n in total.items() if n}


class Account(Trace):
    """A trace, and our own histograms and losses of the same time."""

    def __enter__(self):
        blkhist('reset', self.name)
        self.losses = show(self.name).losses
        return super().__enter__()


def subtract(of, *others):
    """By operation, what is not zero."""
    rest = {op: of.get(op, 0) - sum(other.get(op, 0) for other in others) for op in OPS}
    return {op: n for op, n in rest.items() if n}


def check_against_trace(device, trace, asked=None, forced=0):
    """
    All there is to compare of a disk that was idle before the Account and is now: our counts with
    /proc/diskstats, with the kernel's trace event by event, and with what was asked for.

    Every issue ends in a completion or a requeue, and requests are requeued that have not even been
    issued, when their host is busy. A completion counts unless it is a partial one. A write without
    data, for a flush, is never issued; a forced write that needs a flush is completed once more,
    without bytes, when that is done.

    Newer kernels skip a program that would interrupt itself, and on 7 its process can be preempted:
    of an issue that was missed so there is no service time, and we say so. Returns the snapshot.
    """
    verify(device.name)
    snapshot = show(device.name)
    # Losses are not of a device; all others are idle.
    losses = snapshot.losses = {name: n - trace.losses.get(name, 0) for name, n in snapshot.losses.items()}
    requeues, completions = trace.counts('R'), trace.counts('C')
    requests, services = snapshot.counts(device.name), snapshot.counts(device.name, 'service')
    missed = subtract(trace.counts('D'), trace.taken_back(), services)
    equal(sum(missed.values()), losses['no_issue'], f'D without R and service times: {missed}, and no_issue')
    between(0, losses['no_issue'], losses['nested'], 'missed issues, of skipped runs')
    equal(sum(requeues.get(op, 0) for op in OPS), losses['requeued'], 'R, and requeued')
    partial = subtract(completions, requests, {'write': forced})
    assert all(n > 0 for n in partial.values()), f'C {completions}, requests {requests}'
    equal(sum(partial.values()), losses['partial'], f'C {completions} without requests, and partial')
    equal(subtract(requests, services, missed), {'write': losses['unissued']} if losses['unissued'] else {},
          'requests without issue')
    equal(trace.bytes(), snapshot.bytes(device.name), 'bytes of C')
    equal({k: losses[k] for k in ('unseen', 'no_counters', 'no_start', 'early', 'no_slot', 'negative')
           if losses.get(k)}, {}, 'losses')
    if asked is not None:
        empty = {'write': losses['unissued']}
        equal(subtract(requests, empty), asked, 'requests, and what was asked for')
    return snapshot
