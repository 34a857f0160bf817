#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The file tree: a histogram is read with cat, reset by a write, and a ladder is written into it."""
import calendar
import contextlib
import errno
import os
import random
import shutil
import stat
import subprocess
import tempfile
import time

from lib import (BLKHIST, KIB, MIB, OPS, USER, Disk, QuickLoop, Skip, Snapshot, between, blkhist, equal, main,
                 on_every_kernel, read_file, reset_print, rounds, show, test, unseen, verify, write_file)
from tree import (IN_VM, LADDERS, OF_A_DISK, OF_A_PARTITION, OF_THE_TREE, REFUSALS, Crowd, Table, Tree, bounds,
                  config, disks_in_sys, expected_text, fails, histogram_files, in_between, is_gone,
                  new_directory, opened, places, read_all, read_device, same_as_show, serving, shell, some_io)


# --- contents ---

@test
@on_every_kernel
def every_cell_is_that_of_show(env):
    loop, p1, p2 = env.two_partitions()
    other = env.loop()
    env.start()
    tree = Tree(env)
    for path in (loop.path, f'/dev/{p1}'):
        some_io(env.disk(path))
    equal(tree.list(loop.name), {*OF_A_DISK, *LADDERS, p1, p2})
    for p in (p1, p2):
        equal(tree.list(loop.name, p), set(OF_A_PARTITION))
    for _ in rounds(8):
        some_io(env.disk(f'/dev/{p1}'))
        full = same_as_show(tree, show(loop.name), *places(loop, p1, p2), *places(other))
    assert full >= 15, f'only {full} histograms had something in them'
    table = tree.table(loop.name, 'read_request_histo')
    equal(table.unit, 'ns', 'the default has bounds between microseconds')
    blkhist('buckets', loop.name, '--time', '1us,5ms,1s', '--size', '4KiB', '--seek', '-8,0,8')
    some_io(env.disk(f'/dev/{p1}'))
    assert same_as_show(tree, show(loop.name), *places(loop, p1, p2)) >= 15
    table = tree.table(loop.name, p1, 'read_request_histo')
    equal((table.unit, table.bounds, table.size_bounds), ('us', [1, 5000, 1000000], [4096]))
    equal(tree.table(loop.name, 'seek_histo').bounds, [-8, 0, 8])
    verify(loop.name, p1, p2)


@test
def every_cell_lies_between_two_shows_under_load(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    loop.queue('nomerges', 2)
    fio = env.mixed_load(p1, p2)
    for directories, name, files in places(loop, p1, p2):
        for file, (kind, op) in files.items():
            before = show('-k', kind, name).get(name, kind, op)
            table = tree.table(*directories, file)
            after = show('-k', kind, name).get(name, kind, op)
            if not after.data:
                equal(table.count(), 0, f'{name} {file}')
                continue
            in_between(before.cells, table.cells, after.cells, f'{name} {file}')
    assert fio.running(), 'the load ended early'
    fio.interrupt()
    counts = fio.result()
    full = same_as_show(tree, show(loop.name), *places(loop, p1, p2))
    assert full >= 20, f'only {full} histograms had something in them'
    for name in (p1, p2):
        lost = unseen(name)
        for op in ('read', 'discard'):
            equal(tree.table(loop.name, name, f'{op}_request_histo').count() + lost.get(op, 0),
                  counts[name].get(op, 0), f'{name} {op}: we and fio')


@test
def it_is_of_the_moment_of_open(env):
    """Neither older nor younger, whoever has the file open besides and whenever it is read."""
    loop = env.loop()
    env.start()
    tree = Tree(env)
    disk = env.disk(loop.path)
    path = tree(loop.name, 'read_request_histo')
    fds, counts = [], []
    for i in range(1, 8):
        for _ in range(i):
            disk.read(0, 4 * KIB)
        fds.append(os.open(path, os.O_RDONLY))
        env.callback(os.close, fds[-1])
        counts.append(show(loop.name).counts(loop.name)['read'])
        if i % 2:  # those that were read at once, and those that only now
            equal(Table(read_all(fds[-1]).decode()).count(), counts[-1])
    blkhist('reset', loop.name)
    for fd, count in zip(fds, counts):
        os.lseek(fd, 0, os.SEEK_SET)
        equal(Table(read_all(fd).decode()).count(), count)
    equal(tree.table(loop.name, 'read_request_histo').count(), 0, 'opened after the reset')


@test
@on_every_kernel
def small_and_scattered_reads_see_one_table(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    fio = env.mixed_load(p1, p2)
    rng = random.Random(11)
    for name, file in ((loop.name, 'read_request_histo'), (f'{loop.name}/{p1}', 'write_dma_histo'),
                       (loop.name, 'seek_histo'), (loop.name, 'buckets_time'), ('', 'all.json')):
        with opened(tree(name, file)) as fd:
            whole = read_all(fd, 1 if file == 'buckets_time' else rng.choice((7, 100, 4096)))
            size = len(whole)
            for _ in rounds(200):
                n, at = rng.choice((1, 2, 511, 4095, 4096, 4097, 200000)), rng.randrange(size + 10)
                equal(os.pread(fd, n, at), whole[at:at + n], f'{file}: {n} bytes at {at}')
            equal(os.lseek(fd, size // 2, os.SEEK_SET), size // 2)
            equal(os.read(fd, 10), whole[size // 2:size // 2 + 10])
            equal(os.lseek(fd, -5, os.SEEK_CUR), size // 2 + 5)
            equal(os.read(fd, size), whole[size // 2 + 5:])
            for text in (os.read(fd, 100), os.pread(fd, 100, size), os.pread(fd, 100, 2**40)):
                equal(text, b'', 'behind the end')
            fails(os.lseek, fd, -1, os.SEEK_SET, errnos=(errno.EINVAL,))
            equal(os.lseek(fd, 0, os.SEEK_SET), 0)
            equal(read_all(fd, 13), whole, 'once more from the beginning')
        if file.endswith('_histo'):
            Table(whole.decode())
    assert fio.running(), 'the load ended early'
    again = tree.read(loop.name, 'read_request_histo')
    assert Table(again).count() > 100, 'nothing is counted'


@test
def one_line_of_awk(env):
    loop, p1, _ = env.two_partitions()
    env.start('--time', '1us,20us,100us,1ms,10ms,10s')
    tree = Tree(env)
    for path in (loop.path, f'/dev/{p1}'):
        some_io(env.disk(path), 20)

    def awk(program, *names):
        return subprocess.run(['awk', '-F', '\t', program, tree(loop.name, *names)], check=True, text=True,
                              capture_output=True, env={'PATH': os.environ['PATH'], 'LC_ALL': 'C'}).stdout

    snapshot = show(loop.name)
    for name, where in ((loop.name, ()), (p1, (p1,))):
        h = snapshot.get(name, 'request', 'read')
        total = awk('NR > 2 { for (i = 2; i <= NF; i++) n += $i } END { print n }', *where,
                    'read_request_histo')
        equal(int(total), h.count)
        slow = awk('NR == 2 { split($0, bound) } NR > 2 { for (i = 2; i <= NF; i++) '
                   'if (bound[i] == "+inf" || bound[i] > 20) n += $i } END { print n + 0 }', *where,
                   'read_request_histo')
        equal(int(slow), sum(n for bound, n in h.by_bound().items() if bound is None or bound > 20000))
        small = awk('$1 == 4096 { for (i = 2; i <= NF; i++) n += $i } END { print n }', *where,
                    'read_request_histo')
        equal(int(small), h.by_size()[4096])
        sequential = awk('$1 == 0 { print $2 }', *where, 'seek_histo')
        equal(int(sequential), snapshot.get(name, 'seek').by_bound().get(0, 0))
        assert int(sequential), 'no distance was 0'


@test
def the_files_of_the_tree_itself(env):
    loop, p1, p2 = env.two_partitions()
    env.start('--config', config(env, f'''
[default]
time = 1ms,2ms
[{loop.name}]
size = 4KiB,8KiB
kinds = request,seek
[md*]
ignore = yes
[loop*]
time = log2,1us..1s
seek = -1,0,1
'''))
    tree = Tree(env, '--no-start')
    some_io(env.disk(f'/dev/{p1}'))
    ours, theirs = show(), Snapshot(tree.read('all.json'))
    names = (loop.name, p1, p2)  # other disks of the machine may be at work
    equal([h.data for key, h in theirs.hists.items() if key[0] in names],
          [h.data for key, h in ours.hists.items() if key[0] in names])
    assert theirs.names() & set(names), 'all.json has nothing of our disk'
    equal(set(theirs.data), set(ours.data), 'keys of all.json')
    equal(set(theirs.losses), set(ours.losses), 'losses of all.json')
    assert 'last error' not in tree.read('status')
    for line in (line for line in blkhist('status').stdout.splitlines() if line.startswith(('since', 'kinds'))):
        assert line in tree.read('status'), f'{line!r} is not in:\n{tree.read("status")}'
    # What it is running with is a configuration: the same as that which it was started with.
    assert 'already' in blkhist('start', '--config', config(env, tree.read('config'))).stdout


def _raise(error):
    raise error


@test
def sizes_and_modes(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    some_io(env.disk(f'/dev/{p1}'))
    inodes = {}
    for root, directories, files in os.walk(tree.path, onerror=_raise):
        for name in (*directories, *files, '.'):
            path = f'{root}/{name}'
            st = os.lstat(path)
            equal((st.st_uid, st.st_gid), (0, 0), f'owner of {path}')
            if stat.S_ISDIR(st.st_mode):
                equal(oct(st.st_mode), oct(stat.S_IFDIR | 0o555), path)
                equal(os.lstat(path).st_ino, st.st_ino, 'the same inode')
                inner = sum(entry.is_dir() for entry in os.scandir(path))
                assert st.st_nlink in (1, 2 + inner), f'{path} has {st.st_nlink} links'
            else:
                writable = name.endswith('_histo') or name in LADDERS
                mode = stat.S_IFREG | (0o644 if writable else 0o444)
                equal((oct(st.st_mode), st.st_size), (oct(mode), 0), path)
            if name != '.':
                inodes.setdefault((st.st_dev, st.st_ino), []).append(path)
            between(time.time() - 24 * 3600 * 3650, st.st_mtime, time.time() + 10, f'time of {path}')
        with os.scandir(root) as entries:
            for entry in entries:
                equal(entry.is_dir(follow_symlinks=False), entry.name in directories, f'kind of {entry.path}')
    equal({i: paths for i, paths in inodes.items() if len(paths) > 1}, {}, 'files with one inode number')


# --- which files there are ---

@test
def only_the_files_that_apply(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    equal(tree.list(loop.name), {*OF_A_DISK, *LADDERS, p1, p2})
    before = loop.queue('write_cache')
    equal(before, 'write back', 'cache of a loop device')
    loop.queue('write_cache', 'write through')
    equal(tree.list(loop.name), {*OF_A_PARTITION, *LADDERS, p1, p2}, 'without a cache there is no flush')
    fails(os.open, tree(loop.name, 'flush_request_histo'), os.O_RDONLY, errnos=(errno.ENOENT,))
    loop.queue('write_cache', 'write back')
    equal(tree.list(loop.name), {*OF_A_DISK, *LADDERS, p1, p2})
    loop.queue('discard_max_bytes', 0)
    few = {f for f in OF_A_DISK if not f.startswith('discard')}
    equal(tree.list(loop.name), {*few, *LADDERS, p1, p2}, 'no discards')
    equal(tree.list(loop.name, p1), {f for f in few if not f.startswith('flush')}, 'nor of a partition')
    for file in few:
        tree.table(loop.name, file)
    fails(os.open, tree(loop.name, p1, 'discard_dma_histo'), os.O_RDONLY, errnos=(errno.ENOENT,))
    fails(os.open, tree(loop.name, p1, 'discard_dma_histo'), os.O_WRONLY | os.O_TRUNC, errnos=(errno.ENOENT,))


@test
def only_the_kinds_that_are_collected(env):
    a, b, c, d = (env.loop() for _ in range(4))
    p = a.partition(1, MIB, MIB)
    env.start('--config', config(env, f'[{a.name}]\nkinds = request,seek\n[{b.name}]\nkinds = service\n'
                                      f'[{c.name}]\nignore = yes\n'))
    tree = Tree(env)
    equal(tree.list(a.name), {*histogram_files(kinds=('request', 'seek')), *LADDERS, p})
    equal(tree.list(a.name, p), set(histogram_files(OPS[:3], ('request', 'seek'))))
    equal(tree.list(b.name), {*histogram_files(kinds=('service',)), *LADDERS})
    equal(tree.list(d.name), {*OF_A_DISK, *LADDERS})
    assert c.name not in tree.list(), 'an ignored disk'
    fails(os.listdir, tree(c.name), errnos=(errno.ENOENT,))
    for loop in (a, b, d):
        some_io(env.disk(loop.path))
        for file in tree.list(loop.name) - {*LADDERS, p, 'seek_histo'}:
            kind, op = OF_A_DISK[file]
            equal(tree.read(loop.name, file), expected_text(show(loop.name).get(loop.name, kind, op).data))


@test
@on_every_kernel
def a_device_without_requests(env):
    if not os.path.exists('/sys/class/zram-control'):
        subprocess.run(['modprobe', 'zram'], capture_output=True, check=False)
    try:
        number = read_file('/sys/class/zram-control/hot_add')
    except FileNotFoundError:
        raise Skip('the kernel has no zram') from None
    name = f'zram{number}'
    env.callback(write_file, '/sys/class/zram-control/hot_remove', number)
    write_file(f'/sys/block/{name}/disksize', str(16 * MIB))
    env.start()
    tree = Tree(env)
    files = histogram_files(('read', 'write', 'discard'), ('request', 'seek'))
    equal(tree.list(name), {*files, *LADDERS})
    with contextlib.closing(Disk(f'/dev/{name}')) as disk:
        for i in range(20):
            disk.write(i * 4 * KIB, 4 * KIB)
            disk.read(i * 4 * KIB, 4 * KIB)
    snapshot = show(name)
    equal(snapshot.counts(name)['write'] >= 20, True, 'writes')
    equal(same_as_show(tree, snapshot, ((name,), name, files)), 3)


@test
@on_every_kernel
def devices_come_and_go(env):
    """As in /sys, at once: also one that was looked for in vain a moment ago."""
    env.start()
    tree = Tree(env)
    loop = env.loop(attach=False)
    loop.remove()
    fails(os.stat, tree(loop.name), errnos=(errno.ENOENT,))
    for i in rounds(8):
        assert is_gone(tree(loop.name)), 'the disk is gone'
        again = env.loop()
        equal(again.name, loop.name)
        equal(tree.list(loop.name), {*OF_A_DISK, *LADDERS})
        if i == 0:
            fails(os.stat, tree(loop.name, f'{loop.name}p3'), errnos=(errno.ENOENT,))
        fails(os.open, tree(loop.name, f'{loop.name}p3', 'seek_histo'), os.O_RDONLY, errnos=(errno.ENOENT,))
        p3 = again.partition(3, 8 * MIB, 8 * MIB)
        equal(tree.list(loop.name, p3), set(OF_A_PARTITION))
        read_device(f'/dev/{p3}', 5)
        equal(tree.table(loop.name, p3, 'read_dma_histo').count(), 5)
        equal(same_as_show(tree, show(loop.name), *places(again, p3)) >= 8, True, 'files')
        again.delete_partition(3)
        assert is_gone(tree(loop.name, p3)), 'the partition is gone'
        fails(os.open, tree(loop.name, p3, 'read_dma_histo'), os.O_RDONLY, errnos=(errno.ENOENT,))
        assert p3 not in tree.list(loop.name)
        equal(tree.table(loop.name, 'read_dma_histo').count() >= 5, True, 'they stay in the disk')
        again.remove()
        fails(os.open, tree(loop.name, 'seek_histo'), os.O_RDONLY, errnos=(errno.ENOENT,))
        assert loop.name not in tree.list()
    for _ in range(100):  # others may add and remove devices, too
        before, listed = disks_in_sys(), tree.list()
        if before == disks_in_sys():
            break
    equal(listed, before | set(OF_THE_TREE), 'disks in the tree and in /sys')


@test
def devices_come_and_go_while_many_read(env):
    env.start()
    tree = Tree(env)
    file = env.enter_context(tempfile.TemporaryFile(dir='/dev/shm'))
    file.truncate(MIB)
    number = 60000 + os.getpid() % 10000
    crowd = Crowd(env)

    def walk(rng):
        for root, _, files in os.walk(tree.path):
            if rng.random() < 0.3 or f'loop{number // 100}' in root:
                for name in files:
                    # A directory that goes while it is looked at is taken for a file.
                    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                        with open(f'{root}/{name}') as f:
                            text = f.read()
                        if name.endswith('_histo'):
                            Table(text)

    crowd.each(8, walk)
    n = 0
    deadline = time.monotonic() + 6
    while time.monotonic() < deadline:
        loops = [QuickLoop(env, number + i, file) for i in range(3)]
        for loop in loops:
            n += loop.read(5)
        blkhist('status')  # makes counters for the next ones
        equal(tree.table(loops[0].name, 'read_request_histo').count(), 5)
        for loop in loops:
            loop.remove()
    crowd.end()
    equal(serving(tree.path), [tree.server], 'it serves')
    equal(tree.list() & {f'loop{number + i}' for i in range(3)}, set())
    print(f'# {n // 5} devices, {sum(crowd.done)} walks')


# --- resets ---

def counts_by_file(tree, *where):
    return {(name, file): tree.table(*directories, file).count()
            for directories, name, files in where for file in files}


@test
@on_every_kernel
def a_write_resets_this_histogram(env):
    """And no other; that of a partition is not that of its disk, nor the other way round."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    where = places(loop, p1, p2)
    for path in (loop.path, f'/dev/{p1}', f'/dev/{p2}'):
        some_io(env.disk(path))
    counts = counts_by_file(tree, *where)
    values = (b'0\n', b'\n', b'\0', b'1', b'\xff\xfe\x80', b'reset, please\n', b' ', b'0' * 4097)
    chosen = sorted(key for key, n in counts.items() if n)
    assert len(chosen) > 25, chosen
    random.Random(2).shuffle(chosen)
    del chosen[12 if IN_VM else 100:]
    for i, (name, file) in enumerate(chosen):
        directories, _, files = next(w for w in where if w[1] == name)
        before = show(loop.name)
        flags = os.O_WRONLY | (os.O_TRUNC if i % 2 else 0)
        tree.write(values[i % len(values)], *directories, file, flags=flags)
        counts[name, file] = 0
        equal(counts_by_file(tree, *where), counts, f'after a write into {name} {file}')
        after = show(loop.name)
        equal({key: h.data for key, h in after.hists.items()},
              {key: h.data for key, h in before.hists.items() if key != (name, *files[file])}, f'{name} {file}')
    verify(loop.name, p1, p2)  # which knows of no reset
    for path in (loop.path, f'/dev/{p1}'):
        some_io(env.disk(path))
    assert same_as_show(tree, show(loop.name), *where) > 15
    since = tree.table(*where[0][0], chosen[0][1]).since
    tree.write(b'0', loop.name, chosen[0][1])
    assert tree.table(loop.name, chosen[0][1]).since > since, 'a reset is the beginning of what follows'


@test
@on_every_kernel
def what_does_not_reset(env):
    loop = env.loop()
    env.start()
    tree = Tree(env)
    disk = env.disk(loop.path)
    path = tree(loop.name, 'read_request_histo')
    for i in range(5):
        disk.read(i * MIB, 4 * KIB)

    def unchanged(what):
        equal(tree.table(loop.name, 'read_request_histo').count(), 5, f'after {what}')

    for command in (f': > {path}', f'cat {path}', f'truncate -s 0 {path}', f'printf "" >> {path}',
                    f'dd if=/dev/null of={path} bs=4k status=none', f'cp /dev/null {path}', f'stat {path}',
                    f'exec 3<>{path} 4>>{path} 5>{path}'):
        subprocess.run(['sh', '-c', command], check=True, stdout=subprocess.DEVNULL)
        unchanged(command)
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND | os.O_TRUNC):
        with opened(path, flags) as fd:
            equal([os.write(fd, b''), os.pwrite(fd, b'', 100)], [0, 0])
            os.ftruncate(fd, 0)
        unchanged(f'writes of nothing with {flags:#o}')
    with opened(path, os.O_RDONLY) as fd:
        fails(os.write, fd, b'0', errnos=(errno.EBADF,))
    unchanged('a write to what is open for reading')
    subprocess.run(['sh', '-c', f'echo 0 > {path}'], check=True)
    equal(tree.table(loop.name, 'read_request_histo').count(), 0, 'after a write')


@test
def one_reset_for_each_open_file(env):
    loop = env.loop()
    env.start()
    tree = Tree(env)
    disk = env.disk(loop.path)
    path = tree(loop.name, 'read_request_histo')

    def reads(n):
        for i in range(n):
            disk.read(i * MIB, 4 * KIB)

    def count():
        return tree.table(loop.name, 'read_request_histo').count()

    reads(5)
    with opened(path, os.O_RDWR) as fd, opened(path, os.O_WRONLY) as other:
        equal(Table(read_all(fd).decode()).count(), 5)
        os.write(fd, b'0')
        equal(count(), 0)
        reads(3)
        for data in (b'0\n', b'', b'x' * MIB):
            os.write(fd, data)
            os.pwrite(fd, data, 12345)
        equal(count(), 3, 'what came after the first write')
        os.lseek(fd, 0, os.SEEK_SET)
        equal(Table(read_all(fd).decode()).count(), 5, 'the table of the moment of open')
        os.write(other, b'0')
        equal(count(), 0, 'another open file')
        reads(2)
        os.write(other, b'0')
        equal(count(), 2)
    tree.write(b'0', loop.name, 'read_request_histo')
    reads(4)
    garbage = random.Random(1).randbytes(MIB)
    since = tree.table(loop.name, 'read_request_histo').since
    with open(path, 'wb') as f:
        f.write(garbage)
    assert tree.table(loop.name, 'read_request_histo').since > since
    equal(count(), 0, 'after 1 MiB of garbage')
    reads(1)
    subprocess.run(['dd', 'if=/dev/urandom', f'of={path}', 'bs=1', 'count=3', 'status=none'], check=True)
    equal(count(), 0)
    verify(loop.name)


def total_cells(snapshot, *names):
    """The reads of some devices together, cell by cell."""
    hists = [h for h in (snapshot.get(name, 'request', 'read') for name in names) if h.data]
    return [[sum(cells) for cells in zip(*rows)] for rows in zip(*(h.cells for h in hists))]


def minus(a, b):
    return [[x - y for x, y in zip(*rows)] for rows in zip(a, b)]


@test
def resets_under_load_conserve_counts(env):
    """
    The disk is reset by writes, its partitions are not: so the disk has what they have got since. And
    where one kind of a partition is reset by writes, another one adds up.
    """
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    loop.queue('nomerges', 2)
    fio = env.mixed_load(p1, p2)

    def partitions():
        return total_cells(show('-k', 'request', '-o', 'read', p1, p2), p1, p2)

    printed = 0
    for _ in rounds(40):
        low = partitions()
        tree.write(b'0\n', loop.name, 'read_request_histo')
        high, earlier = partitions(), partitions()
        cells = tree.table(loop.name, 'read_request_histo').cells
        later = partitions()
        since_low, since_high = minus(earlier, high), minus(later, low)
        in_between(since_low, cells, since_high, 'the disk since its reset')
        tree.write(b'x', loop.name, p1, 'read_dma_histo')
        tree.write(b'x', loop.name, p2, 'read_dma_histo')
        reset = reset_print('-k', 'queue', '-o', 'read', p1, p2)
        printed += sum(reset.get(p, 'queue', 'read').count for p in (p1, p2))
    assert fio.running(), 'the load ended early'
    fio.interrupt()
    counts = fio.result()
    snapshot = show('-k', 'queue', p1, p2)
    rest = sum(snapshot.get(p, 'queue', 'read').count for p in (p1, p2))
    done = sum(of.get('read', 0) for of in counts.values())
    lost = sum(unseen(p).get('read', 0) for p in (p1, p2))
    equal(printed + rest, done - lost, 'queue times printed and left, and reads of fio')
    final = partitions()
    equal(sum(map(sum, final)), done - lost, 'request times of the partitions, never reset')
    table = tree.table(loop.name, 'read_request_histo')
    in_between(minus(final, high), table.cells, minus(final, low), 'what is left')
    # At rest it is exact.
    held = table.count()
    tree.write(b'0', loop.name, 'read_request_histo')
    equal(tree.table(loop.name, 'read_request_histo').count(), 0)
    disk = env.disk(f'/dev/{p1}')
    for i in range(17):
        disk.read(i * 4 * KIB, 4 * KIB)
    equal(tree.table(loop.name, 'read_request_histo').cells, minus(partitions(), final))
    print(f'# {done} reads, {held} of them after the last reset under load')
    verify(loop.name, p1, p2)


# --- ladders ---

def bounds_of_files(tree, name):
    texts = {file: tree.read(name, file) for file in LADDERS}
    assert all(text.endswith('\n') and text.count('\n') == 1 for text in texts.values()), texts
    return {file.removeprefix('buckets_'): text[:-1] for file, text in texts.items()}


@test
@on_every_kernel
def ladders_are_read_and_written(env):
    loop, p1, p2 = env.two_partitions()
    other = env.loop()
    env.start()
    tree = Tree(env)
    disk = env.disk(f'/dev/{p1}')
    some_io(disk)
    for name in (loop.name, other.name):
        equal(bounds_of_files(tree, name), bounds(name), 'the default')
    default = bounds()
    before = show(loop.name).data['histograms']
    for file in LADDERS:  # what was read can be written, and changes nothing
        tree.write(tree.read(loop.name, file).encode(), loop.name, file)
    equal(show(loop.name).data['histograms'], before)
    current = dict(default)
    for kind, text, meaning in (
            ('time', '10ms,20ms,50ms\n', '10ms,20ms,50ms'), ('time', '1ms', '1ms'),
            ('size', 'log2,4KiB..16KiB\n', '4KiB,8KiB,16KiB'), ('seek', '-1,0,1\n', '-1,0,1'),
            ('time', '125,1us..10us\n', '1us,2us,5us,10us'), ('seek', 'log2,1..2', '-2,-1,0,1,2'),
            ('time', 'linear:1us,2us..4us', '2us,3us,4us')):
        shell('printf "%s" "$1" > "$2"', text, tree(loop.name, f'buckets_{kind}'))
        current[kind] = meaning
        equal(bounds(loop.name), current, f'after {text!r}')
        equal(bounds_of_files(tree, loop.name), current, f'after {text!r}')
        some_io(disk)
        equal(same_as_show(tree, show(loop.name), *places(loop, p1, p2)), len(show(loop.name).hists), 'files')
    table = tree.table(loop.name, p1, 'read_request_histo')
    equal((table.bounds, table.unit), ([2, 3, 4], 'us'), 'times of a partition')
    equal(table.size_bounds, [4096, 8192, 16384], 'sizes of a partition')
    equal((bounds(other.name), bounds()), (default, default), 'of this disk only')
    equal(tree.last_error(), None)
    verify(loop.name, p1, p2)


BAD_LADDERS = (
    ('time', b'10', 'unit'), ('time', b'10\n', 'unit'), ('time', b'2ms,1ms', '1ms'), ('time', b'x', 'x'),
    ('time', b'\n', None), ('time', b' ', None), ('time', b'1ms\n\n', None), ('time', b'\n1ms', None),
    ('time', b'1ms\n2ms\n', None), ('time', b'1ms\0', None), ('time', b'1ms\0,x', None), ('time', b'\0', None),
    ('time', b'\xff\xfe', None), ('time', b'1ms,\xc3\x28', None), ('time', b'1ms,2\xc2\xb5s,\x80', None),
    ('time', b'\x1b[31m', None), ('time', b'log3,1us..1s', 'log3'), ('time', b'4KiB', '4KiB'),
    ('time', b','.join(b'%dms' % i for i in range(1, 130)), None), ('time', b'1ms,' * 2000, None),
    ('time', b'1ms'.ljust(4097, b'\n'), None), ('time', b'1ms'.rjust(4096), None),
    ('size', b'1ms', '1ms'), ('size', b','.join(b'%dKiB' % i for i in range(1, 18)), '17KiB'),
    ('seek', b'1,0', '0'), ('seek', b'x', 'x'), ('time', b'1ms\nlast error: never', None),
    ('time', b'1ms\r\n', None),
    ('time', random.Random(9).randbytes(4000), None))


@test
def bad_ladders_are_refused(env):
    loop = env.loop()
    env.start()
    tree = Tree(env)
    some_io(env.disk(loop.path))
    before, ladders = show(loop.name).data['histograms'], bounds(loop.name)
    equal(tree.last_error(), None)
    for kind, text, word in BAD_LADDERS:
        file = f'buckets_{kind}'
        fails(tree.write, text, loop.name, file, errnos=(errno.EINVAL,))
        when, where, sentence = tree.last_error()
        equal(where.lstrip('/'), f'{loop.name}/{file}', f'after {text[:40]}')
        assert word is None or word in sentence, f'{word!r} is not in: {sentence}'
        between(time.time() - 60, calendar.timegm(time.strptime(when[:19], '%Y-%m-%dT%H:%M:%S')),
                time.time() + 1, 'time of the error')
        whole = tree.read('status')
        assert all(c >= ' ' or c in '\n\t' for c in whole), f'after {text[:40]}: {whole!r}'
    with opened(tree(loop.name, 'buckets_time'), os.O_WRONLY) as fd:
        fails(os.write, fd, random.Random(4).randbytes(MIB), errnos=(errno.EINVAL,))
        fails(os.write, fd, b'1ms,' * (MIB // 4), errnos=(errno.EINVAL,))
        equal(os.write(fd, b''), 0)
    equal(show(loop.name).data['histograms'], before)
    equal(bounds(loop.name), ladders)
    path = tree(loop.name, 'buckets_time')
    r = subprocess.run(['dd', f'of={path}', 'conv=notrunc'], input='10', capture_output=True, text=True,
                       check=False, env={'PATH': os.environ['PATH'], 'LC_ALL': 'C'})
    assert r.returncode and 'Invalid argument' in r.stderr, r
    # Each write is a ladder of its own; one that fails does not spoil the next.
    with opened(tree(loop.name, 'buckets_time'), os.O_WRONLY) as fd:
        os.write(fd, b'1ms\n')
        equal(bounds(loop.name)['time'], '1ms')
        fails(os.write, fd, b'2', errnos=(errno.EINVAL,))
        os.write(fd, b'3ms,4ms\n')
    equal(bounds(loop.name)['time'], '3ms,4ms')
    tree.write(','.join(f'{i:019}ns' for i in range(1000, 1128)).encode(), loop.name, 'buckets_time')
    equal(bounds(loop.name)['time'].count(','), 127)
    verify(loop.name)


@test
def ladders_under_load_lose_no_request(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    loop.queue('nomerges', 2)
    fio = env.mixed_load(p1, p2)
    for i in rounds(24):
        text, n = ((b'1ms,10ms,100ms\n', 3), (b'log2,1us..1s\n', 20))[i % 2]
        tree.write(text, loop.name, 'buckets_time')
        for directories in ((loop.name,), (loop.name, p1), (loop.name, p2)):
            for file in ('read_request_histo', 'write_queue_histo'):
                equal(len(tree.table(*directories, file).bounds), n, 'bounds')
        equal(tree.read(loop.name, 'buckets_time').count(','), n - 1)
    assert fio.running(), 'the load ended early'
    fio.interrupt()
    counts = fio.result()
    rows = {key: row['count'] + row['unseen'] for key, row in verify(loop.name, p1, p2).items()}
    for name, op in ((p1, 'read'), (p2, 'read'), (p2, 'discard')):
        equal(rows[name, op], counts[name][op], f'{name} {op}: we and fio')
    same_as_show(tree, show(loop.name), *places(loop, p1, p2))


# --- many at once ---

@test
def a_hundred_readers_and_ten_writers(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    loop.queue('nomerges', 2)
    where = [tree(*directories, file) for directories, _, files in places(loop, p1, p2) for file in files]
    ladders = {'buckets_time': [b'1ms,10ms', b'log2,1us..1s', b'1us'], 'buckets_seek': [b'0', b'log2,1..1GiB'],
               'buckets_size': [b'4KiB', b'log2,512..64KiB']}
    columns = {1, 2, 20, len(bounds()['time'].split(','))}
    fio = env.mixed_load(p1, p2)
    crowd = Crowd(env)

    def reader(rng):
        path = rng.choice(where)
        with opened(path) as fd:
            table = Table(read_all(fd, rng.choice((50, 1000, 4096, 65536))).decode())
        equal(table.name, path.split('/')[-2])
        if table.kind != 'seek':
            assert len(table.bounds) in columns, len(table.bounds)

    def resetter(rng):
        with opened(rng.choice(where), os.O_WRONLY | rng.choice((0, os.O_TRUNC))) as fd:
            os.write(fd, rng.randbytes(rng.choice((1, 10, 100000))))

    def changer(rng):
        file = rng.choice(list(ladders))
        tree.write(rng.choice(ladders[file]), loop.name, file)
        time.sleep(0.02)

    crowd.each(100, reader)
    crowd.each(7, resetter)
    crowd.each(3, changer)
    time.sleep(5)
    assert fio.running(), 'the load ended early'
    crowd.end()
    fio.interrupt()
    counts = fio.result()
    print(f'# {sum(crowd.done)} files were opened, {sum(counts[p1].values()) + sum(counts[p2].values())} I/Os')
    assert min(crowd.done) > 0, f'what each of them did: {crowd.done}'
    rows = {key: row['count'] + row['unseen'] for key, row in verify(loop.name, p1, p2).items()}
    for name, op in ((p1, 'read'), (p2, 'read'), (p2, 'discard')):
        equal(rows[name, op], counts[name][op], f'{name} {op}: we and fio')
    for file in LADDERS:
        tree.write(ladders[file][0], loop.name, file)
        tree.write(b'0', loop.name, 'read_request_histo')
    disk = env.disk(f'/dev/{p1}')
    some_io(disk)
    same_as_show(tree, show(loop.name), *places(loop, p1, p2))
    equal(tree.table(loop.name, 'read_request_histo').count(), show(loop.name).counts(loop.name)['read'])
    equal(serving(tree.path), [tree.server], 'one process, the same as in the beginning')


@test
def nothing_piles_up(env):
    """Neither descriptors nor memory, whatever is opened, read, written and refused."""
    loop, p1, _ = env.two_partitions()
    env.start()
    tree = Tree(env)
    some_io(env.disk(f'/dev/{p1}'))

    def use(n):
        for i in range(n):
            tree.read(loop.name, p1, 'read_request_histo')
            tree.list(loop.name)
            tree.write(b'0', loop.name, 'seek_histo')
            if i % 10 == 0:
                tree.read('all.json')
                tree.read('status')
            if i % 100 == 0:
                tree.write(b'1ms' if i % 200 else b'2ms', loop.name, 'buckets_time')
            fails(tree.write, b'1', loop.name, 'buckets_time', errnos=(errno.EINVAL,))
            fails(os.stat, tree(loop.name, f'nothing{i}'), errnos=(errno.ENOENT,))

    def taken():
        words = dict(line.split(':') for line in read_file(f'/proc/{tree.server}/status').splitlines())
        return len(os.listdir(f'/proc/{tree.server}/fd')), int(words['VmRSS'].split()[0])

    use(100)
    fds, memory = taken()
    use(500)
    more_fds, more_memory = taken()
    print(f'# {fds} and {more_fds} descriptors, {memory} and {more_memory} KiB')
    assert more_fds <= fds, f'{more_fds} descriptors, {fds} before'
    with open(BLKHIST, 'rb') as f:
        if b'__asan_init' not in f.read():  # which keeps for a while what was given back
            assert more_memory - memory < 1024, f'{more_memory} KiB, {memory} before'


# --- everyday commands ---

@test
def everyday_commands(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    for name in (loop.name, p1, p2):
        some_io(env.disk(f'/dev/{name}'))
    top, copies = tree(loop.name), new_directory(env)
    files = {f'{top}/{f}' for f in (*OF_A_DISK, *LADDERS)}
    files |= {f'{top}/{p}/{f}' for p in (p1, p2) for f in OF_A_PARTITION}
    equal(set(shell('find "$1" -type f', top).split()), files)
    equal(shell('find "$1" -type d | sort', top).split(), [top, f'{top}/{p1}', f'{top}/{p2}'])
    equal(shell('find "$1" ! -type f ! -type d', top), '')
    equal(set(shell('grep -rl "^# [^ ]* [a-z]* request: " "$1"', top).split()),
          {f for f in files if f.endswith('_request_histo')})
    equal(set(shell('grep -r -c "+inf" "$1"', top).split()) - {f'{top}/{f}:0' for f in LADDERS},
          {f'{f}:{1 if f.endswith("seek_histo") else 2}' for f in files if f.endswith('_histo')})
    for line in shell('ls -lR "$1"', top).splitlines():
        if line.startswith('-'):
            equal(line.split()[:5], ['-rw-r--r--', '1', 'root', 'root', '0'], line)
    shell('cp -r "$1" "$2/a" && cp -r "$1" "$2/b" && diff -r "$2/a" "$2/b" && diff -r "$1" "$2/a"', top, copies)
    equal({f'{top}/{os.path.relpath(f"{root}/{f}", copies + "/a")}' for root, _, names in os.walk(f'{copies}/a')
           for f in names}, files, 'copied')
    for file in sorted(files):
        with open(file) as f, open(file.replace(top, f'{copies}/b')) as copy:
            text = f.read()
            equal(copy.read(), text, f'the copy of {file}')
        equal(int(shell('wc -c < "$1"', file)), len(text), f'wc -c {file}')
        equal(int(shell('wc -l < "$1"', file)), text.count('\n'), f'wc -l {file}')
    file = f'{top}/read_request_histo'
    text = tree.read(loop.name, 'read_request_histo')
    lines = text.splitlines(keepends=True)
    equal(shell('head -n 2 "$1"', file), ''.join(lines[:2]))
    equal(shell('tail -n 1 "$1"', file), lines[-1])
    equal(shell('tail -n +3 "$1"', file), ''.join(lines[2:]))
    equal(shell('tail -c 5 "$1"', file), text[-5:])
    equal(shell('dd if="$1" bs=1 status=none', file), text)
    equal(shell('dd if="$1" bs=100 skip=1 status=none', file), text[100:])
    equal(shell('sort "$1"', file), ''.join(sorted(lines)))
    equal(shell('cut -f 1 "$1" | tail -n 1', file), '+inf\n')
    equal(shell('cmp "$1" "$2"', file, f'{copies}/a/read_request_histo'), '')
    if shutil.which('busybox'):
        equal(shell('busybox cat "$1"; busybox head -n 1 "$1"', file), text + lines[0])
    equal(shell('timeout 2.5 tail -f "$1"', file, expected=124), ''.join(lines[-10:]), 'tail -f')
    equal(shell('timeout 2.5 tail -n 1 -f "$1" "$1"', file, expected=124).count(lines[-1]), 2, 'tail -f of two')
    equal(tree.read(loop.name, 'read_request_histo'), text, 'nobody has changed anything')


@test
def tail_follows_under_load(env):
    """Whatever others do with the file."""
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    fio = env.mixed_load(p1, p2)
    crowd = Crowd(env)
    crowd.each(2, lambda rng: tree.table(loop.name, 'read_request_histo'))
    crowd.each(1, lambda rng: (time.sleep(0.1), tree.write(b'0', loop.name, 'read_request_histo')))
    out = shell('timeout 4 tail -n 100 -f "$1"', tree(loop.name, 'read_request_histo'), expected=124)
    assert fio.running(), 'the load ended early'
    crowd.end()
    Table(out)  # one whole table, and nothing behind it


# --- what is not there, and what is refused ---

@test
def what_is_not_there(env):
    loop, p1, _ = env.two_partitions()
    other = env.loop()
    env.start()
    tree = Tree(env)
    for names in (
            ('nosuchdisk',), ('nosuchdisk', 'seek_histo'), ('', 'read_request_histo'), (p1,), ('.blkhist',),
            ('ALL.JSON',), ('read_request_histo',), (loop.name, 'nothing'), (loop.name, 'x' * 255),
            (loop.name, 'read_service_histo'), (loop.name, 'read_request_histo '),
            (loop.name, 'erase_dma_histo'), (loop.name, 'seek_seek_histo'), (loop.name, '_histo'),
            (loop.name, 'buckets_'), (loop.name, 'buckets_request'), (loop.name, f'{loop.name}p9'),
            (loop.name, loop.name), (loop.name, other.name), (loop.name, 'status'), (loop.name, 'queue'),
            (loop.name, 'size'), (loop.name, p1, 'flush_request_histo'), (loop.name, p1, 'buckets_time'),
            (loop.name, p1, p1), (loop.name, p1, loop.name), (other.name, p1), (other.name, p1, 'seek_histo'),
            (f'{loop.name}!{p1}',), ('class',), ('\xff\xfe',), ('%s%n',)):
        path = '/'.join((tree.path, *names))
        fails(os.lstat, path, errnos=(errno.ENOENT,))
        fails(os.open, path, os.O_RDONLY, errnos=(errno.ENOENT,))
        fails(os.open, path, os.O_WRONLY | os.O_TRUNC, errnos=(errno.ENOENT,))
    fails(os.lstat, tree(loop.name, 'x' * 256), errnos=(errno.ENAMETOOLONG, errno.ENOENT))
    fails(os.lstat, tree('status', 'x'), errnos=(errno.ENOTDIR,))
    fails(os.lstat, tree(loop.name, 'seek_histo', 'x'), errnos=(errno.ENOTDIR,))
    fails(os.listdir, tree('status'), errnos=(errno.ENOTDIR,))
    fails(os.open, tree(loop.name), os.O_WRONLY, errnos=(errno.EISDIR,))
    equal(tree.list(loop.name, '.'), tree.list(loop.name))
    equal(tree.list(loop.name, p1, '..'), tree.list(loop.name))


@test
def nothing_else_can_be_done(env):
    loop, p1, _ = env.two_partitions()
    env.start()
    tree = Tree(env)
    some_io(env.disk(f'/dev/{p1}'))
    directory, file = tree(loop.name), tree(loop.name, 'read_request_histo')
    before, listed = show(loop.name).data['histograms'], sorted(map(str, os.walk(directory)))
    outside = f'{new_directory(env)}/x'
    write_file(outside, 'x')

    def create(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))

    new = f'{directory}/new'
    for function, *args in (
            (os.mkdir, new), (os.mkdir, tree('new')), (os.rmdir, f'{directory}/{p1}'), (os.unlink, file),
            (os.unlink, tree('status')), (os.chmod, file, 0o600), (os.chmod, directory, 0o700),
            (os.chown, file, USER, USER), (os.rename, file, new), (os.rename, file, f'{directory}/seek_histo'),
            (os.rename, directory, tree('other')), (os.symlink, file, new), (os.link, file, new),
            (os.mknod, new, stat.S_IFREG | 0o644), (os.mkfifo, new), (create, new), (create, tree('new')),
            (create, f'{directory}/{p1}/flush_request_histo')):
        fails(function, *args, errnos=REFUSALS)
    fails(os.rename, outside, new, errnos=(errno.EXDEV,))
    for name in OF_THE_TREE:
        fails(os.open, tree(name), os.O_WRONLY, errnos=REFUSALS)
        fails(os.open, tree(name), os.O_RDWR | os.O_TRUNC, errnos=REFUSALS)
        fails(os.truncate, tree(name), 0, errnos=REFUSALS)
    fails(os.mkdir, directory, errnos=(errno.EEXIST, *REFUSALS))
    equal(sorted(map(str, os.walk(directory))), listed)
    equal(show(loop.name).data['histograms'], before)


if __name__ == '__main__':
    main()
