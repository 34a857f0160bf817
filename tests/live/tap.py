# SPDX-License-Identifier: GPL-2.0-only
"""
Tests as functions, their results as TAP. Nothing here needs a right or a device; what a test is given as
its argument, and what must be there before the first one, is for the module that calls main().
"""
import os
import signal
import sys
import time
import traceback

IN_VM = 'BLKHIST_VM' in os.environ


class Skip(Exception):
    pass


_tests = []


def test(function):
    """Registers a test; its name is that of the function, its description the docstring."""
    _tests.append(function)
    return function


def on_every_kernel(function):
    """Marks a test of what depends on the kernel: in virtual machines only these are run."""
    function.on_every_kernel = True
    return function


def rounds(n):
    """Fewer repetitions in a virtual machine, which is some ten times slower."""
    return range(max(1, n // 4) if IN_VM else n)


def _chosen():
    """The tests named on the command line, or all that apply here."""
    if sys.argv[1:]:
        return [t for t in _tests if t.__name__ in sys.argv[1:]]
    if IN_VM and any(hasattr(t, 'on_every_kernel') for t in _tests):
        return [t for t in _tests if hasattr(t, 'on_every_kernel')]
    return _tests


def diagnose(text):
    for line in text.rstrip().splitlines():
        print('#', line)


def _run(number, function, call):
    """Prints the result line; False if the test failed."""
    name = f'{number} - {function.__name__}'
    began = time.monotonic()
    try:
        call(function)
    except Skip as skip:
        print(f'ok {name} # SKIP {skip}')
        return True
    except Exception:  # every failure becomes a line; SIGTERM is a SystemExit and passes
        print(f'not ok {name}')
        diagnose(traceback.format_exc(chain=False))
        return False
    print(f'ok {name}')
    diagnose(f'{time.monotonic() - began:.1f} s')
    return True


def skip_all(reason):
    print(f'1..0 # SKIP {reason}')
    sys.exit(0)


def main(call):
    """Runs the registered tests, or those named on the command line, each by @call, and exits."""
    sys.stdout.reconfigure(line_buffering=True)
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGINT, _terminate)
    tests = _chosen()
    print(f'1..{len(tests)}')
    results = [_run(i, t, call) for i, t in enumerate(tests, 1)]
    sys.exit(0 if all(results) else 1)


ENDING = {signal.SIGTERM, signal.SIGINT}


def _terminate(signum, _frame):
    for s in ENDING:
        signal.signal(s, signal.SIG_IGN)  # the clean-up is not to be interrupted
    sys.exit(128 + signum)
