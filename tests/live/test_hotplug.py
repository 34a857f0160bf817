#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Devices that come and go while it collects, with nobody resident."""
import concurrent.futures
import contextlib
import os
import random
import tempfile
import time

from lib import (KIB, MIB, PIN_DIR, TIMED, UNPRIVILEGED, Disk, QuickLoop, Skip, blkhist, bpftool, difference,
                 diskstats, equal, main, on_every_kernel, refused, reset_print, show, spawn, status, test, verify)

IN_VM = 'BLKHIST_VM' in os.environ


def read(path, n, size=4 * KIB):
    """Opened for the moment only, so that the device can go."""
    with contextlib.closing(Disk(path)) as disk:
        for i in range(n):
            disk.read(i * size, size)


def has_diskseq(name):
    return os.path.exists(f'/sys/block/{name}/diskseq')


@test
@on_every_kernel
def a_new_device_is_counted_from_its_first_io(env):
    env.start()
    loop = env.loop()
    before = diskstats(loop.name)[loop.name]  # udev, where there is one, has read from it
    seen = show(loop.name).counts(loop.name)
    equal(seen, difference(before, {}), 'what was read before the test could')
    read(loop.path, 12)
    equal(show(loop.name).counts(loop.name)['read'], seen.get('read', 0) + 12)
    equal(show(loop.name).losses['no_counters'], 0)
    verify(loop.name)


@test
def used_devices_are_ready_at_the_start(env):
    """However many they are: nobody runs a command between the start and their first I/O."""
    loops = [env.loop() for _ in range(7)]
    for loop in loops:
        env.disk(loop.path).read(0, 4 * KIB)
    env.start()
    for loop in loops:
        env.disk(loop.path).read(0, 4 * KIB)
    snapshot = show()
    for loop in loops:
        equal(snapshot.counts(loop.name), {'read': 1}, loop.name)
    equal(snapshot.losses['no_counters'], 0)
    verify(*[loop.name for loop in loops])


@test
def more_new_devices_than_spare_counters(env):
    """As many as are kept ready are counted at once; the next command makes room for more."""
    env.start()
    ready = status()['partitions_ready']
    loops = [env.loop(MIB) for _ in range(ready)]
    for i, loop in enumerate(loops):
        read(loop.path, i + 1)
    for i, loop in enumerate(loops):
        equal(show(loop.name).counts(loop.name)['read'] >= i + 1, True, f'{i}')
    verify(*(loop.name for loop in loops))
    equal(status()['partitions_ready'], ready, 'ready again')
    equal(status()['losses']['no_counters'], 0)
    more = env.loop(MIB)
    read(more.path, 5)
    verify(more.name)


@test
@on_every_kernel
def devices_that_come_while_it_starts(env):
    """What they read before it was attached is in diskstats alone, and no difference."""
    file = env.enter_context(tempfile.TemporaryFile(dir='/dev/shm'))
    file.truncate(MIB)
    number = 50000 + os.getpid() % 10000
    loops = []
    env.callback(blkhist, 'stop', status=None)
    blkhist('stop')
    # It looks at the devices early, and is attached at some time after that, which is not told.
    command = spawn('start')
    while command.poll() is None and len(loops) < 32:
        loops.append(QuickLoop(env, number + len(loops), file))
        loops[-1].read(3)
        time.sleep(0.005)
    _, err = command.communicate()
    equal(command.returncode, 0, err)
    verify(*(loop.name for loop in loops))
    for loop in loops:
        loop.read(2)
    snapshot = show()
    seen = [snapshot.counts(loop.name).get('read', 0) for loop in loops]
    # Of one device at most some of the first reads were seen; of the later ones all.
    equal([n for n in seen if n not in (2, 5)], [n for n in seen if 2 < n < 5][:1], f'{seen}')
    # The start and the comparison have made counters ready for devices to come, and these do not count.
    if seen.count(2) <= 2 * status()['partitions_ready']:
        raise Skip('it starts too fast to say anything')
    if snapshot.losses['no_counters']:
        raise Skip('it was attached too early: more devices came after that than counters were ready')
    equal(seen, sorted(seen), 'devices in the order in which they came')
    verify(*(loop.name for loop in loops))


@test
@on_every_kernel
def a_new_partition_is_counted_from_its_first_io(env):
    loop = env.loop()
    env.start()
    read(loop.path, 3)
    p5 = loop.partition(5, 8 * MIB, 8 * MIB)
    read(f'/dev/{p5}', 9)
    snapshot = show(loop.name)
    equal((snapshot.counts(p5), snapshot.counts(loop.name)), ({'read': 9}, {'read': 12}))
    verify(loop.name, p5)


@test
@on_every_kernel
def a_reused_number_begins_at_zero(env):
    loop = env.loop()
    env.start()
    read(loop.path, 100)
    blkhist('reset', '-k', 'service', loop.name)
    read(loop.path, 10)
    equal([show(loop.name).get(loop.name, k, 'read').count for k in TIMED], [110, 10, 110])
    blkhist('buckets', loop.name, '--time', '1ms')
    old = diskstats(loop.name)[loop.name]
    loop.detach()
    equal(show().get(loop.name, 'request', 'read').count, 0, 'nothing is shown of a device without a file')
    loop.attach()
    new = difference(diskstats(loop.name)[loop.name], old).get('read', 0)  # by udev, if there is one
    equal(show(loop.name).counts(loop.name).get('read', 0), new, 'a new file begins at zero')
    read(loop.path, 7, 8 * KIB)
    h = show(loop.name).get(loop.name, 'service', 'read')
    equal(h.count, new + 7)
    equal(h.by_size()[8 * KIB], 7)
    # Before Linux 5.15 nothing tells the files of a loop device apart.
    equal(h.data['bounds'] == [1000000], not has_diskseq(loop.name), 'bounds of the old file')
    # The kernel's own statistics go on as if it were one device; so does the comparison.
    verify(loop.name)


@test
def a_reused_number_with_partitions(env):
    loop, p1, _ = env.two_partitions()
    env.start()
    read(f'/dev/{p1}', 20)
    loop.detach()
    loop.attach()
    equal(show(loop.name).get(p1, 'request', 'read').count, 0, 'the old partition')
    p1 = loop.partition(1, 2 * MIB, 4 * MIB)
    read(f'/dev/{p1}', 4)
    equal(show(p1).counts(p1), {'read': 4})
    verify(loop.name, p1)


class Churn:
    """Devices that come and go, several at once, and what all of them have read."""

    def __init__(self, env, numbers):
        self.env, self.numbers = env, iter(numbers)
        self.file = env.enter_context(tempfile.TemporaryFile(dir='/dev/shm'))
        self.file.truncate(MIB)
        self.workers = env.enter_context(concurrent.futures.ThreadPoolExecutor(8))
        self.loops, self.names, self.total, self.made = {}, set(), 0, 0

    def _each(self, function, items):
        return list(self.workers.map(function, items))

    def create(self, n):
        """Makes @n of them; each reads a number of blocks of its own. Returns these by name."""
        numbers = [next(self.numbers) for _ in range(n)]
        new = self._each(lambda number: QuickLoop(self.env, number, self.file), numbers)
        self.loops |= {loop.name: loop for loop in new}
        self.names |= set(self.loops)
        self.made += n
        return self.read(loop.name for loop in new)

    def read(self, names):
        names = list(names)
        counts = dict(zip(names, self._each(
            lambda item: self.loops[item[1]].read(1 + (self.made + item[0]) % 5), enumerate(names))))
        self.total += sum(counts.values())
        return counts

    def remove(self):
        self._each(QuickLoop.remove, self.loops.values())
        self.loops.clear()

    def counted(self, snapshot):
        """What is shown of those that are there."""
        return {name: n for name, n in ((name, snapshot.counts(name).get('read', 0)) for name in self.loops) if n}


def check_totals(churn, missed):
    """All that was done is shown with --all, or was given back, or is a loss."""
    snapshot = show('--all')
    gone = sum(of.get('read', 0) for name in churn.names for of in snapshot.gone_counts(name))
    there = sum(churn.counted(snapshot).values())
    losses = snapshot.losses
    equal(losses['no_counters'], missed, 'no_counters')
    equal(gone + there + losses['given_back'] + missed, churn.total, f'{gone} gone, {there} there, {losses}')
    assert gone, 'nothing is shown of devices that are gone'


def plant(index):
    """A request and a bio in flight on the device with this index, whose end nobody will see."""
    last = bpftool('map', 'show', 'pinned', f'{PIN_DIR}/maps/slots')['max_entries'] - 1
    slot = (1).to_bytes(8, 'little') + bytes(20) + index.to_bytes(2, 'little') + bytes(2)
    bio = bytes(28) + index.to_bytes(2, 'little') + bytes(2)
    keys = {'slots': last.to_bytes(4, 'little'), 'bios': b'\x77' * 8}
    for name, value in (('slots', slot), ('bios', bio)):
        bpftool('map', 'update', 'pinned', f'{PIN_DIR}/maps/{name}', 'key', *map(str, keys[name]),
                'value', *map(str, value))
    return keys


def planted(keys):
    """What is still there of it: the index that the slot has, and whether the bio is known."""
    slot = bpftool('map', 'lookup', 'pinned', f'{PIN_DIR}/maps/slots', 'key', *map(str, keys['slots']))
    value = bytes(int(b, 16) for b in slot['value'])
    bios = bpftool('map', 'dump', 'pinned', f'{PIN_DIR}/maps/bios')
    return (int.from_bytes(value[28:30], 'little'),
            any(bytes(int(b, 16) for b in e['key']) == keys['bios'] for e in bios))


def index_of(snapshot_id):
    """The index of the counters of a device, by its sysfs id."""
    for entry in bpftool('map', 'dump', 'pinned', f'{PIN_DIR}/maps/part_ids'):
        if int.from_bytes(bytes(int(b, 16) for b in entry['key'][:8]), 'little') == snapshot_id:
            return int.from_bytes(bytes(int(b, 16) for b in entry['value']), 'little')
    raise AssertionError('the device has no counters')


def round_with_commands(churn, n):
    """As many devices as counters are ready: all are counted, from their first I/O on."""
    counts = churn.create(n)
    equal(churn.counted(show()), counts, 'devices that are there')
    churn.remove()


def round_without_commands(churn, ready):
    """
    Three times as many: those that find no counters are counted as such, to the unit, and get
    counters at the next command. Returns how many reads were missed.
    """
    before = show().losses['no_counters']
    counts = churn.create(3 * ready)
    snapshot = show()
    seen = churn.counted(snapshot)
    equal(seen, {name: n for name, n in counts.items() if name in seen}, 'devices with counters')
    equal(len(seen), ready, 'devices that found counters')
    missed = sum(n for name, n in counts.items() if name not in seen)
    equal(snapshot.losses['no_counters'] - before, missed, 'completions without counters')
    late = [name for name in counts if name not in seen][:ready]
    again = churn.read(late)
    equal(churn.counted(show()), seen | again, 'devices that have got counters meanwhile')
    churn.remove()
    return missed


def hotplug_under_load(env, numbers, groups):
    """@groups of devices come and go while another one works; every fifth time without a command."""
    busy = env.loop()
    read(busy.path, 1)  # so that it has counters from the start
    env.start()
    ready = status()['partitions_ready']
    fio = env.fio(dict(filename=busy.path, rw='randrw', bs='4k', iodepth=4, rate_iops=1000), size=8 * MIB,
                  runtime=600)
    churn = Churn(env, numbers)
    keys, missed = None, 0
    with contextlib.suppress(Skip):
        first = churn.create(1)
        show()
        keys = plant(index_of(os.stat(f'/sys/block/{next(iter(first))}').st_ino))
        churn.remove()
    for i in range(groups):
        if i % 5:
            round_with_commands(churn, ready)
        else:
            missed += round_without_commands(churn, ready)
    fio.interrupt()
    counts = fio.result()[busy.name]
    rows = verify(busy.name)
    for op in ('read', 'write'):
        row = rows[busy.name, op]
        equal(row['count'] + row['unseen'], counts[op], f'{op} of the device that worked all the time')
    check_totals(churn, missed)
    print(f'# {churn.made} devices, {churn.total} reads, {missed} without counters, {counts}')
    return churn, keys


@test
def a_thousand_devices_come_and_go_under_load(env):
    number = 100000 + os.getpid() % 50000 * 16
    groups = 20 if IN_VM else 40 if UNPRIVILEGED else 178
    churn, keys = hotplug_under_load(env, range(number, number + 2000), groups)
    given_back = show().losses['given_back']
    s = status()
    most = (s['partitions_max'] + 1) // 2
    equal(s['partitions'] + s['partitions_ready'] <= most, True, 'half of the counters are in use')
    if IN_VM or UNPRIVILEGED:
        print(f'# only {churn.made} devices, as this machine is emulated, or has seen them with full root')
        return
    assert churn.made >= 1000, churn.made
    assert given_back, 'nothing was given back'
    if keys:
        equal(planted(keys), (0, False), 'requests in flight on a device whose counters were given back')


@test
def reused_numbers_come_and_go_under_load(env):
    """The same names and device numbers, again and again."""
    number = 90000 + os.getpid() % 10000
    names = (number + i % 12 for i in range(10**6))
    hotplug_under_load(env, names, 20)


@test
def files_of_one_loop_device_come_and_go(env):
    """
    Its sysfs node stays, and so do its statistics in the kernel; our counters are of one file each.
    """
    env.start()
    ready = status()['partitions_ready']
    most = status()['partitions_max']
    file = env.enter_context(tempfile.TemporaryFile(dir='/dev/shm'))
    file.truncate(MIB)
    loop = QuickLoop(env, 80000 + os.getpid() % 10000, file)
    if not has_diskseq(loop.name):
        raise Skip('needs a kernel with diskseq')
    total = 0
    for i in range(30 if IN_VM else most // 2 + 40):
        n = loop.read(1 + i % 7)
        if i % ready == ready - 1:
            equal(show(loop.name).counts(loop.name), {'read': n}, f'file {i}')
        total += n
        loop.detach()
        loop.attach(file)
    loop.read(1)
    total += 1
    snapshot = show('--all', loop.name)
    gone = snapshot.gone_counts(loop.name)
    equal(snapshot.counts(loop.name), {'read': 1})
    equal(sum(of['read'] for of in gone) + 1 + snapshot.losses['given_back'], total, 'all files together')
    equal(snapshot.losses['no_counters'], 0)
    verify(loop.name)


@test
def killed_while_counters_are_given_back(env):
    """What is given back is added to the record once, whenever the command is killed."""
    if IN_VM:
        raise Skip('its time is not that of a machine that is emulated')
    file = env.enter_context(tempfile.TemporaryFile(dir='/dev/shm'))
    file.truncate(MIB)
    loop = QuickLoop(env, 70000 + os.getpid() % 10000, file)
    if not has_diskseq(loop.name):
        raise Skip('needs a kernel with diskseq')
    env.start()
    s, rng, total, killed = status(), random.Random(5), 0, 0
    for i in range(s['partitions_max'] // 2 + 120):
        total += loop.read(1 + i % 7)
        if show('-k', 'request').losses['given_back']:
            command = spawn('show')
            time.sleep(rng.uniform(0, 0.03))
            command.kill()
            command.communicate()
            killed += command.returncode < 0
        loop.detach()
        loop.attach(file)
    snapshot = show('--all', loop.name)
    gone = sum(of['read'] for of in snapshot.gone_counts(loop.name))
    equal(gone + snapshot.losses['given_back'], total, f'{killed} killed: {snapshot.losses}')
    equal(snapshot.losses['no_counters'], 0)
    print(f'# {killed} were killed in the middle')
    assert killed > 20, 'too few were killed in the middle to say anything'
    verify(loop.name)


@test
@on_every_kernel
def every_command_makes_new_counters_ready(env):
    env.start()
    ready = status()['partitions_ready']
    number = 60000 + os.getpid() % 10000
    churn = Churn(env, range(number, number + 100))
    disk = env.loop()
    read(disk.path, 1)
    blkhist('status')
    for command in (('show',), ('status',), ('reset', disk.name), ('buckets',), ('buckets', disk.name, '--time', '1ms'),
                    ('watch', '10ms', '1'), ('start',)):
        churn.create(ready)
        blkhist(*command)
    churn.create(ready)
    snapshot = show()
    equal(snapshot.losses['no_counters'], 0)
    equal(len(churn.counted(snapshot)), 8 * ready, 'devices that are counted')
    churn.create(ready + 1)
    equal(len(churn.counted(show())), 9 * ready, 'devices that are counted without a command in between')
    churn.remove()


@test
def all_shows_devices_that_are_gone(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    read(f'/dev/{p1}', 3)
    read(f'/dev/{p2}', 4)
    read(loop.path, 5)
    equal(show('--all', loop.name).gone, [], 'nothing is gone')
    loop.remove()
    equal(show().names() & {loop.name, p1, p2}, set())
    snapshot = show('--all')
    equal([snapshot.gone_counts(name) for name in (loop.name, p1, p2)], [[{'read': 12}], [{'read': 3}], [{'read': 4}]])
    again = env.loop()
    equal(again.name, loop.name)
    read(loop.path, 7)
    snapshot = show('--all', loop.name)
    equal((snapshot.counts(loop.name), snapshot.gone_counts(loop.name)), ({'read': 7}, [{'read': 12}]))
    equal([h.data for h in show(loop.name).gone], [], 'without --all')
    equal(status()['partitions_gone'], 3)
    again.remove()
    snapshot = show('--all', loop.path)
    equal(snapshot.gone_counts(loop.name), [{'read': 12}, {'read': 7}], 'both, in their order')
    equal(show('--all', '-k', 'service', p1).gone_counts(p1, 'service'), [{'read': 3}])
    assert all(h.data['partition'] == p1 and 'major' not in h.data for h in show('--all', p1).gone)
    text = blkhist('show', '--all', '-k', 'request', p1).stdout
    assert f'{p1} (gone)  read  request time' in text, text
    text = blkhist('status').stdout
    assert '4 of devices that are gone' in text, text
    for command in ('show', 'reset'):
        for name in (loop.name, loop.path, p1):
            refused(command, name, word=f'show --all {name}')
    refused('show', '--all', 'nosuchdisk', word='nosuchdisk')
    refused('show', 'nosuchdisk', word="no block device 'nosuchdisk'")
    equal(reset_print().gone, [], 'a reset is of what is there')


@test
def a_partition_that_is_gone_stays_in_its_disk(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    read(f'/dev/{p1}', 3)
    read(f'/dev/{p2}', 4)
    loop.delete_partition(1)
    snapshot = show('--all', loop.name)
    equal((snapshot.counts(loop.name), snapshot.counts(p2)), ({'read': 7}, {'read': 4}))
    equal((snapshot.gone_counts(p1), snapshot.counts(p1)), ([{'read': 3}], {}))
    verify(loop.name, p2)


@test
def no_counters_are_left(env):
    """More devices at once than there can be counters."""
    env.start()
    ready, most, used = (status()[key] for key in ('partitions_ready', 'partitions_max', 'partitions'))
    if IN_VM:
        raise Skip('too many devices for a machine that is emulated')
    number = 200000 + os.getpid() % 50000 * 16
    churn = Churn(env, range(number, number + 2000))
    rounds = (most - used + ready - 1) // ready + 1
    for _ in range(rounds):
        churn.create(ready)
        show()
    assert 'none is left' in blkhist('status').stdout
    snapshot = show()
    equal(sum(churn.counted(snapshot).values()) + snapshot.losses['no_counters'], churn.total)
    assert snapshot.losses['no_counters'], 'all found counters'
    assert 'as all are in use' in blkhist('show').stdout
    churn.remove()
    show()  # those that are gone make room
    round_with_commands(churn, ready)
    equal('none is left' in blkhist('status').stdout, False)


@test
def added_and_removed_numbers(env):
    env.start()
    loop = env.loop(attach=False)
    show(loop.name)
    loop.attach()
    read(loop.path, 3)
    verify(loop.name)
    loop.remove()
    refused('show', loop.name, word=loop.name)
    refused('show', loop.path, word=loop.path)
    assert loop.name not in blkhist('show').stdout
    verify()


@test
def names_that_do_not_exist(env):
    loop = env.loop()
    env.start()
    read(loop.path, 1)
    for name in ('nosuchdisk', loop.name + 'p1', '/dev/nosuchdisk', '', loop.name + 'x', '../' + loop.name):
        refused('show', name, word=name)
        refused('show', '-f', 'json', loop.name, name, word=name)
        refused('reset', name, word=name)
        refused('reset', loop.name, name, word=name)
    refused('show', '/dev/null', word='/dev/null')
    refused('show', '/etc/passwd', word='/etc/passwd')
    equal(show(loop.name).counts(loop.name), {'read': 1}, 'nothing was reset')
    link = f'/dev/shm/blkhist-test-link-{os.getpid()}'
    os.symlink(loop.path, link)
    env.callback(os.unlink, link)
    equal(show(link).counts(loop.name), {'read': 1}, 'a link is as good as the device')


if __name__ == '__main__':
    main()
