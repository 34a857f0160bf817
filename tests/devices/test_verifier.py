#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel's verifier had to look at: it gives up after a million instructions."""
import tempfile

from lib import equal, main, status, test

LIMIT = 250000  # a quarter of that


@test
def programs_are_far_from_the_limit(env):
    """With as many sections of a configuration as there can be, each of which it looks at."""
    file = env.enter_context(tempfile.NamedTemporaryFile('w', suffix='.conf'))
    file.write('[default]\n' + ''.join(f'[section{i}*]\nignore = yes\n' for i in range(15)))
    file.flush()
    env.start('--bios', 'on', '--config', file.name)
    equal(len(status()['sections']), 15, 'sections')
    programs = [p for p in status()['programs'] if p['attached']]
    assert programs, 'no program is attached'
    for program in programs:
        print(f'# verifier: {program["name"]} {program["verified_insns"]} instructions')
    equal([p['name'] for p in programs if not 0 < p['verified_insns'] < LIMIT], [], 'unknown or too many')


if __name__ == '__main__':
    main()
