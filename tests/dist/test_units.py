#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The units of systemd, as far as they can be checked without it."""
import re
import shlex
import shutil
import tempfile

from installed import BUILD, main, read, run, same_items, write
from lib import BLKHIST, blkhist, equal
from tap import Skip, test

# The most exposure by `systemd-analyze security`, times ten; some more than systemd 252 finds, as others
# look for other things. What shows files to others can have no mount namespace, which leaves it more open.
EXPOSURE = {'blkhist.service': 15, 'blkhist-files.service': 36}

# Whatever is set of these makes a mount namespace: exec_needs_mount_namespace() of systemd.
NAMESPACE = re.compile('''
    (Private(Tmp|Devices|IPC|PIDs|BPF|Users) | Protect(System|Home|Kernel\\w+|ControlGroups|Proc) | ProcSubset |
     (ReadWrite|ReadOnly|Inaccessible|Exec|NoExec)(Paths|Directories) | Bind(ReadOnly)?Paths | MountFlags |
     TemporaryFileSystem | (Mount|Extension)Images | ExtensionDirectories | Root(Image|Directory) |
     DynamicUser | LogNamespace | BindLogSockets | MountAPIVFS | IPCNamespacePath)$''', re.X)



def settings(unit):
    """Pairs of key and value, in their order."""
    return re.findall(r'^(\w+)=(.*)$', read(f'{BUILD}/dist/{unit}'), re.M)


def analyze(*args, units=tuple(EXPOSURE), **kwargs):
    """systemd-analyze for units that run the program under test."""
    if not shutil.which('systemd-analyze'):
        raise Skip('needs systemd-analyze')
    with tempfile.TemporaryDirectory() as directory:
        for unit in EXPOSURE:
            write(f'{directory}/{unit}', re.sub(r'^(Exec\w+=)\S+', rf'\g<1>{BLKHIST}',
                                                read(f'{BUILD}/dist/{unit}'), flags=re.M))
        return run('systemd-analyze', '--no-pager', *args, *(f'{directory}/{unit}' for unit in units), **kwargs)


@test
def paths_are_filled_in():
    for unit in EXPOSURE:
        for key, value in settings(unit):
            assert '@' not in value.replace('@system-service', '').replace('@privileged', '').replace(
                '@resources', ''), f'{unit}: {key}={value}'
            if key.startswith('Exec'):
                assert re.match('/.*/blkhist ', value), f'{unit}: {key}={value}'


@test
def systemd_accepts_them():
    """Unknown keys and values, missing programs, cycles."""
    r = analyze('verify', '--man=no')
    equal(r.stdout + r.stderr, '', 'what systemd-analyze says')


@test
def commands_have_their_options():
    for unit in EXPOSURE:
        for key, value in settings(unit):
            if not key.startswith('Exec'):
                continue
            command, *args = shlex.split(value)[1:]
            text = blkhist(command, '--help').stdout
            for arg in (a for a in args if a.startswith('-')):
                assert re.search(rf'^ .*{arg}\b', text, re.M), f'{unit}: {command} has no {arg}'


@test
def exposure():
    for unit in EXPOSURE:
        r = analyze('security', '--offline=yes', f'--threshold={EXPOSURE[unit]}', units=[unit], status=None)
        if 'unrecognized option' in r.stderr:
            raise Skip('this systemd-analyze cannot judge files')
        equal(r.returncode, 0, f'exit status for {unit}; it says:\n{r.stdout}{r.stderr}')


@test
def the_mount_is_seen_by_others():
    found = dict(settings('blkhist-files.service'))
    same_items([key for key in found if NAMESPACE.match(key)], [], 'what makes a mount namespace')
    equal(found['PrivateMounts'], 'no', 'PrivateMounts, with which PrivateNetwork makes none')


main()
