#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The configuration: settings by name of disk, also for disks that appear while nobody is there."""
import contextlib
import os
import random
import subprocess
import tempfile
import time

from lib import (KIB, MIB, PIN_DIR, Disk, blkhist, bpffs_entries, bpftool, difference, diskstats, equal, main,
                 on_every_kernel, refused, show, spawn, stale_pins, status, test, verify, write_file)

MS = 1000 * 1000


def config(env, text):
    """A file of this text; its path."""
    f = env.enter_context(tempfile.NamedTemporaryFile('w', prefix='blkhist-test-', suffix='.conf', dir='/dev/shm'))
    f.write(text)
    f.flush()
    os.chmod(f.name, 0o644)
    return f.name


def read(path, n, size=4 * KIB):
    """Opened for the moment only, so that the device can go."""
    with contextlib.closing(Disk(path)) as disk:
        for i in range(n):
            disk.read(i * size, size)


def bounds(snapshot, name):
    """Of time and size."""
    data = snapshot.get(name, 'request', 'read').data
    return data['bounds'], data['size_bounds']


def next_names(env, n):
    """The names of loop devices that are there next, in the order in which they will be."""
    loops = [env.loop(MIB) for _ in range(n)]
    for loop in loops:
        loop.remove()
    return [loop.name for loop in loops]


@test
def sections_of_disks_that_are_there(env):
    a, b, c = env.loop(), env.loop(), env.loop()
    a1 = a.partition(1, MIB, 8 * MIB)
    env.start('--config', config(env, f'''
[{a.name}]
time = 1ms,2ms
[{b.name}*]
size = 4KiB,8KiB
kinds = request,seek
[loop*]
time = 7ms
[default]
time = 3ms
size = 64KiB
'''))
    for path in (a.path, f'/dev/{a1}', b.path, c.path):
        read(path, 10)
    snapshot = show()
    equal(bounds(snapshot, a.name), ([1 * MS, 2 * MS], [64 * KIB]), 'first section')
    equal(bounds(snapshot, a1), ([1 * MS, 2 * MS], [64 * KIB]), 'a partition has those of its disk')
    equal(bounds(snapshot, b.name), ([3 * MS], [4 * KIB, 8 * KIB]), 'what a section leaves out')
    equal(bounds(snapshot, c.name), ([7 * MS], [64 * KIB]), 'last section')
    equal({kind for name, kind, _ in snapshot.hists if name == b.name}, {'request', 'seek'}, 'kinds')
    equal({kind for name, kind, _ in snapshot.hists if name == c.name}, {'request', 'service', 'queue', 'seek'},
          'kinds')
    equal(blkhist('buckets', b.name).stdout.splitlines()[:2], ['time 3ms', 'size 4KiB,8KiB'])
    verify(a.name, a1, b.name, c.name)


@test
@on_every_kernel
def a_disk_that_appears_later(env):
    """Its first I/O comes before any command: fio's counts, in its section's bounds."""
    one, other, third = next_names(env, 3)
    env.start('--config', config(env, f'[{one}]\ntime = 1ms,5ms\n[{other}]\nsize = 8KiB\nkinds = request\n'))
    loops = [env.loop() for _ in range(3)]
    equal([loop.name for loop in loops], [one, other, third], 'names')
    before = {name: difference(diskstats(name)[name], {}).get('read', 0) for name in (one, other, third)}
    fio = env.fio(*[dict(filename=loop.path, rw='randread', bs='4k', iodepth=4) for loop in loops],
                  size=4 * MIB, io_size=4 * MIB)
    counts = fio.result()
    snapshot = show()
    rows = verify(*before)
    for name in before:
        missed = rows[name, 'read']['unseen']
        equal(snapshot.counts(name)['read'] + missed, counts[name]['read'] + before[name], f'{name}: we and fio')
    default = status()['ladders']
    equal(bounds(snapshot, one), ([1 * MS, 5 * MS], default['size']), 'of the first section')
    equal(bounds(snapshot, other), (default['time'], [8 * KIB]), 'of the second section')
    equal(bounds(snapshot, third), (default['time'], default['size']), 'of the default')
    equal({kind for name, kind, _ in snapshot.hists if name == other}, {'request'}, 'kinds')
    equal(snapshot.losses['no_counters'], 0)


@test
def more_disks_than_are_ready(env):
    """Each section has counters of its own ready; every command makes more."""
    loop = env.loop(MIB)
    env.start('--config', config(env, '[loop*]\ntime = 1ms\n'))
    ready = {s['name']: s['ready'] for s in status()['sections']}
    for _ in range(3):
        loops = [env.loop(MIB) for _ in range(ready['loop*'])]
        for each in loops:
            read(each.path, 3)
        snapshot = show()
        for each in loops:
            equal(bounds(snapshot, each.name)[0], [1 * MS])
        verify(*(each.name for each in loops))
        equal({s['name']: s['ready'] for s in status()['sections']}, ready, 'ready again')
    equal(snapshot.losses['no_counters'], 0)
    assert not stale_pins()
    read(loop.path, 1)
    equal(bounds(show(), loop.name)[0], [1 * MS], 'was there at the start, unused')


@test
@on_every_kernel
def ignored(env):
    a, b = env.loop(), env.loop()
    a1 = a.partition(1, MIB, 8 * MIB)
    read(a.path, 3)
    env.start('--config', config(env, f'[{a.name}]\nignore = yes\n'))
    with contextlib.closing(Disk(f'/dev/{a1}')) as disk:
        for i in range(20):
            disk.write(i * 4 * KIB, 4 * KIB)
        disk.flush()
    read(a.path, 20)
    read(b.path, 5)
    snapshot = show()
    equal({n for n in snapshot.names() if n.startswith((a.name, b.name))}, {b.name}, 'shown')
    equal([snapshot.losses[k] for k in ('no_counters', 'no_issue', 'no_slot')], [0] * 3, 'losses')
    for args in (('show', a.name), ('show', a1), ('show', b.name, a.name), ('reset', a.name), ('buckets', a.name),
                 ('buckets', a.name, '--time', '1ms')):
        message = refused(*args, word=f'[{a.name}]')
        assert 'ignore' in message, message
    rows = verify(b.name)
    assert not [name for name, _ in rows if name in (a.name, a1)], 'compared'
    skipped = {s['name']: s['ignored'] for s in status('--verify')['verify']['skipped']}
    equal((skipped.get(a.name), skipped.get(a1), skipped.get(b.name)), (True, True, None), 'skipped')
    assert f'{a.name} ' in blkhist('status', '--verify').stdout
    blkhist('reset')
    equal(show().counts(a.name), {})


@test
def ignored_ones_come_and_go(env):
    """More of them than the table of devices holds: they are forgotten."""
    one = next_names(env, 1)[0]
    env.start('--config', config(env, f'[{one}]\nignore = yes\n'))
    loop = env.loop(MIB)
    equal(loop.name, one)
    keys = []
    for i in range(12):
        read(loop.path, 2)
        loop.detach()
        loop.attach()
        if i % 4 == 3:
            blkhist('status')
            keys.append(len(bpftool('map', 'dump', 'pinned', f'{PIN_DIR}/maps/part_ids')))
    assert max(keys) - min(keys) <= 1, keys
    equal(status()['losses']['no_counters'], 0)
    other = env.loop(MIB)
    read(other.path, 5)
    equal(show().counts(other.name)['read'] >= 5, True)
    verify(other.name)


@test
def all_but_some_ignored(env):
    a, b = env.loop(), env.loop()
    env.start('--config', config(env, f'[default]\nignore = yes\ntime = 1ms\n[{b.name}]\nignore = no\n'))
    read(a.path, 5)
    env.disk(a.path).flush()
    read(b.path, 5)
    snapshot = show()
    equal(snapshot.names(), {b.name})
    # All other disks of the machine are ignored: their losses are, too. These are not of devices.
    anyway = ('passthrough', 'nested', 'recovered', 'unseen')
    equal({k: n for k, n in snapshot.losses.items() if n and k not in anyway}, {}, 'losses')
    equal(bounds(show(), b.name)[0], [1 * MS])
    verify(b.name)


@test
def bounds_set_for_one_disk(env):
    """They outlive what the section says, for its new partitions too; other disks keep theirs."""
    a, b = env.loop(), env.loop()
    env.start('--config', config(env, '[loop*]\ntime = 1ms\nkinds = request\n'))
    read(b.path, 4)
    blkhist('buckets', a.name, '--time', '2ms')
    read(a.path, 4)
    p1 = a.partition(1, MIB, 8 * MIB)
    read(f'/dev/{p1}', 2)
    snapshot = show()
    equal([bounds(snapshot, n)[0] for n in (a.name, b.name)], [[2 * MS], [1 * MS]])
    read(f'/dev/{p1}', 3)
    snapshot = show()
    equal((bounds(snapshot, p1)[0], snapshot.counts(p1)), ([2 * MS], {'read': 3}))
    equal({kind for name, kind, _ in snapshot.hists if name in (a.name, b.name, p1)}, {'request'}, 'kinds')
    verify(a.name, b.name, p1)


@test
def without_the_kind_request(env):
    a, b = env.loop(), env.loop()
    env.start('--config', config(env, f'[{a.name}]\nkinds = seek\n'))
    read(a.path, 5)
    read(b.path, 5)
    equal({kind for name, kind, _ in show().hists if name == a.name}, {'seek'})
    verify(b.name)
    equal([s['ignored'] for s in status('--verify')['verify']['skipped'] if s['name'] == a.name], [False])


@test
def errors_name_file_line_and_item(env):
    env.start()
    blkhist('stop')
    for text, line, word in (('[default]\n\ntime = 10\n', 3, "'10' needs a unit"), ('[a\n', 1, '[a'),
                             ('[loop*]\ncolour = red\n', 2, 'colour'), ('time = 1ms\n', 1, 'time'),
                             ('[loop*]\nkinds = dma\n', 2, 'dma'), ('[loop*]\n\nignore = perhaps\n', 3, 'perhaps'),
                             ('[loop*]\ntime = 1ms\ntime = 2ms\n', 3, 'time'), ('[default]\nx\n', 2, 'ITEM = VALUE')):
        path = config(env, text)
        message = refused('start', '--config', path, word=f'{path}:{line}: ')
        assert word in message, message
    refused('start', '--config', '/nonexistent/blkhist.conf', word='/nonexistent/blkhist.conf')
    refused('start', '--config', '/dev/zero', word='/dev/zero')
    equal(bpffs_entries(), [], 'nothing was started')


@test
def options_over_file(env):
    a, b = env.loop(), env.loop()
    text = f'[default]\ntime = 1ms\nsize = 4KiB\n[{b.name}]\ntime = 2ms\n'
    env.start('--config', config(env, text), '--time', '5ms', '--kinds', 'request')
    read(a.path, 2)
    read(b.path, 2)
    snapshot = show()
    equal(bounds(snapshot, a.name), ([5 * MS], [4 * KIB]), 'the option replaces what [default] says')
    equal(bounds(snapshot, b.name), ([2 * MS], [4 * KIB]), 'but not what a section says')
    equal({kind for _, kind, _ in snapshot.hists}, {'request'})


@test
def start_again(env):
    """Harmless with the same settings; with others, the error says what differs."""
    text = '[default]\ntime = 1ms\n[loop*]\nsize = 4KiB\n[md*]\nignore = yes\n'
    env.start('--config', config(env, text))
    for same in (text, text.replace('1ms', '1000us') + '# a comment\n'):
        assert 'already' in blkhist('start', '--config', config(env, same)).stdout
    for other, word in ((text.replace('1ms', '2ms'), '--time (1ms, asked for: 2ms)'),
                        (text.replace('4KiB', '8KiB'), '[loop*] size (4KiB, asked for: 8KiB)'),
                        (text.replace('ignore = yes', ''), '[md*] ignore (yes)'),
                        (text.replace('[md*]', '[dm*]'), 'sections ([loop*][md*], asked for: [loop*][dm*])'),
                        (text + '[sd*]\n', '[loop*][md*][sd*]'), ('[default]\ntime = 1ms\n', 'asked for: none'),
                        (text.replace('[md', 'kinds = seek\n[md'), '[loop*] kinds')):
        refused('start', '--config', config(env, other), word=word)


@test
def file_of_the_system(env):
    """A small /etc of our own, in our mount namespace."""
    loop = env.loop()
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', '/etc'], check=True)
    env.callback(subprocess.run, ['umount', '/etc'], check=True)
    env.start()
    equal(status()['sections'], [], 'no file')
    write_file('/etc/blkhist.conf', f'[{loop.name}]\ntime = 9ms\n')
    env.start()
    read(loop.path, 3)
    equal(bounds(show(), loop.name)[0], [9 * MS])
    env.start('--config', '/dev/null')
    equal(status()['sections'], [], 'another file in its place')
    write_file('/etc/blkhist.conf', '[default]\n\nkinds = x\n')
    blkhist('stop')
    refused('start', word='/etc/blkhist.conf:3: kinds: unknown kind')
    env.start('--config', config(env, ''))


@test
def killed_while_it_makes_counters(env):
    """The next command makes good for it: nothing is lost, and nothing is ready twice."""
    rng = random.Random(5)
    env.start('--config', config(env, '[loop*]\ntime = 1ms\n[sd*]\n'))
    whole = {s['name']: s['ready'] for s in status()['sections']}
    hits = 0
    for _ in range(25):
        loops = [env.loop(MIB) for _ in range(whole['loop*'])]
        for each in loops:
            read(each.path, 2)
        process = spawn('status')
        time.sleep(rng.uniform(0, 0.06))
        process.kill()
        process.communicate()
        hits += process.returncode < 0
        now = status()
        equal({s['name']: s['ready'] for s in now['sections']}, whole, 'ready')
        entries = bpftool('map', 'dump', 'pinned', f'{PIN_DIR}/maps/hists')
        equal(sum(any(int(b, 16) for b in e['value']) for e in entries), now['partitions'] + now['partitions_ready'],
              'counters, and those in use or ready')
        assert not stale_pins()
        snapshot = show()
        for each in loops:
            equal(bounds(snapshot, each.name)[0], [1 * MS])
            equal(snapshot.counts(each.name)['read'] >= 2, True)
            each.remove()
    print(f'# {hits} of 25 were killed in the middle')
    assert hits > 3, 'too few were killed in the middle to say anything'
    equal(status()['losses']['no_counters'], 0)


@test
def many_sections(env):
    """As many as there may be; the last one matches, at the end of a long list."""
    loop = env.loop()
    text = ''.join(f'[x{i}*]\ntime = {i}ms\n' for i in range(1, 15)) + f'[{loop.name[:-1]}?]\ntime = 99ms\n'
    env.start('--config', config(env, text))
    equal(len(status()['sections']), 15)
    read(loop.path, 3)
    equal(bounds(show(), loop.name)[0], [99 * MS])
    refused('start', '--config', config(env, text + '[y]\n'), word='[y] is one section too many')
    verify(loop.name)


if __name__ == '__main__':
    main()
