# SPDX-License-Identifier: GPL-2.0-only
"""Kernels for virtual machines: Debian's packages, fetched, unpacked and cached, not installed.

A line is the beginning of a version ("6.1", "7"); it stands for the newest kernel of it that the
mirror has whole. The mirror is that of this machine's own apt settings, with more suites.

Usage: kernels.py LINE...	fetches them and prints where they are
"""
import glob
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

CACHE = os.path.join(os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'), 'blkhist', 'vm')
SUITES = ('bullseye', 'bookworm', 'bookworm-backports', 'trixie', 'trixie-backports', 'sid')
SECURITY_SUITES = ('bullseye-security', 'bookworm-security', 'trixie-security')

# What the machines need, with what these depend on.
MODULES = '''
    virtio_pci 9p 9pnet_virtio overlay loop virtio_blk virtio_scsi sd_mod nvme
    null_blk scsi_debug mq-deadline bfq kyber-iosched brd zram zsmalloc lzo-rle
    dm-mod dm-crypt dm-delay raid1 ext4 configfs fuse
    aesni-intel aes_generic xts cbc ecb essiv sha256_generic sha256-ssse3 cryptd
'''.split()


class Unavailable(Exception):
    """A kernel cannot be had; says why."""


# --- apt ---

def _sites():
    """Addresses of the Debian archive and its security archive in this machine's settings."""
    try:
        out = subprocess.run(['apt-get', 'indextargets', '--format', '$(SITE) $(CODENAME) $(ORIGIN)',
                              'Created-By: Packages'], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as e:
        raise Unavailable('this machine has no apt to fetch Debian kernels with') from e
    main = security = None
    for line in out.splitlines():
        site, codename, origin = (line.split() + ['', '', ''])[:3]
        if origin != 'Debian':
            continue
        if codename.endswith('-security'):
            security = security or site
        else:
            main = main or site
    if not main:
        raise Unavailable("no Debian mirror is in this machine's apt settings")
    return main, security


class Apt:
    """An apt of its own, with state and cache below @directory."""

    def __init__(self, directory):
        self.directory = directory
        for d in ('state/lists/partial', 'cache/archives/partial'):
            os.makedirs(os.path.join(directory, d), exist_ok=True)
        open(self._path('status'), 'w', encoding='utf-8').close()
        main, security = _sites()
        with open(self._path('sources.list'), 'w', encoding='utf-8') as f:
            f.writelines(f'deb {main} {suite} main\n' for suite in SUITES)
            f.writelines(f'deb {security} {suite} main\n' for suite in SECURITY_SUITES if security)
        if not self._updated_today():
            # A suite that has gone from the mirror is no reason to do without the others.
            self._run('apt-get', 'update')
            open(self._path('updated'), 'w', encoding='utf-8').close()

    def _updated_today(self):
        try:
            return time.time() - os.stat(self._path('updated')).st_mtime < 24 * 3600
        except FileNotFoundError:
            return False

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _run(self, program, *args, **kwargs):
        options = {'Dir::State': self._path('state'), 'Dir::Cache': self._path('cache'),
                   'Dir::State::status': self._path('status'), 'Dir::Etc::sourceparts': '/dev/null',
                   'Dir::Etc::sourcelist': self._path('sources.list'), 'APT::Architecture': 'amd64',
                   'APT::Sandbox::User': 'root', 'Acquire::Retries': '3'}
        command = [program] + [f'-o{k}={v}' for k, v in options.items()] + list(args)
        return subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)

    def names(self, prefix):
        return self._run('apt-cache', 'pkgnames', prefix).stdout.split()

    def download(self, packages, directory):
        r = self._run('apt-get', 'download', *packages, cwd=directory)
        if r.returncode:
            raise Unavailable(f'cannot fetch {" ".join(packages)}: {r.stderr.strip().splitlines()[-1]}')


# --- choosing ---

def _version_key(release):
    return [int(n) for n in re.findall(r'\d+', release)]


def choose(names, line):
    """The packages of the newest whole kernel of @line, and its release."""
    found = {}
    for name in names:
        m = re.fullmatch(r'linux-(image|binary|modules)-(\d[\d.]*(?:[+-][\w.+~]+)?)-amd64', name)
        if m and (m[2] + '.').startswith(line + '.'):
            found.setdefault(m[2], set()).add(m[1])
    for release in sorted(found, key=_version_key, reverse=True):
        kinds = found[release]
        # Since 6.19 an image is an empty package: a binary and modules belong to it.
        wanted = ('binary', 'modules') if kinds & {'binary', 'modules'} else ('image',)
        if kinds >= set(wanted):
            return release + '-amd64', [f'linux-{kind}-{release}-amd64' for kind in wanted]
    if found:
        raise Unavailable(f'the mirror has {", ".join(sorted(found, key=_version_key))} of {line}, '
                          'none of them with its modules')
    raise Unavailable(f'the mirror has no kernel {line}')


# --- unpacking ---

def _module_name(path):
    return re.sub(r'\.ko(\.[a-z]+)?$', '', os.path.basename(path)).replace('-', '_')


def _copy_module(source, target):
    """Copies a module, unpacked."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if source.endswith('.xz'):
        with lzma.open(source) as f, open(target, 'wb') as out:
            shutil.copyfileobj(f, out)
    elif source.endswith('.zst'):
        subprocess.run(['zstd', '-dqf', source, '-o', target], check=True)
    else:
        shutil.copyfile(source, target)


def _depmod(base, release):
    """Quietly: the lists of what is built in, which it misses, are in packages not needed here."""
    subprocess.run(['depmod', '-b', base, release], stderr=subprocess.DEVNULL, check=True)


def _copy_modules(tree, release, target):
    """Copies MODULES and what they depend on into @target/lib/modules."""
    base = next(d for d in (f'{tree}/lib/modules/{release}', f'{tree}/usr/lib/modules/{release}')
                if os.path.isdir(d))
    _depmod(base[:base.index('/lib/modules')], release)
    paths, depends = {}, {}
    with open(f'{base}/modules.dep', encoding='utf-8') as f:
        for line in f:
            path, rest = line.split(':')
            paths[_module_name(path)] = path
            depends[path] = rest.split()
    wanted = set()
    for name in MODULES:
        path = paths.get(_module_name(name))  # not there: built in, or of other kernels
        if path:
            wanted |= {path, *depends[path]}
    # Some kernels keep a software dependency of crc32c in a module of its own.
    for name in ('crc32c_generic', 'crc32c_intel', 'crc32_pclmul', 'libcrc32c'):
        if name in paths:
            wanted |= {paths[name], *depends[paths[name]]}
    to = f'{target}/lib/modules/{release}'
    for path in wanted:
        _copy_module(f'{base}/{path}', f'{to}/' + re.sub(r'\.(xz|zst)$', '', path))
    for name in ('modules.builtin', 'modules.builtin.modinfo', 'modules.order'):
        if os.path.exists(f'{base}/{name}'):
            shutil.copyfile(f'{base}/{name}', f'{to}/{name}')
    _depmod(target, release)


def _unpack(apt, release, packages, directory):
    """Makes @directory: the kernel, and the files of an initial file system without /init."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(directory)) as work:
        apt.download(packages, work)
        for deb in glob.glob(f'{work}/*.deb'):
            subprocess.run(['dpkg-deb', '-x', deb, f'{work}/tree'], check=True)
            os.unlink(deb)
        os.makedirs(f'{work}/ready/initramfs')
        image = next(p for p in (f'{work}/tree/boot/vmlinuz-{release}',
                                 f'{work}/tree/usr/lib/modules/{release}/vmlinuz') if os.path.exists(p))
        shutil.copyfile(image, f'{work}/ready/vmlinuz')
        _copy_modules(f'{work}/tree', release, f'{work}/ready/initramfs')
        with open(f'{work}/ready/modules', 'w', encoding='utf-8') as f:
            f.write('\n'.join(MODULES))
        shutil.rmtree(directory, ignore_errors=True)
        os.rename(f'{work}/ready', directory)


def _is_current(directory):
    """Whether it is there, with the modules that are wanted now."""
    try:
        with open(f'{directory}/modules', encoding='utf-8') as f:
            return f.read().split() == MODULES
    except FileNotFoundError:
        return False


def fetch(lines):
    """
    For each line the directory of its kernel, or an Unavailable. What the mirror has is asked once a
    day at most; without a mirror, a cached kernel of that line will do.
    """
    os.makedirs(CACHE, exist_ok=True)
    apt = names = failure = None
    try:
        apt = Apt(f'{CACHE}/apt')
        names = apt.names('linux-')
    except Unavailable as e:
        failure = e
    result = {}
    for line in lines:
        try:
            if failure:
                raise failure
            release, packages = choose(names, line)
            directory = f'{CACHE}/{release}'
            if not _is_current(directory):
                _unpack(apt, release, packages, directory)
            result[line] = directory
        except Unavailable as e:
            result[line] = _cached(line) or e
    return result


def _cached(line):
    names = [n for n in os.listdir(CACHE) if (n + '.').startswith(line + '.') and
             os.path.isfile(f'{CACHE}/{n}/vmlinuz')]
    return f'{CACHE}/{max(names, key=_version_key)}' if names else None


if __name__ == '__main__':
    for a_line, where in fetch(sys.argv[1:]).items():
        print(f'{a_line}\t{where}')
