# SPDX-License-Identifier: GPL-2.0-only
"""
Runs tests on other kernels, in virtual machines: qemu without hardware support, the root file system
of this machine read-only, and disks of every kind.

Usage: run.py [-j N] [-t TEST]... [-c COMMAND] [-e NAME=VALUE]... [-T SECONDS] KERNEL...

-t names single test programs (live/test_counts, devices/test_bios); without it all that apply are run.
-j says how many machines share the work of a kernel. -c runs a command of the shell instead and shows
what it prints. -e sets variables for the tests, -T the longest time for a program. Prints TAP lines of
all tests, and at the end the numbers passed, failed and skipped.
"""
import argparse
import concurrent.futures
import contextlib
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import kernels

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
MEMORY = '1G'
CPUS = 4
PROGRAM_TIMEOUT = 300
MIB = 1024 * 1024

# Each with its own model and its own known answer; the tests find them by serial number.
DISKS = (
    ('virtio', 'virtio-blk-pci,drive={id},serial={id},num-queues=2'),
    ('scsi0', 'scsi-hd,bus=scsi.0,scsi-id=0,drive={id},serial={id},rotation_rate=7200'),
    ('scsi1', 'scsi-hd,bus=scsi.0,scsi-id=1,drive={id},serial={id},rotation_rate=1'),
    ('nvme1', 'nvme-ns,bus=several,nsid=1,drive={id}'),
    ('nvme2', 'nvme-ns,bus=several,nsid=2,drive={id}'),
    ('path', 'nvme-ns,bus=path0,nsid=1,shared=on,drive={id}'),
)
CONTROLLERS = (
    'virtio-scsi-pci,id=scsi,num_queues=2',
    'nvme,id=several,serial=several,max_ioqpairs=2',
    'nvme-subsys,id=paths,nqn=paths',
    'nvme,id=path0,serial=paths,subsys=paths',
    'nvme,id=path1,serial=paths,subsys=paths',
)
DISK_SIZE = 64 * MIB


# --- one machine ---

def initramfs(kernel, work):
    """Makes the file: the kernel's modules, busybox and init."""
    tree = f'{work}/initramfs'
    subprocess.run(['cp', '-a', f'{kernel}/initramfs', tree], check=True)
    for directory in ('bin', 'proc', 'sys', 'dev'):
        os.makedirs(f'{tree}/{directory}', exist_ok=True)
    subprocess.run(['cp', '/bin/busybox', f'{tree}/bin/busybox'], check=True)
    subprocess.run(['cp', f'{HERE}/init', f'{tree}/init'], check=True)
    with open(f'{work}/initramfs.cpio', 'wb') as f:
        files = subprocess.run(['find', '.', '-print0'], cwd=tree, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(['cpio', '--null', '--create', '--format=newc', '--quiet'], cwd=tree, input=files,
                       stdout=f, check=True)


def qemu_command(kernel, work, machine, cpu='max', cpus=CPUS, disks=True, options=()):
    """@machine is its name, and that of its directory below @work; @options go to qemu as they are."""
    command = ['qemu-system-x86_64', '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot',
               '-M', 'q35', '-cpu', cpu, '-m', MEMORY, '-smp', str(cpus),
               # With several threads a kernel has died while it patched its own text.
               '-accel', 'tcg,thread=single',
               '-kernel', f'{kernel}/vmlinuz', '-initrd', f'{work}/initramfs.cpio',
               '-append', 'console=ttyS0 quiet mitigations=off tsc=reliable rcupdate.rcu_expedited=1 panic=-1 oops=panic '
                          f'machine={machine} guest={HERE}/guest.py',
               '-serial', f'file:{work}/{machine}/console',
               '-fsdev', 'local,id=host,path=/,security_model=none,readonly=on,multidevs=remap',
               '-device', 'virtio-9p-pci,fsdev=host,mount_tag=host',
               '-fsdev', f'local,id=results,path={work}/results,security_model=none',
               '-device', 'virtio-9p-pci,fsdev=results,mount_tag=results', *options]
    if not disks:
        return command
    for controller in CONTROLLERS:
        command += ['-device', controller]
    for name, device in DISKS:
        image = f'{work}/{machine}/{name}.img'
        with open(image, 'wb') as f:
            f.truncate(DISK_SIZE)
        command += ['-drive', f'if=none,id={name},file={image},format=raw,cache=unsafe,discard=unmap',
                    '-device', device.format(id=name)]
    return command


def boot(kernel, work, machine, timeout, **kwargs):
    """Runs a machine to its end. Returns why it died, or None. What follows is for qemu_command()."""
    os.makedirs(f'{work}/{machine}')
    # Whatever ends us, the machine does not stay behind.
    command = ['setpriv', '--pdeathsig', 'KILL', *qemu_command(kernel, work, machine, **kwargs)]
    try:
        r = subprocess.run(command, capture_output=True, text=True, check=False,
                           stdin=subprocess.DEVNULL, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f'no end within {timeout} s'
    if r.returncode:
        return f'qemu ended with {r.returncode}: {r.stderr.strip()}'
    if not os.path.exists(f'{work}/results/{machine}.done'):
        return 'the machine died'
    return None


def read(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as f:
            return f.read()
    except FileNotFoundError:
        return ''


# --- what it runs ---

def programs(wanted):
    """Paths by name. Of the live tests those that say they depend on the kernel."""
    found = {}
    for directory in ('devices', 'live'):
        for path in sorted(glob.glob(f'{TOP}/tests/{directory}/test_*.py')):
            found[f'{directory}/{os.path.basename(path)[:-3]}'] = path
    unknown = set(wanted) - set(found)
    if unknown:
        sys.exit(f'no such test: {", ".join(sorted(unknown))}')
    if wanted:
        return {name: found[name] for name in wanted}
    return {name: path for name, path in found.items()
            if name.startswith('devices/') or '@on_every_kernel' in read(path)}


def make_plan(arguments):
    if arguments.command:
        commands = {'command': ['/bin/sh', '-c', arguments.command]}
    else:
        commands = {name.replace('/', '-'): ['/usr/bin/python3', path]
                    for name, path in programs(arguments.test).items()}
    return {'commands': [{'name': name, 'command': command, 'timeout': arguments.timeout}
                         for name, command in commands.items()],
            'environment': {'BLKHIST': f'{TOP}/build/blkhist', 'BLKHIST_VM': '1',
                            'PYTHONPATH': f'{TOP}/tests/live',
                            **dict(v.split('=', 1) for v in arguments.environment)}}


# --- what came of it ---

class Report:
    """What one kernel's machine has done."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.lines = []
        self.passed = self.failed = self.skipped = 0

    def add(self, result, text):
        """One line of TAP, named for the kernel."""
        if result == 'ok' and re.search('# *skip', text, re.I):
            self.skipped += 1
        elif result == 'ok':
            self.passed += 1
        else:
            self.failed += 1
        self.lines.append(f'{result} - {self.kernel} {text}')

    def say(self, text):
        self.lines += [f'# {line}' for line in text.rstrip().splitlines()]

    def program(self, name, results):
        """The tests of one program."""
        log = read(f'{results}/{name}.log')
        ended = json.loads(read(f'{results}/{name}.json') or '{"status": "did not end", "seconds": 0}')
        tests = re.findall(r'^(not ok|ok)\b *-? *(\d+)? *-? *(.*)$', log, re.M)
        before = self.failed
        for result, _, rest in tests:
            self.add(result, f'{name} {rest}')
        skip = re.search(r'^1\.\.0 *# *skip *(.*)$', log, re.M | re.I)
        if skip and not tests:
            self.add('ok', f'{name} # SKIP {skip[1]}')
        elif not tests or (ended['status'] and self.failed == before):
            self.add('not ok', f'{name}: status {ended["status"]}')
        if self.failed != before:
            self.say(log)
        else:
            self.say('\n'.join(re.findall(r'^# ((?:verifier|traces): .*)$', log, re.M)))
        self.say(f'{name}: {ended["seconds"]:.1f} s')


@contextlib.contextmanager
def run_plan(kernel, plan, names, timeout, **kwargs):
    """Runs the plan on the machines of these names: the directory of it all, and why each died, or None."""
    with tempfile.TemporaryDirectory(prefix='blkhist-vm-') as work:
        initramfs(kernel, work)
        os.makedirs(f'{work}/results')
        with open(f'{work}/results/plan.json', 'w', encoding='utf-8') as f:
            json.dump(plan, f)
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            yield work, list(pool.map(lambda name: boot(kernel, work, name, timeout, **kwargs), names))


def console(work, machine):
    """The end of what it has printed."""
    return '\n'.join(read(f'{work}/{machine}/console').splitlines()[-80:])


def run_kernel(line, kernel, plan, machines):
    """All of a kernel's machines at once."""
    report = Report(line)
    if isinstance(kernel, Exception):
        report.add('ok', f'# SKIP {kernel}')
        return report
    began = time.monotonic()
    names = [f'machine{i}' for i in range(min(machines, len(plan['commands'])))]
    timeout = 3 * plan['commands'][0]['timeout']
    with run_plan(kernel, plan, names, timeout) as (work, deaths):
        for item in plan['commands']:
            if item['name'] == 'command':
                report.lines.append(read(f'{work}/results/command.log'))
            else:
                report.program(item['name'], f'{work}/results')
        for name, death in zip(names, deaths):
            if death:
                report.add('not ok', death)
                report.say(console(work, name))
    report.say(f'{os.path.basename(kernel)}: {time.monotonic() - began:.0f} s, {report.passed} passed, '
               f'{report.failed} failed, {report.skipped} skipped')
    return report


def main():
    parser = argparse.ArgumentParser(
        usage='run.py [-j N] [-t TEST]... [-c COMMAND] [-e NAME=VALUE]... [-T SECONDS] KERNEL...')
    parser.add_argument('-j', type=int, default=1, dest='jobs')
    parser.add_argument('-t', action='append', default=[], dest='test')
    parser.add_argument('-c', dest='command')
    parser.add_argument('-e', action='append', default=[], dest='environment')
    parser.add_argument('-T', type=int, default=PROGRAM_TIMEOUT, dest='timeout')
    parser.add_argument('kernel', nargs='+')
    arguments = parser.parse_args()
    plan = make_plan(arguments)
    began = time.monotonic()
    total = [0, 0, 0]
    for line, kernel in kernels.fetch(arguments.kernel).items():
        report = run_kernel(line, kernel, plan, arguments.jobs)
        print('\n'.join(report.lines), flush=True)
        total = [a + b for a, b in zip(total, (report.passed, report.failed, report.skipped))]
    if not arguments.command:
        print('passed {} failed {} skipped {} seconds {:.0f}'.format(*total, time.monotonic() - began))
    sys.exit(1 if total[1] else 0)


if __name__ == '__main__':
    main()
