# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of what is installed share. None of them needs a right or a collector."""
import os
import subprocess

import tap
from lib import BLKHIST

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(BLKHIST)


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def write(path, text):
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)


def run(*command, status=0, **kwargs):
    """Runs a program and insists on its exit status (None: any)."""
    r = subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)
    if status is not None and r.returncode != status:
        raise AssertionError(f'{" ".join(command)}: exit {r.returncode}, expected {status}\n'
                             f'{r.stdout[-2000:]}{r.stderr}')
    return r


def same_items(a, b, what):
    """Two collections, of which the difference is told."""
    a, b = set(a), set(b)
    if a != b:
        raise AssertionError(f'{what}: only the first: {sorted(a - b)}, only the second: {sorted(b - a)}')


def main():
    tap.main(lambda function: function())
