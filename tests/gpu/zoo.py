#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hazard programs (tests/apps) on a real GPU: each case plain and under the shim, values compared.

    zoo.py --lib build/libfashim.so --apps build/apps/gpu [--out FILE] [NAME=VALUE …]

NAME=VALUE goes into the environment of the run under the shim (FASHIM=compare, APP_KERNELS=own …).
A case passes when both end alike, every value the program observed agrees within 4e-3 (fp16 chains on
values of order one), the log holds no violation, and, where nothing was replaced, every bit is the same.
All together pass only where about as much was replaced as tests/apps/zoo_hazards.def says: a shim that
does nothing is not right, it is idle.
"""
import argparse
import array
import math
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import harness

TOLERANCE = 4e-3
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "apps", "zoo_hazards.def")
ENOUGH = 0.8  # of the table's sum: how many comparisons a site takes depends on the time they take


def values(path):
    """The float32 values a program dumped."""
    read = array.array("f")
    try:
        with open(path, "rb") as file:
            read.frombytes(file.read())
    except OSError:
        pass
    return read


def compare(plain, shim):
    """(largest difference, complaint or None)"""
    if len(plain) != len(shim):
        return math.nan, f"{len(plain)} values plain, {len(shim)} here"
    worst = 0.0
    for a, b in zip(plain, shim):
        if math.isnan(a) != math.isnan(b):
            return math.nan, "NaN on one side only"
        if a != b and not math.isnan(a):
            worst = max(worst, abs(a - b))
    return worst, None if worst <= TOLERANCE else f"differs by {worst:.2g}"


def expected(settings):
    """How many chains the table has replaced under these settings; those of -1 count as none."""
    if settings.get("FASHIM", "replace") != "replace":
        return 0
    column = 2 if settings.get("APP_KERNELS") == "own" else 1
    with open(TABLE) as file:
        rows = re.findall(r'\{"(\w+)", (-?\d+), (-?\d+)', file.read())
    return sum(max(int(row[column]), 0) for row in rows)


def run_case(case, program, lib, extra, folder):
    """(case, replaced, seen, line for the table, passed)"""
    base = os.path.join(folder, case)
    environment = dict(os.environ, LD_LIBRARY_PATH=harness.library_path())
    preloaded = dict(environment, LD_PRELOAD=lib, FASHIM="replace", FASHIM_MIN_SPEEDUP="0", FASHIM_BUDGET="0",
                     FASHIM_OUT=base + ".jsonl", APP_DUMP=base + ".shim")
    preloaded.update(extra)
    plain_extra = {k: v for k, v in extra.items() if k.startswith("APP_")}
    plain = harness.launch([program, case], dict(environment, APP_DUMP=base + ".plain",
                                                 **plain_extra), 60, base + ".a")
    shim = harness.launch([program, case], preloaded, 60, base + ".b")
    log = harness.Log(base + ".jsonl")
    replaced, seen = log.total("replaced"), log.total("seen")
    worst, complaint = compare(values(base + ".plain"), values(base + ".shim"))
    if plain.rc != shim.rc:
        complaint = f"exit status {plain.rc} plain, {shim.rc} here: {shim.tail(2)}"
    elif plain.rc and plain.rc != 77:
        complaint = f"the plain run failed: {plain.tail(2)}"
    elif log.violation:
        complaint = f"violation: {log.violation[0].get('what')}"
    elif not complaint and not replaced and worst != 0:
        complaint = "nothing was replaced, yet values differ"
    reasons = " ".join(sorted(log.reasons()))
    line = f"{case:20} {'FAIL' if complaint else 'ok  '} {replaced:3}/{seen:<3} {worst:8.2g}  {reasons}"
    return case, replaced, seen, line + (f"  {complaint}" if complaint else ""), not complaint


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--lib", required=True)
    parser.add_argument("--apps", required=True)
    parser.add_argument("--out", help="file for the whole table; failures always go to stdout")
    parser.add_argument("--jobs", type=int, default=8)
    arguments = parser.parse_args()
    extra = dict(setting.split("=", 1) for setting in arguments.settings)
    program = os.path.abspath(os.path.join(arguments.apps, "hazards"))
    environment = dict(os.environ, LD_LIBRARY_PATH=harness.library_path())
    listed = subprocess.run([program, "--list"], env=environment, capture_output=True, text=True)
    cases = [line.split()[0] for line in listed.stdout.splitlines() if line.strip()]
    if not cases:
        print(f"zoo.py: {program} --list gave nothing: {listed.stderr.strip()}", file=sys.stderr)
        return 2
    lib = os.path.abspath(arguments.lib)
    with tempfile.TemporaryDirectory(prefix="fashim-zoo-") as folder, \
            ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda case: run_case(case, program, lib, extra, folder), cases))
    if arguments.out:
        with open(arguments.out, "w") as file:
            file.writelines(row[3] + "\n" for row in rows)
    for row in rows:
        if not row[4]:
            print(row[3])
    passed, replaced = sum(row[4] for row in rows), sum(row[1] for row in rows)
    print(f"zoo {' '.join(arguments.settings) or 'replace'}: {replaced} of "
          f"{sum(row[2] for row in rows)} chains replaced; {passed} passed, {len(rows) - passed} failed")
    if replaced < ENOUGH * expected(extra):
        print(f"too few were replaced: {TABLE} has {expected(extra)}")
        return 1
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
