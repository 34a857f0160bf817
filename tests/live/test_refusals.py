#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Wrong use, and machines where it cannot work: one plain sentence, and nothing is changed."""
import contextlib
import os
import shutil
import subprocess
import tempfile

from lib import (BLKHIST, BPFFS, KIB, PIN_DIR, Skip, blkhist, bpffs_entries, bpffs_mounted, bpftool, equal, main,
                 mount_bpffs, program_ids, refused, show, test, unmount_bpffs, verify)

COMMANDS = (('status',), ('show',), ('reset',), ('buckets',))


def running(env):
    """A collector that has counted something; returns a function that checks it is as it was."""
    loop = env.loop()
    env.start()
    env.disk(loop.path).read(0, 4 * KIB)
    programs, before = program_ids(), show(loop.name).data['histograms']

    def check():
        equal(show(loop.name).data['histograms'], before, 'histograms')
        equal(program_ids(), programs, 'programs')
        equal(bpffs_entries(), ['blkhist'])

    return check


@test
def wrong_use(env):
    unchanged = running(env)
    for args, word in (
            (('frobnicate',), 'frobnicate'), (('help', 'frobnicate'), 'frobnicate'),
            (('show', '--frob'), '--frob'), (('show', '-z'), '-z'), (('reset', '-k'), '-k'),
            (('show', '-k', 'speed'), 'speed'), (('show', '-k', 'service,speed'), 'speed'),
            (('show', '-o', 'erase'), 'erase'), (('reset', '-o', ''), None), (('reset', '-k', ''), None),
            (('show', '-f', 'xml'), 'xml'), (('status', '-f', 'xml'), 'xml'), (('reset', '-f', 'xml'), 'xml'),
            (('status', 'sda'), 'sda'), (('stop', 'now'), 'now'), (('start', 'now'), 'now'),
            (('stop', '--force'), '--force'),
            (('start', '--time', '1'), "'1'"), (('start', '--time', '1ms,1ms'), '1ms'),
            (('start', '--time', '2ms,1ms'), '1ms'), (('start', '--time', '1ms,,2ms'), None),
            (('start', '--time', 'native:9,1us..1s'), None), (('start', '--time', 'native,1us..1s'), 'native'),
            (('start', '--time', 'log2,1s..1us'), '1s..1us'), (('start', '--time', 'linear:1ns,1us..1s'), None),
            (('start', '--time', 'linear:0s,1us..1s'), None), (('start', '--time', '-1ms'), '-1ms'),
            (('start', '--size', 'native:1,1KiB..1MiB'), 'native'), (('start', '--size', '4KiB,4kb'), '4kb'),
            (('start', '--size', '99999999999999999999'), '99999999999999999999'),
            (('start', '--seek', '1,0'), "'0'"), (('start', '--kinds', 'speed'), 'speed'),
            (('start', '--stamp', 'guess'), 'guess')):
        refused(*args, status=2, word=word)
    r = blkhist(status=2)
    assert 'Usage' in r.stdout + r.stderr
    unchanged()


@test
def not_running(env):
    env.start()
    blkhist('stop')
    for command in COMMANDS + (('status', '--verify'),):
        refused(*command, word='blkhist start')
        equal(bpffs_entries(), [])


WITHOUT = (('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--bounding-set=-all', '--inh-caps=-all'),
           ('setpriv', '--bounding-set=-bpf,-sys_admin,-perfmon', '--inh-caps=-bpf,-sys_admin,-perfmon'))


@contextlib.contextmanager
def program_for_everybody():
    """A copy of the program where a user without rights can reach it."""
    directory = tempfile.mkdtemp(prefix='blkhist-test-', dir='/dev/shm')
    try:
        os.chmod(directory, 0o755)
        yield shutil.copy(BLKHIST, directory)
    finally:
        shutil.rmtree(directory)


@test
def missing_capabilities(env):
    if not shutil.which('setpriv'):
        raise Skip('needs setpriv')
    with program_for_everybody() as program:
        def run(prefix, *args):
            return subprocess.run([*prefix, program, *args], capture_output=True, text=True, cwd='/')

        def one_sentence(r, what):
            assert r.returncode == 1 and r.stdout == '' and r.stderr.startswith('blkhist: ') \
                and r.stderr.count('\n') == 1, f'{what}: {r}'
            assert 'root' in r.stderr or 'CAP_' in r.stderr, f'{what} does not say what to do: {r.stderr}'

        for prefix in WITHOUT:
            blkhist('stop')
            for command in (('start',), *COMMANDS):
                one_sentence(run(prefix, *command), command)
                equal(bpffs_entries(), [])
            unchanged = running(env)
            for command in COMMANDS:
                one_sentence(run(prefix, *command), command)
            # Who may read the pins may be told that it is running.
            for command in (('start',), ('start', '--time', '1ms')):
                r = run(prefix, *command)
                assert r.returncode == 1 or 'already' in r.stdout and command == ('start',), f'{command}: {r}'
            unchanged()
            # Root may stop it by removing the pins; a user may not.
            if prefix == WITHOUT[0]:
                one_sentence(run(prefix, 'stop'), 'stop')
                unchanged()


@test
def bpffs_is_mounted_by_start(env):
    env.start()
    blkhist('stop')
    unmount_bpffs()
    try:
        for command in COMMANDS:
            refused(*command)
        assert not bpffs_mounted(), 'only start and stop mount it'
        blkhist('start')
        assert bpffs_mounted()
        blkhist('status')
        blkhist('stop')
    finally:
        unmount_bpffs()
        mount_bpffs()


def damaged(env, damage, *words):
    """After @damage(), every command says so; stop repairs."""
    running(env)
    damage()
    entries = sorted(os.listdir(PIN_DIR))
    for command in COMMANDS + (('start',),):
        message = refused(*command)
        for word in words:
            assert word in message, f'{command}: {message}'
    equal(sorted(os.listdir(PIN_DIR)), entries, 'nothing is changed')
    blkhist('stop')
    equal(bpffs_entries(), [])
    running(env)()


@test
def damaged_directories(env):
    for name in ('hists', 'meta', 'slots', 'losses', 'parts', 'baselines', 'diskstats'):
        damaged(env, lambda name=name: os.unlink(f'{PIN_DIR}/maps/{name}'), 'stop')
    damaged(env, lambda: shutil.rmtree(f'{PIN_DIR}/maps'), 'stop')


@test
def foreign_things_in_the_place_of_a_map(env):
    def swap():
        os.rename(f'{PIN_DIR}/maps/meta', f'{PIN_DIR}/maps/was-meta')
        os.rename(f'{PIN_DIR}/maps/hists', f'{PIN_DIR}/maps/meta')
        os.rename(f'{PIN_DIR}/maps/was-meta', f'{PIN_DIR}/maps/hists')

    damaged(env, swap, 'stop')


@test
def lost_pins_of_histograms(env):
    def lose():
        for name in os.listdir(f'{PIN_DIR}/inner'):
            os.unlink(f'{PIN_DIR}/inner/{name}')

    running(env)
    lose()
    refused('show', word='stop')
    blkhist('stop')
    running(env)()


@test
def a_directory_of_somebody_else(env):
    env.start()
    blkhist('stop')
    os.mkdir(PIN_DIR)
    for command in COMMANDS + (('start',),):
        refused(*command, word='stop')
    blkhist('stop')
    equal(bpffs_entries(), [])
    for leftover in ('blkhist-new', 'blkhist-old'):
        os.makedirs(f'{BPFFS}/{leftover}/maps')
        os.mkdir(f'{BPFFS}/{leftover}/links')
    running(env)()


def set_meta(offset, value):
    """Changes a 32-bit word of the collector's settings."""
    path = f'{PIN_DIR}/maps/meta'
    (entry,) = bpftool('map', 'dump', 'pinned', path)
    words = [b.removeprefix('0x') for b in entry['value']]
    words[offset:offset + 4] = [f'{b:02x}' for b in value.to_bytes(4, 'little')]
    subprocess.run(['bpftool', 'map', 'update', 'pinned', path, 'key', 'hex', '00', '00', '00', '00',
                    'value', 'hex', *words], check=True)


@test
def another_version_of_the_format(env):
    unchanged = running(env)
    version = bpftool('map', 'dump', 'pinned', f'{PIN_DIR}/maps/meta')[0]['value'][8]
    set_meta(8, 4711)
    for command in COMMANDS + (('start',), ('start', '--time', '1ms')):
        refused(*command, word='4711')
    equal(bpffs_entries(), ['blkhist'])
    set_meta(8, int(version, 16))
    unchanged()
    set_meta(0, 0)
    refused('show', word='stop')
    set_meta(8, 4711)
    blkhist('stop')
    equal(bpffs_entries(), [])


@contextlib.contextmanager
def bound(source, target):
    """A file or directory in the place of another, in this namespace only."""
    subprocess.run(['mount', '--bind', source, target], check=True)
    try:
        yield
    finally:
        subprocess.run(['umount', target], check=True)


@contextlib.contextmanager
def temporary(name, text):
    directory = tempfile.mkdtemp(prefix='blkhist-test-', dir='/dev/shm')
    try:
        path = f'{directory}/{name}'
        with open(path, 'w') as f:
            f.write(text)
        yield path
    finally:
        shutil.rmtree(directory)


@test
def devices_without_requests(env):
    without = [d for d in os.listdir('/sys/block') if not os.path.exists(f'/sys/block/{d}/mq')]
    if not without:
        raise Skip('all disks of this machine have requests')
    env.start()
    refused('show', without[0], word='no requests of its own')
    refused('buckets', without[0], '--time', '1ms', word='no requests of its own')


@test
def no_type_information(env):
    env.start()
    blkhist('stop')
    with temporary('vmlinux', '') as empty, bound(empty, '/sys/kernel/btf/vmlinux'):
        refused('start', word='type information')
        equal(bpffs_entries(), [])
    running(env)()


@test
def locked_down(env):
    if not os.path.isdir('/sys/kernel/security'):
        raise Skip('the kernel has no /sys/kernel/security')
    env.start()
    blkhist('stop')
    with temporary('lockdown', 'none integrity [confidentiality]\n') as path, \
            bound(os.path.dirname(path), '/sys/kernel/security'):
        for command in (('start',), *COMMANDS):
            refused(*command, word='lock')
        equal(bpffs_entries(), [])
    with temporary('lockdown', 'none [integrity] confidentiality\n') as path, \
            bound(os.path.dirname(path), '/sys/kernel/security'):
        blkhist('start')
        verify()


if __name__ == '__main__':
    main()
