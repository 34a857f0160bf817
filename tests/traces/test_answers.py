#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""blkhist show -i: a trace gives the histograms of what happened, whatever the file looks like."""
import glob
import os
import random
import re

import generate
from generate import FLUSH, FS, OPS, READ, SYNC, US, WRITE, ZONE_APPEND
from lib import equal
from tap import Skip
from traces import (CPUS, NVME, NVME_P1, SDA, SDA1, SDA2, WALL, ZRAM, check, check_losses, main, notes,
                    rfc3339, run, show, test, workload)

TIME = '0ns,1ns,100ns,1us,2us,5us,10us,20us,50us,100us,200us,500us,1ms,2ms,5ms,10ms,20ms,50ms,100ms,1s,2s'
TIME_NS = [0, 1, 100, *(n * 10**e for e in (3, 4, 5) for n in (1, 2, 5)), 10**6, 2 * 10**6, 5 * 10**6, 10**7,
           2 * 10**7, 5 * 10**7, 10**8, 10**9, 2 * 10**9]
SIZE = '512,4095,4096,8192,10000,64KiB'
SIZE_BYTES = [512, 4095, 4096, 8192, 10000, 65536]
SEEK = '-100000,-8,-1,0,1,8,1000,100000'
SEEK_SECTORS = [-100000, -8, -1, 0, 1, 8, 1000, 100000]
LONE = generate.device_name(ZRAM)  # it has no requests
FORMATS = [(version, order) for version in (7, 8) for order in '<>']


def in_every_shape(work, load, version, order):
    """Operands of show, and what stands on its standard input, by shape."""
    name = f'v{version}{"le" if order == "<" else "be"}'
    write = dict(version=version, order=order)
    generate.write_per_cpu(work.path(name), load.events, CPUS, **write)
    generate.write_merged(work.path(f'{name}.merged'), load.events, **write)
    generate.write_chunked(work.path(f'{name}.chunked'), load.events, random.Random(1), **write)
    yield 'per CPU', [work.path(name)], None
    yield 'merged', [work.path(f'{name}.merged')], None
    yield 'chunked', [work.path(f'{name}.chunked')], None
    yield 'standard input, merged', ['-'], work.path(f'{name}.merged')
    yield 'standard input, chunked', ['-'], work.path(f'{name}.chunked')


def in_any_shape(version, order):
    def every_shape(work):
        load = workload(version * 2 + (order == '<'), zoned=version == 8)
        truth = load.truth()
        for shape, operands, stdin in in_every_shape(work, load, version, order):
            with open(stdin or '/dev/null', 'rb') as f:
                snapshot = show('-i', *operands, '--time', TIME, '--size', SIZE, f'--seek={SEEK}', stdin=f)
            try:
                check(snapshot, truth)
            except AssertionError as e:
                raise AssertionError(f'{shape}: {e}') from None
            # Of each of the two disks three requests began before the trace, and yet have a beginning in it.
            equal(notes(snapshot), {'begins at Q': None, 'begins at G': 4, 'begins at its first event': 2,
                                    f'{LONE} has no service and queue time': None}, 'notes')
            for (_, kind, op), h in snapshot.hists.items():
                equal(h.data['bounds'], SEEK_SECTORS if kind == 'seek' else TIME_NS, 'bounds')
                if kind != 'seek':
                    equal(h.data['size_bounds'], [] if op == 'flush' else SIZE_BYTES, 'bounds of size')
    every_shape.__name__ = f'version_{version}_{"little" if order == "<" else "big"}_endian'
    test(every_shape)


for v, o in FORMATS:
    in_any_shape(v, o)



@test
def default_bounds_and_the_total(work):
    load = workload(11)
    generate.write_merged(work.path('t'), load.events)
    for option in ((), ('--total',)):
        snapshot = show('-i', work.path('t'), *option)
        check(snapshot, load.truth())
        for (_, kind, op), h in snapshot.hists.items():
            if kind == 'seek':
                equal([b for b in h.data['bounds'] if abs(b) <= 4], [-4, -2, -1, 0, 1, 2, 4], 'of distance')
                continue
            one_row = option or op == 'flush'
            equal(h.data['size_bounds'], [] if one_row else [1 << n for n in range(9, 21)], 'bounds of size')
            equal((h.data['bounds'][-1], 10**9 in h.data['bounds']), (16 * 10**9, True), 'bounds of time')


@test
def bounds_by_disk(work):
    """The configuration file, by the names of disks; and options before it."""
    sda, nvme, zram = (generate.device_name(n) for n in (SDA, NVME, ZRAM))
    config = work.file('conf', f'[default]\ntime = 1ms,1s\n[{sda}]\ntime = 10us,20ms\nsize = 4096\n'
                               f'kinds = service,seek\n[{nvme}]\nignore = yes\n')
    load = workload(12)
    generate.write_merged(work.path('t'), load.events)
    truth = load.truth(ignored=[NVME])
    for options, time in (((), [10**6, 10**9]), (('--time', '3us,4us'), [3000, 4000])):
        snapshot = show('-i', work.path('t'), '--config', config, *options)
        truth.values = {key: v for key, v in truth.values.items()
                        if key[0] == zram or key[1] in ('service', 'seek')}
        check(snapshot, truth)
        equal(snapshot.names(), {sda, generate.device_name(SDA1), generate.device_name(SDA2), zram}, 'devices')
        for (name, kind, op), h in snapshot.hists.items():
            if kind != 'seek':
                equal(h.data['bounds'], time if name == zram else [10**4, 2 * 10**7], f'bounds of {name}')
            if kind != 'seek' and op != 'flush' and name == sda:
                equal(h.data['size_bounds'], [4096], f'bounds of size of {name}')


@test
def time_from_another_event(work):
    """--start get: the wait for a free request is none of the request's."""
    load = workload(13)
    generate.write_merged(work.path('t'), load.events)
    queue, get = load.truth(), load.truth(start='get')
    check(show('-i', work.path('t'), '--start', 'get'), get)
    check(show('-i', work.path('t'), '--start', 'queue'), queue)
    key = (generate.device_name(SDA), 'request', 'read')
    assert sum(t for _, t in get.values[key]) < sum(t for _, t in queue.values[key]), 'the test tests something'


@test
def selection_by_device_kind_and_operation(work):
    load = workload(14)
    generate.write_merged(work.path('t'), load.events)
    truth = load.truth()
    sda, sda1, nvme = (generate.device_name(n) for n in (SDA, SDA1, NVME))
    of_sda = {sda, sda1, generate.device_name(SDA2)}
    of_nvme = {nvme, generate.device_name(NVME_P1)}
    for args, wanted in (((), lambda key: True),
                         (('-d', sda), lambda key: key[0] in of_sda),
                         (('-d', sda1), lambda key: key[0] == sda1),
                         (('-d', f'{nvme},{sda1}'), lambda key: key[0] in of_nvme | {sda1}),
                         (('-k', 'service'), lambda key: key[1] == 'service'),
                         (('-k', 'seek,queue'), lambda key: key[1] in ('seek', 'queue')),
                         (('-o', 'write,flush'), lambda key: key[2] in ('write', 'flush')),
                         (('-d', sda, '-k', 'request', '-o', 'discard'),
                          lambda key: key[0] in of_sda and key[1:] == ('request', 'discard'))):
        snapshot = show('-i', work.path('t'), *args)
        check_losses(snapshot, truth)  # which are of the whole trace
        equal(set(snapshot.hists), {key for key in truth.values if wanted(key)}, f'{args}: histograms')


@test
def a_device_of_this_machine(work):
    """Its name is that of /sys, and it can be meant by name, by number, and by its node."""
    disks = [link for link in sorted(glob.glob('/sys/dev/block/*')) if not os.path.exists(f'{link}/partition')]
    if not disks:
        raise Skip('no block device')
    major, minor = map(int, os.path.basename(disks[0]).split(':'))
    name = os.path.basename(os.readlink(disks[0])).replace('!', '/')
    device = generate.Device(generate.device_number(major, minor))
    load = generate.Workload(20, [device], CPUS, wall=WALL).tell(25)
    generate.write_merged(work.path('t'), load.events)
    truth = load.truth(names={device.number: name})
    nodes = [path for path in (f'/dev/{name}',) if os.path.exists(path)]
    for args in ((), *(('-d', wanted) for wanted in (name, f'{major}:{minor}', *nodes))):
        check(show('-i', work.path('t'), *args), truth)


@test
def several_files(work):
    """By prefix, by one of the files, several sets, and a device in each."""
    load = workload(15)
    truth = load.truth()
    of = {name: [ev for ev in load.events if ev.device == number]
          for name, number in (('sda', SDA), ('nvme0n1', NVME), ('zram0', ZRAM))}
    sets = {name: generate.write_per_cpu(work.path(name), events, CPUS) for name, events in of.items()}
    generate.write_per_cpu(work.path('sda1'), [], CPUS)  # not one of those of sda
    both = [work.path('nvme0n1'), work.path('zram0')]
    for operands in ([work.path('sda'), *both], [sets['sda'][2], *both], [*sets['sda'], *both],
                     [sets['sda'][1], work.path('sda'), *both]):
        check(show('-i', *operands), truth)
    generate.write_chunked(work.path('zram'), of['zram0'], load.rng)
    with open(work.path('zram'), 'rb') as f:
        check(show('-i', work.path('sda'), '-', both[0], stdin=f), truth)


@test
def events_in_files_of_other_cpus(work):
    """Only the record says which CPU it was; gaps and order are those of the record's."""
    load = workload(16)
    rng = random.Random(16)
    files = {(ev.device, ev.cpu): rng.randrange(CPUS) for ev in load.events}
    for cpu in range(CPUS):
        generate.write_merged(work.path(f't.blktrace.{cpu}'),
                              [ev for ev in load.events if files[ev.device, ev.cpu] == cpu])
    check(show('-i', work.path('t')), load.truth())


@test
def lost_events_are_known(work):
    """By the gaps in the numbers of each device and CPU."""
    load = workload(17)
    rng = random.Random(17)
    candidates = [ev for ev in load.events if ev.fate == 'no_request']
    last = {(ev.device, ev.cpu): ev.sequence for ev in load.events}
    dropped = {ev for ev in rng.sample(candidates, 30) if ev.sequence != last[ev.device, ev.cpu]}
    truth = load.truth([ev for ev in load.events if ev not in dropped])
    truth.losses['lost'] = len(dropped)
    assert dropped
    generate.write_merged(work.path('merged'), truth.events)
    generate.write_per_cpu(work.path('set'), truth.events, CPUS)
    for path in ('merged', 'set'):
        check(show('-i', work.path(path)), truth)


@test
def the_clock(work):
    """With the record of the wall clock its time, without it the trace's own."""
    for wall in (WALL, None):
        load = workload(18, wall=wall)
        generate.write_merged(work.path('t'), load.events)
        data = show('-i', work.path('t')).data
        shift = wall - load.begin if wall else 0
        for key, ev in (('since', load.first), ('time', load.last)):
            equal(data[key], rfc3339(ev.time + shift), f'{key} with the wall clock {wall}')


@test
def text_has_what_json_has(work):
    load = workload(19)
    generate.write_merged(work.path('t'), load.events)
    truth = load.truth()
    text = run('show', '-i', work.path('t')).stdout
    for kind, title in (('request', 'request time'), ('service', 'service time'), ('queue', 'queue time')):
        for op in OPS:
            for name in {key[0] for key in truth.values}:
                found = re.search(rf'^{re.escape(name)}  {op}  {title}.*?^ +total +(\d+) ', text, re.M | re.S)
                expected = len(truth.values.get((name, kind, op), []))
                # A histogram that is not there must not find the total of the next one.
                if found and f'{name}  {op}  {title}' not in found[0].splitlines()[0]:
                    found = None
                equal(int(found[1]) if found else 0, expected, f'{name} {kind} {op}')
    for note in show('-i', work.path('t')).data['notes']:
        equal(text.count(note), 1, note)
    for name, n in truth.losses.items():
        found = re.search(rf'^  {name} +(\d+)  ', text, re.M)
        equal(int(found[1]) if found else 0, n, name)


@test
def a_cpu_that_wakes_up_later(work):
    """
    At first all happens on one CPU. Then requests are issued on another one, whose first events stand in
    the stream behind what happened after them.
    """
    load = generate.Workload(20, [generate.Device(SDA)], cpus=1, wall=WALL, requeues=0, partials=0)
    load.tell(100, gap=None, scenes=(('plain', 1),), begun_before=False)
    ends = {ev.time for ev in load.events if ev.kind == 'C'}
    for ev in load.events:
        # What happens in one moment stays on one CPU, as that has its order.
        if ev.time > load.begin + 5 * generate.SECOND and ev.kind != 'C' and ev.time not in ends:
            ev.cpu = 1
    generate.number(load.events)
    generate.write_chunked(work.path('t'), load.events)
    with open(work.path('t'), 'rb') as f:
        check(show('-i', '-', stdin=f), load.truth())
    check(show('-i', work.path('t')), load.truth())


# --- requests that are alike ---

class Script:
    """A few events of one device and CPU, written down one by one, in microseconds."""

    def __init__(self):
        self.events = []

    def at(self, us, kind, sector, sectors, category=READ):
        category |= FS if kind in 'IDRC' else 0
        self.events.append(generate.Event(us * US, 0, kind, SDA, category, sector, sectors * 512,
                                          sequence=len(self.events) + 1))
        return self

    def write(self, path, version=8):
        generate.write_merged(path, self.events, version=version)
        return path


def times(snapshot, kind, op='read'):
    """Sum and count, in microseconds."""
    h = snapshot.get(generate.device_name(SDA), kind, op)
    return h.sum / US, h.count


@test
def alike_but_for_the_size(work):
    """Two reads from one sector, of which the one that was issued last ends first."""
    script = Script()
    script.at(10, 'Q', 64, 16).at(20, 'G', 64, 16).at(30, 'D', 64, 16)
    script.at(40, 'Q', 64, 8).at(50, 'G', 64, 8).at(60, 'D', 64, 8)
    script.at(100, 'C', 64, 8).at(1000, 'C', 64, 16)
    path = script.write(work.path('t'))
    snapshot = show('-i', path, '--time', '40us,60us,970us,990us', '--size', '4096,8192')
    name = generate.device_name(SDA)
    equal(snapshot.get(name, 'service', 'read').cells, [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0] * 5], 'service')
    equal(snapshot.get(name, 'request', 'read').cells, [[0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0] * 5], 'request')
    equal((snapshot.losses['matched'], snapshot.losses['partial'], snapshot.losses['ambiguous']), (8, 0, 0))


@test
def alike_in_all(work):
    """Which of them ended first nobody can know, but the sum of their times is sure."""
    script = Script()
    for us in (10, 20, 30):
        script.at(us, 'Q', 64, 8).at(us + 1, 'G', 64, 8).at(us + 2, 'D', 64, 8)
    script.at(100, 'C', 64, 8).at(150, 'C', 64, 8).at(400, 'C', 64, 8)
    snapshot = show('-i', script.write(work.path('t')))
    equal(times(snapshot, 'service'), (650 - 66, 3), 'service')
    equal(times(snapshot, 'request'), (650 - 60, 3), 'request')
    equal((snapshot.losses['matched'], snapshot.losses['ambiguous']), (12, 2), 'matched, ambiguous')


@test
def one_sector_read_and_written(work):
    script = Script()
    script.at(10, 'Q', 64, 8).at(11, 'Q', 64, 8, WRITE).at(12, 'G', 64, 8, WRITE).at(13, 'G', 64, 8)
    script.at(20, 'D', 64, 8, WRITE).at(25, 'D', 64, 8)
    script.at(50, 'C', 64, 8).at(90, 'C', 64, 8, WRITE)
    snapshot = show('-i', script.write(work.path('t')))
    equal((times(snapshot, 'service'), times(snapshot, 'request')), ((25, 1), (40, 1)), 'read')
    of_write = times(snapshot, 'service', 'write'), times(snapshot, 'request', 'write')
    equal(of_write, ((70, 1), (79, 1)), 'write')


@test
def appends_to_two_zones(work):
    """Where each was written to says which it was."""
    script = Script()
    append = WRITE | ZONE_APPEND
    for us, zone in ((10, 4096), (20, 8192)):
        script.at(us, 'Q', zone, 8, append).at(us + 1, 'G', zone, 8, append).at(us + 2, 'D', zone, 8, append)
    script.at(100, 'C', 8192 + 80, 8, append).at(300, 'C', 4096 + 160, 8, append)
    snapshot = show('-i', script.write(work.path('t')), '--time', '78us,288us')
    equal(snapshot.get(generate.device_name(SDA), 'service', 'write').cells[3], [1, 1, 0], 'service')
    equal(snapshot.losses['ambiguous'], 0, 'ambiguous')


@test
def empty_flushes_that_share_one(work):
    """They end in the order in which they came."""
    script = Script()
    script.at(10, 'Q', 0, 0, WRITE | SYNC | FLUSH).at(11, 'G', 0, 0, WRITE | SYNC | FLUSH)
    script.at(20, 'Q', 0, 0, WRITE | SYNC | FLUSH).at(21, 'G', 0, 0, WRITE | SYNC | FLUSH)
    script.at(30, 'D', 0, 0, READ | FLUSH).at(70, 'C', 0, 0, READ | FLUSH)
    script.at(71, 'C', 0, 0, WRITE | SYNC).at(72, 'C', 0, 0, WRITE | SYNC)
    snapshot = show('-i', script.write(work.path('t')))
    equal((times(snapshot, 'request', 'write'), times(snapshot, 'service', 'flush')), ((113, 2), (40, 1)))
    equal((snapshot.losses['unissued'], snapshot.losses['matched']), (2, 8), 'unissued, matched')


@test
def an_issue_that_was_lost(work):
    """The request is known from its beginning and its end: no service time is made up."""
    script = Script()
    script.at(10, 'Q', 64, 8).at(11, 'G', 64, 8).at(20, 'D', 64, 8).at(30, 'C', 64, 8)
    script.at(110, 'Q', 128, 8).at(111, 'G', 128, 8).at(190, 'C', 128, 8)
    snapshot = show('-i', script.write(work.path('t')))
    equal((times(snapshot, 'request'), times(snapshot, 'service')), ((100, 2), (10, 1)))
    equal((snapshot.losses['no_issue'], snapshot.losses['matched']), (1, 7), 'no_issue, matched')
    equal(snapshot.get(generate.device_name(SDA), 'request', 'read').bytes, 8192, 'bytes')


if __name__ == '__main__':
    main()
