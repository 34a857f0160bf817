#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Commands of drivers, SG_IO and those of NVMe: known, and in no histogram."""
import ctypes
import fcntl
import os
import struct

from lib import KIB, difference, diskstats, equal, main, show, test, verify
from machine import Account, collect, disk_by_serial, nvme_namespace

SG_IO = 0x2285
SG_NONE, SG_FROM_DEVICE = -1, -3
SG_HEADER = struct.Struct('=iiBBHIQQQIIi4xQBBBBHHiII4x')

NVME_ADMIN_COMMAND = 0xc0484e41
NVME_IO_COMMAND = 0xc0484e43
NVME_COMMAND = struct.Struct('=BBHIIIQQII6III')
NVME_IDENTIFY, NVME_READ = 6, 2


def scsi_command(fd, cdb, length=0):
    """Sends it; the status is to be good."""
    command, data, sense = (ctypes.create_string_buffer(n) for n in (16, max(length, 1), 64))
    command.raw = cdb.ljust(16, b'\0')
    header = bytearray(SG_HEADER.pack(ord('S'), SG_FROM_DEVICE if length else SG_NONE, len(cdb), 64, 0, length,
                                      ctypes.addressof(data), ctypes.addressof(command),
                                      ctypes.addressof(sense), 20000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    fcntl.ioctl(fd, SG_IO, header)
    equal(SG_HEADER.unpack(header)[13], 0, f'status of SCSI command {cdb.hex()}')


def nvme_command(fd, ioctl, opcode, *words, nsid=1, length=4 * KIB):
    data = ctypes.create_string_buffer(length)
    words = (*words, *[0] * (6 - len(words)))
    command = bytearray(NVME_COMMAND.pack(opcode, 0, 0, nsid, 0, 0, 0, ctypes.addressof(data), 0, length,
                                          *words, 0, 0))
    equal(fcntl.ioctl(fd, ioctl, command), 0, f'status of NVMe command {opcode}')


def check(env, device, commands, on_queue_of_disk):
    """@commands: functions of a file descriptor; so many go through the queue of the disk."""
    collect()
    disk = env.disk(device.path)
    before = diskstats(device.name)[device.name]
    with Account(device.name) as trace:
        for command in commands:
            command(disk.fd)
            disk.read(0, 4 * KIB)
    snapshot = show(device.name)
    equal(snapshot.counts(device.name), {'read': len(commands)}, 'reads alone')
    equal(snapshot.losses['passthrough'] - trace.losses['passthrough'], len(commands), 'passthrough')
    for kind in 'DC':
        equal(trace.counts(kind), {'read': len(commands), 'passthrough': on_queue_of_disk}, f'{kind} in a trace')
    verify(device.name)
    # Some kernels have them in diskstats as reads. Then we know how many.
    done = difference(diskstats(device.name)[device.name], before)
    accounted = snapshot.losses['accounted'] - trace.losses['accounted']
    equal(done, {'read': len(commands) + accounted}, 'as in diskstats')
    return accounted


@test
def scsi_commands(env):
    test_unit_ready = bytes(6)
    inquiry = bytes((0x12, 0, 0, 0, 96, 0))
    accounted = check(env, disk_by_serial(env, 'scsi0'),
                      [lambda fd: scsi_command(fd, test_unit_ready),
                       lambda fd: scsi_command(fd, inquiry, 96)] * 5, 10)
    assert accounted in (0, 10), accounted


@test
def nvme_commands(env):
    """A read as a command is not a read; those for the controller have a queue of their own."""
    device = nvme_namespace(env, 'several', 1)
    commands = [lambda fd: nvme_command(fd, NVME_ADMIN_COMMAND, NVME_IDENTIFY),
                lambda fd: nvme_command(fd, NVME_IO_COMMAND, NVME_READ, 0, 0, 7)] * 5
    accounted = check(env, device, commands, 5)
    assert accounted in (0, 5, 10), accounted
    if os.path.exists(f'/sys/block/{device.name}/queue/iostats_passthrough'):
        device.queue('iostats_passthrough', 1)
        env.callback(device.queue, 'iostats_passthrough', 0)
        equal(check(env, device, commands, 5), 5, 'accounted as it is asked for')


if __name__ == '__main__':
    main()
