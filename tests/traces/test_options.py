#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Options of show -i and watch -i: what is wrong is refused, before anything is read."""
import generate
import lib
from lib import blkhist, equal
from traces import NVME, SDA, main, refused, test, workload


@test
def options_that_are_for_traces(work):
    """Without -i they are wrong use, also where no collector runs."""
    for command in ('show', 'watch'):
        for option, value in (('-d', 'sda'), ('--device', 'sda'), ('--start', 'get'), ('--partitions', 'x'),
                              ('--config', 'x'), ('--time', '1ms'), ('--size', '4096'), ('--seek', '0')):
            message = lib.refused(command, option, value, status=2)
            assert '-i' in message, message


@test
def wrong_values(work):
    path = work.path('t')
    generate.write_merged(path, workload(91, n=25).events)
    for command in ('show', 'watch'):
        for args, words in ((('-i',), ['-i']),
                            (('-i', path, '--start', 'now'), ['now']),
                            (('-i', path, '--start', ''), ['start']),
                            (('-i', path, '--time', '1'), ['time', '1']),
                            (('-i', path, '--size', '8,4'), ['size']),
                            (('-i', path, '-f', 'xml'), ['xml']),
                            (('-i', path, '-o', 'erase'), ['erase']),
                            (('-i', path, '--no-such-option'), ['--no-such-option'])):
            refused(command, *args, status=2, words=words)
    refused('show', '-i', path, '-k', 'wait', status=2, words=['wait'])
    refused('show', '-i', path, '--all', status=2, words=['--all'])
    refused('watch', '-i', path, '1ns', status=2, words=['1ns'])
    refused('watch', '-i', path, '1s', '0', status=2, words=['0'])
    refused('watch', '-i', path, '1s', '1', '1', status=2, words=['1'])
    refused('show', '-i', path, '--config', work.path('none'), words=[work.path('none')])


@test
def devices_that_the_trace_does_not_have(work):
    """They are named, and so are those that it has; nothing is shown that could be taken for theirs."""
    path = work.path('t')
    generate.write_merged(path, workload(92, n=25).events)
    names = [generate.device_name(n) for n in (SDA, NVME)]
    refused('show', '-i', path, '-d', 'none', words=["'none'", *names])
    refused('show', '-i', path, '-d', f'{names[0]},none', words=["'none'", *names])
    refused('show', '-i', path, '-d', '', words=names)


@test
def help_has_them(work):
    for command in ('show', 'watch'):
        text = blkhist(command, '--help').stdout
        for option in ('-i, --input', '-d, --device', '--partitions', '--start', 'blktrace'):
            assert option in text, (command, option)
        equal(max(map(len, text.splitlines())) <= 110, True, f'{command}: width of the help')


if __name__ == '__main__':
    main()
