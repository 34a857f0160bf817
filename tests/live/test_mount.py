#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The file tree is mounted and unmounted, its process dies, devices go while their files are open."""
import contextlib
import errno
import glob
import os
import re
import signal
import socket
import stat
import subprocess

from lib import (BLKHIST, MIB, USER, Skip, as_user, between, blkhist, bpffs_entries, equal, main,
                 on_every_kernel, program_for_everybody, refused, rounds, show, spawn, status, test, unseen,
                 verify, write_file)
from tree import (LADDERS, OF_THE_TREE, Tree, as_other, bounds, config, fails, mounts, new_directory, no_trace,
                  opened, places, read_all, read_device, same_as_show, serving, some_io, wait_for)


# --- who may do what ---

@test
def another_user(env):
    loop, p1, _ = env.two_partitions()
    env.start()
    some_io(env.disk(f'/dev/{p1}'))
    tree = Tree(env)
    file = tree(loop.name, 'read_request_histo')
    r = as_other('cat', file)
    assert r.returncode and 'denied' in r.stderr, f'without allow_other: {r}'
    tree.unmount()
    tree.mount('-o', 'allow_other')
    before = show(loop.name).data['histograms']
    for path in (file, tree(loop.name, p1, 'seek_histo'), tree(loop.name, 'buckets_time')):
        r = as_other('cat', path)
        equal((r.returncode, r.stdout, r.stderr), (0, tree.read(os.path.relpath(path, tree.path)), ''))
        for command in ('echo 0 > "$1"', 'echo 1ms > "$1"', 'echo 0 >> "$1"', ': > "$1"', 'echo 0 1<> "$1"',
                        'truncate -s 0 "$1"', 'chmod 666 "$1"', 'rm -f "$1"'):
            r = as_other('sh', '-c', command, 'sh', path)
            assert r.returncode and re.search('denied|not permitted', r.stderr), f'{command}: {r}'
    for name in OF_THE_TREE:
        r = as_other('cat', tree(name))
        assert (r.returncode, r.stderr) == (0, '') and len(r.stdout) > 10, f'{name}: {r}'
    equal(set(as_other('ls', tree(loop.name)).stdout.split()), tree.list(loop.name))
    equal(show(loop.name).data['histograms'], before)
    r = as_other('kill', str(tree.server))
    assert r.returncode, 'it is not the process of that user'
    # What root has opened and passed on may be used, as ever.
    with open(file, 'w') as f:
        subprocess.run(['echo', '0'], user=USER, group=USER, extra_groups=[], stdout=f, check=True)
    equal(tree.table(loop.name, 'read_request_histo').count(), 0)


@test
def read_only(env):
    loop = env.loop()
    env.start()
    some_io(env.disk(loop.path))
    tree = Tree(env, '-o', 'ro,noexec')
    [(_, options)] = mounts(tree.path)
    assert {'ro', 'noexec'} <= set(options) and 'rw' not in options[:1], options
    same_as_show(tree, show(loop.name), *places(loop))
    for file in ('read_request_histo', 'buckets_time'):
        fails(os.open, tree(loop.name, file), os.O_WRONLY, errnos=(errno.EROFS,))
        fails(os.truncate, tree(loop.name, file), 0, errnos=(errno.EROFS,))
    fails(os.mkdir, tree('x'), errnos=(errno.EROFS,))
    equal(tree.table(loop.name, 'read_request_histo').count(), 6)
    tree.unmount()
    tree.mount('-o', 'ro', '-o', 'allow_other')
    [(_, options)] = mounts(tree.path)
    assert {'ro', 'allow_other'} <= set(options), options
    equal(as_other('cat', tree(loop.name, 'seek_histo')).stdout, tree.read(loop.name, 'seek_histo'))


# --- mounting, unmounting, dying ---

@test
@on_every_kernel
def unmount_while_files_are_open(env):
    """It is refused, and nobody who reads is disturbed; by force it works, and nothing hangs or lives on."""
    loop = env.loop()
    env.start()
    some_io(env.disk(loop.path))
    tree = Tree(env)
    path = tree(loop.name, 'read_request_histo')
    for open_one in (lambda: os.open(path, os.O_RDONLY), lambda: os.open(path, os.O_WRONLY),
                     lambda: os.open(tree(loop.name), os.O_RDONLY | os.O_DIRECTORY)):
        fd = open_one()
        refused('unmount', tree.path, word=tree.path, timeout=60)
        equal((len(mounts(tree.path)), serving(tree.path)), (1, [tree.server]))
        equal(tree.table(loop.name, 'read_request_histo').count(), 6)
        os.close(fd)
    process = subprocess.Popen(['sleep', '60'], cwd=tree(loop.name))
    refused('unmount', tree.path, word=tree.path, timeout=60)
    process.kill()
    process.wait()
    tree.unmount()
    tree.mount()
    with opened(path) as reading, opened(path, os.O_WRONLY) as writing:
        whole = tree.read(loop.name, 'read_request_histo').encode()
        subprocess.run(['umount', '--lazy', tree.path], check=True)
        equal((mounts(tree.path), os.listdir(tree.path)), ([], []))
        equal(read_all(reading), whole, 'of the moment of open')
        old = tree.server
        blkhist('mount', tree.path, timeout=60)  # the new one does not mind the old one
        equal(tree.table(loop.name, 'read_request_histo').count(), 6)
        os.write(writing, b'0')
        equal(tree.table(loop.name, 'read_request_histo').count(), 0, 'the old one serves who has a file open')
        blkhist('unmount', tree.path, timeout=60)
        wait_for(lambda: serving(tree.path) == [old], 'the end of the new process')
    no_trace(tree.path)
    verify(loop.name)


@test
@on_every_kernel
def killed_and_mounted_again(env):
    loop, p1, p2 = env.two_partitions()
    env.start()
    tree = Tree(env)
    loop.queue('nomerges', 2)
    fio = env.mixed_load(p1, p2)
    before = None
    for _ in rounds(8):
        fd = os.open(tree(loop.name, 'read_request_histo'), os.O_RDWR)
        os.kill(tree.server, signal.SIGKILL)
        wait_for(lambda: not serving(tree.path), 'the end of the process')
        fails(os.pread, fd, 10, 0, errnos=(errno.ENOTCONN, errno.ECONNABORTED))
        with contextlib.suppress(OSError):
            os.close(fd)
        fails(os.listdir, tree.path, errnos=(errno.ENOTCONN, errno.ECONNABORTED))
        counted = show('-k', 'request', p2).counts(p2)['read']
        assert before is None or counted > before, 'the collector stands still'
        before = counted
        tree.mount()
        table = tree.table(loop.name, p2, 'read_request_histo')
        counted_later = show('-k', 'request', p2).counts(p2)['read']
        between(counted, table.count(), counted_later, 'reads after the new mount')
        tree.write(b'0', loop.name, 'write_dma_histo')
    os.kill(tree.server, signal.SIGKILL)
    wait_for(lambda: not serving(tree.path), 'the end of the process')
    fio.interrupt()
    counts = fio.result()
    blkhist('unmount', tree.path)  # the dead one
    equal((mounts(tree.path), os.listdir(tree.path)), ([], []))
    tree.mount()
    for name in (p1, p2):
        equal(tree.table(loop.name, name, 'read_request_histo').count() + unseen(name).get('read', 0),
              counts[name]['read'], f'{name}: reads, and those of fio')
    same_as_show(tree, show(loop.name), *places(loop, p1, p2))
    tree.unmount()
    equal(os.listdir(tree.path), [])
    verify(loop.name, p1, p2)


@test
def mounted_twice(env):
    loop = env.loop()
    env.start()
    some_io(env.disk(loop.path))
    tree = Tree(env)
    refused('mount', tree.path, word=tree.path, timeout=60)
    refused('mount', tree.path + '/', word=tree.path, timeout=60)
    refused('mount', '-f', tree.path, word=tree.path, timeout=60)
    refused('mount', tree(loop.name), word=tree(loop.name), timeout=60)
    equal((len(mounts(tree.path)), serving(tree.path)), (1, [tree.server]))
    other = Tree(env)  # elsewhere there may be another one
    assert same_as_show(other, show(loop.name), *places(loop)) > 5
    assert same_as_show(tree, show(loop.name), *places(loop)) > 5
    tree.write(b'0', loop.name, 'read_request_histo')
    equal(other.table(loop.name, 'read_request_histo').count(), 0)
    tree.write(b'7ms', loop.name, 'buckets_time')
    equal(other.read(loop.name, 'buckets_time'), '7ms\n')
    some_io(env.disk(loop.path))
    assert same_as_show(other, show(loop.name), *places(loop)) > 5
    tree.unmount()
    equal(len(mounts(other.path)), 1)
    assert same_as_show(other, show(loop.name), *places(loop)) > 5
    other.unmount()


@test
def odd_names(env):
    """Of the directory: blanks, a link, relative, with slashes."""
    env.start()
    base = new_directory(env)
    odd = f'{base}/my  blkhist, of\tmine'
    tree = Tree(env, path=odd)
    refused('mount', odd, word=odd)
    os.kill(tree.server, signal.SIGKILL)
    wait_for(lambda: not serving(odd), 'the end of the process')
    tree.mount()
    tree.unmount()
    equal(os.listdir(odd), [], 'the directory is made, and left')
    plain = Tree(env, path=f'{base}/plain')
    plain.unmount()
    os.symlink('plain', f'{base}/link')
    for name, where in (('link', base), ('plain/', base), ('./plain//', base), ('.', plain.path),
                        ('../plain', plain.path)):
        blkhist('mount', name, cwd=where, timeout=60)
        equal(len(mounts(plain.path)), 1, f'mounts after mount {name}')
        refused('mount', plain.path, word=plain.path)
        # Who is in the directory is now in the tree, and in the way.
        blkhist('unmount', name if where == base else plain.path, cwd=base, timeout=60)
        equal(mounts(plain.path), [], f'mounts after unmount {name}')
        wait_for(lambda: not serving(name), 'the end of the process')


@test
def many_mounts_at_once(env):
    """Of one directory: one wins, the others are refused, and one unmount is enough."""
    env.start()
    tree = Tree(env)
    tree.unmount()
    for _ in rounds(5):
        processes = [spawn('mount', tree.path) for _ in range(6)]
        outputs = [process.communicate(timeout=60) for process in processes]
        equal(sorted(process.returncode for process in processes), [0] + [1] * 5, f'exit status, {outputs}')
        equal(len(mounts(tree.path)), 1, 'mounts')
        wait_for(lambda: len(serving(tree.path)) == 1, 'one process')
        equal(tree.list() >= set(OF_THE_TREE), True, 'it serves')
        tree.unmount()


@test
def in_the_foreground(env):
    """It ends on a signal and leaves no mount, also while a file is open; what is wrong goes to stderr."""
    loop = env.loop()
    env.start()
    some_io(env.disk(loop.path))
    tree = Tree(env)
    tree.unmount()
    for i, end in enumerate((signal.SIGTERM, signal.SIGINT, None, signal.SIGTERM)):
        process = spawn('mount', '-f', tree.path)
        env.callback(process.wait)
        env.callback(process.kill)
        wait_for(lambda: mounts(tree.path), 'the mount')
        equal(serving(tree.path), [process.pid], 'one process')
        assert same_as_show(tree, show(loop.name), *places(loop)) > 5
        fails(tree.write, b'10', loop.name, 'buckets_time', errnos=(errno.EINVAL,))
        sentence = tree.last_error()[2]
        fd = os.open(tree(loop.name, 'seek_histo'), os.O_RDONLY) if i == 3 else -1
        if end:
            process.send_signal(end)
        else:
            blkhist('unmount', tree.path)
        out, err = process.communicate(timeout=30)
        equal((process.returncode, out), (0, ''), f'after {end}: {err}')
        assert f'{loop.name}/buckets_time' in err and sentence in err, f'{sentence!r} is not in: {err}'
        equal(err.count('\n'), 1, f'lines on stderr: {err}')
        equal((mounts(tree.path), os.listdir(tree.path)), ([], []), f'after {end}')
        if fd >= 0:
            os.close(fd)


@test
def a_signal_ends_the_daemon(env):
    env.start()
    tree = Tree(env)
    for end in (signal.SIGTERM, signal.SIGINT):
        os.kill(tree.server, end)
        no_trace(tree.path)
        equal(os.listdir(tree.path), [])
        tree.mount()
    # A daemon: it has let go of what it was started with.
    fds = {os.readlink(f'/proc/{tree.server}/fd/{n}') for n in '012'}
    equal(fds, {'/dev/null'}, 'its standard files')
    equal(os.readlink(f'/proc/{tree.server}/cwd'), '/', 'its directory')
    assert os.getsid(tree.server) != os.getsid(0), 'it has a session of its own'


@test
def what_is_wrong_goes_to_the_log(env):
    """Of the system, whose socket is in a small /dev of a namespace of its own."""
    loop = env.loop()
    env.start()
    tree = Tree(env, path=new_directory(env, where='/tmp'))
    tree.unmount()
    script = ('mount -t tmpfs tmpfs /dev && mknod /dev/null c 1 3 && mknod /dev/fuse c 10 229 && echo && '
              'exec sleep 600')
    keeper = subprocess.Popen(['unshare', '--mount', '--propagation', 'private', 'sh', '-c', script],
                              stdout=subprocess.PIPE)
    env.callback(keeper.wait)
    env.callback(keeper.kill)
    keeper.stdout.readline()
    root = f'/proc/{keeper.pid}/root'
    log = env.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    log.bind(f'{root}/dev/log')
    log.settimeout(30)
    inside = ['nsenter', f'--mount=/proc/{keeper.pid}/ns/mnt', BLKHIST]
    blkhist('mount', tree.path, command=inside, timeout=60)
    there = Tree.__new__(Tree)
    there.path = root + tree.path
    for text, word in ((b'10\n', 'unit'), (b'2ms,1ms', '1ms'), (b'%s%n%n', None), (b'\xff\x1b\n\0', None)):
        fails(there.write, text, loop.name, 'buckets_time', errnos=(errno.EINVAL,))
        line = log.recv(65536).decode('ascii')
        sentence = there.last_error()[2]
        m = re.fullmatch(r'<(\d+)>.*blkhist\[\d+\]: (.*)', line)
        for part in (sentence, f'{loop.name}/buckets_time'):
            assert m and part in m[2], f'{part!r} is not in: {line!r}'
        assert word is None or word in sentence, sentence
        equal((int(m[1]) >> 3, int(m[1]) & 7 <= 4), (3, True), 'of a daemon, and at least a warning')
    blkhist('unmount', tree.path, command=inside, timeout=60)
    no_trace(tree.path)


@test
def mount_starts_the_collector(env):
    env.start()
    blkhist('stop')
    tree = Tree(env, '--no-start')
    equal(bpffs_entries(), [], '--no-start')
    equal(tree.list(), {'status'})
    assert 'blkhist start' in tree.read('status'), tree.read('status')
    tree.unmount()
    tree.mount()
    equal(tree.list() > set(OF_THE_TREE), True, 'everything is there')
    since = status()['since']
    tree.unmount()
    tree.mount()
    tree.unmount()
    equal(status()['since'], since, 'the one that runs goes on, without the tree, too')
    blkhist('stop')
    path = config(env, '[default]\ntime = 9ms\n')
    tree.mount('-c', path)
    equal(status()['ladders']['time'], [9 * 10**6])
    tree.unmount()
    tree.mount('--config', path)
    tree.unmount()
    blkhist('stop')
    refused('mount', tree.path, '-c', config(env, '[default]\ntime = 9\n'), word=':2: ', timeout=60)
    no_trace(tree.path)
    equal(bpffs_entries(), [])


@test
@on_every_kernel
def the_collector_is_stopped_and_started(env):
    """The tree stays, and follows."""
    loop, p1, _ = env.two_partitions()
    env.start()
    tree = Tree(env)
    some_io(env.disk(f'/dev/{p1}'))
    path = tree(loop.name, 'read_request_histo')
    with opened(path) as reading, opened(path, os.O_WRONLY) as writing, \
            opened(tree(loop.name, 'buckets_time'), os.O_WRONLY) as ladder:
        whole = tree.read(loop.name, 'read_request_histo').encode()
        blkhist('stop')
        equal(tree.list(), {'status'})
        assert 'blkhist start' in tree.read('status'), tree.read('status')
        equal(read_all(reading), whole, 'of the moment of open')
        for fd, data in ((writing, b'0'), (ladder, b'1ms')):
            assert fails(os.write, fd, data, errnos=(errno.ENODEV, errno.EIO, errno.ENOENT, errno.ESTALE))
        for names in ((loop.name, 'seek_histo'), (loop.name, p1, 'read_dma_histo'), ('all.json',), ('config',)):
            fails(os.open, tree(*names), os.O_RDONLY, errnos=(errno.ENOENT,))
        for names in ((loop.name,), (loop.name, 'read_request_histo'), ('all.json',)):
            # The kernel may know a name for a moment longer.
            wait_for(lambda names=names: not os.path.lexists(tree(*names)), f'a tree without {names}')
        equal(bpffs_entries(), [], 'nobody starts it')
    for ladder in ('1ms,2ms', '5ms'):
        blkhist('start', '--time', ladder)
        equal(tree.read(loop.name, 'buckets_time'), ladder + '\n')
        equal(tree.table(loop.name, 'read_request_histo').count(), 0, 'it begins at zero')
        some_io(env.disk(f'/dev/{p1}'))
        assert same_as_show(tree, show(loop.name), *places(loop, p1)) > 10
        equal(tree.table(loop.name, p1, 'read_request_histo').count(), 6)
        blkhist('stop')
        equal(tree.list(), {'status'})
    # Another one takes its place between two looks.
    blkhist('start')
    tree.list()
    blkhist('stop')
    blkhist('start', '--kinds', 'seek')
    equal(tree.list(loop.name), {'seek_histo', *LADDERS, p1, f'{loop.name}p2'})
    equal(serving(tree.path), [tree.server])


@test
@on_every_kernel
def a_device_goes_while_its_files_are_open(env):
    """Nothing is written to the next one of that name."""
    loop = env.loop()
    env.start()
    tree = Tree(env)
    read_device(loop.path, 5)
    path = tree(loop.name, 'read_request_histo')
    fds = {file: os.open(tree(loop.name, file), os.O_RDWR) for file in ('read_request_histo', 'buckets_time')}
    p3 = loop.partition(3, 8 * MIB, 8 * MIB)
    fds['partition'] = os.open(tree(loop.name, p3, 'read_request_histo'), os.O_RDWR)
    unread = os.open(path, os.O_RDONLY)
    directory = os.open(tree(loop.name), os.O_RDONLY | os.O_DIRECTORY)
    for fd in (*fds.values(), unread, directory):
        env.callback(os.close, fd)
    whole = tree.read(loop.name, 'read_request_histo').encode()
    loop.delete_partition(3)
    fails(os.write, fds['partition'], b'0', errnos=(errno.ENODEV,))
    loop.remove()
    equal(read_all(unread), whole, 'of the moment of open')
    for data in (b'0', b'1ms'):
        for fd in fds.values():
            fails(os.write, fd, data, errnos=(errno.ENODEV,))
    fails(os.open, path, os.O_RDONLY, errnos=(errno.ENOENT,))
    wait_for(lambda: not os.path.lexists(path), 'a tree without the file')
    with contextlib.suppress(OSError):
        os.listdir(directory)  # as it was, or an error, but an answer
    again = env.loop()
    equal(again.name, loop.name)
    again.partition(3, 8 * MIB, 8 * MIB)
    read_device(again.path, 3)
    read_device(f'/dev/{p3}', 2)
    ladders, counts = bounds(again.name), show(again.name).counts(again.name)
    for fd in fds.values():
        fails(os.write, fd, b'1ms', errnos=(errno.ENODEV,))
    equal((bounds(again.name), show(again.name).counts(again.name)), (ladders, counts))
    equal(show(p3).counts(p3), {'read': 2})
    equal(os.read(unread, 10), b'', 'at its end')
    equal(os.pread(unread, len(whole), 0), whole)
    equal(tree.table(again.name, 'read_request_histo').count(), counts['read'])
    tree.write(b'0', again.name, 'read_request_histo')
    equal(tree.table(again.name, 'read_request_histo').count(), 0)
    verify(again.name)


@test
def another_file_of_a_loop_device_is_another_device(env):
    loop = env.loop()
    if not os.path.exists(f'/sys/block/{loop.name}/diskseq'):
        raise Skip('needs a kernel with diskseq')
    env.start()
    tree = Tree(env)
    read_device(loop.path, 5)
    with opened(tree(loop.name, 'read_request_histo'), os.O_RDWR) as fd, \
            opened(tree(loop.name, 'buckets_time'), os.O_WRONLY) as ladder:
        loop.detach()
        fails(os.write, fd, b'0', errnos=(errno.ENODEV,))
        loop.attach()
        read_device(loop.path, 7)
        before = show(loop.name).counts(loop.name)
        fails(os.write, fd, b'0', errnos=(errno.ENODEV,))
        fails(os.write, ladder, b'1ms', errnos=(errno.ENODEV,))
        equal(show(loop.name).counts(loop.name), before)
        equal(tree.table(loop.name, 'read_request_histo').count(), before['read'])


@test
def the_usual_place(env):
    """Without a directory: /run/blkhist, made if it is not there. A small /run of our own."""
    env.start()
    Tree(env).unmount()
    loop = env.loop()
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', '/run'], check=True)
    env.callback(subprocess.run, ['umount', '--lazy', '/run'], check=True)
    env.callback(lambda: [os.kill(pid, signal.SIGKILL) for pid in serving('/run/blkhist') + default_servers()])
    for _ in range(2):
        blkhist('mount', timeout=60)
        equal(len(mounts('/run/blkhist')), 1)
        assert loop.name in os.listdir('/run/blkhist')
        blkhist('unmount', timeout=60)
        equal(os.listdir('/run/blkhist'), [], 'the directory is left')
    wait_for(lambda: not default_servers(), 'the end of the process')
    refused('unmount', word='/run/blkhist')
    equal(stat.S_IMODE(os.stat('/run/blkhist').st_mode), 0o755)
    blkhist('mount', '/run/other', timeout=60)
    equal(len(mounts('/run/other')), 1)
    blkhist('unmount', '/run/other')
    no_trace('/run/other')


def default_servers():
    """Processes that serve the usual place of this namespace."""
    found = []
    for directory in glob.glob('/proc/[0-9]*'):
        with contextlib.suppress(OSError), open(f'{directory}/cmdline', 'rb') as f:
            words = f.read().split(b'\0')
            if words[:2] == [BLKHIST.encode(), b'mount'] and len(words) == 3 and \
                    os.readlink(f'{directory}/ns/mnt') == os.readlink('/proc/self/ns/mnt'):
                found.append(int(directory[len('/proc/'):]))
    return found


@test
def wrong_use(env):
    env.start()
    tree = Tree(env)
    tree.unmount()
    blkhist('stop')
    base = new_directory(env)
    full, file, link = f'{base}/full', f'{base}/file', f'{base}/link'
    os.makedirs(f'{full}/x')
    write_file(file, 'text')
    os.symlink('/nonexistent', link)
    empty = f'{base}/empty'
    os.mkdir(empty)
    nothing = f'{base}/no/such'
    listed = sorted(os.listdir(base))
    for args, code, word in (
            (('mount', full), 1, 'empty'), (('mount', file), 1, file), (('mount', nothing), 1, nothing),
            (('mount', '/proc/self/fd'), 1, 'empty'), (('mount', ''), None, None),
            (('mount', link), 1, 'No such file'), (('mount', empty, empty), 2, None),
            (('mount', '-o'), 2, '-o'), (('mount', '--frob', empty), 2, '--frob'),
            (('mount', empty, '-o', 'nosuchoption'), 2, 'nosuchoption'),
            (('mount', empty, '-o', 'ro,nosuchoption=5'), 2, 'nosuchoption'),
            (('mount', empty, '-c', '/nonexistent.conf'), 1, '/nonexistent.conf'),
            (('unmount', empty), 1, empty), (('unmount', full), 1, full), (('unmount', nothing), 1, nothing),
            (('unmount', file), 1, file), (('unmount', empty, full), 2, None), (('unmount', '-x'), 2, '-x'),
            (('unmount', '/'), 1, '/'), (('unmount', '/proc'), 1, '/proc')):
        r = blkhist(*args, status=None, timeout=60)
        assert r.returncode == code if code else r.returncode in (1, 2), f'{args}: {r}'
        equal((r.stdout, r.stderr.count('\n')), ('', 1), f'{args}: {r}')
        assert r.stderr.startswith('blkhist: ') and (word is None or word in r.stderr), f'{args}: {r.stderr}'
        equal((sorted(os.listdir(base)), mounts(empty), mounts(full), serving(empty), serving(full)),
              (listed, [], [], [], []), f'left by {args}')
        equal(bpffs_entries(), [], f'started by {args}')
    assert mounts('/proc'), 'somebody else unmounted'
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', empty], check=True)
    env.callback(subprocess.run, ['umount', empty], check=True)
    refused('unmount', empty, word=empty)
    equal(len(mounts(empty)), 1, "somebody else's mount stays")
    for command in ('mount', 'unmount'):
        assert 'DIR' in blkhist(command, '--help').stdout


@test
def without_fuse(env):
    """No device, or one that nobody drives: a namespace of its own has a /dev without it."""
    env.start()
    tree = Tree(env, path=new_directory(env, where='/tmp'))  # not below the /dev that is to be hidden
    tree.unmount()
    for more in ('', 'mknod /dev/fuse c 10 254 &&'):
        for arguments in ((), ('-f',)):
            script = f'mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3 && {more} exec "$@"'
            r = subprocess.run(['unshare', '--mount', '--propagation', 'private', 'sh', '-c', script, 'sh',
                                BLKHIST, 'mount', tree.path, *arguments],
                               capture_output=True, text=True, check=False, timeout=60)
            equal((r.returncode, r.stdout, r.stderr.count('\n')), (1, '', 1), r.stderr)
            assert r.stderr.startswith('blkhist: ') and re.search('/dev/fuse|modprobe fuse', r.stderr), r.stderr
            no_trace(tree.path)
    tree.mount()
    tree.unmount()


@test
def an_ordinary_user_mounts_nothing(env):
    env.start()
    tree = Tree(env)
    tree.unmount()
    os.chown(tree.path, USER, USER)
    command = [*as_user(), program_for_everybody()]
    for args in (('mount',), ('mount', '--no-start'), ('mount', '-o', 'allow_other', '--no-start')):
        refused(*args, tree.path, command=command, timeout=60)
        no_trace(tree.path)
    tree.mount('-o', 'allow_other')
    refused('unmount', tree.path, command=command, timeout=60)
    equal(len(mounts(tree.path)), 1)


if __name__ == '__main__':
    main()
