#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Starting and stopping, what it takes, and what is left behind: nothing."""
import os

from lib import (KIB, MIB, PIN_DIR, blkhist, bpffs_entries, bpftool, equal, main, on_every_kernel,
                 program_ids, programs_alive, refused, show, spawn, status, test, verify)


def map_ids():
    """Ids of the maps of the collector."""
    return {bpftool('map', 'show', 'pinned', f'{PIN_DIR}/{d}/{name}')['id']
            for d in ('maps', 'inner') for name in os.listdir(f'{PIN_DIR}/{d}')}


@test
def fifty_times_under_load(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    blkhist('stop')
    # At a rate that leaves time for 50 rounds; what counts is that I/O is always on its way.
    fio = env.fio(*[dict(filename=f'/dev/{p}', rw='randrw', bs='4k', iodepth=8, rate_iops=5000) for p in (p1, p2)],
                  size=16 * MIB, runtime=120)
    programs = set()
    for _ in range(50):
        blkhist('start')
        programs |= program_ids()
        equal([p['attached'] for p in status()['programs']].count(True), len(program_ids()), 'attached programs')
        blkhist('stop')
        equal(bpffs_entries(), [])
    equal(programs_alive(programs), set(), 'programs that live on')
    assert fio.running(), 'the load ended early'
    blkhist('start')
    blkhist('status', '--verify')
    fio.interrupt()
    fio.result()
    verify()


@test
def start_is_harmless_while_it_runs(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    disk.read(0, 4 * KIB)
    programs, before = program_ids(), show(loop.name).data['histograms']
    assert 'already' in blkhist('start').stdout
    for args, word in ((('--time', '1ms,2ms'), '--time'), (('--size', '4KiB'), '--size'), (('--seek', '0'), '--seek'),
                       (('--kinds', 'seek'), '--kinds'), (('--stamp', 'kernel'), '--stamp')):
        refused('start', *args, word=word)
        equal(program_ids(), programs, 'programs')
    equal(show(loop.name).data['histograms'], before)
    # Other words for the same bounds are the same settings.
    same = dict(line.split(' ', 1) for line in blkhist('buckets').stdout.splitlines())
    blkhist('start', '--time', same['time'], '--size', same['size'], '--seek', same['seek'],
            '--kinds', 'seek,queue,service,request')
    equal(program_ids(), programs, 'programs')


@test
def many_starts_at_once(env):
    loop = env.loop()
    env.start()
    blkhist('stop')
    for _ in range(5):
        processes = [spawn('start') for _ in range(8)]
        outputs = [p.communicate() for p in processes]
        equal([p.returncode for p in processes], [0] * 8, f'exit status {outputs}')
        equal(sum('already' in out for out, _ in outputs), 7, 'all but one found it running')
        equal(bpffs_entries(), ['blkhist'])
        disk = env.disk(loop.path)
        disk.read(0, 4 * KIB)
        equal(show(loop.name).counts(loop.name), {'read': 1}, 'counted once')
        processes = [spawn('stop') for _ in range(4)]
        outputs = [p.communicate() for p in processes]
        equal([p.returncode for p in processes], [0] * 4, f'exit status {outputs}')
        equal(sum('has stopped' in out for out, _ in outputs), 1, 'one stopped it')
        equal(bpffs_entries(), [])


@test
def starts_with_different_settings_at_once(env):
    env.start()
    blkhist('stop')
    processes = [spawn('start', '--time', f'{i}ms') for i in range(1, 7)]
    outputs = [p.communicate() for p in processes]
    equal(sorted(p.returncode for p in processes), [0] + [1] * 5, f'one wins {outputs}')
    winner = [p.returncode for p in processes].index(0) + 1
    equal(status()['ladders']['time'], [winner * 10**6])


@test
@on_every_kernel
def stop_and_start_begin_at_zero(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    disk.read(0, 4 * KIB)
    assert 'has stopped' in blkhist('stop').stdout
    assert 'not collecting' in blkhist('stop').stdout
    disk.read(0, 4 * KIB)
    blkhist('start')
    equal(show(loop.name).hists, {})
    disk.read(0, 4 * KIB)
    equal(show(loop.name).counts(loop.name), {'read': 1})
    verify(loop.name)


@test
@on_every_kernel
def memory_is_what_the_kernel_says(env):
    loop, p1, p2 = env.two_partitions()
    other = env.loop()
    env.start()
    for path in (loop.path, f'/dev/{p1}', f'/dev/{p2}', other.path):
        env.disk(path).read(0, 4 * KIB)
    blkhist('reset', loop.name)
    blkhist('buckets', other.name, '--time', '1ms')
    ours = status()
    kernel = sum(m['bytes_memlock'] for m in bpftool('map', 'show') if m['id'] in map_ids())
    assert abs(ours['memory_bytes'] - kernel) <= kernel / 20, f'{ours["memory_bytes"]}, the kernel says {kernel}'
    print(f'# {ours["memory_bytes"]} bytes with {ours["partitions"]} partitions in use')


@test
def memory_is_modest(env):
    """For a machine with few CPUs; it grows with them, up to eight."""
    loop, p1, p2 = env.two_partitions()
    other = env.loop()
    env.start()
    for path in (loop.path, f'/dev/{p1}', f'/dev/{p2}', other.path):
        env.disk(path).read(0, 4 * KIB)
    state = status()
    used = state['partitions']  # there may be other disks at work
    assert used >= 4, used
    per_cpus = max(1, (os.sysconf('SC_NPROCESSORS_CONF') + 1) // 2)
    limit = 2 * MIB * min(per_cpus, 4) * used // 4
    assert state['memory_bytes'] <= limit, f'{state["memory_bytes"]} bytes with {used} partitions, limit {limit}'


@test
def help_and_version(env):
    for args in (('help',), ('--help',), ('--version',), *[(c, '--help') for c in (
            'start', 'stop', 'status', 'show', 'reset', 'buckets')], *[('help', c) for c in ('start', 'show')]):
        assert len(blkhist(*args).stdout) > 10, args


@test
def status_as_text(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    for _ in range(4321):
        disk.read(0, 4 * KIB)
    text, data = blkhist('status', '--verify').stdout, status('--verify')
    row = next(line.split() for line in text.splitlines() if line.split()[:2] == [loop.name, 'read'])
    equal(row[2], '4321', 'counted')
    assert str(data['partitions_max']) in text and 'auto' in text
    for program in data['programs']:
        equal(program['attached'], program['name'] in text, program['name'])


@test
def output_that_nobody_reads(env):
    """A full or closed output is an error, not a success."""
    loop = env.loop()
    env.start()
    env.disk(loop.path).read(0, 4 * KIB)
    for command in (('show',), ('show', '-f', 'json'), ('status',), ('reset', '--print')):
        with open('/dev/full', 'w') as full:
            process = spawn(*command, stdout=full)
            _, err = process.communicate()
        assert process.returncode == 1 and err.startswith('blkhist: '), f'{command}: {process.returncode} {err}'


if __name__ == '__main__':
    main()
