#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
mount.blkhist, called as mount(8) calls helpers, with a program in place of blkhist that says how it
was called.
"""
import json
import os
import tempfile

from installed import TOP, main, read, run, write
from lib import equal
from tap import test

HELPER = f'{TOP}/dist/mount.blkhist.in'
DIR = '/run/blk hist'
FAKE = '''#!/usr/bin/python3
import json, os, sys
json.dump(sys.argv[1:], open(os.environ['CALLED'], 'w'))
sys.exit(int(os.environ.get('STATUS', '0')))
'''


def helper(*args, blkhist_status=0, status=0):
    """Runs the helper; returns what it has called blkhist with (None: not at all), and its result."""
    with tempfile.TemporaryDirectory() as directory:
        fake, script, called = (f'{directory}/{name}' for name in ('blk hist', 'mount.blkhist', 'called'))
        write(fake, FAKE)
        write(script, read(HELPER).replace('@blkhist@', fake))
        os.chmod(fake, 0o755)
        os.chmod(script, 0o755)
        r = run(script, *args, status=status, cwd=directory,
                env={**os.environ, 'CALLED': called, 'STATUS': str(blkhist_status)})
        return json.loads(read(called)) if os.path.exists(called) else None, r


def calls(args, expected):
    called, r = helper('blkhist', DIR, *args)
    equal(called, expected, f'arguments of blkhist for {args}')
    equal(r.stdout + r.stderr, '', 'what it prints')


@test
def without_options():
    calls([], ['mount', DIR])
    calls(['-o', 'rw'], ['mount', DIR])


@test
def options_of_the_mount_are_passed():
    calls(['-o', 'rw,allow_other'], ['mount', DIR, '-o', 'allow_other'])
    calls(['-o', 'ro,noexec,nosuid', '-o', 'allow_other'],
          ['mount', DIR, '-o', 'ro,noexec,nosuid,allow_other'])
    calls(['-o', 'context="system_u:object_r:sysfs_t:s0"'],
          ['mount', DIR, '-o', 'context="system_u:object_r:sysfs_t:s0"'])
    calls(['-o', '*,?'], ['mount', DIR, '-o', '*,?'])  # no patterns for names of files


@test
def options_for_others_are_left_out():
    calls(['-o', 'defaults,noauto,nofail,user,_netdev,x-systemd.automount,x-systemd.requires=a.service,'
                 'X-mount.mkdir,comment=text,relatime,nolazytime,allow_other'],
          ['mount', DIR, '-o', 'allow_other'])
    calls(['-o', 'rw,user=somebody,,auto'], ['mount', DIR])


@test
def options_of_the_command():
    calls(['-o', 'no-start,allow_other'], ['mount', DIR, '--no-start', '-o', 'allow_other'])
    calls(['-o', 'config=/etc/my disks.conf,ro'],
          ['mount', DIR, '--config', '/etc/my disks.conf', '-o', 'ro'])


@test
def letters_of_mount():
    calls(['-n', '-s', '-t', 'blkhist', '-o', 'ro'], ['mount', DIR, '-o', 'ro'])
    called, r = helper('blkhist', DIR, '-fv', '-o', 'rw,ro')
    equal(called, None, 'what -f calls')
    assert r.stdout.startswith('mount.blkhist: ') and r.stdout.endswith(f' mount {DIR} -o ro\n'), r.stdout


@test
def wrong_use():
    for args in ([], ['blkhist'], ['blkhist', DIR, '-x'], ['blkhist', DIR, '-o'],
                 ['blkhist', DIR, 'more'], ['blkhist', DIR, '-N', '/proc/1/ns/mnt'],
                 ['blkhist', DIR, '-o', 'remount,ro']):
        called, r = helper(*args, status=1)
        equal(called, None, f'what {args} calls')
        assert r.stderr.startswith('mount.blkhist: '), r.stderr
        equal(r.stdout, '', 'standard output')


@test
def status_is_that_of_mount():
    for of_blkhist, of_mount in ((1, 32), (2, 1), (127, 32)):
        called, _ = helper('blkhist', DIR, blkhist_status=of_blkhist, status=of_mount)
        equal(called, ['mount', DIR], 'arguments of blkhist')


main()
