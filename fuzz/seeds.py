# SPDX-License-Identifier: GPL-2.0-only
"""Makes the corpus that fuzzing begins with, fuzz/corpus: python3 fuzz/seeds.py. What fuzzing has
found since is committed beside it, and stays.

Traces are the first records of a real one, as they are, in the other forms that there are, and
damaged; scripts are what the block layer does with requests, in the form that trace.c reads.
"""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLE = HERE + '/../tests/traces/data/nvme-reads.blktrace.0'

# Of trace.c: how an input is read.
GET, SET, PARTITIONS, PIPE, STEPS, SCRIPT, V8, BIG = (1 << i for i in range(8))
HALF, BEGINNING = 128, 8  # cut in the middle, or behind a few bytes

V7_RECORD = 'IIQQIIIIIHH'  # magic, sequence, time, sector, bytes, action, pid, device, cpu, error, pdu_len
V8_RECORD = 'IIQQIIQIIHH12x'  # pid before action
MAGIC = 0x65617400
NOTIFY = 0x04000000
EVENTS = dict(zip('QMFGSRDCPUTIXBA', range(1, 16)))


def records(n):
    """The first ones of the sample: fields and payload."""
    with open(SAMPLE, 'rb') as sample:
        data = sample.read(n * 80)
    at = 0
    for _ in range(n):
        fields = list(struct.unpack_from('<' + V7_RECORD, data, at))
        end = at + 48 + fields[-1]
        yield fields, data[at + 48:end]
        at = end


def encode(fields, pdu, version=7, order='<'):
    magic, *rest = fields
    if version == 8:
        rest[4], rest[5] = rest[5], rest[4]
    return struct.pack(order + (V8_RECORD if version == 8 else V7_RECORD), magic & ~0xff | version, *rest) + pdu


def trace(n=16, change=None, version=7, order='<'):
    """@change gets the number of a record and its fields; False leaves it out."""
    out = []
    for i, (fields, pdu) in enumerate(records(n)):
        if not change or change(i, fields) is not False:
            out.append(encode(fields, pdu, version, order))
    return out


def changed(index, field, value):
    """Of one record."""
    def change(i, fields):
        if i == index:
            fields[field] = value
    return change


def timestamp(seconds):
    return encode([MAGIC, 0, 0, 0, 0, NOTIFY | 1, 0, 259 << 20, 0, 0, 8], struct.pack('<II', seconds, 5))


def message(text):
    return encode([MAGIC, 0, 0, 0, 0, NOTIFY | 2, 0, 259 << 20, 0, 0, len(text)], text)


def mid_flight(i, _):
    return i >= 5


def other_cpus(i, fields):
    fields[8] = i % 4


def restart(i, fields):
    if i > 8:
        fields[1] = i - 8


def traces():
    yield 'v7', STEPS, trace()
    yield 'v7-big-endian', STEPS, trace(order='>')
    yield 'v8', STEPS, trace(version=8)
    yield 'v8-big-endian', STEPS, trace(version=8, order='>')
    yield 'get', GET, trace()
    yield 'set', SET | STEPS, trace(24)
    yield 'pipe', PIPE, trace(24)
    yield 'pipe-with-damage', PIPE, [b'\f' * 16, b'\0' * 48, *trace(8)]
    yield 'pipe-stopped', PIPE | SET, trace(24)
    yield 'pipe-and-file', PIPE | STEPS, trace(24)
    yield 'partitions', PARTITIONS, trace()
    yield 'timestamp', 0, [timestamp(1790000000), *trace(8)]
    yield 'message', 0, [message(b'cgroup 1'), *trace(8)]
    yield 'two-versions', 0, [*trace(8), *trace(8, version=8)]
    yield 'four-cpus', STEPS, trace(24, other_cpus)
    yield 'starts-in-mid-flight', 0, trace(16, mid_flight)
    yield 'ends-in-mid-flight', 0, trace(13)
    yield 'sequence-restarts', 0, trace(16, restart)
    yield 'sequence-gap', 0, trace(16, changed(9, 1, 4000))
    yield 'time-backwards', STEPS, trace(16, changed(9, 2, 175669814000000))
    yield 'time-huge', STEPS, trace(16, changed(7, 2, 2**64 - 1))
    yield 'sector-huge', PARTITIONS, trace(16, changed(5, 3, 2**64 - 1))
    yield 'bytes-huge', 0, trace(16, changed(5, 4, 2**32 - 1))
    yield 'unknown-event', 0, trace(16, changed(4, 5, 0x110063))
    yield 'bad-magic', 0, trace(16, changed(4, 0, 0x12345600))
    yield 'bad-payload', 0, trace(16, changed(4, 10, 65535))
    yield 'truncated-record', 0, [b''.join(trace())[:-20]]
    yield 'truncated-payload', 0, [b''.join(trace(9))[:-8]]
    yield 'empty', 0, []
    yield 'one-empty-of-a-set', SET, []
    yield 'text', 0, [b'259,0    1        2     0.000000184 21279  Q  RA 2348060440 + 8 [(null)]\n'] * 3


READ, WRITE, FLUSH, SYNC, PC, AHEAD, DISCARD, FUA = (1 << i for i in range(8))


def event(name, category=READ, sector=2, blocks=1, cpu=0, after=10, error=False, extra=0, device=0):
    """@sector in 2 KiB, @blocks likewise; @after is 100 ns times so much."""
    kind = EVENTS[name] if isinstance(name, str) else name
    blocks |= (0 if error else 0x40) | cpu << 7
    return bytes((kind, category, sector | device << 6, blocks, after, extra))


def events(names, **options):
    return [event(name, **options) for name in names]


def scripts():
    yield 'read', events('AQGPIUDC', extra=3)
    yield 'merge', [*events('QG', sector=0), *events('QM', sector=1), *events('DC', sector=0, blocks=2)]
    yield 'front-merge', [*events('QG', sector=1), *events('QF', sector=0), *events('DC', sector=0, blocks=2)]
    yield 'merged-requests', [*events('QG', sector=0), *events('QG', sector=2), *events('QM', sector=1),
                              *events('M', sector=2), *events('DC', sector=0, blocks=3)]
    yield 'partial', [*events('QGD', blocks=4), event('C', blocks=1), event('C', sector=3, blocks=3)]
    yield 'requeue', events('QGIDRIDC')
    yield 'requeue-twice', events('QGDRDRDC', category=WRITE)
    yield 'split', [event('Q', blocks=4), event('X', blocks=2), *events('GDC', blocks=2),
                    *events('QGDC', sector=4, blocks=2)]
    yield 'two-alike', events('QQGGDDCC')
    yield 'two-cpus', [event(n, cpu=c) for n, c in zip('QGDQGDCC', (0, 0, 0, 1, 1, 1, 1, 0))]
    yield 'discard', events('QGDC', category=WRITE | DISCARD, blocks=8)
    yield 'passthrough', [event(n, category=PC) for n in 'GIDC'] + events('QGDC')
    flush = events('DC', category=FLUSH, sector=0, blocks=0)
    end = events('C', category=WRITE, blocks=0)
    yield 'flush', [*events('QG', category=WRITE | FLUSH, blocks=0), *flush, *end]
    yield 'flush-and-fua', [*events('QG', category=WRITE | FLUSH | FUA), *flush, *events('DC', category=WRITE),
                            *flush, *end]
    yield 'no-issue', events('QGC') + events('QGDC', sector=9)
    yield 'issue-only', events('DC')
    yield 'bios', events('QC') + events('QXC', sector=5)
    yield 'ignored', events('QGDC', device=1) + events('QGDC')
    yield 'stacked', events('AQGDC', extra=0) + events('AQGDC', extra=2, device=1)
    yield 'earlier', [event('Q'), event('G', after=0xf4), event('D', after=0xff), event('C')]
    yield 'later', [event(n, after=a) for n, a in zip('QGDC', (0xed, 0xe9, 0xea, 0xe8))]
    yield 'lost', [bytes((EVENTS[n] | 0xc0, READ, 2, 0x41, 10, 0)) for n in 'QGDC']
    yield 'zone-append', [bytes((EVENTS[n] | 0x80, WRITE, s, 0x41, 10, 0)) for s in (2, 3) for n in 'QGDC']
    yield 'without-category', [bytes((EVENTS[n] | 0x40, READ, 2, 0x41, 10, 0)) for n in 'QGDC']
    yield 'cgroup', [bytes((EVENTS[n] | 0x20, READ, 2, 0x41, 10, 3)) for n in 'AQGDC']
    yield 'odd-ones', [event(n) for n in (*range(14, 32), 0, 0, 0)]
    yield 'failed', events('QGDC', error=True)
    yield 'two-disks-of-a-set', events('QGDC') + events('QGDC', device=3)
    yield 'partitions', [e for s in (0, 10, 31, 47, 60) for e in events('QGDC', sector=s)]


DUMP = '''label: gpt
label-id: 6D0D2B9B-0000-4A5F-8F0D-000000000000
device: /dev/sdb
unit: sectors
first-lba: 34
last-lba: 2097118
sector-size: 512

/dev/sdb1 : start=        2048, size=     1024000, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, uuid=1, name="a"
/dev/sdb2 : start=     1026048, size=     1071071, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, uuid=2
'''

DOS_DUMP = '''label: dos
label-id: 0x12345678
device: /dev/sdb
unit: sectors

/dev/sdb1 : start=        2048, size=        8192, type=83, bootable
/dev/sdb2 : start=       10240, size=      100000, type=5
/dev/sdb5 : start=       12288, size=       20480, type=83
/dev/sdb6 : start=       34816, size=       20480, type=82
'''


def dumps():
    yield 'gpt', DUMP
    yield 'dos', DOS_DUMP
    yield 'two-disks', DUMP + '\n' + DOS_DUMP.replace('sdb', 'nvme0n1p')
    yield '4k-sectors', DUMP.replace('sector-size: 512', 'sector-size: 4096')
    yield 'overlap', DUMP.replace('1026048', '1026047')
    yield 'twice', DOS_DUMP.replace('sdb6', 'sdb5')
    yield 'disk-twice', DUMP + DUMP
    yield 'huge', DUMP.replace('1071071', '18446744073709551615')
    yield 'end-huge', DUMP.replace('1026048', '18014398509481983')
    yield 'no-size', DUMP.replace('size=     1024000, ', '')
    yield 'negative', DUMP.replace('2048', '-1')
    yield 'no-end-of-line', DUMP[:-1]
    yield 'carriage-returns', DUMP.replace('\n', '\r\n')
    yield 'no-label', DUMP.split('\n', 1)[1]
    yield 'long-name', DUMP.replace('sdb1', 's' * 100)
    yield 'by-path', DUMP.replace('/dev/sdb', '/dev/disk/by-path/pci-0000:00:1f.2-ata-1-part')
    yield 'nul', DUMP.replace('gpt', '\0')
    yield 'empty', ''
    yield 'no-dump', 'NAME MAJ:MIN RM SIZE RO TYPE MOUNTPOINTS\n'


def write(target, name, data):
    directory = f'{HERE}/corpus/{target}'
    os.makedirs(directory, exist_ok=True)
    with open(f'{directory}/{name}', 'wb') as file:
        file.write(data)


def main():
    for name, how, parts in traces():
        cut = BEGINNING if name == 'pipe-with-damage' else HALF
        write('trace', name, bytes((how, cut)) + b''.join(parts))
    # Each is read in one way; the others are for chance to find.
    fixed = {'zone-append': V8 | STEPS, 'two-disks-of-a-set': SET | PARTITIONS}
    for i, (name, parts) in enumerate(scripts()):
        how = SCRIPT | fixed.get(name, (STEPS, PIPE, SET | STEPS, GET | V8, PARTITIONS | BIG)[i % 5])
        write('trace', 'script-' + name, bytes((how, HALF)) + b''.join(parts))
    for name, text in dumps():
        write('partitions', name, text.encode())


main()
