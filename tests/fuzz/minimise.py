#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""minimise.py SEED MODE [options of the program]: leaves out occurrences and events while the seed still differs in that
mode; prints the command that is left and the calls of its program. From the project's root; FASHIM_LIBRARY as for run."""
import os
import re
import subprocess
import sys
import tempfile

RUN = os.path.join(os.environ.get('O', 'build'), 'tests/fuzz/run')


def run(seed, mode, options, trace=None):
    """What kind of failure the run is, '' where it is none; and what was said."""
    words = [RUN, seed, '--modes', mode, *options] + (['--trace', trace] if trace else [])
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    kinds = ['numbers differ', 'not what the plain run', 'violation', 'the log has', 'status 0x']
    failed = done.returncode == 1 and 'the plain run ends' not in done.stdout
    return next((kind for kind in kinds if failed and kind in done.stdout), ''), done.stdout


def options(occurrences, events):
    return ((['--without-occurrences', ','.join(map(str, sorted(occurrences)))] if occurrences else []) +
            (['--without-events', ','.join(map(str, sorted(events)))] if events else []))


def reduce(items, left_out, differs):
    """Grows `left_out` by as many of the items as can go, halves first."""
    size = max(1, len(items) // 2)
    while items and size:
        at = 0
        while at < len(items):
            part = set(items[at:at + size])
            if differs(left_out | part):
                left_out |= part
                items = items[:at] + items[at + size:]
            else:
                at += size
        size //= 2
    return left_out


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    seed, mode, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, 'trace')
        kind, said = run(seed, mode, rest, trace)
        if not kind:
            sys.exit(f'seed {seed} does not differ in {mode}:\n{said}')
        with open(trace, encoding='utf-8') as file:
            calls = file.read()
        occurrences = sorted({int(n) for n in re.findall(r'\] occurrence (\d+) ', calls)}, reverse=True)
        events = sorted({int(n) for n in re.findall(r'>> event (\d+)', calls)}, reverse=True)
        gone = reduce(occurrences, set(), lambda out: run(seed, mode, rest + options(out, set()))[0] == kind)
        events = [n for n in events if n // 10 not in gone]
        quiet = reduce(events, set(), lambda out: run(seed, mode, rest + options(gone, out))[0] == kind)
        command = rest + options(gone, quiet)
        _, said = run(seed, mode, command, trace)
        print(RUN, seed, '--modes', mode, *command)
        print(said.split('\n', 1)[0])
        with open(trace, encoding='utf-8') as file:
            sys.stdout.write(file.read())


if __name__ == '__main__':
    main()
