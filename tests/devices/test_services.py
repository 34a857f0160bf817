#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
The units of systemd and the helper of mount(8), installed where they belong in this virtual machine,
under a systemd that is the first process of a namespace.
"""
import atexit
import configparser
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

from lib import BLKHIST, CONFIG, PIN_DIR, Skip, blkhist, equal, main, read_file, refused, test, write_file
from machine import disk_by_serial, wait_for

SYSTEMD = '/lib/systemd/systemd'
RUNTIME = '/run/systemd/system'
UNITS = '/run/units'
GENERATORS = '/run/generators'
DIR = '/run/blkhist'
NOBODY = ('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups')


# --- systemd ---

# What there is of a system besides the services. All of it would clean up /tmp and look for hardware.
TARGETS = ('local-fs-pre', 'local-fs', 'sysinit', 'basic', 'multi-user', 'umount', 'shutdown')


def install():
    """What `meson install` would copy, and the units where systemd looks for them."""
    os.makedirs(GENERATORS)
    os.symlink('/lib/systemd/system-generators/systemd-fstab-generator', f'{GENERATORS}/fstab')
    os.makedirs(UNITS)
    for target in TARGETS:
        shutil.copy(f'/lib/systemd/system/{target}.target', UNITS)
    with open(f'{os.path.dirname(BLKHIST)}/meson-info/intro-installed.json', encoding='utf-8') as f:
        for source, target in json.load(f).items():
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.isfile(source):  # manuals may not have been built
                shutil.copy(source, target)
            if target.endswith('.service'):
                shutil.copy(target, UNITS)


class System:
    """A running systemd, which has started nothing yet."""

    def __init__(self):
        if not os.path.exists(SYSTEMD):
            raise Skip('needs systemd')
        subprocess.run(['modprobe', 'fuse'], stderr=subprocess.DEVNULL, check=False)  # it may be built in
        if not os.path.exists('/dev/fuse'):
            raise Skip('the kernel has no FUSE')
        install()
        with contextlib.suppress(FileNotFoundError):
            os.unlink('/.dockerenv')  # the machine whose files these are may be a container: this is none
        subprocess.run(['mount', '-t', 'cgroup2', 'cgroup2', '/sys/fs/cgroup'], check=True)
        os.makedirs(RUNTIME)
        write_file(f'{RUNTIME}/nothing.target', '[Unit]\nDescription=Nothing\n')
        self._process = subprocess.Popen(
            ['unshare', '--fork', '--kill-child', '--pid', '--mount', '--mount-proc', '--propagation', 'private',
             SYSTEMD, '--system', '--unit=nothing.target', '--log-target=kmsg'],
            env={**os.environ, 'SYSTEMD_UNIT_PATH': f'/etc/systemd/system:{RUNTIME}:/run/systemd/generator:{UNITS}',
                 'SYSTEMD_GENERATOR_PATH': GENERATORS})
        atexit.register(self._end)
        self.pid = int(wait_for(self._child, 'systemd'))
        wait_for(lambda: self.run('systemctl', 'is-system-running', status=None).stdout == 'running\n',
                 'the running system')

    def _child(self):
        pid = self._process.pid
        return read_file(f'/proc/{pid}/task/{pid}/children').strip()

    def _end(self):
        self._process.kill()
        self._process.wait()

    def run(self, *command, status=0, **kwargs):
        """Runs a command as somebody who is logged in there."""
        r = subprocess.run(['nsenter', '-t', str(self.pid), '--mount', '--pid', *command], capture_output=True,
                           text=True, check=False, **kwargs)
        if status is not None and r.returncode != status:
            raise AssertionError(f'{" ".join(command)}: exit {r.returncode}, expected {status}\n{r.stdout}{r.stderr}')
        return r

    def ctl(self, *args, **kwargs):
        return self.run('systemctl', *args, **kwargs)

    def state(self, unit):
        return self.ctl('is-active', unit, status=None).stdout.strip()

    def property(self, unit, name):
        return self.ctl('show', '--value', '-p', name, unit).stdout.strip()

    def change(self, env, unit, text):
        """Changes a unit for this test."""
        directory = f'{RUNTIME}/{unit}.d'
        os.makedirs(directory)
        env.callback(self.ctl, 'daemon-reload')
        env.callback(shutil.rmtree, directory)
        write_file(f'{directory}/test.conf', text)
        self.ctl('daemon-reload')


_system = []


def system(env):
    """That of the whole program, with both services stopped before and after the test."""
    if not _system:
        _system.append(System())
    env.callback(_system[0].ctl, 'reset-failed')
    env.callback(_system[0].ctl, 'stop', 'blkhist-files.service', 'blkhist.service')
    return _system[0]


def file_set(env, path, text):
    """Writes a file of /etc for this test."""
    old = read_file(path) if os.path.exists(path) else None
    env.callback((lambda: os.unlink(path)) if old is None else (lambda: write_file(path, old)))
    write_file(path, text)


def mounts(s, directory):
    """Types and sources of what is mounted at a directory, as systemd and all services see it."""
    fields = [line.split() for line in read_file(f'/proc/{s.pid}/mountinfo').splitlines()]
    return [tuple(f[f.index('-') + 1:][:2]) for f in fields if f[4] == directory]


def server(s):
    """The process that serves the files, by its number here."""
    inside = s.property('blkhist-files.service', 'MainPID')
    [pid] = [p for p in os.listdir('/proc') if p.isdigit() and
             f'NSpid:\t{p}\t{inside}\n' in _status(p)]
    return int(pid)


def _status(pid):
    try:
        return read_file(f'/proc/{pid}/status')
    except (FileNotFoundError, ProcessLookupError):
        return ''


def capabilities(pid):
    return int(next(line.split()[1] for line in _status(pid).splitlines() if line.startswith('CapEff:')), 16)


def settings(unit):
    parser = configparser.ConfigParser(strict=False)
    parser.optionxform = str
    parser.read(f'{os.path.dirname(BLKHIST)}/dist/{unit}')
    return parser['Service']


# --- the collector ---

@test
def collector_is_started_and_stopped(env):
    s = system(env)
    file_set(env, CONFIG, '[default]\ntime = 1ms,2ms\n[loop*]\nignore = yes\n')
    s.ctl('start', 'blkhist.service')
    equal(s.state('blkhist.service'), 'active', 'state')
    equal(s.property('blkhist.service', 'SubState'), 'exited', 'what stays')
    assert blkhist('buckets').stdout.startswith('time 1ms,2ms\n'), 'the configuration does not hold'
    s.ctl('start', 'blkhist.service')
    s.ctl('stop', 'blkhist.service')
    refused('status', word='is not running')


@test
def collector_that_runs_is_kept(env):
    """Started by hand, with the same settings; the service ends it."""
    s = system(env)
    env.start()
    before = os.stat(PIN_DIR).st_ino
    s.ctl('start', 'blkhist.service')
    equal(os.stat(PIN_DIR).st_ino, before, 'the collector')
    s.ctl('stop', 'blkhist.service')
    refused('status', word='is not running')


@test
def refusal_is_that_of_the_command(env):
    s = system(env)
    s.change(env, 'blkhist.service', '[Service]\nStandardError=file:/run/error\n')
    file_set(env, CONFIG, '[default]\ntimes = 1ms\n')
    s.ctl('start', 'blkhist.service', status=1)
    equal(s.state('blkhist.service'), 'failed', 'state')
    assert f'{CONFIG}:2: unknown item' in read_file('/run/error'), read_file('/run/error')


@test
def rights_of_the_collector_are_all_needed(env):
    s = system(env)
    given = settings('blkhist.service')['CapabilityBoundingSet'].split()
    assert given, 'no capabilities'
    for capability in given:
        with contextlib.ExitStack() as once:
            s.change(once, 'blkhist.service', '[Service]\nStandardError=truncate:/run/error\nCapabilityBoundingSet=\n'
                     f'CapabilityBoundingSet={" ".join(set(given) - {capability})}\n')
            s.ctl('start', 'blkhist.service', status=1)
            assert f'{capability} is missing' in read_file('/run/error'), read_file('/run/error')


@test
def enabled_before_all_services(env):
    s = system(env)
    env.callback(s.ctl, 'disable', 'blkhist.service', 'blkhist-files.service')
    s.ctl('enable', 'blkhist.service', 'blkhist-files.service')
    for name in ('sysinit.target.wants/blkhist.service', 'multi-user.target.wants/blkhist-files.service'):
        assert os.path.islink(f'/etc/systemd/system/{name}'), name
    before = s.property('blkhist.service', 'Before').split()
    assert 'sysinit.target' in before and 'shutdown.target' not in before, before
    assert 'sysinit.target' in s.property('blkhist-files.service', 'After').split()


# --- the files ---

@test
def files_are_seen_by_everybody(env):
    s, disk = system(env), disk_by_serial(env, 'virtio').name
    s.ctl('start', 'blkhist-files.service')  # and with it the collector
    equal(s.state('blkhist.service'), 'active', 'the collector')
    equal(mounts(s, DIR), [('fuse.blkhist', 'blkhist')], 'mounts')
    assert json.loads(s.run('cat', f'{DIR}/all.json').stdout)['schema'].startswith('blkhist/')
    assert s.run(*NOBODY, 'cat', f'{DIR}/status').stdout.startswith('collecting  since '), 'status for nobody'
    s.run('sh', '-c', f'echo 0 > {DIR}/{disk}/seek_histo')
    s.run(*NOBODY, 'sh', '-c', f'echo 0 > {DIR}/{disk}/seek_histo', status=2)
    s.ctl('stop', 'blkhist-files.service')
    equal(mounts(s, DIR), [], 'mounts')
    equal(s.state('blkhist.service'), 'active', 'the collector')


@test
def files_come_back_when_their_process_is_killed(env):
    s = system(env)
    s.ctl('start', 'blkhist-files.service')
    first = server(s)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: s.property('blkhist-files.service', 'NRestarts') == '1' and
             s.state('blkhist-files.service') == 'active', 'another process')
    assert server(s) != first
    equal(len(mounts(s, DIR)), 1, 'mounts')
    s.run('cat', f'{DIR}/status')


@test
def files_have_few_rights(env):
    s = system(env)
    s.ctl('start', 'blkhist-files.service')
    equal(capabilities(server(s)), 1 << 21, 'capabilities: CAP_SYS_ADMIN')
    equal(os.readlink(f'/proc/{server(s)}/ns/mnt'), os.readlink(f'/proc/{s.pid}/ns/mnt'), 'mount namespaces')
    assert os.readlink(f'/proc/{server(s)}/ns/net') != os.readlink(f'/proc/{s.pid}/ns/net'), 'it has a network'
    s.ctl('stop', 'blkhist-files.service')
    s.change(env, 'blkhist-files.service', '[Service]\nCapabilityBoundingSet=\nCapabilityBoundingSet=CAP_BPF\n')
    s.ctl('start', 'blkhist-files.service', status=1)
    equal(mounts(s, DIR), [], 'mounts')


@test
def files_go_with_the_collector(env):
    s = system(env)
    s.ctl('start', 'blkhist-files.service')
    s.ctl('restart', 'blkhist.service')
    equal(s.state('blkhist-files.service'), 'active', 'after a restart')
    equal(len(mounts(s, DIR)), 1, 'mounts')
    s.ctl('stop', 'blkhist.service')
    equal(s.state('blkhist-files.service'), 'inactive', 'after the end of the collector')
    equal(mounts(s, DIR), [], 'mounts')


@test
def files_that_are_open_keep_nobody_from_stopping(env):
    s = system(env)
    s.ctl('start', 'blkhist-files.service')
    pid = server(s)
    reader = subprocess.Popen(['nsenter', '-t', str(s.pid), '--mount', 'sh', '-c',
                               f'exec 3< {DIR}/status; echo open; exec sleep 1000'], stdout=subprocess.PIPE)
    env.callback(reader.wait)
    env.callback(reader.kill)
    equal(reader.stdout.readline(), b'open\n', 'the reader')
    began = time.monotonic()
    s.ctl('stop', 'blkhist-files.service')
    assert time.monotonic() - began < 30, 'it waits'
    equal(mounts(s, DIR), [], 'mounts')
    assert not os.path.exists(f'/proc/{pid}'), 'the process is still there'


# --- mount(8) ---

@test
def mounted_by_fstab(env):
    s = system(env)
    directory = '/run/files'
    env.callback(blkhist, 'stop')
    file_set(env, '/etc/fstab', f'blkhist {directory} blkhist noauto,nofail,allow_other,x-systemd.automount 0 0\n')
    s.run('mkdir', '-p', directory)
    s.run('mount', directory)
    equal(mounts(s, directory), [('fuse.blkhist', 'blkhist')], 'mounts')
    assert s.run(*NOBODY, 'cat', f'{directory}/status').stdout.startswith('collecting  since '), 'started as well'
    s.run('umount', directory)
    equal(mounts(s, directory), [], 'mounts')
    wait_for(lambda: s.run('pgrep', '-f', f'blkhist mount {directory}', status=None).returncode,
             'the end of the process')


@test
def mounted_once(env):
    s = system(env)
    file_set(env, '/etc/fstab', f'blkhist {DIR} blkhist allow_other 0 0\n')
    env.callback(blkhist, 'stop')
    s.run('mkdir', '-p', DIR)
    s.run('mount', '-a')
    s.run('mount', '-a')
    equal(len(mounts(s, DIR)), 1, 'mounts')
    s.run('umount', DIR)


@test
def mounted_by_a_unit(env):
    s = system(env)
    env.callback(s.ctl, 'daemon-reload')
    file_set(env, '/etc/fstab', f'blkhist {DIR} blkhist noauto,allow_other 0 0\n')
    env.callback(blkhist, 'stop')
    s.ctl('daemon-reload')
    s.ctl('start', 'run-blkhist.mount')
    equal(len(mounts(s, DIR)), 1, 'mounts')
    s.run('cat', f'{DIR}/status')
    s.ctl('stop', 'run-blkhist.mount')
    equal(mounts(s, DIR), [], 'mounts')


@test
def mounted_by_hand(env):
    s = system(env)
    directory = '/run/files'
    s.run('mkdir', '-p', directory)
    r = s.run('mount', '-t', 'blkhist', 'blkhist', directory, '-o', 'no-such-option', status=1)
    assert 'no-such-option' in r.stderr, r.stderr
    s.run('mount', '-t', 'blkhist', 'blkhist', directory, '-o', 'ro,no-start')
    equal(s.run('ls', directory).stdout, 'status\n', 'files')
    equal(os.path.exists(PIN_DIR), False, 'a collector')
    s.run('umount', directory)


main()
