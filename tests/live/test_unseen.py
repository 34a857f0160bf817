# SPDX-License-Identifier: GPL-2.0-only
"""
Completions that the kernel shows to no BPF program must be just those that we call unseen.

Some kernels run no BPF program in interrupts that arrive while a task of PID 1's process is current,
and do not count that anywhere. The kernel's own event tracing does see these completions, with the
task that was current. On any other kernel there may be no unseen completion at all.
"""
import contextlib
import os
import subprocess
import tempfile

from lib import MIB, Skip, equal, main, read_file, test, verify, write_file

SECONDS = 6


@contextlib.contextmanager
def trace_completions(device, tasks):
    """An instance of the kernel's tracing: block_rq_complete of a device while @tasks are current."""
    with tempfile.TemporaryDirectory() as mount, contextlib.ExitStack() as stack:
        if subprocess.run(['mount', '-t', 'tracefs', 'tracefs', mount], check=False).returncode:
            raise Skip('tracefs cannot be mounted')
        stack.callback(subprocess.run, ['umount', mount], check=True)
        instance = f'{mount}/instances/blkhist-test-{os.getpid()}'
        os.mkdir(instance)
        stack.callback(os.rmdir, instance)
        event = instance + '/events/block/block_rq_complete'
        current = ' || '.join(f'common_pid == {task}' for task in tasks)
        write_file(event + '/filter', f'dev == {device} && ({current})')
        write_file(event + '/enable', '1')
        yield instance + '/trace'
        write_file(event + '/enable', '0')


@test
def unseen_is_what_the_kernel_hides(env):
    loop = env.loop(64 * MIB)
    major, minor = map(int, read_file(f'/sys/class/block/{loop.name}/dev').split(':'))
    env.start()
    with trace_completions(major << 20 | minor, os.listdir('/proc/1/task')) as trace:
        # Many short queues: completions then arrive in interrupts on top of all kinds of tasks.
        env.fio({'filename': loop.path}, rw='randrw', bs='4k', iodepth=4, runtime=SECONDS).result()
        hidden = sum('block_rq_complete:' in line for line in read_file(trace).splitlines())
    rows = verify(loop.name)
    unseen = sum(row['unseen'] for (name, _), row in rows.items() if name == loop.name)
    print(f'# {unseen} unseen, {hidden} completed on top of tasks of PID 1')
    if unseen:
        equal(unseen, hidden, 'unseen completions')


if __name__ == '__main__':
    main()
