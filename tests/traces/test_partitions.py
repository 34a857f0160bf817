#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Partitions of a trace: from what the events say of them, else from a table."""
import generate
from lib import equal
from traces import SDA, SDA1, SDA2, check, main, notes, refused, run, show, test, workload

OF_SDA = [('sda1', 2048, 40000), ('sda2', 65536, 200000)]
OF_NVME = [('nvme0n1p1', 4096, 100000)]
NAMES = {SDA: 'sda', SDA1: 'sda1', SDA2: 'sda2'}  # as the tables have them


def traced(work, load, keep_remaps, *options):
    events = load.events if keep_remaps else load.only(lambda ev: ev.kind != 'A')
    generate.write_merged(work.path('t'), events)
    return events, show('-i', work.path('t'), *options)


def one_disk(seed):
    """A workload of what the dump is of."""
    load = workload(seed)
    load.events = [ev for ev in load.events if ev.device == SDA]
    return load


@test
def from_remaps(work):
    load = workload(41)
    events, snapshot = traced(work, load, True)
    check(snapshot, load.truth(events))
    assert generate.device_name(SDA2) in snapshot.names()


@test
def from_a_table(work):
    """By the sector, where no event says it; a request that was sent to the disk itself, too."""
    dump = work.file('dump', generate.sfdisk_dump('sda', OF_SDA))
    load = one_disk(42)
    for keep_remaps in (True, False):
        events, snapshot = traced(work, load, keep_remaps, '--partitions', dump)
        check(snapshot, load.truth(events, tables={SDA: OF_SDA}, names=NAMES))
        equal(snapshot.names(), set(NAMES.values()), 'names')


@test
def from_one_of_several_tables(work):
    """One file may have those of several disks; the name of the trace says which is whose."""
    tables = (('nvme0n1', OF_NVME), ('sda', OF_SDA), ('sdb', [('sdb1', 2048, 1 << 19)]))
    dump = work.file('dump', '\n'.join(generate.sfdisk_dump(*table) for table in tables))
    load = one_disk(43)
    generate.write_per_cpu(work.path('sda'), load.events, 4)
    truth = load.truth(load.events, tables={SDA: OF_SDA}, names=NAMES)
    check(show('-i', work.path('sda'), '--partitions', dump), truth)


@test
def of_another_disk(work):
    """A table of other disks gives no partitions to this one, and a note says so."""
    dump = work.file('dump', generate.sfdisk_dump('sdx', [('sdx1', 2048, 1 << 19)]) +
                     generate.sfdisk_dump('sdy', [('sdy1', 2048, 1 << 19)]))
    load = one_disk(44)
    events, snapshot = traced(work, load, False, '--partitions', dump)
    check(snapshot, load.truth(events))
    assert "table of 'sdx' is of no device" in notes(snapshot), notes(snapshot)


@test
def sectors_of_4096_bytes(work):
    """The dump counts in the disk's own sectors, the trace in those of 512 bytes."""
    text = generate.sfdisk_dump('sda', [(name, first // 8, sectors // 8) for name, first, sectors in OF_SDA])
    dump = work.file('dump', text.replace('sector-size: 512', 'sector-size: 4096'))
    load = one_disk(45)
    events, snapshot = traced(work, load, False, '--partitions', dump)
    check(snapshot, load.truth(events, tables={SDA: OF_SDA}, names=NAMES))


@test
def a_table_with_more_in_it(work):
    """Of a GUID partition table, with names and types, and an extended partition with logical ones."""
    dump = work.file('dump', """label: gpt
label-id: 7D2F0C0B-8E5B-4A57-9D3F-4F6B9C3D2E1F
device: /dev/sda
unit: sectors
first-lba: 34
last-lba: 1048542
sector-size: 512

/dev/sda1 : start=        2048, size=       40000, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, \
uuid=5B0E1C5A-4F1D-4A6B-9C3D-2E1F7D2F0C0B, name="root, the first", attrs="LegacyBIOSBootable"
/dev/sda2 : start=       65536, size=      200000, type=5
/dev/sda5 : start=       67584, size=      100000, type=83, bootable
""")
    table = [('sda1', 2048, 40000), ('sda5', 67584, 100000)]
    load = one_disk(46)
    events, snapshot = traced(work, load, False, '--partitions', dump)
    check(snapshot, load.truth(events, tables={SDA: table}, names=NAMES))


@test
def wrong_tables(work):
    """Each is refused in a sentence that names the file, and the line if there is one."""
    load = workload(47, n=25)
    generate.write_merged(work.path('t'), load.events)
    good = generate.sfdisk_dump('sda', OF_SDA)
    for text, words in (('', ['sfdisk -d']),
                        ('hello\n', ['line 1', 'hello']),
                        (good.replace('size=       40000, ', ''), ['line 7', 'size']),
                        (good.replace('start=        2048', 'start=x2048'), ['line 7', 'x2048']),
                        (good.replace('40000', '99999999999999999999'), ['line 7', '99999999999999999999']),
                        (good.replace('40000', '90000'), ['sda1', 'sda2', 'overlap']),
                        (good.replace('sector-size: 512', 'sector-size: 17'), ['line 5', '17']),
                        (good + '\0', ['text']),
                        ('#' * (2 << 20), ['larger'])):
        path = work.file('dump', text)
        refused('show', '-i', work.path('t'), '--partitions', path, words=[path, *words])
    for path in (work.path('none'), work.directory):
        refused('show', '-i', work.path('t'), '--partitions', path, words=[path])


@test
def partitions_in_text_and_watch(work):
    dump = work.file('dump', generate.sfdisk_dump('sda', OF_SDA))
    load = one_disk(48)
    generate.write_merged(work.path('t'), load.events)
    for command in ('show', 'watch'):
        for options in (('-p',) if command == 'watch' else (),):
            out = run(command, '-i', work.path('t'), '--partitions', dump, *options).stdout
            assert 'sda1 ' in out and 'sda2 ' in out, out[:2000]
    assert 'sda1 ' not in run('watch', '-i', work.path('t'), '--partitions', dump).stdout, 'not asked for'


if __name__ == '__main__':
    main()
