#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hazard programs (tests/apps), and lt_alone, on a real GPU: each case plain and under the shim, values compared.

    zoo.py --lib build/libfashim.so --apps build/apps/gpu [--out DIR] [NAME=VALUE[,NAME=VALUE…] …]

Each argument is a setting, a table of its own: what goes into the environment of the runs under the shim
(FASHIM=compare, APP_KERNELS=own …). Settings under which the program is the same share its plain run: most
of the time goes into making contexts, which a driver does one after the other. A case passes when both end alike, every value the program observed agrees within 4e-3 (fp16 chains on
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
WHOLE = ("lt_alone", "lt_alone odd")  # programs of one case
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


class Case:
    """One case, its plain runs and those under the shim."""

    def __init__(self, name, command, lib, folder):
        self.name, self.command, self.lib = name, command, lib
        self.base = os.path.join(folder, name.replace(" ", "."))
        self.environment = dict(os.environ, LD_LIBRARY_PATH=harness.library_path())
        self.plain = {}  # by what the program itself is told: how it ended, its values

    def alone(self, settings):
        told = {key: value for key, value in settings.items() if key.startswith("APP_")}
        key = tuple(sorted(told.items()))
        if key not in self.plain:
            dump = f"{self.base}.plain.{len(self.plain)}"
            ended = harness.launch(self.command,
                                   dict(self.environment, APP_DUMP=dump, **told), 60, self.base + ".a")
            self.plain[key] = ended, values(dump)
        return self.plain[key]

    def run(self, settings):
        """(replaced, seen, line for the table, passed)"""
        plain, right = self.alone(settings)
        for name in (".shim", ".jsonl"):
            if os.path.exists(self.base + name):
                os.unlink(self.base + name)
        preloaded = dict(self.environment, LD_PRELOAD=self.lib, FASHIM="replace", FASHIM_MIN_SPEEDUP="0",
                         FASHIM_BUDGET="0", FASHIM_OUT=self.base + ".jsonl", APP_DUMP=self.base + ".shim")
        shim = harness.launch(self.command, dict(preloaded, **settings), 60, self.base + ".b")
        log = harness.Log(self.base + ".jsonl")
        replaced, seen = log.total("replaced"), log.total("seen")
        worst, complaint = compare(right, values(self.base + ".shim"))
        if plain.rc != shim.rc:
            complaint = f"exit status {plain.rc} plain, {shim.rc} here: {shim.tail(2)}"
        elif plain.rc and plain.rc != 77:
            complaint = f"the plain run failed: {plain.tail(2)}"
        elif log.violation:
            complaint = f"violation: {log.violation[0].get('what')}"
        elif not complaint and not replaced and worst != 0:
            complaint = "nothing was replaced, yet values differ"
        elif not complaint and not replaced and self.name in WHOLE and expected(settings):
            complaint = "nothing was replaced"
        reasons = " ".join(sorted(log.reasons()))
        line = (f"{self.name:20} {'FAIL' if complaint else 'ok  '} {replaced:3}/{seen:<3} {worst:8.2g}  "
                f"{reasons}{'  ' + complaint if complaint else ''}")
        return replaced, seen, line, not complaint


def judge(name, settings, rows, out):
    """What became of all cases under a setting; True where that is well."""
    if out:
        with open(os.path.join(out, f"zoo.{name}.txt"), "w") as file:
            file.writelines(line + "\n" for _, _, line, _ in rows)
    for _, _, line, passed in rows:
        if not passed:
            print(line)
    passed, replaced = sum(row[3] for row in rows), sum(row[0] for row in rows)
    print(f"zoo {name}: {replaced} of {sum(row[1] for row in rows)} chains replaced; {passed} passed, "
          f"{len(rows) - passed} failed")
    if replaced < ENOUGH * expected(settings):
        print(f"too few were replaced: {TABLE} has {expected(settings)}")
        return False
    return passed == len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE[,…]", default=["FASHIM=replace"])
    parser.add_argument("--lib", required=True)
    parser.add_argument("--apps", required=True)
    parser.add_argument("--out", help="folder for the whole tables; failures always go to stdout")
    parser.add_argument("--jobs", type=int, default=8)
    arguments = parser.parse_args()
    settings = {name: dict(pair.split("=", 1) for pair in name.split(",")) for name in arguments.settings}
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
        def rows(name, command):
            case = Case(name, command, lib, folder)
            return [case.run(each) for each in settings.values()]
        commands = {name: [program, name] for name in cases}
        commands.update((name, [os.path.join(os.path.dirname(program), name.split()[0]), *name.split()[1:]])
                        for name in WHOLE)
        table = list(pool.map(rows, commands, commands.values()))
    good = [judge(name, settings[name], [row[n] for row in table], arguments.out)
            for n, name in enumerate(settings)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
