# SPDX-License-Identifier: GPL-2.0-only
"""`blkhist record` and `blkhist slow`, while something is done."""
import glob
import json
import os
import re
import signal
import subprocess
import time

import records
from lib import Hidden, Skip, bpftool, command_line, equal, programs_alive, scratch

PATIENCE = 60

# System calls in which a process waits for what may come: poll, epoll_wait, ppoll, epoll_pwait, where they are.
WAITING = {'x86_64': {'7', '232', '271', '281'}, 'aarch64': {'73', '22'}}

# KiB. For all that a test does: however slowly a machine reads, nothing is lost.
BUFFER = '8192'
# Where there are many recorders, and little to record.
SMALL = ('-b', '512')


def programs_of(pid):
    """Ids of the programs that a process has attached, by links that nobody else has."""
    ids = set()
    for path in glob.glob(f'/proc/{pid}/fdinfo/*'):
        try:
            with open(path, encoding='ascii') as f:
                text = f.read()
        except FileNotFoundError:
            continue
        if re.search(r'^link_id:', text, re.M):
            ids.add(int(re.search(r'^prog_id:\s*(\d+)$', text, re.M)[1]))
    return ids


class Attached:
    """A command that runs until it is ended, from the moment on when all its programs are attached."""

    def __init__(self, env, *args, stdout=subprocess.PIPE):
        self.args = args
        if os.uname().machine not in WAITING:
            raise Skip('the numbers of system calls are not known here')
        self._waiting = WAITING[os.uname().machine]
        self.process = subprocess.Popen(command_line(*args), stdout=stdout, stderr=subprocess.PIPE)
        env.callback(self.kill)
        self.programs = self._wait()

    def _state(self):
        """Its programs, if it waits for what may come."""
        if self.process.poll() is not None:
            raise AssertionError(f'{self.args} has ended: {self.process.communicate()}')
        with open(f'/proc/{self.process.pid}/syscall', encoding='ascii') as f:
            call = f.read().split()[0]
        return programs_of(self.process.pid) if call in self._waiting else set()

    def _wait(self):
        deadline, before = time.monotonic() + PATIENCE, set()
        while True:
            now = self._state()
            if now and now == before:
                return now
            before = now
            assert time.monotonic() < deadline, f'{self.args} does not begin'
            time.sleep(0.02)

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.communicate()

    def end(self, signum=signal.SIGINT, status=0):
        """What it has printed: stdout if that is a pipe, and stderr."""
        if signum:
            self.process.send_signal(signum)
        out, err = self.process.communicate(timeout=PATIENCE)
        err = err.decode()
        equal(self.process.returncode, status, f'exit status of {self.args}: {err}')
        self.nothing_is_attached()
        return out, err

    def nothing_is_attached(self):
        equal(programs_alive(self.programs), set(), 'programs that live on')


def number(text, what):
    """Of what is said at the end."""
    found = re.search(rf'(\d+) {what}', text)
    assert found, f'no number of {what} in: {text}'
    return int(found[1])


class Ended:
    """What is ended at the end of `with`, or killed if something has failed there."""

    def __exit__(self, kind, *_):
        if kind:
            self.attached.kill()
        else:
            self.end()


class Recorder(Ended):
    """
    `blkhist record` of this disk, while in `with`: into files, or into @stdout. Or of other devices by
    @names; if that is empty, of all.
    """

    def __init__(self, env, device, *args, stdout=None, names=None):
        self.device = device
        self.directory = scratch(env)
        self.path = f'{self.directory}/{device.name}'
        names = device.name if names is None else names
        room = () if '-b' in args else ('-b', BUFFER)
        self.args = ('record', '-o', '-' if stdout else self.directory, *(('-d', names) if names else ()), *room, *args)
        self.lost = self.at_end = self.events = 0
        self.text = ''
        self._env, self._stdout = env, stdout

    def __enter__(self):
        self.attached = Attached(self._env, *self.args, stdout=self._stdout or subprocess.PIPE)
        return self

    def end(self, signum=signal.SIGINT):
        out, self.text = self.attached.end(signum)
        assert not out, f'on stdout: {out}'
        summary, *notes = self.text.splitlines()
        self.events, self.lost = number(summary, 'events?'), number(summary, 'lost')
        assert all(note.startswith('Note: ') for note in notes), self.text
        skipped = [note for note in notes if 'more events may be missing' in note]
        equal(len(notes) - len(skipped), 1 if self.lost else 0, f'notes on what is lost: {self.text}')
        if self.lost:
            self.at_end = number(self.text, 'of the lost events')
        if skipped:
            raise Hidden(f'events that may be missing: {skipped}')

    def files(self, name=None):
        """Records by CPU, in their order."""
        base = f'{self.directory}/{name or self.device.name}'
        return {cpu: records.read(path) for cpu, path in sorted(records.files(base).items())}

    def read(self, name=None):
        """Events in order of time, without notifies."""
        return records.Events(*records.files(f'{self.directory}/{name or self.device.name}').values())


def gaps(files):
    """Events that are missing between the others of each CPU, and that they are in order."""
    missing = 0
    for cpu, of in files.items():
        before = 0
        for r in of:
            if r.is_notify:
                continue
            equal(r.cpu, cpu, 'CPU of a record, and of its file')
            assert r.sequence > before, f'CPU {cpu}: sequence number {r.sequence} after {before}'
            missing += r.sequence - before - 1
            before = r.sequence
    return missing


def in_order(of):
    """Records whose times never go back."""
    times = [r.time for r in of if not r.is_notify]
    for a, b in zip(times, times[1:]):
        assert a <= b, f'{b} comes after {a}'


class Slow(Ended):
    """`blkhist slow`, while in `with`; then .rows are the requests and .not_shown, .lost what it says of others."""

    def __init__(self, env, *args):
        self._env, self._args = env, ('slow', '-f', 'json', *args)
        self.rows, self.not_shown, self.lost = [], 0, 0

    def __enter__(self):
        self.attached = Attached(self._env, *self._args)
        return self

    def end(self, signum=signal.SIGINT):
        out, self.text = self.attached.end(signum)
        for line in out.decode().splitlines():
            row = json.loads(line)
            equal(row['schema'], 'blkhist-slow/1')
            if 'not_shown' in row:
                self.not_shown, self.lost = row['not_shown'], row['lost']
            else:
                assert not self.not_shown and not self.lost, 'a request behind the end'
                self.rows.append(row)


def attached_links():
    """Ids of all links of the machine."""
    return {link['id'] for link in bpftool('link', 'show') or []}
