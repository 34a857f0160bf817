#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
The manual says what the program says: commands, options and what they take, ladders, items of the
configuration; both ways. And it is shown without a warning.
"""
import os
import re
import shutil
import struct
import tempfile

from installed import BUILD, TOP, main, read, run, same_items, write
from lib import blkhist, equal
from tap import Skip, skip_all, test

PAGES = [f'{BUILD}/man/{page}' for page in ('blkhist.8', 'blkhist.conf.5')]
SCREEN = {'LC_ALL': 'C.UTF-8', 'PATH': os.environ['PATH'], 'MANWIDTH': '100', 'MANROFFSEQ': ''}


def source(page):
    """What scdoc was given."""
    return read(f'{page}.scd')


def plain(text):
    """Without the marks of bold and underlined."""
    return re.sub(r'(?<!\\)[*_]', '', text).replace('\\', '')


def divide(text, heading):
    """Headings and what is below them, as a dictionary."""
    parts = re.split(rf'^{heading}\n', text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def sections(page):
    """Their headings are in capitals, unlike comments in examples."""
    return divide(source(page), '# ([A-Z ]+)')


if not all(map(os.path.exists, PAGES)):
    skip_all('the manual was not built: there is no scdoc')
MANUAL = sections(PAGES[0])
COMMANDS = divide(MANUAL['COMMANDS'], '## (.*)')


def help_of(*command):
    return blkhist(*command, '--help').stdout


def options_of_help(text):
    """As '-k, --kind KIND,...'; of a flag what follows is its text, which is none of the forms of values."""
    return [re.sub(' +', ' ', ' '.join(filter(None, option)).strip()) for option in
            re.findall(r'^  (-\w,|   ) (--[a-z-]+)(?: ([A-Z]+(?:,\.\.\.)?|[a-z]+(?:\|[a-z]+)+))?(?= |$)', text, re.M)]


def options_of_manual(text):
    """Those that a paragraph begins with. Several may be in one line."""
    found = []
    for line in re.findall(r'^(\*-.*)\n\t', text, re.M):
        found += re.findall(r'(?:-\w, )?--[a-z-]+(?: \S+?)?(?=, --|$)', plain(line))
    return found


# --- blkhist.8 ---

@test
def commands():
    of_help = re.findall(r'^  ([a-z]+) +[A-Z]', help_of().partition('Commands:')[2], re.M)
    same_items(of_help, COMMANDS, 'commands of --help and of the manual')
    synopsis = re.findall(r'^blkhist ([a-z]+)', plain(MANUAL['SYNOPSIS']), re.M)
    same_items([*of_help, 'help'], synopsis, 'commands of --help and of the synopsis')


@test
def options():
    assert options_of_manual(MANUAL['TRACES']), 'no options for traces were found'
    for command, text in COMMANDS.items():
        of_help = options_of_help(help_of(command))
        of_manual = options_of_manual(text)
        if '-i, --input' in of_help:
            of_manual += options_of_manual(MANUAL['TRACES'])
        same_items(of_help, [*of_manual, '-h, --help'], f'options of {command} in --help and in the manual')
        equal(len(of_help), len(of_manual) + 1, f'{command}: number of options')


@test
def ladders():
    of_help = re.findall(r'^  (\S+)  ', help_of('buckets').partition('Ladders')[2].partition('Times need')[0], re.M)
    of_manual = re.findall(r'^(\S.*)\n\t', plain(MANUAL['LADDERS']), re.M)
    same_items(of_help, of_manual, 'ladders of --help and of the manual')
    assert len(of_help) >= 5, of_help


@test
def default_ladders():
    of_help = re.search(r'time (\S+), size (\S+),\s+seek (\S+)\.\n', help_of('start')).groups()
    assert ', '.join(of_help) in COMMANDS['start'].replace('\n\t', ' '), of_help
    for item, ladder in zip(('time', 'size', 'seek'), of_help):
        assert re.search(rf'^\*{item}\*\n(\t.*\n)*?\t.*Built in: {re.escape(ladder)}\n',
                         source(PAGES[1]), re.M), f'{item} in {PAGES[1]}'


# --- blkhist.conf.5 ---

def try_configuration(text, status):
    """Has the program read it, with a trace of one notify, which takes no collector."""
    notify = struct.pack('<IIQQIIIIIHH', 0x65617407, 0, 0, 0, 0, 2 | 1 << 26, 0, 0, 0, 0, 0)
    with tempfile.TemporaryDirectory() as directory:
        write(f'{directory}/conf', text)
        with open(f'{directory}/trace', 'wb') as f:
            f.write(notify)
        return blkhist('show', '-i', '--config', f'{directory}/conf', f'{directory}/trace', status=status)


@test
def items():
    refusal = try_configuration('[default]\nno-such-item = 1\n', 1).stderr
    of_program = re.search(r'\(([a-z, ]+)\)', refusal)[1].split(', ')
    of_manual = re.findall(r'^(\w+)\n\t', plain(sections(PAGES[1])['ITEMS']), re.M)
    same_items(of_program, of_manual, 'items of the program and of the manual')


def example_of_the_manual():
    return re.search(r'```\n(.*?)```', sections(PAGES[1])['EXAMPLES'], re.S)[1].replace('\\', '')


def example_of_the_readme():
    block = re.search(r'^## Settings by disk\n[^#]*?\n((?:    .*\n|\n)+)', read(f'{TOP}/README.md'), re.M)[1]
    return re.sub('^    ', '', block, flags=re.M)


def example_that_is_installed():
    """What stands there behind a '#', and is no comment."""
    return re.sub(r'^#(?=[a-z[]| {7}\d)', '', read(f'{TOP}/blkhist.conf'), flags=re.M)


@test
def examples_are_accepted():
    for example in (example_of_the_manual(), example_of_the_readme(), example_that_is_installed()):
        assert len(re.findall(r'^\[', example, re.M)) >= 3, example
        equal(try_configuration(example, 0).stderr, '', 'standard error')


# --- as they are read ---

@test
def shown_without_warnings():
    if not shutil.which('groff'):
        raise Skip('needs groff')
    for page in PAGES:
        r = run('groff', '-ww', '-t', '-mandoc', '-Kutf8', '-Tutf8', page)
        equal(r.stderr, '', f'warnings of groff for {page}')
        assert r.stdout.count('\n') > 50, r.stdout


@test
def shown_by_man():
    if not shutil.which('man'):
        raise Skip('needs man')
    for page in PAGES:
        r = run('man', '--warnings', '--local-file', page, env=SCREEN)
        equal(r.stderr, '', f'warnings of man for {page}')
        assert 'SEE ALSO' in r.stdout, r.stdout


main()
