#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Wrong use, and machines where it cannot work: one plain sentence, and nothing is changed."""
import contextlib
import os
import shutil
import subprocess
import tempfile

from lib import (BPFFS, KIB, PIN_DIR, UNPRIVILEGED, USER, Skip, blkhist, bpffs_entries, bpffs_mounted, bpftool,
                 equal, main, mount_bpffs, program_ids, refused, show, subject_is, test, unmount_bpffs, verify)

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


@test
def bpffs_is_mounted_by_start(env):
    subject_is('mounting a file system')
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


def make_directories(*names):
    """As blkhist would: of the user it runs as."""
    for name in names:
        os.mkdir(f'{BPFFS}/{name}')
        if UNPRIVILEGED:
            os.chown(f'{BPFFS}/{name}', USER, USER)


@test
def a_directory_of_somebody_else(env):
    env.start()
    blkhist('stop')
    make_directories('blkhist')
    for command in COMMANDS + (('start',),):
        refused(*command, word='stop')
    blkhist('stop')
    equal(bpffs_entries(), [])
    for leftover in ('blkhist-new', 'blkhist-old'):
        make_directories(leftover, f'{leftover}/maps', f'{leftover}/links')
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
        os.chmod(directory, 0o755)
        path = f'{directory}/{name}'
        with open(path, 'w') as f:
            f.write(text)
        yield path
    finally:
        shutil.rmtree(directory)


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
