# SPDX-License-Identifier: GPL-2.0-only
"""blktrace itself, and what is done to disks under it."""
import contextlib
import ctypes
import fcntl
import functools
import glob
import mmap
import os
import signal
import struct
import subprocess
import time

import comparison
from comparison import MS, RELEASE, US
from lib import KIB, MIB, equal, scratch, write_file
from machine import (BLKTRACESTART, BLKTRACESTOP, BLKTRACETEARDOWN, BUFFER_SIZE, BUFFERS, DEBUGFS, Device, SCSI_DEBUG,
                     collect, in_parallel, null_blk, nvme_namespace, scsi_debug, shared, wait_for)

# From 6.19 on version 7 of the record, which blktrace 1.2 asks for, lacks every event whose category has
# FUA, or is of write-zeroes or a zone: __blk_add_trace() takes what is above BLK_TC_END_V1, which is the bit
# of FUA, for something that this version cannot express. They get no sequence number, so nothing tells.
LACKS_FORCED = RELEASE >= (6, 19)


# --- blktrace ---

POLL, FUTEX = '7', '202'


class Blktrace:
    """The program, tracing a disk while in `with`: into files, or into @stdout."""

    def __init__(self, env, device, *actions, stdout=None):
        self.device = device
        self.directory = scratch(env)
        self.path = f'{self.directory}/t'
        self._command = ['blktrace', '-d', device.path, '-D', self.directory, '-o', '-' if stdout else 't',
                         *(f'--act-mask={a}' for a in actions)]
        self._stdout = stdout or subprocess.PIPE
        self.process = None
        self._env = env

    def _calls(self):
        """The system calls that its threads are in, that of the first one first."""
        assert self.process.poll() is None, f'blktrace: {self.process.communicate()}'
        calls = []
        for thread in sorted(os.listdir(f'/proc/{self.process.pid}/task'), key=int):
            with open(f'/proc/{self.process.pid}/task/{thread}/syscall', encoding='ascii') as f:
                calls.append(f.read().split()[0])
        return calls

    def _tracing(self):
        """
        It says nothing when it has begun, and writes nothing before a buffer is full. But a thread for each
        CPU waits for data, when it has been let go, and then the first thread starts the trace and waits.
        """
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return os.path.exists(f'{DEBUGFS}/block/{self.device.name}/dropped') and \
                self._calls() == [FUTEX] + [POLL] * os.cpu_count()
        return False

    def __enter__(self):
        self.process = subprocess.Popen(self._command, stdout=self._stdout, stderr=subprocess.PIPE, text=True)
        self._env.callback(self._kill)
        for _ in range(3):
            wait_for(self._tracing, 'tracing by blktrace')
            time.sleep(0.01)
        return self

    def _kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        if not kind:
            equal(self.process.returncode, 0, f'exit status of blktrace: {err}')
            assert self._stdout != subprocess.PIPE or '(dropped 0)' in out, f'events are lost: {out}'


class Version8:
    """What blktrace of 6.19 asks the kernel for, without that program: records of version 8, in files."""
    SETUP = struct.Struct('=64sQIIQQII88x')
    BLKTRACESETUP2 = 3 << 30 | SETUP.size << 16 | 0x12 << 8 | 142
    EVERYTHING = 0xffffffff

    def __init__(self, env, device):
        self.device = device
        self.directory = scratch(env)
        self.path = f'{self.directory}/t'
        self._fd = env.disk(device.path).fd

    def __enter__(self):
        setup = bytearray(self.SETUP.pack(b'', self.EVERYTHING, BUFFER_SIZE, BUFFERS, 0, 0, 0, 0))
        fcntl.ioctl(self._fd, self.BLKTRACESETUP2, setup)
        fcntl.ioctl(self._fd, BLKTRACESTART)
        return self

    def __exit__(self, *_):
        fcntl.ioctl(self._fd, BLKTRACESTOP)
        for path in glob.glob(f'{DEBUGFS}/block/{self.device.name}/trace[0-9]*'):
            with open(path, 'rb') as f, open(f'{self.path}.blktrace.{path.rsplit("trace", 1)[1]}', 'wb') as to:
                to.write(f.read())
        fcntl.ioctl(self._fd, BLKTRACETEARDOWN)


class Both(comparison.Both):
    """With the collector that is started once for all."""

    def __init__(self, env, trace):
        collect()
        super().__init__(env, trace)


# --- loads ---

class Batch:
    """Several writes given to the kernel in one call, in this order: neighbours become one request."""
    SETUP, DESTROY, GETEVENTS, SUBMIT = 206, 207, 208, 209
    IOCB = struct.Struct('=QIIHhIQQqQII')
    PWRITE = 1

    def __init__(self, env):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._context = ctypes.c_ulong(0)
        self._call(self.SETUP, 64, ctypes.byref(self._context))
        env.callback(self._call, self.DESTROY, self._context)
        self._buffer = mmap.mmap(-1, 64 * KIB)

    def _call(self, number, *arguments):
        ret = self._libc.syscall(number, *arguments)
        assert ret >= 0, f'system call {number}: {os.strerror(ctypes.get_errno())}'
        return ret

    def write(self, fd, size, offsets):
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        blocks = [ctypes.create_string_buffer(self.IOCB.pack(0, 0, 0, self.PWRITE, 0, fd, address, size, offset,
                                                             0, 0, 0)) for offset in offsets]
        n = len(blocks)
        pointers = (ctypes.c_void_p * n)(*map(ctypes.addressof, blocks))
        equal(self._call(self.SUBMIT, self._context, n, pointers), n, 'writes submitted')
        events = ctypes.create_string_buffer(32 * n)
        equal(self._call(self.GETEVENTS, self._context, n, n, events, None), n, 'writes done')
        equal([struct.unpack_from('=q', events, 32 * i + 16)[0] for i in range(n)], [size] * n, 'their results')


def forced_write(env, path, offset):
    fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_DSYNC | os.O_CLOEXEC)
    env.callback(os.close, fd)
    equal(os.pwrite(fd, mmap.mmap(-1, 4 * KIB), offset), 4 * KIB, 'written')


def single(env, path, start, stride, n, discard=False):
    disk = env.disk(path)
    for at in range(start, start + n * stride, stride):
        disk.read(at, 4 * KIB)
        disk.write(at + 16 * KIB, 16 * KIB)
        if discard:
            disk.discard(at + 64 * KIB, 64 * KIB)


def splits(env, path, start):
    """Larger than the 64 KiB that a request may have."""
    disk = env.disk(path)
    for at in range(start, start + 2 * MIB, 512 * KIB):
        disk.read(at, 160 * KIB)
        disk.write(at + 256 * KIB, 192 * KIB)


def merges(env, path, start):
    """Behind each other, in front of each other, and such that join two requests."""
    disk, batch = env.disk(path), Batch(env)
    for order in ((0, 1, 2, 3, 8), (3, 2, 1, 0), (0, 2, 1, 4, 3, 5, 9)):
        batch.write(disk.fd, 4 * KIB, [start + 4 * KIB * i for i in order])
        start += MIB


def flushes(env, path, start, forced):
    disk = env.disk(path)
    for at in range(start, start + 4 * 16 * KIB, 16 * KIB):
        disk.write(at, 4 * KIB)
        disk.flush()
        if forced:
            forced_write(env, path, at + 8 * KIB)


def everything(env, device, parts, forced):
    """
    All kinds of I/O at once, each to places of its own. To the disk itself only outside of its partitions:
    before 5.12 the kernel goes by the place. Flushes only to the disk: of those to a partition a trace does not
    say so. Discards one at a time: the kernel makes one request of several that are far from each other, and
    a trace has only the first one's place in it.
    """
    discard = device.queue('discard_max_bytes') != '0'
    one, other = (f'/dev/{name}' for name in parts)
    run = functools.partial
    in_parallel([run(single, env, device.path, 64 * KIB, 64 * KIB, 8),
                 run(single, env, one, 0, 128 * KIB, 16, discard),
                 run(single, env, other, 0, 128 * KIB, 8),
                 run(splits, env, one, 8 * MIB),
                 run(merges, env, one, 16 * MIB),
                 run(merges, env, other, 16 * MIB),
                 run(flushes, env, device.path, device.size - MIB, forced)])


# --- disks ---

def with_one_head(device):
    """Else the collector has one per hardware queue, of which a trace does not know."""
    shared.callback(device.queue, 'rotational', device.queue('rotational'))
    device.queue('rotational', 1)
    return device


@functools.cache
def a_null_blk():
    return with_one_head(null_blk(shared, queue_mode=2, irqmode=2, completion_nsec=500 * US, memory_backed=1,
                                  discard=1, cache_size=4, submit_queues=1, hw_queue_depth=4))


@functools.cache
def a_scsi_debug():
    device = with_one_head(scsi_debug(shared, lbpu=1, medium_error_start=0x1234, medium_error_count=10))
    write_file(f'{SCSI_DEBUG}/ndelay', str(1 * MS))
    return device


@functools.cache
def an_nvme():
    return with_one_head(nvme_namespace(shared, 'several', 1))


def partitions(env, device):
    """For this test: of what goes to the disk, kernels before 5.12 would have something in them."""
    return Device(env, device.name).two_partitions()
