#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""readers.py TOOL RUNS [SEED]: what the command reads, changed at random: logs, traces, rules, tuning caches.

TOOL is best a build with SAN=address,undefined. Seeds are the files of tests/cli/logs and tests/traces. The same SEED
makes the same inputs. Each run has to end by itself, soon, with an exit status of the command's own and without a word of
a sanitizer; an input of which that is not so is kept beside TOOL in readers/. Ends with "N passed, N failed".
"""
import gzip
import os
import random
import subprocess
import sys
import tempfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT = 20  # seconds
TRACE_BYTES = 30000

NUMBERS = [b'0', b'-1', b'1', b'2147483648', b'4294967295', b'9007199254740993', b'9223372036854775807',
           b'-9223372036854775808', b'18446744073709551615', b'1e308', b'-1e308', b'5e-324', b'nan', b'1048576',
           b'ffffffffffffffff', b'e000010000000000']
WORDS = [b'', b'x' * 5000, b'"', b'\\', b'\\u0000', b'\\ud800', b'{', b'}', b'[' * 2000, b']', b'null', b'true', b'{}',
         b'[]', b'\x00', b'\xff', b'%s%n', b'\r\n', b'\n', b' ', b',', b':', b'<script>', b'\x1b[31m',
         b'_ZN99999999999aE', b'#']

RULES = (b'app_scale_f16    mul     out=p0 in=p1 factor=p2 count=p3 dtype=f16\n'
         b'app_add_mask_f16 add     out=p0 in=p1 with=p2 count=p3 period=p4 dtype=f16\n'
         b'app_softmax_f16  softmax out=p0 in=p1 columns=p2 rows=grid.x dtype=f16\n'
         b'app_copy_f16     copy    out=p0 in=p1 count=p2 dtype=f16\n'
         b'app_split_heads  other   out=p0 in=p1 count=7680 dtype=f16 # 3 * 80 * 32\n')


def read(path):
    with (gzip.open if path.endswith('.gz') else open)(path, 'rb') as file:
        return file.read()


def files(folder, end):
    folder = os.path.join(TESTS, folder)
    return [read(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(end)]


def seeds():
    traces = [trace for trace in files('traces', '.trace.gz') if len(trace) < TRACE_BYTES]
    return {'log': [log for log in files('cli/logs', '.jsonl') if log], 'trace': traces, 'rules': [RULES],
            'tune': files('cli/logs', '.txt')}


# Kind of input; arguments (@: the input, and logs and traces of the tests' own); variable that names the input instead.
LOG = os.path.join(TESTS, 'cli/logs/old.jsonl')
TRACE = os.path.join(TESTS, 'traces/naive_512.trace.gz')
READERS = [
    ('log', ['report', '--no-pager', '@'], None),
    ('log', ['report', '-f', 'html', '@'], None),
    ('log', ['report', '-f', 'json', '@'], None),
    ('log', ['report', '-s', '1', '@'], None),
    ('log', ['diff', LOG, '@'], None),
    ('log', ['gate', '-f', 'junit', '--baseline', LOG, '@'], None),
    ('log', ['export', '@'], None),
    ('log', ['export', '-f', 'folded', '@'], None),
    ('trace', ['replay', '@'], None),
    ('trace', ['replay', '-r', '3', '-a', '-f', 'json', '@'], None),
    ('rules', ['replay', TRACE], 'FASHIM_RULES'),
    ('rules', ['list', 'rules', '--check', '@'], None),
    ('tune', ['tune', '--list', '--cache', '@'], None),
]


def word_of(random_, line):
    """Where a word of a line begins and ends."""
    ends = [0] + [at for at in range(len(line)) if line[at] in b' ,:="'] + [len(line)]
    at = random_.randrange(len(ends) - 1)
    return ends[at] + (ends[at] > 0), ends[at + 1]


def change(random_, lines):
    at = random_.randrange(len(lines))
    line = lines[at]
    kind = random_.randrange(8)
    if kind < 3:
        begin, end = word_of(random_, line)
        lines[at] = line[:begin] + random_.choice(NUMBERS if random_.random() < .7 else WORDS) + line[max(begin, end):]
    elif kind == 3 and line:
        where = random_.randrange(len(line))
        lines[at] = line[:where] + bytes([random_.randrange(256)]) + line[where + 1:]
    elif kind == 4:
        lines[at] = line[:random_.randrange(len(line) + 1)]
    elif kind == 5:
        lines.insert(random_.randrange(len(lines) + 1), random_.choice(lines))
    elif kind == 6 and len(lines) > 1:
        del lines[at]
    else:
        where = random_.randrange(len(line) + 1)
        lines[at] = line[:where] + random_.choice(WORDS) + line[where:]


def changed(random_, seed):
    lines = seed.split(b'\n')
    for _ in range(random_.choice([1, 1, 2, 4, 12])):
        change(random_, lines)
    return b'\n'.join(lines)


def wrong_with(tool, arguments, variable, path):
    """What is wrong with how the command ends; None: nothing."""
    environment = {'PATH': os.environ['PATH'], 'LC_ALL': 'C.UTF-8', 'HOME': os.path.dirname(path),
                   'ASAN_OPTIONS': 'detect_leaks=0:allocator_may_return_null=1:hard_rss_limit_mb=2048',
                   'UBSAN_OPTIONS': 'print_stacktrace=1'}
    if variable:
        environment[variable] = path
    try:
        run = subprocess.run([tool] + [path if word == '@' else word for word in arguments], env=environment,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT,
                             check=False)
    except subprocess.TimeoutExpired:
        return f'runs for more than {LIMIT} s'
    said = run.stderr.decode(errors='replace')
    for word in ('Sanitizer', 'runtime error'):
        if word in said:
            return said[said.index(word) - 60 if said.index(word) > 60 else 0:][:1500]
    return f'ends with {run.returncode}' if run.returncode not in (0, 1, 2) else None


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tool, runs = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    random_ = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    kinds, failed = seeds(), 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'input')
        for number in range(runs):
            kind, arguments, variable = READERS[number % len(READERS)]
            data = changed(random_, random_.choice(kinds[kind]))
            with open(path, 'wb') as file:
                file.write(data)
            wrong = wrong_with(tool, arguments, variable, path)
            if not wrong:
                continue
            failed += 1
            kept = os.path.join(os.path.dirname(tool), 'readers', f'{number}.{kind}')
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            with open(kept, 'wb') as file:
                file.write(data)
            print(f'{" ".join(arguments)} with {kept}: {wrong}', flush=True)
    print(f'{runs - failed} passed, {failed} failed')
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
