# SPDX-License-Identifier: GPL-2.0-only
"""
blktrace files with known answers.

A Workload invents requests and knows of each what is to be known: when it was queued, issued and ended,
how large it was, where it went. From this it writes the events that the kernel records, and computes the
histograms, without ever looking for the events that belong together: that is what is being tested.

Which events there are, and what they carry, is as in blk_add_trace_*() of kernel/trace/blktrace.c and in
include/uapi/linux/blktrace_api.h, version 8 as in Linux 6.19.
"""
import bisect
import dataclasses
import math
import random
import struct

SECTOR = 512
SECOND = 10**9
MS = 10**6
US = 10**3

OPS = ('read', 'write', 'discard', 'flush')

# Categories.
READ, WRITE, FLUSH, SYNC, QUEUE, REQUEUE, ISSUE, COMPLETE = (1 << n for n in range(8))
FS, PC, NOTIFY, AHEAD, META, DISCARD, DRV_DATA, FUA, ZONE_APPEND, ZONE_RESET = (1 << n for n in range(8, 18))
NONE = 0

# The letter or name of an event: its number, and the category that it always has.
KINDS = {
    'Q': (1, QUEUE), 'M': (2, QUEUE), 'F': (3, QUEUE), 'G': (4, QUEUE), 'S': (5, QUEUE), 'R': (6, REQUEUE),
    'D': (7, ISSUE), 'C': (8, COMPLETE), 'P': (9, QUEUE), 'U': (10, QUEUE), 'T': (11, QUEUE), 'I': (12, QUEUE),
    'X': (13, NONE), 'B': (14, NONE), 'A': (15, QUEUE), 'abort': (16, QUEUE), 'drv_data': (17, DRV_DATA),
    'zone plug': (18, QUEUE), 'zone unplug': (19, QUEUE), 'zone management': (20, NONE),
    'written': (8, NONE),  # where a zone append was written to, told before its C
    'process': (0, NOTIFY), 'timestamp': (1, NOTIFY), 'message': (2, NOTIFY),
    'unknown': (99, QUEUE),
}
OF_NO_REQUEST = {'P', 'U', 'T', 'S', 'B', 'abort', 'drv_data', 'zone plug', 'zone unplug', 'zone management',
                 'written'}
CGROUP = 1 << 8
MEDIUM_ERROR = -61 & 0xffff  # -ENODATA

MAGIC = 0x65617400
RECORD = {7: 'IIQQIIIIIHH', 8: 'IIQQIIQIIHH12x'}


@dataclasses.dataclass(slots=True, eq=False)
class Event:
    time: int
    cpu: int
    kind: str
    device: int
    category: int = NONE
    sector: int = 0
    bytes: int = 0
    pid: int = 0
    error: int = 0
    cgroup: int = 0
    payload: bytes = b''
    native: tuple = ()  # a payload in the byte order of the file: format, values
    request: object = None
    fate: str = ''  # the class in which it is counted, if it is none of its request's
    sequence: int = 0

    def pack(self, version, order):
        """A record; @order is that of struct: '<' or '>'."""
        number, category = KINDS[self.kind]
        action = number | (self.category | category) << 16
        payload = struct.pack(order + self.native[0], *self.native[1:]) if self.native else self.payload
        if self.cgroup:
            action |= CGROUP
            payload = struct.pack(order + 'Q', self.cgroup) + payload
        middle = (action, self.pid) if version == 7 else (self.pid, action)
        return struct.pack(order + RECORD[version], MAGIC | version, self.sequence, self.time, self.sector,
                           self.bytes, *middle, self.device, self.cpu, self.error, len(payload)) + payload


def device_number(major, minor):
    return major << 20 | minor


# A device that lies on others.
UPPER = device_number(252, 99)


def device_name(number):
    """Of devices that this machine does not have."""
    return f'{number >> 20}:{number & 0xfffff}'


@dataclasses.dataclass(eq=False)
class Partition:
    number: int
    start: int
    sectors: int

    @property
    def name(self):
        return device_name(self.number)


@dataclasses.dataclass(eq=False)
class Device:
    number: int
    sectors: int = 1 << 20
    partitions: tuple = ()
    zones: tuple = ()  # first sectors; they end where the next one begins
    has_requests: bool = True
    busy: list = dataclasses.field(default_factory=list)  # [first, behind the last, operation, until]
    flushing_until: int = 0
    next_sector: int = 0

    @property
    def name(self):
        return device_name(self.number)

    def is_free(self, first, sectors, op, begin):
        self.busy = [b for b in self.busy if b[3] >= begin]
        return not any(first < b[1] and b[0] < first + sectors and op == b[2] for b in self.busy)


@dataclasses.dataclass(eq=False)
class Request:
    """What is to be known of it, by the events that say so."""
    device: Device
    op: str
    partition: Partition = None  # its bios were sent to
    size: int = 0
    sector: int = 0
    remapped: list = dataclasses.field(default_factory=list)
    queued: list = dataclasses.field(default_factory=list)
    got: list = dataclasses.field(default_factory=list)
    inserted: list = dataclasses.field(default_factory=list)
    issued: list = dataclasses.field(default_factory=list)
    served: Event = None  # the end of its service time
    ended: Event = None
    passthrough: bool = False
    flushes: bool = False  # a write that needs a flush before or behind it
    events: list = dataclasses.field(default_factory=list)


# --- stories: how a request comes to be and what becomes of it ---

class Story:
    """One strand of events, one behind the other."""

    def __init__(self, load, device, time):
        self.load = load
        self.rng = load.rng
        self.device = device
        self.time = time
        self.root = self
        self.latest = time
        self.cpu = self.rng.randrange(load.cpus)
        self.pid = self.rng.randrange(2, 1 << 22)
        self.cgroup = self.rng.randrange(1, 1 << 40) if self.rng.random() < 0.2 else 0

    def fork(self):
        """Goes on beside this one, from now."""
        other = object.__new__(Story)
        other.__dict__.update(self.__dict__)
        return other

    def elsewhere(self):
        """Goes on on any CPU."""
        self.cpu = self.rng.randrange(self.load.cpus)
        return self

    def wait(self, shortest, longest):
        """Log-uniform; a fiftieth of the waits takes no time at all."""
        if self.rng.random() < 0.02:
            return self
        self.time += int(math.exp(self.rng.uniform(math.log(shortest), math.log(longest))))
        return self

    def event(self, kind, request=None, sector=0, size=0, category=NONE, **rest):
        self.time = self.load.free_moment(self.time, self.cpu, self.root)
        self.root.latest = max(self.root.latest, self.time)
        ev = Event(self.time, self.cpu, kind, self.device.number, category, sector, size, self.pid,
                   cgroup=self.cgroup, request=request, **rest)
        if kind in OF_NO_REQUEST:
            ev.request, ev.fate = None, 'no_request'
        elif kind == 'unknown':
            ev.request, ev.fate = None, 'unknown'
        if ev.request:
            ev.request.events.append(ev)
        self.load.events.append(ev)
        return ev

    # --- parts of stories ---

    def bio(self, request, sector, size, category, stacked=True):
        """A bio arrives, for the request's partition or the disk itself."""
        if size and stacked and self.rng.random() < 0.05:
            # It comes from device mapper; the sector is still of the partition.
            target = request.partition.number if request.partition else self.device.number
            offset = request.partition.start if request.partition else 0
            ev = self.event('A', request, sector - offset, size, category,
                            payload=struct.pack('>IIQ', UPPER, target, 7))
            if request.partition:
                ev.request, ev.fate = None, 'stacked'
                request.events.remove(ev)
            self.wait(50, 500)
        if size and request.partition:
            request.remapped.append(self.event('A', request, sector, size, category, payload=struct.pack(
                '>IIQ', request.partition.number, self.device.number, sector - request.partition.start)))
            self.wait(50, 500)
        request.queued.append(self.event('Q', request, sector, size, category))
        return self

    def get(self, request, sector, size, category):
        self.wait(100, 5 * US)
        if self.rng.random() < 0.02:
            self.event('S', None, sector, size, category)
            self.wait(10 * US, 5 * MS)
        request.got.append(self.event('G', request, sector, size, category))
        if self.rng.random() < 0.1:
            self.wait(50, 500)
            self.event('P', category=READ)
        return self

    def insert(self, request, sector, size, category):
        if self.device.has_scheduler:
            self.wait(100, 20 * US)
            request.inserted.append(self.event('I', request, sector, size, category | FS))
        if self.rng.random() < 0.1:
            self.wait(50, 500)
            self.event(self.rng.choice('UT'), category=READ, payload=struct.pack('>Q', 1))
        return self

    def issue(self, request, sector, size, category):
        self.wait(200, 2 * MS)
        request.issued.append(self.event('D', request, sector, size, category | FS))
        return self

    def requeue(self, request, sector, size, category):
        """Also without an issue in between, if the driver does not even take it."""
        for _ in range(self.rng.choice((1, 1, 1, 2, 5))):
            self.elsewhere().wait(1 * US, 1 * MS)
            self.event('R', request, sector, size, category | FS)
        self.wait(1 * US, 5 * MS)
        self.insert(request, sector, size, category)
        return self.issue(request, sector, size, category)

    def complete(self, request, sector, size, category, error=0):
        if self.rng.random() < 0.7:
            self.elsewhere()
        self.wait(2 * US, 30 * MS)
        if self.rng.random() < 0.002:
            self.wait(2 * SECOND, 3 * SECOND)  # the driver has lost it for a while
        return self.event('C', request, sector, size, category | FS, error=error)

    def serve(self, request, sector, size, category):
        """From issue to completion, straight or not."""
        if self.rng.random() < self.load.requeues / 4:
            self.requeue(request, sector, size, category)
        else:
            self.issue(request, sector, size, category)
        behind, error = sector + size // SECTOR, 0
        while self.rng.random() < self.load.requeues:
            self.requeue(request, sector, (behind - sector) * SECTOR, category)
        while request.op != 'discard' and behind - sector > 1 and self.rng.random() < self.load.partials:
            done = self.rng.randrange(1, behind - sector)
            if self.rng.random() < 0.1:  # an error at the beginning: nothing is done, and then the rest fails
                done, error = 0, MEDIUM_ERROR
            self.complete(request, sector, done * SECTOR, category)
            sector += done
            if done and self.rng.random() < 4 * self.load.requeues:
                self.requeue(request, sector, (behind - sector) * SECTOR, category)
        end = self.complete(request, sector, (behind - sector) * SECTOR, category, error)
        request.served = request.ended = end
        return self

    def flush(self):
        """A flush of the device's cache."""
        request = Request(self.device, 'flush')
        category = READ | FLUSH
        self.elsewhere().wait(2 * US, 1 * MS)
        request.issued.append(self.event('D', request, 0, 0, category | FS))
        request.served = request.ended = self.complete(request, 0, 0, category)
        self.load.requests.append(request)
        return self


def number(events):
    """As the kernel does: by device and CPU, notifies without a number."""
    numbers = {}
    for ev in events:
        ev.sequence = 0
        if KINDS[ev.kind][1] != NOTIFY:
            ev.sequence = numbers[ev.device, ev.cpu] = numbers.get((ev.device, ev.cpu), 0) + 1


# --- the workload ---

class Workload:
    """
    @zoned: also with appends to zones, which only version 8 can tell. @unknown: with events that nobody
    knows. @requeues and @partials: how probable these are each time a request is issued. @wall: the wall
    clock at the beginning, in ns; or the trace does not say it.
    """

    def __init__(self, seed, devices, cpus=4, begin=5_000 * SECOND, zoned=False, unknown=False, wall=None,
                 requeues=0.08, partials=0.08):
        self.rng = random.Random(seed)
        self.devices = devices
        self.cpus = cpus
        self.begin = begin
        self.zoned = zoned
        self.unknown = unknown
        self.wall = wall
        self.requeues = requeues
        self.partials = partials
        self.events = []
        self.requests = []
        self.moments = {}
        for device in devices:
            device.has_scheduler = self.rng.random() < 0.5

    def free_moment(self, time, cpu, story):
        """
        Two events have the same time only if they are of one story and one CPU, whose order is known by
        their sequence; else their order would be anybody's guess.
        """
        while self.moments.setdefault(time, (cpu, story)) != (cpu, story):
            time += 1
        return time

    # --- where ---

    def place(self, story, op, sectors, partition):
        """Sectors that no other request of this operation uses meanwhile."""
        device = story.device
        first, last = 64, device.sectors
        if partition:
            first, last = partition.start, partition.start + partition.sectors
        if device.zones and not partition:
            last = device.zones[0]
        if first <= device.next_sector <= last - sectors and self.rng.random() < 0.4 and \
                device.is_free(device.next_sector, sectors, op, story.time):
            sector = device.next_sector
        else:
            while True:
                sector = first + 8 * self.rng.randrange((last - first - sectors) // 8)
                if device.is_free(sector, sectors, op, story.time):
                    break
        device.next_sector = sector + sectors
        return sector

    def hold(self, story, sector, sectors, op):
        """They are in use until the story has ended."""
        story.device.busy.append([sector, sector + sectors, op, story.root.latest])

    def any_partition(self, device):
        return self.rng.choice((None, *device.partitions))

    def any_size(self):
        return SECTOR * self.rng.choice((1, 7, 8, 8, 8, 16, 32, 64, 100))

    def any_category(self, op):
        category = {'read': READ, 'write': WRITE, 'discard': WRITE | DISCARD}[op]
        if self.rng.random() < 0.5:
            category |= SYNC
        if op == 'read' and self.rng.random() < 0.2:
            category |= AHEAD
        if self.rng.random() < 0.1:
            category |= META
        return category

    # --- what ---

    def gather(self, story, request, sector, pieces, category, extra=NONE):
        """Bios that follow each other become a request: one gets it, the others are merged at both ends."""
        initial = self.rng.randrange(len(pieces))
        low = sector + sum(pieces[:initial]) // SECTOR
        high = low + pieces[initial] // SECTOR
        story.bio(request, low, pieces[initial], category | extra)
        story.get(request, low, pieces[initial], category | extra)
        before, behind = pieces[:initial], pieces[initial + 1:]
        while before or behind:
            front = before and (not behind or self.rng.random() < 0.5)
            size = before.pop() if front else behind.pop(0)
            sector = low - size // SECTOR if front else high
            story.wait(100, 20 * US)
            story.bio(request, sector, size, category)
            story.wait(100, 2 * US)
            story.event('F' if front else 'M', request, sector, size, category)
            low, high = min(low, sector), max(high, sector + size // SECTOR)
        story.insert(request, low, (high - low) * SECTOR, category)

    def request(self, story, op, category=None, extra=NONE):
        """@extra: categories of the bio that the request lacks; it is the only one then."""
        category = self.any_category(op) if category is None else category
        request = Request(story.device, op, self.any_partition(story.device))
        pieces = [self.any_size() for _ in range(1 if extra else self.rng.choice((1, 1, 1, 2, 3, 6)))]
        request.size = sum(pieces)
        request.sector = self.place(story, op, request.size // SECTOR, request.partition)
        self.gather(story, request, request.sector, pieces, category, extra)
        self.requests.append(request)
        return request, category

    def plain(self, story, op=None):
        op = op or self.rng.choice(('read', 'read', 'read', 'write', 'write', 'discard'))
        request, category = self.request(story, op)
        self.serve(story, request, category)

    def requests_merged(self, story):
        """Two or three requests that follow each other, each of one bio or several, become one."""
        op = self.rng.choice(('read', 'write'))
        category = self.any_category(op)
        request = Request(story.device, op, self.any_partition(story.device))
        parts = [[self.any_size() for _ in range(self.rng.choice((1, 1, 2, 3)))]
                 for _ in range(self.rng.choice((2, 2, 3)))]
        request.size = sum(map(sum, parts))
        sector = request.sector = self.place(story, op, request.size // SECTOR, request.partition)
        begins = []
        for pieces in parts:
            begins.append((sector, pieces))
            sector += sum(pieces) // SECTOR
        for begin, pieces in self.rng.sample(begins, len(begins)):
            self.gather(story, request, begin, pieces, category)
        for begin, pieces in begins[1:]:
            story.wait(100, 100 * US).event('M', request, begin, sum(pieces), category | FS)
        self.requests.append(request)
        self.serve(story, request, category)

    def serve(self, story, request, category):
        story.serve(request, request.sector, request.size, category)
        self.hold(story, request.sector, request.size // SECTOR, request.op)

    def split(self, story):
        """A bio that is too large for one request."""
        op = self.rng.choice(('read', 'write', 'discard'))
        device = story.device
        category = self.any_category(op)
        partition = self.any_partition(device)
        parts = [SECTOR * 8 * self.rng.randrange(1, 9) for _ in range(self.rng.randrange(2, 5))]
        total = sum(parts)
        first = sector = self.place(story, op, total // SECTOR, partition)
        whole = Request(device, op, partition)
        story.bio(whole, first, total, category)
        for size in parts:
            request = Request(device, op, partition, size, sector, remapped=whole.remapped, queued=whole.queued)
            rest = sector + size // SECTOR
            if rest < first + total // SECTOR:
                story.wait(100, 10 * US)
                story.event('X', request, sector, size, category, payload=struct.pack('>Q', rest))
            story.get(request, sector, size, category)
            story.fork().insert(request, sector, size, category).serve(request, sector, size, category)
            self.requests.append(request)
            sector = rest
        # All parts end, so whichever of them it is counted with, it has ended.
        for ev in whole.events:
            ev.request = request
        self.hold(story, first, total // SECTOR, op)

    def empty_flush(self, story):
        """fsync without data: a write of no bytes, which waits for a flush."""
        if story.device.flushing_until >= story.time:
            return self.plain(story)
        request = Request(story.device, 'write', flushes=True)
        category = WRITE | SYNC
        story.bio(request, 0, 0, category | FLUSH)
        story.get(request, 0, 0, category | FLUSH)
        story.flush().wait(1 * US, 20 * US)
        request.ended = story.event('C', request, 0, 0, category | FS)
        self.requests.append(request)
        story.device.flushing_until = story.root.latest
        return None

    def forced_write(self, story):
        """
        With a flush before it, behind it or both, or by the device's own means. The device has a
        cache, and may know FUA.
        """
        if story.device.flushing_until >= story.time:
            return self.plain(story)
        before, behind = self.rng.choice(((True, False), (False, True), (True, True)))
        knows_fua = self.rng.random() < 0.5
        kept = FUA if behind and knows_fua else NONE
        extra = (FLUSH if before else NONE) | (FUA if behind and not knows_fua else NONE)
        request, category = self.request(story, 'write', WRITE | SYNC | kept, extra)
        if before:
            story.flush()
        story.serve(request, request.sector, request.size, category)
        if extra & FUA:
            story.flush()
        if extra:
            request.flushes = True
            story.wait(1 * US, 100 * US)
            request.ended = story.event('C', request, request.ended.sector, 0, category | FS)
        story.device.flushing_until = story.root.latest
        self.hold(story, request.sector, request.size // SECTOR, 'write')
        return None

    def passthrough(self, story):
        """A command from user space or of a driver."""
        request = Request(story.device, self.rng.choice(('read', 'write')), passthrough=True)
        category = PC | (READ if request.op == 'read' else WRITE)
        size = self.rng.choice((0, 36, 512, 4096))
        story.event('I', request, 0, size, category)
        story.wait(1 * US, 1 * MS).event('D', request, 0, size, category)
        if self.rng.random() < 0.2:
            story.wait(1 * US, 1 * MS).event('R', request, 0, size, category)
            story.wait(1 * US, 1 * MS).event('D', request, 0, size, category)
        story.elsewhere().wait(5 * US, 5 * MS).event('C', request, 0, size, category)

    def zone_append(self, story):
        """Sent to the beginning of a zone, and written wherever that is full up to."""
        device = story.device
        if not self.zoned or not device.zones:
            return self.plain(story)
        if not device.is_free(device.zones[0], 1, 'append', story.time):
            return self.plain(story)  # one at a time
        zone = self.rng.choice(device.zones)
        request = Request(device, 'write', None, self.any_size(), zone)
        category = WRITE | ZONE_APPEND
        story.bio(request, zone, request.size, category, stacked=False)
        story.event('zone plug', None, zone, 0)
        story.get(request, zone, request.size, category)
        story.event('zone unplug', None, zone, 0)
        story.insert(request, zone, request.size, category)
        story.issue(request, zone, request.size, category)
        written = zone + self.rng.randrange(0, 1000)
        story.elsewhere().wait(2 * US, 10 * MS).event('written', None, written, request.size, category | FS)
        request.served = request.ended = story.event('C', request, written, request.size, category | FS)
        self.requests.append(request)
        self.hold(story, device.zones[0], 1, 'append')
        return None

    def zone_reset(self, story):
        """A write of no bytes that does go to the device."""
        device = story.device
        zone = self.rng.choice(device.zones or (64,))
        if not device.zones or not device.is_free(zone, 1, 'write', story.time):
            return self.plain(story)
        request = Request(device, 'write', None, 0, zone)
        category = WRITE
        if self.zoned:
            category |= ZONE_RESET
            story.event('zone management', None, zone, 4096 * SECTOR, category)
        story.bio(request, zone, 0, category).get(request, zone, 0, category).insert(request, zone, 0, category)
        story.issue(request, zone, 0, category)
        request.served = request.ended = story.complete(request, zone, 0, category)
        self.requests.append(request)
        self.hold(story, zone, 1, 'write')
        return None

    def noise(self, story):
        """What is of no request."""
        what = self.rng.choice(('process', 'message', 'unknown', 'abort', 'drv_data', 'B'))
        if what == 'process':
            story.cgroup = 0
            story.event(what, payload=b'a process'.ljust(16, b'\0'), fate='notify')
        elif what == 'message':
            story.event(what, payload=b'fio throttle' * self.rng.randrange(1, 10), fate='notify')
        elif what == 'unknown' and not self.unknown:
            story.event('abort', None, 8, 4096, READ)
        else:
            story.event(what, None, 8, 4096, READ, payload=b'12345678' if what == 'drv_data' else b'')

    def bio_alone(self, story):
        """On a device without requests a bio is queued and ends."""
        op = self.rng.choice(('read', 'write'))
        category = self.any_category(op)
        partition = self.any_partition(story.device)
        request = Request(story.device, op, partition, self.any_size())
        sector = request.sector = self.place(story, op, request.size // SECTOR, partition)
        story.bio(request, sector, request.size, category)
        story.elsewhere().wait(1 * US, 5 * MS)
        request.ended = story.event('C', request, sector, request.size, category)
        self.requests.append(request)
        self.hold(story, sector, request.size // SECTOR, op)

    # --- all together ---

    SCENES = (('plain', 60), ('requests_merged', 8), ('split', 5), ('empty_flush', 6), ('forced_write', 8),
              ('passthrough', 4), ('zone_append', 6), ('zone_reset', 1), ('noise', 4))

    def tell(self, n, seconds=10, gap=(4.2, 6.9), scenes=None, begun_before=True):
        """
        @n stories for each device, in bursts over that many seconds; nothing begins in the @gap. With
        @begun_before the first requests began before the trace, and the last ones do not end in it.
        """
        end = self.begin + int(seconds * SECOND)
        names, weights = zip(*(scenes or self.SCENES))
        for device in self.devices:
            if begun_before and device.has_requests:
                self.begun_before(device)
        times = []
        for device in self.devices:
            for _ in range(max(1, n // 25)):
                burst = self.rng.uniform(0.01, seconds)
                while gap and gap[0] <= burst <= gap[1]:
                    burst = self.rng.uniform(0.01, seconds)
                times += [(self.begin + int((burst + self.rng.expovariate(400)) * SECOND), device)
                          for _ in range(25)]
        for time, device in sorted(times, key=lambda t: t[0]):
            story = Story(self, device, time)
            if device.has_requests:
                getattr(self, self.rng.choices(names, weights)[0])(story)
            else:
                self.bio_alone(story)
        for device in self.devices:
            if begun_before:
                self.cut_off(device, end)
            if self.wall is not None:
                ev = self.event_at(device, self.begin, 'timestamp', fate='notify')
                ev.native = ('II', *divmod(self.wall + ev.time - self.begin, SECOND))
        self.events.sort(key=lambda ev: ev.time)  # stable: events of one moment stay in their order
        number(self.events)
        return self

    def event_at(self, device, time, kind, request=None, sector=0, size=0, category=NONE, **rest):
        story = Story(self, device, time)
        story.cgroup = 0
        return story.event(kind, request, sector, size, category, **rest)

    def begun_before(self, device):
        """Of these the trace has only the end. Each is in sectors that no story uses."""
        time = self.begin + 1 * US
        for n, kinds in enumerate(('C', 'DC', 'RDC', 'IDC', 'GDC', 'GIDC', 'RC', 'DRDC')):
            if 'R' in kinds and not self.requeues:
                continue
            sector = 8 + 4 * n
            request = Request(device, 'read', size=2 * SECTOR, sector=sector)
            for i, kind in enumerate(kinds):
                time += self.rng.randrange(1, 50 * US)
                category = READ if kind == 'G' else READ | FS
                known = not (kinds[:i + 1] in ('C', 'R', 'RC'))
                fate = {'C': 'unmatched_complete', 'R': 'unmatched_requeue'}[kind] if not known else ''
                ev = self.event_at(device, time, kind, request if known else None, sector, request.size,
                                   category, fate=fate)
                {'D': request.issued, 'I': request.inserted, 'G': request.got}.get(kind, []).append(ev)
                if kind == 'C' and known:
                    request.served = request.ended = ev
            if request.ended:
                self.requests.append(request)

    def cut_off(self, device, time):
        """Of these the trace has no end."""
        for n, kinds in enumerate(('Q', 'QG', 'QGI', 'QGID', 'QGDR', 'QGM', 'AQG', 'D')):
            sector = 8 + 4 * n
            if (not device.has_requests and kinds != 'Q') or ('R' in kinds and not self.requeues):
                continue
            request = Request(device, 'write', size=2 * SECTOR, sector=sector)
            for kind in kinds:
                time += self.rng.randrange(1, 50 * US)
                payload = b''
                if kind == 'A':
                    payload = struct.pack('>IIQ', UPPER, device.number, 7)
                at = sector + 2 if kind == 'M' else sector
                ev = self.event_at(device, time, kind, request, at, request.size,
                                   WRITE | (FS if kind in 'IDR' else NONE), payload=payload)
                {'D': request.issued, 'Q': request.queued}.get(kind, []).append(ev)
            self.requests.append(request)

    # --- what is to be known ---

    @property
    def first(self):
        """The first event that is of some I/O."""
        return next(ev for ev in self.events if KINDS[ev.kind][1] != NOTIFY)

    @property
    def last(self):
        return next(ev for ev in reversed(self.events) if KINDS[ev.kind][1] != NOTIFY)

    def truth(self, events=None, **options):
        """If the trace has all events, or just these."""
        return Truth(self, self.events if events is None else events, **options)

    def masked(self, mask):
        """What the kernel would have recorded with this mask (-a and -A of blktrace). Numbers it anew."""
        return self.only(lambda ev: (KINDS[ev.kind][1] | ev.category) & (mask | NOTIFY))

    def only(self, kept):
        events = [ev for ev in self.events if kept(ev)]
        number(events)
        return events


class Truth:
    """The answers, if the trace has these events."""

    def __init__(self, load, events, start='queue', tables=None, names=None, ignored=()):
        """
        @tables: partitions by device number, as (name, first sector, sectors). @names: of devices and
        partitions by number, where they are not those of /sys. @ignored: numbers of devices.
        """
        self.load = load
        self.start = start
        self.names = names or {}
        self.tables = tables or {}
        self.ignored = set(ignored)
        self.events = events
        self.there = set(events)
        self.values = {}  # (name, kind, op): [(size, value)]
        self.bytes = {}   # (name, op): bytes
        self.ends = []    # (time, name, op, bytes, time of the service's end or None) of each that ended
        self.with_issues = {ev.device for ev in events if ev.kind == 'D'}
        self.losses = dict.fromkeys(
            ('matched', 'unfinished', 'unmatched_complete', 'unmatched_requeue', 'notify', 'no_request',
             'passthrough', 'stacked', 'ignored', 'unknown', 'unmatched_issue', 'lost', 'late', 'negative',
             'no_start', 'no_issue', 'unissued', 'ambiguous', 'requeued', 'partial', 'split'), 0)
        self.losses['events'] = len(events)
        self._seeks()
        for request in load.requests:
            if request.device.number not in self.ignored:
                self._request(request)
        for ev in events:
            self.losses[self._class(ev)] += 1

    def name(self, device):
        return self.names.get(device.number, device.name)

    def _present(self, events):
        return [ev for ev in events if ev in self.there]

    def _known(self, request, ev):
        """Whether there is anything before this end, or requeue, that tells what it is of."""
        before = request.queued + request.events[:request.events.index(ev)]
        return any(e.kind not in 'CR' for e in self._present(before))

    def _end(self, request):
        """
        The event that ends it. That something comes behind the end of a forced write can only be known from
        its bio: without that it ends with its data, and an empty flush is nothing.
        """
        end = request.ended
        if request.flushes and not self._present(request.queued + request.got):
            end = request.served
        return end if end in self.there and self._known(request, end) else None

    def _class(self, ev):
        if ev.device in self.ignored and KINDS[ev.kind][1] != NOTIFY:
            return 'ignored'
        if ev.fate:
            return ev.fate
        if ev.request.passthrough:
            return 'passthrough'
        end = self._end(ev.request)
        if ev.kind == 'R' and not self._known(ev.request, ev):
            return 'unmatched_requeue'
        if ev.kind == 'C' and (not self._known(ev.request, ev) or (ev is ev.request.ended and ev is not end)):
            return 'unmatched_complete'
        return 'matched' if end else 'unfinished'

    @staticmethod
    def _arrivals(request):
        """The events by whose order distances are measured."""
        return request.issued if request.device.has_requests else request.queued

    def _seeks(self):
        """By the order of issues of each device, or of bios if it has no requests."""
        self.seek = {}  # event: distance
        heads = {}
        arrivals = {ev for request in self.load.requests if request.op != 'flush'
                    for ev in self._arrivals(request)}
        for ev in self.events:
            if ev in arrivals:
                self.seek[ev] = ev.sector - heads[ev.device] if ev.device in heads else None
                heads[ev.device] = ev.sector + ev.bytes // SECTOR

    def _begin(self, request):
        kinds = {'queue': (request.queued, request.got, request.inserted),
                 'get': (request.got, request.queued, request.inserted)}[self.start]
        for events in kinds:
            if self._present(events):
                return min(ev.time for ev in self._present(events))
        return None

    def _names(self, request):
        """The disk, and the partition if there is one."""
        names = [self.name(request.device)]
        if self._present(request.remapped):
            names.append(self.name(request.partition))
        elif request.size:
            names += [name for name, first, n in self.tables.get(request.device.number, ())
                      if first <= request.sector < first + n]
        return names

    def _request(self, request):
        issued = self._present(request.issued)
        arrivals = self._present(self._arrivals(request)) if request.op != 'flush' else []
        end = self._end(request)
        for ev in self._present(request.events):
            self.losses['split'] += ev.kind == 'X'
            if ev.kind in 'CR' and self._known(request, ev):
                self.losses['requeued'] += ev.kind == 'R'
                self.losses['partial'] += ev.kind == 'C' and ev not in (request.served, request.ended)
        if not end:
            last = [ev.kind for ev in self._present(request.events) if ev.kind in 'DR'][-1:]
            self.losses['unmatched_issue'] += last == ['D']
            return
        begin = self._begin(request)
        values = {}
        if begin is not None:
            values['request'] = end.time - begin
        if issued and request.served in self.there:
            values['service'] = request.served.time - issued[-1].time
            if begin is not None:
                values['queue'] = issued[-1].time - begin
        self.losses['no_start'] += begin is None  # as flushes, which have no bio
        self.losses['unissued'] += request.flushes and not request.size
        if not issued and request.size:
            self.losses['no_issue'] += request.device.number in self.with_issues
        names = self._names(request)
        for name in names:
            for kind, value in values.items():
                self.values.setdefault((name, kind, request.op), []).append((request.size, value))
            if arrivals and self.seek[arrivals[-1]] is not None:
                self.values.setdefault((name, 'seek', 'all'), []).append((0, self.seek[arrivals[-1]]))
            self.bytes[name, request.op] = self.bytes.get((name, request.op), 0) + request.size
            self.ends.append((end.time, name, request.op, request.size,
                              request.served.time if request.served and issued else None))


def cells(values, bounds, size_bounds):
    """What a histogram with these bounds has: counts by row and column, and the sum of each row."""
    counts = [[0] * (len(bounds) + 1) for _ in range(len(size_bounds) + 1)]
    sums = [0] * (len(size_bounds) + 1)
    for size, value in values:
        row = bisect.bisect_left(size_bounds, size)
        counts[row][bisect.bisect_left(bounds, value)] += 1
        sums[row] += value
    return counts, sums


# --- files ---

def write_merged(path, events, version=7, order='<'):
    """One file in the order of time, as blkparse -d writes it."""
    with open(path, 'wb') as f:
        f.write(b''.join(ev.pack(version, order) for ev in events))


def write_chunked(path, events, rng=None, version=7, order='<', chunk=SECOND // 2):
    """
    One stream as blktrace -o - writes it: now and then all that a CPU has, and then the next CPU's; in their
    order, or in any with @rng.
    """
    begin = events[0].time
    pieces = {}
    for ev in events:
        pieces.setdefault((ev.time - begin) // chunk, {}).setdefault((ev.device, ev.cpu), []).append(ev)
    with open(path, 'wb') as f:
        for _, rows in sorted(pieces.items()):
            for row in rng.sample(sorted(rows), len(rows)) if rng else sorted(rows):
                f.write(b''.join(ev.pack(version, order) for ev in rows[row]))


def write_per_cpu(prefix, events, cpus, version=7, order='<'):
    """A file for each CPU, also for those that have seen nothing. Returns their paths."""
    paths = [f'{prefix}.blktrace.{cpu}' for cpu in range(cpus)]
    for cpu, path in enumerate(paths):
        with open(path, 'wb') as f:
            f.write(b''.join(ev.pack(version, order) for ev in events if ev.cpu == cpu))
    return paths


def sfdisk_dump(device, entries):
    """As `sfdisk -d` prints it: [(name, first sector, sectors)]."""
    lines = ['label: dos', 'label-id: 0x1b2c3d4e', f'device: /dev/{device}', 'unit: sectors',
             'sector-size: 512', '']
    lines += [f'/dev/{name} : start={first:12}, size={n:12}, type=83' for name, first, n in entries]
    return '\n'.join(lines) + '\n'
