#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which functions of driver and cuBLAS the shim calls, and where it calls those that may wait for the device.

    waits.py TABLE FOLDER     one line for each call that the table does not have; status 1

TABLE (tests/faults/quick_calls.def) has rows

    QUICK(name)                          may be called anywhere, also with a lock
    WAITS(name, "room/file.c", times)    is called so often there, and nowhere else; it waits, or calls what waits

A call is `driver.NAME`, blas_symbol(…, "NAME"), or NAME( where a row has the name of a function of the shim's own.
So a new call, or one more in a file that has some, fails until somebody has thought about the lock and written it
down.
"""
import collections
import glob
import os
import re
import sys


def read_table(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    waits = re.findall(r'^WAITS\((\w+), "([^"]+)", (\d+)\)', text, re.M)
    quick = re.findall(r"^QUICK\((\w+)\)", text, re.M)
    if len(waits) + len(quick) != len(re.findall(r"QUICK\(|WAITS\(", text)):
        sys.exit(f'{path}: a row is neither QUICK(name) nor WAITS(name, "room/file.c", times)')
    return set(quick), {(name, where): int(times) for name, where, times in waits}


def calls_in(text, own):
    """{name: how often} of what is called in a source; own: functions of the shim that count, too."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    calls = re.findall(r"\bdriver\.(cu\w+)", text) + re.findall(r'\bblas_symbol\([^;]*?"(\w+)"', text)
    for line in text.splitlines():
        if line[:1].isspace():  # else it is declared or defined there
            calls += [name for name in re.findall(r"(\w+)\(", line) if name in own]
    return collections.Counter(calls)


def check(table, folder):
    quick, waits = read_table(table)
    own = {name for name, _ in waits if not name.startswith("cu")}
    found, wrong = collections.Counter(), []
    for path in sorted(glob.glob(f"{folder}/*/*.[ch]")):
        with open(path, encoding="utf-8") as file:
            for name, times in calls_in(file.read(), own).items():
                if name not in quick:
                    found[name, os.path.relpath(path, folder)] = times
    for name, where in sorted(found.keys() | waits.keys()):
        times, expected = found[name, where], waits.get((name, where), 0)
        if times != expected:
            wrong.append(f"{folder}/{where}: {name} is called {times} times, {expected} by {table}")
    return wrong


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    complaints = check(sys.argv[1], sys.argv[2])
    print("\n".join(complaints), end="\n" if complaints else "")
    sys.exit(bool(complaints))
