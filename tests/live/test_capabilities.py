#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
What blkhist may do with few rights, in a bpffs that an ordinary user may write to: all of it with
CAP_BPF and CAP_PERFMON, all but start with CAP_BPF, stop with none; and what it says if they are not
enough. As the README says it, section "Without full root".
"""
import contextlib
import json
import os
import re
import shutil
import subprocess

from lib import (BPFFS, CAPABILITIES, KIB, LOCKS_MEMORY, USER, Skip, Snapshot, as_user, blkhist, bpffs_entries,
                 equal, main, mount_bpffs, program_for_everybody, refused, test, unmount_bpffs)

READING = (('show',), ('show', '-f', 'json'), ('status', '--verify'), ('reset',), ('buckets',), ('watch', '0.05', '1'))


@contextlib.contextmanager
def fresh_bpffs(for_user=True):
    """Mounted for this test; the collector in it ends with it."""
    unmount_bpffs()
    mount_bpffs(for_user)
    try:
        yield
    finally:
        unmount_bpffs()
        mount_bpffs()


def acquire(env):
    """A bpffs for the user, and the program where the user can reach it."""
    if not shutil.which('setpriv'):
        raise Skip('needs setpriv')
    env.enter_context(fresh_bpffs())
    return program_for_everybody()


def whole_life(env, command):
    """All that blkhist can do, by @command."""
    loop, p1, p2 = env.two_partitions()
    disk = env.disk(f'/dev/{p1}')

    def run(*args):
        return blkhist(*args, command=command).stdout

    def reads(*args):
        return Snapshot(run(*args, '-f', 'json', p1)).counts(p1)

    run('start', '--bios', 'on')
    for name in ('blkhist', 'blkhist/maps/hists', 'blkhist/links/block_bio_queue'):
        equal(os.stat(f'{BPFFS}/{name}').st_uid, USER, f'owner of {name}')
    for i in range(20):
        disk.read(i * 4 * KIB, 4 * KIB)
    equal(reads('show'), {'read': 20})
    equal(reads('reset', '--print'), {'read': 20})
    equal(reads('show'), {})
    run('buckets', loop.name, '--time', '1ms,10ms')
    for i in range(7):
        disk.read(i * 4 * KIB, 4 * KIB)
    equal(reads('show'), {'read': 7})
    equal(Snapshot(run('show', '-f', 'json', p1)).get(p1, 'request', 'read').data['bounds'], [10**6, 10**7])
    equal(len(run('watch', '0.05', '2', '-f', 'json', p2).splitlines()), 2, 'intervals of watch')
    # More devices than counters are ready for: each command makes new ones.
    for _ in range(6):
        env.disk(env.loop().path).read(0, 4 * KIB)
        run('show')
    state = json.loads(run('status', '--verify', '-f', 'json'))
    equal(state['losses']['no_counters'], 0)
    assert state['verify']['equal'] and state['memory_bytes'] > 10**5, state
    equal({row['op']: row['count'] for row in state['verify']['rows'] if row['name'] == p1 and row['count']},
          {'read': 27})
    run('stop')
    equal(bpffs_entries(), [])


@test
def two_capabilities_are_enough(env):
    whole_life(env, [*as_user(*CAPABILITIES), acquire(env)])


@test
def capabilities_of_the_file_are_enough(env):
    """The way of setcap; such a process is not dumpable, and /proc/self is not its own."""
    if not shutil.which('setcap'):
        raise Skip('needs setcap')
    program = acquire(env)
    subprocess.run(['setcap', 'cap_bpf,cap_perfmon+ep', program], check=True)
    whole_life(env, [*as_user(of_file=True), program])


@test
def what_is_missing_is_named(env):
    program = acquire(env)

    def with_only(*capabilities):
        return [*as_user(*capabilities), program]

    def names(message):
        return set(re.findall(r'CAP_[A-Z_]+', message.split(' missing')[0]))

    for capabilities, missing in ((('bpf',), {'CAP_PERFMON'}), (('perfmon',), {'CAP_BPF'}),
                                  ((), {'CAP_BPF', 'CAP_PERFMON'})):
        equal(names(refused('start', command=with_only(*capabilities), word='missing')), missing)
        equal(bpffs_entries(), [])
    blkhist('start', command=with_only(*CAPABILITIES))
    for command in READING:
        blkhist(*command, command=with_only('bpf'))
        for capabilities in (('perfmon',), ()):
            equal(names(refused(*command, command=with_only(*capabilities), word='missing')), {'CAP_BPF'}, command)
    blkhist('stop', command=with_only())
    equal(bpffs_entries(), [])


@test
def root_without_capabilities(env):
    without = '--bounding-set=-bpf,-sys_admin,-perfmon', '--inh-caps=-bpf,-sys_admin,-perfmon'
    command = ['setpriv', *without, acquire(env)]
    for args in (('start',), *READING):
        refused(*args, command=command, word='CAP_BPF')
        equal(bpffs_entries(), [])


@test
def a_bpffs_that_is_not_for_this_user(env):
    command = [*as_user(*CAPABILITIES), acquire(env)]
    for mode in (0o700, 0o755):
        with fresh_bpffs(for_user=False):
            os.chmod(BPFFS, mode)
            refused('start', command=command, word='this user')
            equal(bpffs_entries(), [])
    unmount_bpffs()
    refused('start', command=command, word='mount -t bpf')


@test
def a_collector_of_somebody_else(env):
    program = acquire(env)
    blkhist('start', command=[program])
    for args in (*READING, ('start',), ('stop',)):
        refused(*args, command=[*as_user(*CAPABILITIES), program], word='id 0')
    blkhist('stop', command=[program])
    # Root may do everything with that of a user.
    blkhist('start', command=[*as_user(*CAPABILITIES), program])
    for args in (*READING, ('stop',)):
        blkhist(*args, command=[program])
    equal(bpffs_entries(), [])


@test
def locked_memory(env):
    program = acquire(env)
    command = ['prlimit', '--memlock=65536', *as_user(*CAPABILITIES, raise_limit=False), program]
    if LOCKS_MEMORY:
        refused('start', command=command, word='64 KiB for this user by RLIMIT_MEMLOCK')
    else:
        blkhist('start', command=command)
        blkhist('stop', command=command)
    equal(bpffs_entries(), [])


if __name__ == '__main__':
    main()
