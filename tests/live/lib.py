# SPDX-License-Identifier: GPL-2.0-only
"""What the live tests share: a mount namespace of their own, loop devices, loads, histograms.

A collector lives in bpffs. The tests run in a private mount namespace with a bpffs of their own, so
that they neither see nor touch a collector that the machine really uses.

With BLKHIST_TEST_UNPRIVILEGED=1 blkhist itself is run by an ordinary user with no rights but
CAP_BPF and CAP_PERFMON, in a bpffs that this user may write to. What the tests do besides (devices,
loads, a look at the maps) is done by root.

A test is a function of one argument, an Env; whatever it acquires through it is released when it
ends, however it ends.
"""
import atexit
import bisect
import contextlib
import errno
import fcntl
import glob
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import tap
from tap import Skip, on_every_kernel, rounds, test  # noqa: F401 for the tests

BPFFS = '/sys/fs/bpf'
PIN_DIR = BPFFS + '/blkhist'
CONFIG = '/etc/blkhist.conf'
BPF_FS_MAGIC = 0xcafe4a11
NAMESPACE_MARK = 'BLKHIST_TEST_NAMESPACE'

BLKDISCARD = 0x1277
LOOP_CTL_ADD = 0x4C80
LOOP_CTL_REMOVE = 0x4C81

OPS = ('read', 'write', 'discard', 'flush')
TIMED = ('request', 'service', 'queue')
KIB = 1024
MIB = 1024 * KIB


# --- TAP ---

ATTEMPTS = 6


class Hidden(Exception):
    """A test failed, and the kernel had hidden completions from us: it says nothing."""


def _attempt(function):
    with Env() as env:
        try:
            function(env)
        except Skip:
            raise
        except Exception as failure:
            hidden = _hidden_completions()
            if hidden:
                raise Hidden(f'{hidden} completions were shown to no program') from failure
            raise


def _hidden_completions():
    """
    What the running collector knows to have missed, see test_unseen.py. With it no test of exact
    numbers can succeed, on a kernel that does this a few times a minute.
    """
    r = blkhist('status', '--verify', '-f', 'json', status=None)
    return sum(row['unseen'] for row in json.loads(r.stdout)['verify']['rows']) if r.stdout else 0


def _attempts(function):
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _attempt(function)
        except Hidden as hidden:
            tap.diagnose(f'{function.__name__}, attempt {attempt}: {hidden}: {hidden.__cause__}')
            if attempt == ATTEMPTS:
                raise
        else:
            return


def main():
    """Runs the registered tests, or those named on the command line."""
    if os.geteuid():
        tap.skip_all('needs root')
    if not os.access(BLKHIST, os.X_OK):
        sys.exit('BLKHIST must be the path of the program under test')
    _enter_namespace()
    tap.main(_attempts)


@contextlib.contextmanager
def uninterrupted():
    """Between acquiring something and noting that it must be released."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, tap.ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


# --- an ordinary user ---

UNPRIVILEGED = os.environ.get('BLKHIST_TEST_UNPRIVILEGED') == '1'
USER = 65534
CAPABILITIES = ('bpf', 'perfmon')


def subject_is(privilege):
    """Leaves a test out that is about another privilege than those of this mode."""
    if UNPRIVILEGED:
        raise Skip(f'its subject is {privilege}')


# Before Linux 5.11 the memory of BPF counts as locked, and is limited for users other than root.
LOCKS_MEMORY = tuple(map(int, os.uname().release.split('.')[:2])) < (5, 11)


def as_user(*capabilities, of_file=False, raise_limit=LOCKS_MEMORY):
    """
    What runs a program as that user, with just these capabilities and no way to get more; or with
    those that its file has.
    """
    limit = ['prlimit', '--memlock=unlimited'] if raise_limit else []
    user = [*limit, 'setpriv', f'--reuid={USER}', f'--regid={USER}', '--clear-groups']
    sets = ','.join(['-all', *(f'+{c}' for c in capabilities)])
    if of_file:
        return [*user, '--inh-caps=-all']
    return [*user, f'--inh-caps={sets}', f'--ambient-caps={sets}', f'--bounding-set={sets}', '--no-new-privs']


def program_for_everybody():
    """
    A copy of the program that an ordinary user can reach. It is on a file system of this namespace,
    where files may have capabilities, and goes away with it.
    """
    directory = tempfile.mkdtemp(prefix='blkhist-test-', dir='/dev/shm')
    atexit.register(os.rmdir, directory)
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', directory], check=True)
    atexit.register(subprocess.run, ['umount', '--lazy', directory], check=True)
    return shutil.copy(BLKHIST, directory)


# --- the namespace ---

def _enter_namespace():
    here = os.readlink('/proc/self/ns/mnt')
    if NAMESPACE_MARK not in os.environ:
        os.environ[NAMESPACE_MARK] = here
        os.execvp('unshare', ['unshare', '--mount', '--propagation', 'private',
                              sys.executable, *sys.argv])
    if os.environ[NAMESPACE_MARK] == here:
        sys.exit('this is the mount namespace of the machine; refusing to go on')
    unmount_bpffs()
    mount_bpffs()
    if UNPRIVILEGED:
        if not shutil.which('setpriv'):
            tap.skip_all('needs setpriv')
        _command[:] = [*as_user(*CAPABILITIES), program_for_everybody()]
    for module, device in (('loop', '/dev/loop-control'), ('fuse', '/dev/fuse')):
        if not os.path.exists(device):
            subprocess.run(['modprobe', module], stderr=subprocess.DEVNULL, check=False)
    for module in ('mq-deadline', 'bfq', 'ext4') if 'BLKHIST_VM' in os.environ else ():
        subprocess.run(['modprobe', module], stderr=subprocess.DEVNULL, check=False)
    if os.path.exists(CONFIG):  # what is set for this machine is not what is tested
        subprocess.run(['mount', '--bind', '/dev/null', CONFIG], check=True)


def bpffs_mounted():
    out = subprocess.run(['stat', '-f', '-c', '%t', BPFFS], capture_output=True, text=True, check=True)
    return int(out.stdout, 16) == BPF_FS_MAGIC


def unmount_bpffs():
    """All that are stacked there: what lies below must not be reached by accident."""
    while bpffs_mounted():
        subprocess.run(['umount', '--lazy', BPFFS], check=True)


def mount_bpffs(for_user=UNPRIVILEGED):
    subprocess.run(['mount', '-t', 'bpf', '-o', 'mode=700', 'bpf', BPFFS], check=True)
    if for_user:  # as the README says
        os.chown(BPFFS, -1, USER)
        os.chmod(BPFFS, 0o1770)


# --- blkhist ---

BLKHIST = os.environ.get('BLKHIST', '')
_command = [BLKHIST]


def command_line(*args):
    """What runs blkhist in the mode of these tests."""
    return [*_command, *args]


def blkhist(*args, status=0, command=None, **kwargs):
    """Runs blkhist, or @command in its place, and insists on its exit status (None: any)."""
    r = subprocess.run([*(command or _command), *args], capture_output=True, text=True, **kwargs)
    if status is not None and r.returncode != status:
        raise AssertionError(f'blkhist {" ".join(args)}: exit {r.returncode}, expected {status}\n'
                             f'{r.stdout[-2000:]}{r.stderr}')
    return r


def refused(*args, status=1, word=None, **kwargs):
    """blkhist must fail with one sentence on stderr, with @word in it, and print nothing else."""
    r = blkhist(*args, status=status, **kwargs)
    equal(r.stdout, '', 'a refusal prints nothing on stdout')
    assert r.stderr.startswith('blkhist: ') and r.stderr.count('\n') == 1, r.stderr
    assert word is None or word in r.stderr, f'{word!r} is not in: {r.stderr}'
    return r.stderr


def spawn(*args, stdout=subprocess.PIPE):
    """Comes back when it is blkhist that runs, not yet what gives it its rights."""
    process = subprocess.Popen(command_line(*args), stdout=stdout, stderr=subprocess.PIPE, text=True)
    with contextlib.suppress(OSError):  # it may have ended
        while os.path.basename(os.readlink(f'/proc/{process.pid}/exe')) != os.path.basename(BLKHIST):
            time.sleep(0.0001)
    return process


class Hist:
    """One histogram; one that is not shown is empty."""

    def __init__(self, data=None):
        self.data = data
        self.count = data['count'] if data else 0
        self.sum = data['sum'] if data else 0
        self.bytes = data.get('bytes') if data else 0
        if data and data['kind'] == 'seek':
            self.cells = [data['counts']]
            self.sums = [data['sum']]
        else:
            self.cells = data['counts'] if data else []
            self.sums = data['sums'] if data else []
        if data:  # what one histogram says about itself in two places agrees
            equal(self.count, sum(map(sum, self.cells)), 'count and cells')
            equal(self.sum, sum(self.sums), 'sum and sums')
            for row in self.cells:
                equal(len(row), len(data['bounds']) + 1, 'columns')

    def by_size(self):
        """Number of requests by the bound of their row; None is the last row, +inf."""
        bounds = self.data['size_bounds'] + [None] if self.data else []
        equal(len(bounds), len(self.cells), 'rows')
        return {b: sum(row) for b, row in zip(bounds, self.cells) if sum(row)}

    def by_bound(self):
        """Number of values by the bound of their column, all rows together."""
        bounds = self.data['bounds'] + [None] if self.data else []
        return {b: n for b, n in ((b, sum(row[i] for row in self.cells)) for i, b in enumerate(bounds)) if n}


class Snapshot:
    """What show or reset --print gave."""

    def __init__(self, text):
        self.data = json.loads(text)
        self.losses = self.data['losses']
        self.hists = {}
        self.gone = []  # of devices that are not there any more, with --all
        equal(self.data['schema'], 'blkhist/1')
        for h in self.data['histograms']:
            if h.get('gone'):
                self.gone.append(Hist(h))
                continue
            key = (h['partition'] or h['device'], h['kind'], h['op'])
            assert key not in self.hists, f'{key} is there twice'
            assert h['count'], f'{key} is shown though it is empty'
            self.hists[key] = Hist(h)

    def get(self, name, kind, op='all'):
        return self.hists.get((name, kind, op), Hist())

    def bytes(self, name, kind='request'):
        """Their bytes, by operation."""
        return {op: n for op, n in ((op, self.get(name, kind, op).bytes) for op in OPS) if n}

    def gone_counts(self, name, kind='request'):
        """Requests by operation of each device that is gone and had this name, in their order."""
        devices = {}
        for h in self.gone:
            if (h.data['partition'] or h.data['device']) == name and h.data['kind'] == kind:
                devices.setdefault((h.data['diskseq'], h.data['sysfs_id']), {})[h.data['op']] = h.count
        return list(devices.values())

    def names(self):
        return {name for name, _, _ in self.hists}

    def counts(self, name, kind='request'):
        """Requests by operation, those that there are."""
        return {op: n for op, n in ((op, self.get(name, kind, op).count) for op in OPS) if n}


def show(*args):
    return Snapshot(blkhist('show', '-f', 'json', *args).stdout)


def reset_print(*args):
    return Snapshot(blkhist('reset', '--print', '-f', 'json', *args).stdout)


def status(*args):
    return json.loads(blkhist('status', '-f', 'json', *args).stdout)


def add_cells(total, snapshot):
    """Adds all cells and sums of a snapshot to @total, by what they mean rather than where they are."""
    for key, h in snapshot.hists.items():
        for r, row in enumerate(h.cells):
            size = (h.data.get('size_bounds') or []) + ['+inf']
            row_name = size[r] if key[1] != 'seek' else 'all'
            for bound, n in zip(h.data['bounds'] + ['+inf'], row):
                if n:
                    total[key + (row_name, bound)] = total.get(key + (row_name, bound), 0) + n
            total[key + (row_name, 'sum')] = total.get(key + (row_name, 'sum'), 0) + h.sums[r]


# --- comparison ---

def equal(got, expected, what='value'):
    if got != expected:
        raise AssertionError(f'{what}: got {got!r}, expected {expected!r}')


def between(low, value, high, what='value'):
    if not low <= value <= high:
        raise AssertionError(f'{what}: {value} is not in {low}..{high}')


def row_bound(bounds, value):
    """The inclusive bound of a value's bucket; None is +inf."""
    i = bisect.bisect_left(bounds, value)
    return bounds[i] if i < len(bounds) else None


# Words of a line in /proc/diskstats behind the name: reads, writes, discards, flushes completed.
DISKSTATS = {'read': 0, 'write': 4, 'discard': 11, 'flush': 15}
DISKSTATS_SECTORS = {'read': 2, 'write': 6, 'discard': 13}


def diskstats(*names, columns=None):
    """Requests by name and operation; or what other columns have."""
    columns = columns or DISKSTATS
    ret = {}
    with open('/proc/diskstats') as f:
        for line in f:
            _, _, name, *words = line.split()
            if name in names:
                ret[name] = {op: int(words[i]) for op, i in columns.items() if i < len(words)}
    return ret


def diskstats_bytes(*names):
    return {name: {op: 512 * n for op, n in of.items()}
            for name, of in diskstats(*names, columns=DISKSTATS_SECTORS).items()}


def difference(after, before):
    """By operation, what is not zero."""
    rest = {op: after.get(op, 0) - before.get(op, 0) for op in OPS}
    return {op: n for op, n in rest.items() if n}


# Empty writes (of fsync) that one flush can serve: no load of these tests has more jobs.
FLUSH_SERVES = 16


def allow_for_hidden_flushes(rows):
    """
    Where a flush is unseen, so may be the ends of the empty writes that it served; these were never
    issued, so that nobody can know their number. Up to that many missing writes are unseen, too.
    """
    for row in rows:
        missing = row['diskstats'] - row['count'] - row['unseen']
        served = FLUSH_SERVES * sum(other['unseen'] for other in rows if other['op'] == 'flush' and
                                    row['name'].startswith(other['name']))
        if row['op'] == 'write' and 0 < missing <= served:
            row['unseen'] += missing
            row['equal'] = True


def verify(*idle):
    """Our counts equal diskstats; for devices that are idle now and at the start, to the unit."""
    r = blkhist('status', '--verify', '-f', 'json', status=None)
    assert r.stdout, r.stderr
    result = json.loads(r.stdout)['verify']
    equal(r.returncode, 0 if result['equal'] else 1, 'exit status of --verify')
    equal(result['equal'], all(row['equal'] for row in result['rows']), 'equal in total')
    allow_for_hidden_flushes(result['rows'])
    wrong = [row for row in result['rows'] if not row['equal']]
    assert not wrong, f'not equal: {wrong}'
    for row in result['rows']:
        if row['name'] in idle:
            equal(row['diskstats'], row['diskstats_max'], f'verify of {row}')
            known = row['count'] + row['unseen']
            between(known, row['diskstats'], known + row['extra'], f'verify of {row}')
    return {(row['name'], row['op']): row for row in result['rows']}


def unseen(name):
    """
    Requests, by operation, whose completion the kernel showed to no program. A kernel that does
    this does it a few times a minute under load; they are known, and missing in the histograms.
    """
    rows = verify(name)
    return {op: rows[name, op]['unseen'] for op in OPS if rows.get((name, op), {}).get('unseen')}


# --- devices and loads ---

# Before 5.12 a bio does not know its partition: the kernel finds it by the sector, which an empty flush
# has not got; without accounting nobody finds it.
BIOS_KNOW_PARTITIONS = tuple(map(int, os.uname().release.split('.')[:2])) >= (5, 12)


def write_file(path, text):
    with open(path, 'w') as f:
        f.write(text)


@contextlib.contextmanager
def programs_in_path(scripts):
    """Scripts of the shell by name, which are found before others; yields the environment that does it."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in scripts.items():
            write_file(f'{directory}/{name}', f'#!/bin/sh\n{text}\n')
            os.chmod(f'{directory}/{name}', 0o755)
        yield {**os.environ, 'PATH': f'{directory}:{os.environ["PATH"]}'}


def read_file(path):
    with open(path) as f:
        return f.read().strip()


@contextlib.contextmanager
def on_cpu(cpu):
    """For this thread only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def first_sector(partition):
    return int(read_file(f'/sys/class/block/{partition}/start'))


def scratch(env):
    """A directory in memory, of this test and of the user that blkhist runs as."""
    path = env.enter_context(tempfile.TemporaryDirectory(prefix='blkhist-test-', dir='/dev/shm'))
    if UNPRIVILEGED:
        os.chown(path, USER, USER)
    return path


def settle():
    """udev, where there is one, looks at new devices; wait until it has."""
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(['udevadm', 'settle'], check=False)


class Disk:
    """Direct I/O to a block device, with a log of what was done: (offset, size, ns) by operation."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        self.buffer = mmap.mmap(-1, 2 * MIB)
        self.log = {op: [] for op in OPS}

    def close(self):
        os.close(self.fd)

    def _do(self, op, offset, size, function):
        began = time.monotonic_ns()
        function()
        self.log[op].append((offset, size, time.monotonic_ns() - began))

    def read(self, offset, size):
        self._do('read', offset, size, lambda: equal(
            os.preadv(self.fd, [memoryview(self.buffer)[:size]], offset), size))

    def write(self, offset, size):
        self._do('write', offset, size, lambda: equal(
            os.pwritev(self.fd, [memoryview(self.buffer)[:size]], offset), size))

    def discard(self, offset, size):
        self._do('discard', offset, size, lambda: fcntl.ioctl(
            self.fd, BLKDISCARD, struct.pack('QQ', offset, size)))

    def flush(self):
        self._do('flush', 0, 0, lambda: os.fsync(self.fd))


class Loop:
    """A loop device with a number that nothing else on the machine is likely to take."""

    def __init__(self, env, size, attach=True):
        self.size = size
        with uninterrupted():
            self.number = self._add()
            env.callback(self._remove)
        self.name = f'loop{self.number}'
        self.path = f'/dev/{self.name}'
        self.lock = -1
        if attach:
            self.attach()

    @staticmethod
    def _control(command, number):
        fd = os.open('/dev/loop-control', os.O_RDWR | os.O_CLOEXEC)
        try:
            return fcntl.ioctl(fd, command, number)
        finally:
            os.close(fd)

    def _add(self):
        for number in range(1000 + os.getpid() % 50000, 100000):
            try:
                return self._control(LOOP_CTL_ADD, number)
            except OSError as e:
                if e.errno != errno.EEXIST:
                    raise
        raise AssertionError('no loop device is to be had')

    def _remove(self):
        self.detach()
        for _ in range(100):  # somebody (udev) may have it open for a moment
            try:
                return self._control(LOOP_CTL_REMOVE, self.number)
            except OSError as e:
                if e.errno == errno.ENODEV:
                    return None  # the test has done it
                time.sleep(0.05)
        raise AssertionError(f'{self.path} cannot be removed')

    def remove(self):
        self.detach()
        self._control(LOOP_CTL_REMOVE, self.number)

    def attach(self, directory='/dev/shm'):
        """Gives it a new file, which goes away with the device."""
        path = f'{directory}/blkhist-test-{self.number}'
        with uninterrupted():
            try:
                with open(path, 'wb') as f:
                    f.truncate(self.size)
                subprocess.run(['losetup', self.path, path], check=True)
            finally:
                os.unlink(path)
        settle()
        # udev leaves a device alone that is locked: from here on all I/O is ours.
        self.lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def detach(self):
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1
        if not os.path.exists(f'/sys/block/{self.name}/loop'):
            return
        for partition in glob.glob(f'/sys/block/{self.name}/{self.name}p*/partition'):
            subprocess.run(['delpart', self.path, read_file(partition)], check=False)
        subprocess.run(['losetup', '-d', self.path], check=True)
        for _ in range(100):
            if not os.path.exists(f'/sys/block/{self.name}/loop'):
                return
            time.sleep(0.02)
        raise AssertionError(f'{self.path} does not let go of its file')

    def partition(self, number, start, length):
        """Adds one, in bytes; returns its name. The kernel forgets them when the device is detached."""
        subprocess.run(['addpart', self.path, str(number), str(start // 512), str(length // 512)],
                       check=True)
        name = f'{self.name}p{number}'
        for _ in range(100):
            if os.path.exists(f'/dev/{name}'):
                return name
            time.sleep(0.02)
        raise AssertionError(f'/dev/{name} does not appear')

    def delete_partition(self, number):
        subprocess.run(['delpart', self.path, str(number)], check=True)

    def queue(self, name, value=None):
        path = f'/sys/block/{self.name}/queue/{name}'
        if value is not None:
            write_file(path, str(value))
        return read_file(path)


class QuickLoop:
    """
    A loop device that is made and removed by four system calls: for tests with a thousand of them.
    All share a file. Locked before it has it, so that udev does not read from it.
    """
    CLR_FD, CONFIGURE = 0x4C01, 0x4C0A

    def __init__(self, env, number, file):
        self.number, self.name, self.path = number, f'loop{number}', f'/dev/loop{number}'
        self.fd = -1
        with uninterrupted():
            Loop._control(LOOP_CTL_ADD, number)
            env.callback(self.remove)
        self.attach(file)

    def attach(self, file):
        self.fd = os.open(self.path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        fcntl.ioctl(self.fd, self.CONFIGURE, struct.pack('=II296x', file.fileno(), 0))

    def detach(self):
        if self.fd >= 0:
            fcntl.ioctl(self.fd, self.CLR_FD)
            os.close(self.fd)
            self.fd = -1

    def remove(self):
        self.detach()
        for _ in range(100):
            try:
                return Loop._control(LOOP_CTL_REMOVE, self.number)
            except OSError as e:
                if e.errno == errno.ENODEV:
                    return None
                time.sleep(0.01)
        raise AssertionError(f'{self.path} cannot be removed')

    def read(self, n, size=4 * KIB):
        """Does @n reads, and returns their number."""
        buffer = mmap.mmap(-1, size)
        for i in range(n):
            equal(os.preadv(self.fd, [buffer], i * size), size)
        return n


class Fio:
    """A load; its process and those that it forks are ended with the test."""

    def __init__(self, env, *jobs, runtime=None, **options):
        """Jobs are dicts of options; @options are for all of them."""
        options = {'direct': 1, 'ioengine': 'libaio', 'thread': 1, 'norandommap': 1, 'randrepeat': 0,
                   **options}
        if runtime:
            options |= {'time_based': 1, 'runtime': runtime}
        args = ['fio', '--output-format=json', *self._arguments(options)]
        for i, job in enumerate(jobs):
            args += [f'--name=job{i}', *self._arguments(job)]
        with uninterrupted():
            self.process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                            start_new_session=True, cwd='/',
                                            preexec_fn=lambda: signal.pthread_sigmask(
                                                signal.SIG_UNBLOCK, tap.ENDING))
            env.callback(self.stop)

    @staticmethod
    def _arguments(options):
        return [f'--{k}={v}' for k, v in options.items()]

    def running(self):
        return self.process.poll() is None

    def stop(self):
        if self.running():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            self.process.communicate()

    def interrupt(self):
        """Lets it end early, in good order; see result()."""
        if self.running():
            os.killpg(self.process.pid, signal.SIGINT)

    def result(self):
        """Waits; I/Os by file and operation, as fio counted them."""
        out, err = self.process.communicate(timeout=120)
        # Between the braces: fio also prints remarks to stdout.
        jobs = json.loads(out[out.index('{'):])['jobs'] if '{' in out else []
        assert jobs and not any(j['error'] for j in jobs), f'fio: {out}{err}'
        counts, self.bytes = {}, {}
        for job in jobs:
            name = os.path.basename(job['job options'].get('filename', 'all'))
            of_name = counts.setdefault(name, dict.fromkeys(OPS, 0))
            for op, fio_op in (('read', 'read'), ('write', 'write'), ('discard', 'trim'), ('flush', 'sync')):
                of_name[op] += job[fio_op]['total_ios']
                key = name, op
                self.bytes[key] = self.bytes.get(key, 0) + job[fio_op].get('io_bytes', 0)
        self.jobs = jobs
        return {name: {op: n for op, n in of.items() if n} for name, of in counts.items()}


class Env(contextlib.ExitStack):
    """What a test acquires."""

    def start(self, *args):
        self.callback(blkhist, 'stop', status=None)
        blkhist('stop')
        blkhist('start', *args)

    def loop(self, size=64 * MIB, attach=True):
        return Loop(self, size, attach)

    def disk(self, path):
        return self.enter_context(contextlib.closing(Disk(path)))

    def fio(self, *jobs, **options):
        return Fio(self, *jobs, **options)

    def mixed_load(self, p1, p2):
        """Reads, writes, flushes and discards on two partitions, until it is interrupted. It has begun."""
        before = diskstats(p1, p2)
        fio = self.fio(dict(filename=f'/dev/{p1}', rw='randrw', bssplit='4k/60:16k/40', iodepth=8, fsync=64),
                       dict(filename=f'/dev/{p2}', rw='randread', bs='4k', iodepth=16),
                       dict(filename=f'/dev/{p2}', rw='randtrim', bs='64k', ioengine='psync'),
                       size=16 * MIB, runtime=120)
        while any(difference(of, before[name]).get('read', 0) < 100 for name, of in diskstats(p1, p2).items()):
            assert fio.running(), 'fio ended early'
            time.sleep(0.01)
        return fio

    def two_partitions(self, size=64 * MIB):
        """A loop device with two partitions that leave the first and the last MiB to the disk."""
        loop = self.loop(size)
        half = (size - 2 * MIB) // 2
        return loop, loop.partition(1, MIB, half), loop.partition(2, MIB + half, half)


# --- bpf objects ---

def bpftool(*args):
    try:
        r = subprocess.run(['bpftool', '-j', *args], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Skip('needs bpftool') from None
    return json.loads(r.stdout) if r.stdout.strip() else None


def program_ids():
    """Ids of the collector's programs."""
    return {bpftool('prog', 'show', 'pinned', f'{PIN_DIR}/progs/{p}')['id']
            for p in os.listdir(f'{PIN_DIR}/progs')}


def programs_alive(ids):
    """Those of the programs that the kernel still has a moment later."""
    for _ in range(50):
        alive = {p['id'] for p in bpftool('prog', 'show')} & ids
        if not alive:
            break
        time.sleep(0.02)  # programs are freed after a grace period
    return alive


def stale_pins():
    """Pins of inner maps that nothing refers to."""
    pinned = {int(name) for name in os.listdir(f'{PIN_DIR}/inner')}
    used = set()
    for outer in ('hists', 'retired', 'baselines'):
        for entry in bpftool('map', 'dump', 'pinned', f'{PIN_DIR}/maps/{outer}') or []:
            used.add(int.from_bytes(bytes(int(b, 16) for b in entry['value']), sys.byteorder))
    return pinned - used


def bpffs_entries():
    """What is in the bpffs besides what the kernel puts there."""
    return sorted(n for n in os.listdir(BPFFS) if not re.fullmatch(r'(maps|progs)\.debug', n))
