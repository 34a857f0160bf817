#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Runs in a virtual machine as its first process: runs the commands of /run/results/plan.json one
after the other, leaves what they print there, and ends the machine. Several machines may share the
plan: each takes the next command that no other has taken.
"""
import json
import os
import signal
import subprocess
import sys
import time

RESULTS = '/run/results'


def reap(command, log, environment, timeout):
    """Runs a command; the exit status, or a word on why there is none."""
    with open(log, 'wb') as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                   env=environment, cwd='/', start_new_session=True)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f'no end within {timeout} s'


def take(name):
    """True for one machine only."""
    try:
        os.mkdir(f'{RESULTS}/{name}.taken')
        return True
    except FileExistsError:
        return False


def main():
    with open(f'{RESULTS}/plan.json', encoding='utf-8') as f:
        plan = json.load(f)
    environment = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/tmp', 'LANG': 'C.UTF-8',
                   'PYTHONDONTWRITEBYTECODE': '1', 'DM_DISABLE_UDEV': '1', **plan['environment']}

    for item in plan['commands']:
        if not take(item['name']):
            continue
        began = time.monotonic()
        print(f'running {item["name"]}', flush=True)
        status = reap(item['command'], f'{RESULTS}/{item["name"]}.log', environment, item['timeout'])
        with open(f'{RESULTS}/{item["name"]}.json', 'w', encoding='utf-8') as f:
            json.dump({'status': status, 'seconds': time.monotonic() - began}, f)
    os.mkdir(f'{RESULTS}/{os.environ["machine"]}.done')


try:
    main()
finally:
    sys.stdout.flush()
    os.sync()
    with open('/proc/sysrq-trigger', 'w', encoding='ascii') as trigger:
        trigger.write('b')  # qemu takes a reboot as the end
    time.sleep(60)
