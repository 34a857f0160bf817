#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""blkhist watch: the intervals add up to the load, whatever else happens, and are easy to read."""
import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import time

from lib import (KIB, MIB, TIMED, Disk, between, blkhist, command_line, equal, main, on_every_kernel,
                 refused, show, status, test, unseen)

WIDTH = 100
ROW = re.compile(r'(\d\d:\d\d:\d\d) (\S+) +(read|write|discard|flush) +(\S+) +(\S+)(.*)')


def do(path, op, n, size=4 * KIB):
    """Opened for the moment only, so that the device can go."""
    with contextlib.closing(Disk(path)) as disk:
        for i in range(n):
            getattr(disk, op)(i * MIB, size)


def endless_load(env, name, **options):
    """Comes back when it is running."""
    fio = env.fio(dict(filename=f'/dev/{name}', bs='4k', **options), size=16 * MIB, runtime=600)
    before = show(name).counts(name)
    while show(name).counts(name) == before:
        assert fio.running(), 'the load ended early'
        time.sleep(0.02)


class Watch:
    """A running watch; lines() has what it has printed so far."""

    def __init__(self, env, *args):
        self.out = env.enter_context(tempfile.TemporaryFile())
        self.process = subprocess.Popen(command_line('watch', *args), stdout=self.out, stderr=subprocess.PIPE, text=True)
        env.callback(self.stop)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def lines(self):
        """Complete ones."""
        size = os.fstat(self.out.fileno()).st_size
        return os.pread(self.out.fileno(), size, 0).decode().split('\n')[:-1]

    def wait(self, condition, what, timeout=60):
        end = time.monotonic() + timeout
        while not condition(self.lines()):
            equal(self.process.poll(), None, f'watch has ended; waiting for: {what}')
            assert time.monotonic() < end, f'{what} did not come: {self.lines()[-5:]}'
            time.sleep(0.02)

    def intervals(self, n):
        """Waits for that many more, of which the last has begun after this call."""
        seen = len(self.lines())
        self.wait(lambda lines: len(lines) > seen + n, f'{n} more intervals')

    def interrupt(self, signum=signal.SIGINT):
        self.process.send_signal(signum)
        _, err = self.process.communicate(timeout=60)
        equal((self.process.returncode, err), (0, ''), 'exit status and errors')
        return self.lines()


def rows(objects, name):
    return [d for o in objects for d in o['devices'] if (d['partition'] or d['device']) == name]


def by_op(found, key):
    total = {}
    for d in found:
        total[d['op']] = total.get(d['op'], 0) + d[key]
    return {op: n for op, n in total.items() if n}


def check_object(o):
    equal((o['schema'], o['source']), ('blkhist-watch/1', 'live'))
    assert o['interval_ns'] > 0, o
    seconds = o['interval_ns'] / 1e9
    for d in o['devices']:
        between(d['requests'] / seconds - 0.001, d['iops'], d['requests'] / seconds + 0.001, 'IOPS')
        between(d['bytes'] / seconds - 1, d['bytes_per_second'], d['bytes'] / seconds + 1, 'bytes per second')
        for share in (d['queue_share'], d['sequential_share']):
            assert share is None or 0 <= share <= 1, d
        for kind in ('request', 'service'):
            if d[kind]:
                quantiles = [d[kind][q] or d[kind]['last_bound_ns'] for q in ('p50_ns', 'p99_ns', 'p999_ns')]
                equal(quantiles, sorted(quantiles), f'{kind} quantiles')


@test
@on_every_kernel
def intervals_add_up_to_the_load(env):
    """To the request and to the byte, while somebody resets and others look on."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    loop.queue('nomerges', 2)
    env.disk(loop.path).read(0, 4 * KIB)  # before the first interval, so in none
    watch = Watch(env, '100ms', '-f', 'json', '-p')
    watch.intervals(1)
    fio = env.fio(dict(filename=f'/dev/{p1}', rw='randrw', bs='4k', iodepth=8, rate_iops='3000,3000'),
                  dict(filename=f'/dev/{p2}', rw='randread', bs='16k', iodepth=4, rate_iops=2000),
                  size=16 * MIB, runtime=2)
    while fio.running():
        blkhist('reset', loop.name)
        show()
        time.sleep(0.1)
    counts = fio.result()
    watch.intervals(2)
    objects = [json.loads(line) for line in watch.interrupt()]
    for o in objects:
        check_object(o)
    for name, size in ((p1, 4 * KIB), (p2, 16 * KIB)):
        missed = unseen(name)
        expected = {op: n - missed.get(op, 0) for op, n in counts[name].items()}
        equal(by_op(rows(objects, name), 'requests'), expected, f'{name}: requests')
        equal(by_op(rows(objects, name), 'bytes'), {op: n * size for op, n in expected.items()}, f'{name}: bytes')
        for kind in ('request', 'service'):
            equal(sum(d[kind]['count'] for d in rows(objects, name)), sum(expected.values()), f'{name}: {kind}')
    for key in ('requests', 'bytes'):
        parts = by_op(rows(objects, p1) + rows(objects, p2), key)
        equal(by_op(rows(objects, loop.name), key), parts, f'the disk has the sum: {key}')
    moved = sum(d['bytes_per_second'] * o['interval_ns'] / 1e9 for o in objects for d in rows([o], p1))
    between(0.999, moved / sum(by_op(rows(objects, p1), 'bytes').values()), 1.001, 'rates and bytes')


@test
def shares_are_what_was_done(env):
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    disk.read(0, 4 * KIB)
    watch = Watch(env, '200ms', '-f', 'json')
    watch.intervals(1)
    for i in range(1, 101):
        disk.read(i * 4 * KIB, 4 * KIB)
    watch.intervals(2)
    found = rows([json.loads(line) for line in watch.interrupt()], loop.name)
    equal(sum(d['requests'] for d in found), 100)
    # Request and distance are read one after the other: a request may be there without its distance.
    equal({d['sequential_share'] for d in found} - {None}, {1.0}, 'sequential')
    totals = {kind: show(loop.name).get(loop.name, kind, 'read').sum for kind in TIMED}
    assert sum(d['request']['sum_ns'] for d in found) < totals['request'], 'the first read is not in it'
    request, service = (sum(d[kind]['sum_ns'] for d in found) for kind in ('request', 'service'))
    queue = sum((d['queue_share'] or 0) * d['request']['sum_ns'] for d in found)
    between(-1e-6, (queue - (request - service)) / request, 1e-6, 'queue shares')


@test
def count_width_and_no_colour(env):
    loop, p1, _ = env.two_partitions()
    env.start()
    endless_load(env, p1, rw='randrw', iodepth=8)
    for args, name in (((), loop.name), ((loop.name,), loop.name), ((p1,), p1), (('-o', 'read'), loop.name)):
        began = time.monotonic()
        out = blkhist('watch', '0.2', '3', *args).stdout
        assert time.monotonic() - began >= 0.5, 'three intervals'
        assert '\033' not in out, 'colour in a pipe'
        lines = out.splitlines()
        assert max(map(len, lines)) <= WIDTH, lines
        equal(sum('p99.9' in line for line in lines), 1, 'headers')
        found = [m.groups() for m in map(ROW.fullmatch, lines) if m]
        mine = [m for m in found if m[1] == name]
        assert {m[2] for m in mine} <= ({'read'} if '-o' in args else {'read', 'write'}), mine
        assert mine and all(float(m[3]) > 0 and float(m[4]) > 0 for m in mine), out
        assert p1 == name or p1 not in out, 'a partition that nobody asked for'
    assert {p1, loop.name} <= {m[1] for m in ROW.findall(blkhist('watch', '0.5', '1', '-p').stdout)}
    blkhist('watch', '50ms', '1', loop.path, p1)
    lines = blkhist('watch', '10ms', '5', '-f', 'json').stdout.splitlines()
    equal(len(lines), 5)
    for line in lines:
        check_object(json.loads(line))


@test
def idle_intervals_say_so(env):
    loop = env.loop()
    env.start()
    lines = blkhist('watch', '50ms', '2', loop.name).stdout.splitlines()
    equal([line.split(maxsplit=1)[1] for line in lines[-2:]], ['no I/O'] * 2)
    for line in blkhist('watch', '50ms', '2', loop.name, '-f', 'json').stdout.splitlines():
        o = json.loads(line)
        equal((o['devices'], set(o['losses'])), ([], set(status()['losses'])), 'an idle interval')


@test
def colour_on_a_terminal(env):
    loop = env.loop()
    env.start()
    endless_load(env, loop.name, rw='randread')
    for environment, colour in (({}, True), ({'NO_COLOR': '1'}, False)):
        master, slave = pty.openpty()
        env.callback(os.close, master)
        process = subprocess.Popen(command_line('watch', '0.1', '30', loop.name), stdout=slave,
                                   env={**os.environ, **environment})
        os.close(slave)
        text = b''
        while select.select([master], [], [], 60)[0]:
            try:
                text += os.read(master, 65536)
            except OSError:  # EIO: the other side is closed
                break
        equal(process.wait(timeout=60), 0)
        equal(b'\033[1m' in text, colour, f'colour with {environment}')
        plain = re.sub(r'\033\[\d*m', '', text.decode()).splitlines()
        assert max(map(len, plain)) <= WIDTH, plain


@test
def devices_come_and_go(env):
    env.start()
    everything = Watch(env, '50ms', '-f', 'json')
    everything.intervals(1)
    loop = env.loop()
    do(loop.path, 'read', 10)
    everything.wait(lambda lines: any(loop.name in line for line in lines), 'the new device')
    named = Watch(env, '50ms', loop.name)
    named.intervals(3)
    loop.remove()
    _, err = named.process.communicate(timeout=60)
    equal(named.process.returncode, 1, 'a device that was named is gone')
    equal(err, f'blkhist: cannot watch any longer: {loop.name} is gone\n')
    everything.intervals(1)
    reads = by_op(rows(map(json.loads, everything.interrupt()), loop.name), 'requests')['read']
    between(10, reads, 1000, 'reads, with those of udev')
    refused('watch', '50ms', '1', loop.name, word=loop.name)


@test
def new_bounds_and_a_reattached_device(env):
    """What begins anew counts from zero; nothing is counted twice or negative."""
    loop = env.loop()
    env.start()
    do(loop.path, 'read', 50)
    watch = Watch(env, '100ms', '-f', 'json', loop.name)
    watch.intervals(2)
    blkhist('buckets', loop.name, '--time', '1ms,1s')
    do(loop.path, 'read', 7, 8 * KIB)
    watch.intervals(2)
    loop.detach()
    loop.attach()
    do(loop.path, 'write', 3, 8 * KIB)
    watch.intervals(2)
    found = rows(map(json.loads, watch.interrupt(signal.SIGTERM)), loop.name)
    equal(by_op(found, 'requests')['write'], 3)
    between(7, by_op(found, 'requests')['read'], 49, 'reads, with those of udev')
    equal([d['request']['last_bound_ns'] for d in found if d['bytes'] == 7 * 8 * KIB], [10**9] * sum(
        d['bytes'] == 7 * 8 * KIB for d in found), 'new bounds')


@test
def without_start_stamps(env):
    """With iostats off the kernel may set none: no request time, but requests and bytes."""
    loop = env.loop()
    env.start()
    disk = env.disk(loop.path)
    disk.read(0, 4 * KIB)
    loop.queue('iostats', 0)
    watch = Watch(env, '100ms', '-f', 'json', loop.name)
    watch.intervals(1)
    for i in range(20):
        disk.read(i * MIB, 4 * KIB)
    watch.intervals(2)
    found = rows(map(json.loads, watch.interrupt()), loop.name)
    equal((by_op(found, 'requests'), by_op(found, 'bytes')), ({'read': 20}, {'read': 80 * KIB}))


@test
def ends_are_said_in_one_sentence(env):
    loop = env.loop()
    env.start()
    watch = Watch(env, '50ms', loop.name)
    watch.intervals(2)
    blkhist('stop')
    _, err = watch.process.communicate(timeout=60)
    equal(watch.process.returncode, 1)
    equal((err.startswith('blkhist: the collector is not running'), err.count('\n')), (True, 1), err)
    refused('watch', '50ms', '1', word='blkhist start')
    env.start()
    reader = subprocess.Popen(command_line('watch', '20ms'), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    env.callback(reader.wait)
    env.callback(reader.kill)
    reader.stdout.readline()
    reader.stdout.close()
    err = reader.stderr.read()
    equal((reader.wait(timeout=60), err.count('\n'), 'Broken pipe' in err), (1, 1, True), err)


@test
def arguments(env):
    env.start()
    for args, word in ((('9ms',), '10ms'), (('0',), '10ms'), (('86401',), '86400s'), (('1x',), 'x'),
                       (('1.2.3',), '1.2.3'), (('1', '0'), '0 is not'), (('1', '1.5'), '1.5'),
                       (('1', '2', '3'), "'3'"), (('-o', 'trim'), 'trim'), (('-f', 'xml'), 'xml'),
                       (('1' * 30,), '1')):
        refused('watch', *args, status=2, word=word)
    refused('watch', '1', '1', 'nosuchdisk', word='nosuchdisk')


if __name__ == '__main__':
    main()
