# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of the file tree share: a mounted tree, its files, and what they must contain."""
import contextlib
import errno
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from lib import (BLKHIST, KIB, MIB, OPS, TIMED, USER, Disk, Skip, between, blkhist, equal, subject_is)

IN_VM = 'BLKHIST_VM' in os.environ
PATIENCE = 60 if IN_VM else 10

COLLECTED = (*TIMED, 'seek')
FILE_KIND = {'request': 'request', 'service': 'dma', 'queue': 'queue'}
LADDERS = ('buckets_time', 'buckets_size', 'buckets_seek')
OF_THE_TREE = ('all.json', 'status', 'config')
REFUSALS = (errno.EPERM, errno.EACCES, errno.EROFS, errno.EOPNOTSUPP)


# --- the tree ---

def new_directory(env, where='/dev/shm'):
    path = tempfile.mkdtemp(prefix='blkhist-test-', dir=where)
    os.chmod(path, 0o755)
    env.callback(shutil.rmtree, path)
    return path


def mounts(path):
    """File system type and options of all that is mounted there."""
    with open('/proc/self/mountinfo') as f:
        lines = [line.split() for line in f]
    name = path.replace(' ', r'\040').replace('\t', r'\011')
    return [(words[words.index('-') + 1], words[5].split(',') + words[-1].split(','))
            for words in lines if words[4] == name]


def serving(path):
    """Processes that were started to mount it."""
    found = []
    for directory in glob.glob('/proc/[0-9]*'):
        with contextlib.suppress(OSError), open(f'{directory}/cmdline', 'rb') as f:
            words = f.read().decode().split('\0')
            if os.path.basename(words[0]) == os.path.basename(BLKHIST) and 'mount' in words and path in words:
                found.append(int(directory[len('/proc/'):]))
    return found


def wait_for(condition, what):
    """The value of condition() as soon as it is true."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f'{what} does not come to be'
        time.sleep(0.01)
    return value


def no_trace(path):
    """Neither mount nor process; those that are about to end may do so."""
    wait_for(lambda: not mounts(path), f'{path} without a mount')
    wait_for(lambda: not serving(path), f'{path} without a process')


def clear(path):
    """Whatever a test has left there."""
    while mounts(path):
        subprocess.run(['umount', '--lazy', path], check=True)
    deadline = time.monotonic() + 2
    while serving(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    for pid in serving(path):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def read_all(fd, size=64 * KIB):
    parts = []
    while part := os.read(fd, size):
        parts.append(part)
    return b''.join(parts)


@contextlib.contextmanager
def opened(path, flags=os.O_RDONLY):
    fd = os.open(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def fails(function, *args, errnos):
    """It must fail, with one of these."""
    try:
        function(*args)
    except OSError as e:
        assert e.errno in errnos, f'{args}: {e}'
        return e.errno
    raise AssertionError(f'{function.__name__}{args} has succeeded')


def is_gone(path):
    """
    Whether nothing is in a directory whose device is gone. The kernel may know its name for a moment
    longer, and for readdir() what fails in such a one is the end of it.
    """
    try:
        return not os.listdir(path)
    except FileNotFoundError:
        return True


class Tree:
    """A mounted tree, gone with the test."""

    def __init__(self, env, *args, path=None):
        subject_is('mounting a file system')
        if not os.path.exists('/dev/fuse'):
            raise Skip('needs /dev/fuse')
        self.path = path or new_directory(env)
        env.callback(clear, self.path)
        self.mount(*args)

    def mount(self, *args):
        equal(blkhist('mount', self.path, *args, timeout=60).stderr, '', 'what mount complains of')
        equal(len(mounts(self.path)), 1, 'mounts')
        [self.server] = serving(self.path)

    def unmount(self):
        blkhist('unmount', self.path, timeout=60)
        no_trace(self.path)

    def __call__(self, *names):
        return '/'.join((self.path, *names))

    def list(self, *names):
        return set(os.listdir(self(*names)))

    def read(self, *names):
        with opened(self(*names)) as fd:
            return read_all(fd).decode('ascii')

    def write(self, data, *names, flags=os.O_WRONLY | os.O_TRUNC):
        """With one write()."""
        with opened(self(*names), flags) as fd:
            equal(os.write(fd, data), len(data), 'bytes written')

    def table(self, *names):
        return Table(self.read(*names))

    def last_error(self):
        """(time, file, sentence) of DIR/status, or None."""
        lines = [line for line in self.read('status').splitlines() if 'last error' in line]
        assert len(lines) <= 1, lines
        if not lines:
            return None
        m = re.fullmatch(r'last error: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z) (\S+): (.*\S)', lines[0])
        assert m, lines[0]
        return m.groups()


# --- what the files must contain ---

class Table:
    """A histogram as its file has it; anything that is not as described is an error."""
    TIMED_HEAD = re.compile(
        r'# (?P<name>\S+) (?P<op>read|write|discard|flush) (?P<kind>request|dma|queue): '
        r'rows are I/O sizes \(bytes\), columns are times \((?P<unit>us|ns)\), bounds are inclusive, '
        r'counted since (?P<since>\S+)')
    SEEK_HEAD = re.compile(
        r'# (?P<name>\S+) (?P<kind>seek): distances \(sectors of 512 bytes, signed\) '
        r'from the end of the request before, bounds are inclusive, counted since (?P<since>\S+)')
    NUMBER = re.compile(r'0|-?[1-9]\d*')

    def __init__(self, text):
        assert text.endswith('\n'), f'no end of line: {text[-50:]!r}'
        head, *lines = text[:-1].split('\n')
        m = self.TIMED_HEAD.fullmatch(head) or self.SEEK_HEAD.fullmatch(head)
        assert m, head
        self.text = text
        self.name, self.kind, self.since = m['name'], m['kind'], m['since']
        rows = [line.split('\t') for line in lines]
        if self.kind == 'seek':
            equal(rows[0], ['sectors', 'count'])
            self.bounds = self._bounds([row[0] for row in rows[1:]])
            equal({len(row) for row in rows}, {2}, 'words of a line')
            self.cells = [[self._number(row[1]) for row in rows[1:]]]
            return
        self.op, self.unit = m['op'], m['unit']
        equal(rows[0][0], f'bytes/{self.unit}')
        self.bounds = self._bounds(rows[0][1:])
        self.size_bounds = self._bounds([row[0] for row in rows[1:]])
        equal({len(row) for row in rows}, {len(self.bounds) + 2}, 'words of a line')
        self.cells = [[self._number(word) for word in row[1:]] for row in rows[1:]]

    def _number(self, word):
        assert self.NUMBER.fullmatch(word), word
        return int(word)

    def _bounds(self, words):
        equal(words[-1], '+inf', 'the last bound')
        bounds = [self._number(word) for word in words[:-1]]
        equal(bounds, sorted(set(bounds)), 'bounds in their order')
        return bounds

    def count(self):
        return sum(map(sum, self.cells))


def expected_text(h):
    """The file of a histogram, made from what `show -f json` has of it."""
    name = h['partition'] or h['device']
    if h['kind'] == 'seek':
        return (f'# {name} seek: distances (sectors of 512 bytes, signed) from the end of the request before, '
                f'bounds are inclusive, counted since {h["since"]}\nsectors\tcount\n' +
                ''.join(f'{bound}\t{n}\n' for bound, n in zip([*h['bounds'], '+inf'], h['counts'])))
    unit, factor = ('ns', 1) if any(bound % 1000 for bound in h['bounds']) else ('us', 1000)
    lines = [[f'bytes/{unit}', *(bound // factor for bound in h['bounds']), '+inf']]
    lines += [[bound, *row] for bound, row in zip([*h['size_bounds'], '+inf'], h['counts'])]
    return (f'# {name} {h["op"]} {FILE_KIND[h["kind"]]}: rows are I/O sizes (bytes), '
            f'columns are times ({unit}), bounds are inclusive, counted since {h["since"]}\n' +
            ''.join('\t'.join(map(str, line)) + '\n' for line in lines))


def histogram_files(ops=OPS, kinds=COLLECTED):
    """Names of files, and which histogram is in them."""
    files = {f'{op}_{FILE_KIND[kind]}_histo': (kind, op) for op in ops for kind in kinds if kind != 'seek'}
    return files | ({'seek_histo': ('seek', 'all')} if 'seek' in kinds else {})


OF_A_DISK = histogram_files()
OF_A_PARTITION = histogram_files(ops=('read', 'write', 'discard'))


def places(loop, *partitions):
    """(directories, name in /sys, files) of a disk and its partitions."""
    return [((loop.name,), loop.name, OF_A_DISK),
            *(((loop.name, p), p, OF_A_PARTITION) for p in partitions)]


def same_as_show(tree, snapshot, *where):
    """Every file of these devices is what was shown, to the byte; returns how many were not empty."""
    full = 0
    for directories, name, files in where:
        for file, (kind, op) in files.items():
            text, h = tree.read(*directories, file), snapshot.get(name, kind, op)
            if h.data:
                equal(text, expected_text(h.data), f'{name} {file}')
                full += 1
                continue
            table = Table(text)
            equal((table.name, table.count()), (name, 0), f'{name} {file}')
            if kind != 'seek':
                equal((table.op, table.kind), (op, FILE_KIND[kind]), f'{name} {file}')
    return full


def in_between(low, cells, high, what):
    """Cell by cell, between two counts of the same."""
    equal([len(row) for row in cells], [len(row) for row in high], f'{what}: rows and columns')
    for r, row in enumerate(cells):
        for c, n in enumerate(row):
            between(low[r][c] if low else 0, n, high[r][c], f'{what}: row {r}, column {c}')


# --- what tests do besides ---

def some_io(disk, n=3):
    for i in range(n):
        disk.read(i * MIB, 4 * KIB)
        disk.read(i * MIB + 4 * KIB, 64 * KIB)
        disk.write(i * MIB, 512)
    disk.discard(0, MIB)
    disk.flush()


def disks_in_sys():
    return {name for name in os.listdir('/sys/class/block')
            if not os.path.exists(f'/sys/class/block/{name}/partition')}


def read_device(path, n):
    """Opened for the moment only, so that the device can go."""
    with contextlib.closing(Disk(path)) as disk:
        for i in range(n):
            disk.read(i * 4 * KIB, 4 * KIB)


def config(env, text):
    """A file of this text; its path."""
    f = env.enter_context(
        tempfile.NamedTemporaryFile('w', prefix='blkhist-test-', suffix='.conf', dir='/dev/shm'))
    f.write(text)
    f.flush()
    return f.name


def bounds(*args):
    """Name of a ladder: its bounds, as text."""
    return dict(line.split(' ', 1) for line in blkhist('buckets', *args).stdout.splitlines())


def as_other(*command, **kwargs):
    """Runs a program as an ordinary user, with no rights at all."""
    return subprocess.run(command, user=USER, group=USER, extra_groups=[], capture_output=True, text=True,
                          check=False, env={'PATH': os.environ['PATH'], 'LC_ALL': 'C'}, **kwargs)


def shell(command, *args, expected=0):
    """What it prints, which must not include an error."""
    r = subprocess.run(['sh', '-c', command, 'sh', *args], capture_output=True, text=True, check=False,
                       env={'PATH': os.environ['PATH'], 'LC_ALL': 'C'}, timeout=60)
    equal((r.returncode, r.stderr), (expected, ''), f'{command}: exit status and stderr')
    return r.stdout


class Crowd:
    """Threads that do something until end(); the first failure of any is that of the test."""

    def __init__(self, env):
        self._ending = threading.Event()
        self._threads, self._failures = [], []
        self.done = []  # how often, by thread
        env.callback(self._stop)

    def each(self, n, function):
        """@n threads that call function(rng) again and again."""
        for _ in range(n):
            self._threads.append(threading.Thread(target=self._run, args=(function, len(self.done))))
            self.done.append(0)
            self._threads[-1].start()

    def _run(self, function, number):
        rng = random.Random(number)
        try:
            while not self._ending.is_set():
                function(rng)
                self.done[number] += 1
        except Exception as failure:  # for the main thread
            self._failures.append(failure)
            self._ending.set()

    def _stop(self):
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def end(self):
        self._stop()
        if self._failures:
            raise self._failures[0]
