# SPDX-License-Identifier: GPL-2.0-only
"""A device whose requests take as long as a test pleases."""
import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile

from lib import MIB, Disk, Skip, read_file

FIFREEZE = 0xC0045877
FITHAW = 0xC0045878


@contextlib.contextmanager
def frozen_below(env, loop):
    """
    A loop device over a file on a file system that can be frozen: its writes take as long as we
    please. Gives the loop device and functions that freeze and thaw.
    """
    if not shutil.which('mkfs.ext4') or 'ext4' not in read_file('/proc/filesystems').split():
        raise Skip('needs ext4')
    subprocess.run(['mkfs.ext4', '-q', '-F', loop.path], check=True)
    directory = tempfile.mkdtemp(prefix='blkhist-test-', dir='/dev/shm')
    env.callback(os.rmdir, directory)
    subprocess.run(['mount', loop.path, directory], check=True)
    env.callback(subprocess.run, ['umount', directory], check=True)
    fd = os.open(directory, os.O_RDONLY)
    top = env.loop(16 * MIB, attach=False)
    top.attach(directory)
    env.callback(top.detach)
    # Blocks that exist, so that a write is only a write.
    with contextlib.closing(Disk(top.path)) as disk:
        for i in range(16):
            disk.write(i * MIB, MIB)
    try:
        yield top, lambda: fcntl.ioctl(fd, FIFREEZE, 0), lambda: fcntl.ioctl(fd, FITHAW, 0)
    finally:
        with contextlib.suppress(OSError):
            fcntl.ioctl(fd, FITHAW, 0)
        os.close(fd)


def in_flight(name):
    return sum(map(int, read_file(f'/sys/block/{name}/inflight').split()))
