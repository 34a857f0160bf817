# SPDX-License-Identifier: GPL-2.0-only
"""
Runs in a virtual machine that counts instructions, see vm.py: the load of instructions.c under each
of the observers that are named, on a null_blk device. Prints one JSON object a line: of the machine,
and then of each observer.

Usage: instructions.py WARM-UP READS OBSERVER...

What an observer has seen is looked at, too: one that had missed half of the I/Os would be cheap.
"""
import contextlib
import glob
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BLKHIST = os.environ['BLKHIST']
BUILD = os.path.dirname(BLKHIST)
DISK = 'nullb0'
DEVICE = f'/dev/{DISK}'
TIMED = ('request', 'service', 'queue')
DEADLINE = 600


class CannotRun(Exception):
    """An observer is not here, or does not run on this kernel; says why."""


class Failed(Exception):
    """An observer ran and is not what it should be; says why."""


def run(*command):
    r = subprocess.run(command, capture_output=True, text=True, check=False)
    if r.returncode:
        raise Failed(f'{" ".join(command)}: {(r.stderr or r.stdout).strip()}')
    return r.stdout


# --- observers ---

class Observer:
    """
    While in `with`, it observes. Then seen() says how many I/Os that was, None if it cannot tell, and
    figures() what else is of interest.
    """

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def seen(self):
        return None

    def figures(self):
        return {}


class Collector(Observer):
    """blkhist itself."""

    def __init__(self, *options):
        self._options = options
        self._data = {}

    def __enter__(self):
        run(BLKHIST, 'start', '--config', '/dev/null', *self._options)
        return self

    def __exit__(self, *_):
        try:
            self._data = json.loads(run(BLKHIST, 'show', '-f', 'json', DISK))
        finally:
            run(BLKHIST, 'stop')

    def seen(self):
        # Each kind has seen each I/O.
        counts = {h['kind']: h['count'] for h in self._data['histograms'] if h['op'] == 'read' and h['kind'] in TIMED}
        return min(counts.values())

    def figures(self):
        return {'lost': sum(self._data['losses'].get(k, 0) for k in ('unseen', 'no_issue', 'no_slot', 'no_counters'))}


class Stopped(Observer):
    """blkhist was there, and is no more."""

    def __enter__(self):
        with Collector():
            pass
        return self


class Program(Observer):
    """A program that observes until it is interrupted, and then prints something."""

    def __init__(self, *command):
        self._command = command
        self._process = None
        self.out = ''

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix='bench-', dir='/dev/shm')
        command = [word.format(directory=self.directory) for word in self._command]
        try:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except FileNotFoundError:
            raise CannotRun(f'{command[0]} is not installed') from None
        deadline = time.monotonic() + DEADLINE
        while not self.ready():
            if self._process.poll() is not None:
                self.out = self._process.communicate()[0]
                raise CannotRun(self._why())
            if time.monotonic() > deadline:
                self._process.kill()
                raise Failed(f'{command[0]} has not begun within {DEADLINE} s')
            time.sleep(0.1)
        time.sleep(1)  # what it does after that; seen() tells if it was too short
        return self

    def ready(self):
        """It has attached something. Only the files tell, it says nothing."""
        fds = f'/proc/{self._process.pid}/fd'
        with contextlib.suppress(FileNotFoundError):
            return any('bpf' in os.readlink(f'{fds}/{fd}') and 'link' in os.readlink(f'{fds}/{fd}')
                       for fd in os.listdir(fds))
        return False

    def _why(self):
        """The first line that says so; what libbpf says of a failure begins with what failed."""
        lines = [line.strip() for line in self.out.splitlines() if line.strip()]
        told = [line for line in lines if re.search('fail|cannot|error|no such', line, re.I)]
        return f'{os.path.basename(self._command[0])}: {(told or lines or ["ends at once"])[0]}'

    def __exit__(self, kind, *_):
        if not kind and self._process.poll() is not None:
            raise Failed(f'{self._command[0]} ended: {self._process.communicate()[0]}')
        self._process.send_signal(signal.SIGINT)
        self.out = self._process.communicate(timeout=DEADLINE)[0]
        try:
            self.ended()
        finally:
            shutil.rmtree(self.directory)

    def ended(self):
        """Its output is there, and so is what it has left in its directory."""


class Biolatency(Program):
    def seen(self):
        return sum(map(int, re.findall(r'^ *\d+ -> \d+ *: *(\d+)', self.out, re.M)))


class Tracer(Program):
    """It writes records of events, into files in memory."""

    def ended(self):
        """What blkhist itself finds in the files."""
        files = glob.glob(f'{self.directory}/**/*.blktrace.*', recursive=True)
        self._bytes = sum(map(os.path.getsize, files))
        self._data = json.loads(run(BLKHIST, 'show', '-f', 'json', '-i', files[0])) if self._bytes else {}

    def seen(self):
        return sum(h['count'] for h in self._data['histograms'] if h['kind'] == 'service' and h['op'] == 'read')

    def figures(self):
        return {'bytes': self._bytes, 'events': self._data['losses']['events'] if self._data else 0,
                'lost': self.lost()}


class Blktrace(Tracer):
    """The names of events stand for categories, which have more than one kind."""

    def __init__(self, *categories):
        options = [word for category in categories for word in ('-a', category)]
        super().__init__('blktrace', '-d', DEVICE, '-D', '{directory}', '-o', 't', *options)

    def ready(self):
        return os.path.exists(f'/sys/kernel/debug/block/{DISK}/dropped')

    def lost(self):
        return int(re.search(r'\(dropped (\d+)\)', self.out)[1])


class Recorder(Tracer):
    def __init__(self, *options):
        super().__init__(BLKHIST, 'record', '-d', DISK, '-o', '{directory}/r', *options)

    def __enter__(self):
        if not re.search(r'^  record ', run(BLKHIST, '--help'), re.M):
            raise CannotRun('blkhist: no such command: record')
        return super().__enter__()

    def lost(self):
        return int(re.search(r'(\d+) lost', self.out)[1])


class Filtered(Recorder):
    """Nothing passes its filter, and so it has nothing to show."""

    def seen(self):
        return None


# By what they are called in tables. Of blktrace's, 0xd0 and 0xc0 are its masks.
OBSERVERS = {
    'none': Observer,
    'empty programs': lambda: Program(f'{BUILD}/bench/empty-programs'),
    'blkhist': lambda: Collector('--stamp', 'own'),
    'blkhist, kernel stamp': lambda: Collector('--stamp', 'kernel'),
    'blkhist, request only': lambda: Collector('--kinds', 'request'),
    'blkhist, service only': lambda: Collector('--kinds', 'service'),
    'blkhist, stopped': Stopped,
    'biolatency -D': lambda: Biolatency('biolatency', '-D'),
    'blktrace, all': lambda: Blktrace(),
    'blktrace, 0xd0': lambda: Blktrace('queue', 'issue', 'complete'),
    'blktrace, 0xc0': lambda: Blktrace('issue', 'complete'),
    'record, all': lambda: Recorder('-a', 'all'),
    'record, Q D C': lambda: Recorder('-a', 'queue,issue,complete'),
    'record, D C': lambda: Recorder('-a', 'issue,complete'),
    'record, slow only': lambda: Filtered('-a', 'issue,complete', '--min-time', '10s'),
}


# --- measuring ---

def load(warm_up, reads):
    return json.loads(run(f'{BUILD}/bench/instructions', DEVICE, str(warm_up), str(reads)))


def measure(name, warm_up, reads):
    observer = OBSERVERS[name]()
    result = {'observer': name}
    try:
        with observer:
            result.update(load(warm_up, reads))
        result.update(observer.figures())
        seen = observer.seen()
        # What it has lost it says itself, and it is shown; others, of what is on the way there, may come on top.
        if seen is not None and not -result.get('lost', 0) <= seen - warm_up - reads <= 0.01 * reads:
            raise Failed(f'{name} has seen {seen} I/Os, not {warm_up + reads}')
    except CannotRun as e:
        result['cannot_run'] = str(e)
    except Failed as e:
        result['failed'] = str(e)
    return result


def main():
    warm_up, reads, *observers = sys.argv[1:]
    # No timer, no interrupt: a read is completed where it is submitted, and the process never waits.
    run('modprobe', 'null_blk', 'nr_devices=1', 'gb=1', 'queue_mode=2', 'irqmode=0', 'submit_queues=1')
    with open(f'/sys/block/{DISK}/queue/scheduler', 'w', encoding='ascii') as scheduler:
        scheduler.write('none')
    print(json.dumps({'kernel': platform.release()}), flush=True)
    for name in observers:
        print(json.dumps(measure(name, int(warm_up), int(reads))), flush=True)


main()
