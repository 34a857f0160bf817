#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""`blkhist record` at its limits: events lost, disks full, killed, and used wrongly. Nothing is left attached."""
import contextlib
import os
import pty
import shutil
import signal
import subprocess
import tempfile
import time

import records
from lib import (BPFFS, CAPABILITIES, KIB, USER, Disk, Skip, as_user, between, blkhist, command_line, equal,
                 main, on_cpu, on_every_kernel, program_for_everybody, refused, scratch, show, subject_is, test, unseen)
from recorder import SMALL, Attached, Recorder, attached_links, gaps, number

PATIENCE = 60


def read_everywhere(loop, n=1):
    """Reads on each CPU, so that each has an event more."""
    cpus = sorted(os.sched_getaffinity(0))
    with contextlib.closing(Disk(loop.path)) as disk:
        for cpu in cpus:
            with on_cpu(cpu):
                for _ in range(n):
                    disk.read(0, 4 * KIB)
    return n * len(cpus)


# --- losses ---

@test
@on_every_kernel
def what_is_lost_is_known_to_the_unit(env):
    """The recorder is stopped while more happens than its memory has room for."""
    loop = env.loop()
    loop.queue('nomerges', 2)
    env.start()
    with Recorder(env, loop, '-b', '64') as recorder:
        reads = read_everywhere(loop)
        process = recorder.attached.process
        process.send_signal(signal.SIGSTOP)
        load = env.fio(dict(filename=loop.path, rw='randread', bs='4k', iodepth=16, numjobs=2, number_ios=4000),
                       size=loop.size)
        reads += load.result()[loop.name]['read']
        process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        # So that nothing is lost at the end, where no event behind it tells.
        reads += read_everywhere(loop)
    equal(unseen(loop.name), {}, 'completions that the kernel showed to no program')
    files, events = recorder.files(), recorder.read()
    assert recorder.lost > 1000, recorder.text
    assert '-b' in recorder.text, f'what to do is not said: {recorder.text}'
    equal(len(events.all), recorder.events, 'events, as said')
    equal(len(events.all) + recorder.lost, 2 * reads, 'D and C, recorded or lost')
    equal((gaps(files), recorder.at_end), (recorder.lost, 0), 'gaps, and what is lost behind the last event')
    equal(show('-i', recorder.path).losses['lost'], recorder.lost, 'lost, as show says it')


@test
@on_every_kernel
def what_is_lost_at_the_end_is_said(env):
    loop = env.loop()
    env.start()
    recorder = Recorder(env, loop, '-b', '64')
    with recorder:
        process = recorder.attached.process
        process.send_signal(signal.SIGSTOP)
        load = env.fio(dict(filename=loop.path, rw='randread', bs='4k', iodepth=16, number_ios=4000), size=loop.size)
        reads = load.result()[loop.name]['read']
        # With this already there when it goes on, it reads what it has and ends.
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
    equal(unseen(loop.name), {}, 'completions that the kernel showed to no program')
    equal(recorder.events + recorder.lost, 2 * reads, 'D and C, recorded or lost')
    equal(recorder.events, len(recorder.read().all), 'events, as said')
    assert recorder.lost, recorder.text
    equal(gaps(recorder.files()) + recorder.at_end, recorder.lost, 'gaps, and what is lost behind the last event')


@test
@on_every_kernel
def highest_rate(env):
    """As much as the device gives: with the memory that it has by default nothing is lost, or counted to the unit."""
    loop = env.loop()
    loop.queue('nomerges', 2)
    env.start()
    with Recorder(env, loop, '-b', '2048') as recorder:
        load = env.fio(dict(filename=loop.path, rw='randread', bs='4k', iodepth=64, numjobs=2), size=loop.size,
                       runtime=2).result()
        reads = load[loop.name]['read'] + read_everywhere(loop)
    hidden = unseen(loop.name).get('read', 0)  # completions that the kernel showed to no program
    events, files = recorder.read(), recorder.files()
    print(f'# {reads / 2:.0f} reads per second, {recorder.lost} of {2 * reads} events lost')
    equal(len(events.all) + recorder.lost, 2 * reads - hidden, 'D and C, recorded or lost')
    equal(gaps(files), recorder.lost, 'gaps')


# --- ends ---

def whole(directory, name):
    """All files of a disk; each ends with a whole record. Also for show."""
    files = {cpu: records.read(path) for cpu, path in records.files(f'{directory}/{name}').items()}
    events = sum(not r.is_notify for of in files.values() for r in of)
    if events:
        equal(show('-i', f'{directory}/{name}').losses['events'], sum(map(len, files.values())), 'records for show')
    return events


def one_sentence(text):
    assert text.startswith('blkhist: ') and text.count('\n') == 1, text
    return text


@contextlib.contextmanager
def small_file_system(size):
    directory = tempfile.mkdtemp(prefix='blkhist-test-', dir='/dev/shm')
    try:
        subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size},mode=777', 'tmpfs', directory], check=True)
        yield directory
    finally:
        subprocess.run(['umount', directory], check=False)
        os.rmdir(directory)


@test
def full_disk(env):
    loop = env.loop()
    env.start()
    for size in (256 * KIB, 400 * KIB):
        with small_file_system(size) as directory:
            recorder = Attached(env, 'record', '-o', directory, '-d', loop.name, '-a', 'all')
            load = env.fio(dict(filename=loop.path, rw='randread', bs='4k', iodepth=16), size=loop.size, runtime=120)
            _, text = recorder.end(signum=None, status=1)
            load.interrupt()
            load.result()
            assert 'space' in one_sentence(text) and directory in text, text
            events = whole(directory, loop.name)
            between(size // 2 // 80, events, size // 48, 'events in a full file system')


@test
def closed_pipe(env):
    loop = env.loop()
    env.start()
    end, beginning = os.pipe()
    recorder = Attached(env, 'record', '-o', '-', '-d', loop.name, stdout=beginning)
    os.close(beginning)
    disk = env.disk(loop.path)
    data = b''
    while len(data) < 1000:
        disk.read(0, 4 * KIB)
        data += os.read(end, 1000 - len(data))
    os.close(end)
    deadline = time.monotonic() + PATIENCE
    while recorder.process.poll() is None and time.monotonic() < deadline:
        disk.read(0, 4 * KIB)
        time.sleep(0.01)
    _, text = recorder.end(signum=None, status=1)
    one_sentence(text)
    assert records.parse(data, cut=True)[0].kind == 'timestamp'


@test
@on_every_kernel
def ended_by_signals(env):
    loop = env.loop()
    env.start()
    load = env.fio(dict(filename=loop.path, rw='randread', bs='4k', iodepth=4, rate_iops=5000), size=loop.size,
                   runtime=300)
    for signum in (signal.SIGINT, signal.SIGTERM):
        for wait in (0, 0.3, 1.2):
            recorder = Recorder(env, loop, '-a', 'all')
            recorder.__enter__()
            time.sleep(wait)
            recorder.end(signum)
            equal(whole(recorder.directory, loop.name), recorder.events, f'events, after {signum!r}')
            equal(gaps(recorder.files()), recorder.lost, 'gaps')
            assert recorder.events >= wait * 1000, f'{recorder.events} events in {wait} s'
    load.interrupt()
    load.result()


@test
@on_every_kernel
def killed(env):
    """Nothing is attached afterwards; of each file at most the last record is cut off."""
    loop = env.loop()
    env.start()
    load = env.fio(dict(filename=loop.path, rw='randread', bs='4k', iodepth=4, rate_iops=5000), size=loop.size,
                   runtime=300)
    events = 0
    for wait in (0, 0.1, 0.5, 1.1, 1.7):
        recorder = Recorder(env, loop, '-a', 'all')
        recorder.__enter__()
        time.sleep(wait)
        recorder.attached.process.kill()
        recorder.attached.end(signum=None, status=-signal.SIGKILL)
        for path in records.files(recorder.path).values():
            events += len(records.read(path, cut=True))
        if any(records.read(path, cut=True) for path in records.files(recorder.path).values()):
            r = blkhist('show', '-f', 'json', '-i', recorder.path, status=None)
            assert r.returncode in (0, 1) and r.stdout, f'show: {r}'
    assert events > 1000, f'{events} records'
    load.interrupt()
    load.result()


@test
def killed_while_it_begins(env):
    """At any moment; nothing is attached, and whatever there is can be read."""
    loop = env.loop()
    env.start()
    before = attached_links()
    for i in range(20):
        directory = scratch(env)
        process = subprocess.Popen(command_line('record', '-o', directory, '-d', loop.name, '-a', 'all'),
                                   stderr=subprocess.PIPE)
        env.callback(process.kill)
        time.sleep(i * 0.02)
        process.kill()
        process.communicate()
        for path in records.files(f'{directory}/{loop.name}').values():
            records.read(path, cut=True)
    no_new_links(before)


def no_new_links(before):
    deadline = time.monotonic() + PATIENCE
    while new := attached_links() - before:
        assert time.monotonic() < deadline, f'links {new} are left'
        time.sleep(0.02)


@test
def for_a_time(env):
    loop = env.loop()
    env.start()
    for word, least in (('1', 1), ('300ms', 0.3)):
        began = time.monotonic()
        recorder = Recorder(env, loop, '-w', word)
        recorder.__enter__()
        recorder.end(signum=None)
        between(least, time.monotonic() - began, least + PATIENCE, f'seconds with -w {word}')
        equal((recorder.events, recorder.lost), (0, 0), 'events and lost')
        equal(show_nothing(recorder), 0, 'events')


def show_nothing(recorder):
    """Files without any event are there nevertheless."""
    files = recorder.files()
    assert len(files) >= os.cpu_count(), files
    return sum(not r.is_notify for of in files.values() for r in of)


@test
def many_at_once(env):
    """Each for itself; a device that goes away is nobody's failure."""
    loop, other = env.loop(), env.loop()
    env.start()
    before = attached_links()
    with contextlib.ExitStack() as stack:
        recorders = [stack.enter_context(Recorder(env, loop, *SMALL, names=f'{loop.name},{other.name}'))
                     for _ in range(8)]
        read_everywhere(other, 10)
        reads = read_everywhere(loop, 10)
        other.remove()
        reads += read_everywhere(loop, 10)
    for recorder in recorders:
        equal(recorder.read().counts('D'), {'read': reads})
        equal(gaps(recorder.files()), 0, 'gaps')
    no_new_links(before)


# --- wrong use ---

def changes_nothing(env, *args, status, word, directory=None, **kwargs):
    before = attached_links()
    message = refused('record', *args, status=status, word=word, timeout=PATIENCE, **kwargs)
    no_new_links(before)
    if directory:
        assert not os.path.exists(directory) or not os.listdir(directory), f'{args} has left {os.listdir(directory)}'
    return message


@test
def wrong_use(env):
    loop = env.loop()
    env.start()
    directory = scratch(env)
    new = f'{directory}/new'
    for args, status, word in (
            (('-d', 'nodisk'), 1, 'nodisk'), (('-d', f'{loop.name},nodisk'), 1, 'nodisk'),
            (('-d', '/dev/null'), 1, 'null'), (('-d', ''), 1, None), (('-d', f'{loop.name},'), 1, None),
            (('-a', 'frobnicate'), 2, 'frobnicate'), (('-a', 'issue,frobnicate'), 2, 'frobnicate'),
            (('-a', ''), 2, None), (('--op', 'erase'), 2, 'erase'), (('--op', ''), 2, None),
            (('--min-time', '10'), 2, "'10'"), (('--min-time', 'long'), 2, 'long'), (('--min-time', '-1ms'), 2, '-1ms'),
            (('-w', '10x'), 2, '10x'), (('-w', '-1'), 2, '-1'), (('-b', '63'), 2, '63'), (('-b', '65537'), 2, '65537'),
            (('-b', 'much'), 2, 'much'), (('-b', '-64'), 2, '-64'), (('--frob',), 2, '--frob'),
            ((loop.name,), 2, loop.name)):
        changes_nothing(env, '-o', new, *args, status=status, word=word)
        assert not os.path.exists(new), f'{args} makes a directory'
    changes_nothing(env, status=2, word='-o')
    changes_nothing(env, '-d', loop.name, status=2, word='-o')


@test
def no_place_to_write(env):
    loop = env.loop()
    env.start()
    directory = scratch(env)
    file = f'{directory}/file'
    with open(file, 'w', encoding='ascii') as f:
        f.write('something')
    for name, word in ((file, file), (f'{file}/below', file), (f'{directory}/not/there', f'{directory}/not')):
        changes_nothing(env, '-d', loop.name, '-o', name, status=1, word=word)
    equal(os.listdir(directory), ['file'], 'files')
    changes_nothing(env, '-d', loop.name, '-o', '/proc/nowhere', status=1, word='/proc/nowhere')
    with small_file_system('64k') as full:
        subprocess.run(['mount', '-o', 'remount,ro', full], check=True)
        changes_nothing(env, '-d', loop.name, '-o', full, status=1, word=full, directory=full)
        changes_nothing(env, '-d', loop.name, '-o', f'{full}/new', status=1, word=f'{full}/new')


@test
def a_file_that_is_there(env):
    """It is not overwritten, and no other file is made."""
    loop = env.loop()
    env.start()
    directory = scratch(env)
    path = f'{directory}/{loop.name}.blktrace.1'
    with open(path, 'w', encoding='ascii') as f:
        f.write('something')
    changes_nothing(env, '-d', loop.name, '-o', directory, status=1, word=path)
    equal(os.listdir(directory), [os.path.basename(path)], 'files')
    with open(path, encoding='ascii') as f:
        equal(f.read(), 'something')


@test
def makes_its_directory(env):
    loop = env.loop()
    env.start()
    directory = f'{scratch(env)}/new'
    recorder = Attached(env, 'record', '-o', directory, '-d', loop.name)
    reads = read_everywhere(loop)
    _, text = recorder.end()
    equal(number(text, 'events?'), 2 * reads)
    equal(whole(directory, loop.name), 2 * reads)


@test
def a_terminal(env):
    """Of a stream nothing is written there."""
    loop = env.loop()
    env.start()
    before = attached_links()
    master, terminal = pty.openpty()
    try:
        r = subprocess.run(command_line('record', '-o', '-', '-d', loop.name), stdout=terminal, stderr=subprocess.PIPE,
                           text=True, timeout=PATIENCE, check=False)
        os.set_blocking(master, False)
        with contextlib.suppress(BlockingIOError):
            raise AssertionError(f'on the terminal: {os.read(master, 100)}')
    finally:
        os.close(master)
        os.close(terminal)
    equal(r.returncode, 2, f'exit status: {r.stderr}')
    assert 'terminal' in one_sentence(r.stderr), r.stderr
    no_new_links(before)


@test
def few_rights(env):
    """CAP_BPF and CAP_PERFMON are enough; what is missing is named."""
    subject_is('what other rights do')
    if not shutil.which('setpriv'):
        raise Skip('needs setpriv')
    loop = env.loop()
    env.start()
    program, directory = program_for_everybody(), scratch(env)
    os.chown(directory, USER, USER)
    before = attached_links()
    for capabilities, missing in ((('bpf',), 'CAP_PERFMON'), (('perfmon',), 'CAP_BPF'), ((), 'CAP_BPF')):
        for command in (('record', '-o', f'{directory}/new', '-d', loop.name), ('slow', loop.name)):
            message = refused(*command, command=[*as_user(*capabilities), program], word=missing, timeout=PATIENCE)
            assert 'missing' in message, message
    equal(os.listdir(directory), [], 'files')
    no_new_links(before)
    result = subprocess.run([*as_user(*CAPABILITIES), program, 'record', '-o', f'{directory}/new', '-d', loop.name,
                             '-w', '500ms'], capture_output=True, text=True, timeout=PATIENCE, check=False)
    equal(result.returncode, 0, f'exit status: {result.stderr}')
    equal(number(result.stderr, 'lost'), 0, 'lost')
    # A directory that is not this user's.
    os.chown(directory, 0, 0)
    os.chmod(directory, 0o755)
    refused('record', '-o', f'{directory}/other', '-d', loop.name, command=[*as_user(*CAPABILITIES), program],
            word=f'{directory}/other', timeout=PATIENCE)


@test
def no_type_information(env):
    loop = env.loop()
    env.start()
    before = attached_links()
    directory = scratch(env)
    with tempfile.NamedTemporaryFile(prefix='blkhist-test-', dir='/dev/shm') as empty:
        os.chmod(empty.name, 0o644)
        subprocess.run(['mount', '--bind', empty.name, '/sys/kernel/btf/vmlinux'], check=True)
        try:
            refused('record', '-o', f'{directory}/new', '-d', loop.name, word='type information', timeout=PATIENCE)
            refused('slow', loop.name, word='type information', timeout=PATIENCE)
        finally:
            subprocess.run(['umount', '/sys/kernel/btf/vmlinux'], check=True)
    equal(os.listdir(directory), [], 'files')
    no_new_links(before)


@test
def bpffs_is_not_needed(env):
    """It pins nothing."""
    loop = env.loop()
    env.start()
    equal(os.listdir(BPFFS).count('blkhist'), 1, 'the collector')
    pins = sorted(os.listdir(BPFFS))
    with Recorder(env, loop) as recorder:
        equal(sorted(os.listdir(BPFFS)), pins, 'pins')
        reads = read_everywhere(loop, 5)
    equal(recorder.read().counts('D'), {'read': reads})
    equal(sorted(os.listdir(BPFFS)), pins, 'pins')


if __name__ == '__main__':
    main()
