# SPDX-License-Identifier: GPL-2.0-only
"""
Reads the records of blktrace files, all that is in them, and knows nothing of how blkhist does so. What is not
a record, or not a whole one, is an error.

Numbers and layout are those of include/uapi/linux/blktrace_api.h.
"""
import collections
import glob
import struct

# Magic number with version, sequence, time, sector, bytes, action, pid, device, CPU, error, length of what follows.
# In version 8 action and pid have changed places.
LAYOUTS = {0x65617407: struct.Struct('=IIQQIIIIIHH'), 0x65617408: struct.Struct('=IIQQIIQIIHH12x')}
VERSION_8 = 0x65617408

# By number; of what is no event but a notify too.
KINDS = {1: 'Q', 2: 'M', 3: 'F', 4: 'G', 5: 'S', 6: 'R', 7: 'D', 8: 'C', 9: 'P', 10: 'U', 11: 'T', 12: 'I', 13: 'X',
         14: 'B', 15: 'A', 16: 'abort', 17: 'drv_data', 18: 'zone plug', 19: 'zone unplug', 20: 'zone management'}
NOTIFIES = {0: 'process', 1: 'timestamp', 2: 'message'}
CGROUP = 0x100

# Categories stand 16 bits above.
CATEGORIES = dict(READ=0x1, WRITE=0x2, FLUSH=0x4, SYNC=0x8, QUEUE=0x10, REQUEUE=0x20, ISSUE=0x40, COMPLETE=0x80,
                  FS=0x100, PC=0x200, NOTIFY=0x400, AHEAD=0x800, META=0x1000, DISCARD=0x2000, DRV_DATA=0x4000,
                  FUA=0x8000)


class Record(collections.namedtuple('Record', 'sequence time sector bytes action pid device cpu error payload')):
    """With what its action says."""
    __slots__ = ()

    @property
    def category(self):
        return self.action >> 16

    def has(self, *names):
        return all(self.category & CATEGORIES[name] for name in names)

    @property
    def is_notify(self):
        return self.has('NOTIFY')

    @property
    def kind(self):
        """The letter of an event, as blkparse has it, or the name of a notify."""
        return (NOTIFIES if self.is_notify else KINDS)[self.action & 0xff]

    @property
    def op(self):
        if self.has('PC'):
            return 'passthrough'
        if self.has('DISCARD'):
            return 'discard'
        if self.has('FLUSH') and not self.has('WRITE'):
            return 'flush'
        return 'write' if self.has('WRITE') else 'read'

    def native(self, layout):
        """What follows it, in the order of this machine."""
        return struct.unpack('=' + layout, self.payload)

    def remapped_from(self):
        """Of A: number of the device, and the sector there. As the kernel has it, big-endian."""
        source, _, sector = struct.unpack('>IIQ', self.payload)
        return source, sector


def parse(data, cut=False):
    """The records of a file; the last one may be @cut off if what wrote it was killed."""
    at, records = 0, []
    while at < len(data):
        [magic] = struct.unpack_from('=I', data.ljust(at + 4, b'\0'), at)
        size = LAYOUTS[magic].size if magic in LAYOUTS else 0
        if cut and at + (size or 4) > len(data):
            break
        assert size, f'magic number of a trace record at byte {at}: {magic:#x}'
        assert at + size <= len(data), f'the record at byte {at} is cut off'
        _, sequence, ns, sector, length, action, pid, device, cpu, error, rest = LAYOUTS[magic].unpack_from(data, at)
        if magic == VERSION_8:
            action, pid = pid, action
        at += size
        payload = data[at:at + rest]
        at += rest
        if cut and at > len(data):
            break
        assert len(payload) == rest, f'what follows the record before byte {at} is cut off'
        records.append(Record(sequence, ns, sector, length, action, pid, device, cpu, error, payload))
    return records


def read(path, cut=False):
    with open(path, 'rb') as f:
        return parse(f.read(), cut)


def files(base):
    """Paths of a trace by CPU."""
    return {int(path.rsplit('.', 1)[1]): path for path in glob.glob(f'{glob.escape(base)}.blktrace.*')}


OPS = ('read', 'write', 'discard', 'flush')


class Events:
    """Those of blktrace's files, or of what it wrote into a pipe, in order of time. Notifies are no events."""

    def __init__(self, *paths):
        self.all = []
        for path in paths:
            self.all += (r for r in read(path) if not r.is_notify)
        self.all.sort(key=lambda e: e.time)

    def of(self, *kinds):
        return [e for e in self.all if e.kind in kinds]

    def counts(self, kind):
        """By operation."""
        return dict(collections.Counter(e.op for e in self.of(kind)))

    def service_times(self):
        """D to C, in ns, by operation. Holds for requests of places of their own that end in one piece."""
        issued, times = {}, {op: [] for op in OPS}
        for e in self.of('D', 'C'):
            if e.kind == 'D':
                issued[e.op, e.sector, e.bytes] = e.time
            elif (e.op, e.sector, e.bytes) in issued:
                times[e.op].append(e.time - issued.pop((e.op, e.sector, e.bytes)))
        assert not issued, f'D without C: {issued}'
        return times

    def close_issues(self, nearest):
        """Neighbours within less than @nearest ns, which another may have seen the other way round."""
        issues = [e.time for e in self.of('D') if e.op != 'flush']
        return sum(b - a < nearest for a, b in zip(issues, issues[1:]))

    def issues(self, *ops):
        return sum(e.op in ops for e in self.of('D'))
