#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Commands killed at any moment, under load: the next one works, and no count is lost."""
import random
import time

from lib import (MIB, UNPRIVILEGED, blkhist, bpffs_entries, equal, main, program_ids, programs_alive,
                 show, spawn, stale_pins, status, test, verify)

# With few rights it does the same: that it may is seen in a few rounds.
ROUNDS = 10 if UNPRIVILEGED else 40


def load(env, loop, names):
    loop.queue('nomerges', 2)
    return env.fio(*[dict(filename=f'/dev/{n}', rw='randrw', bs='4k', iodepth=4, rate_iops=2000) for n in names],
                   size=8 * MIB, runtime=120)


def killed(rng, duration, *args):
    """Starts a command and kills it after a random part of @duration; True if it was not done before."""
    process = spawn(*args)
    time.sleep(rng.uniform(0, duration))
    process.kill()
    process.communicate()
    return process.returncode < 0


def kill_rounds(env, duration, commands, afterwards):
    """Kills each command ROUNDS times; @afterwards is called after each."""
    rng = random.Random(7)
    for command in commands:
        hits = 0
        for _ in range(ROUNDS):
            hits += killed(rng, duration, *command(rng))
            afterwards()
        print(f'# {command(rng)[0]}: {hits} of {ROUNDS} were killed in the middle')
        assert hits > ROUNDS // 8, 'too few were killed in the middle to say anything'


def end_of_load(fio):
    fio.interrupt()
    return fio.result()


@test
def killed_reset_show_and_buckets(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    fio = load(env, loop, (p1, p2))
    ladders = (('--time', '1ms,10ms', '--size', '4KiB,64KiB'), ('--time', 'log2,1us..1s'), ('--seek', '-1,0,1'))
    last = {}

    def afterwards():
        blkhist('status')  # any command makes good what was left undone
        assert not stale_pins(), f'pins that nothing refers to: {stale_pins()}'
        equal(bpffs_entries(), ['blkhist'])
        # Counts since the start never fall, whatever was interrupted.
        rows = {(r['name'], r['op']): r['count'] for r in status('--verify')['verify']['rows']}
        for key, n in last.items():
            assert rows[key] >= n, f'{key} fell from {n} to {rows[key]}'
        last.update({k: n for k, n in rows.items() if k[0] in (loop.name, p1, p2)})

    kill_rounds(env, 0.006, (lambda rng: ('reset', rng.choice((loop.name, p1, p2))),
                             lambda rng: ('buckets', loop.name, *rng.choice(ladders)),
                             lambda rng: ('show', '-f', 'json')), afterwards)
    counts = end_of_load(fio)
    rows = {key: row['count'] + row['unseen'] for key, row in verify(loop.name, p1, p2).items()}
    for name in (p1, p2):
        for op, n in counts[name].items():
            equal(rows[name, op], n, f'{name} {op}: we and fio')
    # And histograms work as ever.
    blkhist('buckets', loop.name, '--time', '3ms')
    disk = env.disk(loop.path)
    for _ in range(10):
        disk.read(0, 4096)
    equal(show(loop.name).get(loop.name, 'service', 'read').count, 10)


@test
def killed_start(env):
    """Nothing is left attached after the next start and stop, and a start after a kill works."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    blkhist('stop')
    fio = load(env, loop, (p1, p2))

    def afterwards():
        blkhist('start')
        equal(bpffs_entries(), ['blkhist'])
        assert not stale_pins()
        attached = {p['name'] for p in status()['programs'] if p['attached']}
        assert {'block_rq_issue', 'block_rq_complete', 'block_rq_requeue'} <= attached, attached
        blkhist('stop')
        equal(bpffs_entries(), [])

    kill_rounds(env, 0.15, (lambda rng: ('start',),), afterwards)
    blkhist('start')
    end_of_load(fio)
    verify()


@test
def killed_stop(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    fio = load(env, loop, (p1, p2))
    ids = set()

    def afterwards():
        blkhist('stop')
        equal(bpffs_entries(), [])
        equal(programs_alive(ids), set(), 'programs that live on')
        blkhist('start')
        ids.clear()
        ids.update(program_ids())

    ids.update(program_ids())
    kill_rounds(env, 0.004, (lambda rng: ('stop',),), afterwards)
    end_of_load(fio)
    verify()


@test
def killed_in_any_order(env):
    """All commands in parallel, killed at random; in the end one start is enough."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    fio = load(env, loop, (p1, p2))
    rng = random.Random(3)
    commands = (('start',), ('start', '--time', '1ms'), ('stop',), ('reset',), ('show',), ('status',),
                ('buckets', loop.name, '--time', '1ms'), ('buckets', p1, '--time', '2ms'))
    for _ in range(ROUNDS):
        running = [spawn(*c) for c in rng.sample(commands, 4)]
        time.sleep(rng.uniform(0, 0.03))
        for process in running:
            process.kill()
            process.communicate()
    blkhist('stop')
    equal(bpffs_entries(), [])
    blkhist('start')
    equal(bpffs_entries(), ['blkhist'])
    end_of_load(fio)
    verify()


if __name__ == '__main__':
    main()
