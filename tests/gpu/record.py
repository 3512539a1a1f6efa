#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the test programs do, as traces for tests that need no GPU.

    record.py --lib build/libfashim.so --out DIR [--only PATTERN,…] [--limit MIB]

Each program runs a few forwards with FASHIM=audit and FASHIM_RECORD; the traces go into
DIR/traces.tar.gz, smallest first, as many as fit into --limit.
"""
import argparse
import fnmatch
import gzip
import os
import shutil
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor

import harness
import programs
from registry import PROGRAMS


def record(name, command, library, out):
    """One program's trace, gzipped: (name, path or None, sizes, complaint)."""
    trace, base = os.path.join(out, name + ".trace"), os.path.join(out, name)
    log = base + ".jsonl"
    more = {} if command[0] == sys.executable else {"LD_LIBRARY_PATH": harness.library_path()}
    environment = harness.shim_environment(library, "audit", log, FASHIM_RECORD=trace, **more)
    run = harness.launch(command, environment, 150, base)
    complaint = run.complaint()
    if not os.path.exists(trace):
        return name, None, (0, 0), complaint or "no trace was written", run
    with open(trace, "rb") as plain, gzip.open(trace + ".gz", "wb", 9) as packed:
        shutil.copyfileobj(plain, packed)
    sizes = os.path.getsize(trace), os.path.getsize(trace + ".gz")
    return name, trace, sizes, complaint, run


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="*", help="comma-separated globs")
    parser.add_argument("--limit", type=float, default=13.5, help="MiB of traces.tar.gz at most")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--programs", default=None, help="folder of the compiled C programs")
    arguments = parser.parse_args()
    work = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"fashim-record-{os.getpid()}")
    os.makedirs(work)
    os.makedirs(arguments.out, exist_ok=True)
    programs.load([])
    patterns = arguments.only.split(",")
    chosen = [name for name in PROGRAMS if any(fnmatch.fnmatch(name, p) for p in patterns)]
    commands = {name: [sys.executable, harness.PROGRAMS_PY, name, "--few", "--out",
                       os.path.join(work, name + ".npz")] for name in chosen}
    folder = arguments.programs or os.path.join(os.path.dirname(os.path.abspath(arguments.lib)),
                                                "gpu")
    for name in ("static_cudart", "two_threads", "dlopen_cublas", "linked_driver",
                 "two_contexts"):
        path = os.path.join(folder, name)
        if os.path.exists(path) and any(fnmatch.fnmatch(name, p) for p in patterns):
            commands[name] = [path, os.path.join(work, name + ".bin"), "4"]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda item: record(*item, arguments.lib, work), commands.items()))
    room, tar_path = arguments.limit * 2 ** 20, os.path.join(arguments.out, "traces.tar.gz")
    with tarfile.open(tar_path, "w:gz", compresslevel=9) as tar:
        for name, trace, (plain, packed), complaint, run in sorted(rows, key=lambda r: r[2][1]):
            note = complaint or ""
            if trace and packed <= room:
                tar.add(trace, arcname=name + ".trace")
                room -= packed
            elif trace:
                note += " LEFT OUT: no room"
            print(f"{name:18} {plain / 1024:9.0f} KiB  {packed / 1024:8.0f} KiB gzipped "
                  f"{run.seconds:5.1f} s  {note}")
            if complaint:
                print("    " + run.tail(4).replace("\n", "\n    "))
    print(f"{tar_path}: {os.path.getsize(tar_path) / 2 ** 20:.2f} MiB")
    shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
