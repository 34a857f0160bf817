#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Runs in a virtual machine as its first process: runs the commands of /run/results/plan.json one
after the other, leaves what they print there, and ends the machine.
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


def main():
    with open(f'{RESULTS}/plan.json', encoding='utf-8') as f:
        plan = json.load(f)
    environment = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/tmp', 'LANG': 'C.UTF-8',
                   'PYTHONDONTWRITEBYTECODE': '1', 'DM_DISABLE_UDEV': '1', **plan['environment']}
    subprocess.run(['modprobe', 'loop'], env=environment, check=True)
    for item in plan['commands']:
        began = time.monotonic()
        print(f'running {item["name"]}', flush=True)
        status = reap(item['command'], f'{RESULTS}/{item["name"]}.log', environment, item['timeout'])
        with open(f'{RESULTS}/{item["name"]}.json', 'w', encoding='utf-8') as f:
            json.dump({'status': status, 'seconds': time.monotonic() - began}, f)
    with open(f'{RESULTS}/done', 'w', encoding='utf-8') as f:
        f.write('done\n')


try:
    main()
finally:
    sys.stdout.flush()
    os.sync()
    with open('/proc/sysrq-trigger', 'w', encoding='ascii') as trigger:
        trigger.write('b')  # qemu takes a reboot as the end
    time.sleep(60)
