#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the programs that tests/traces/traces.def has rows for, for the tests that need no GPU.

    record.py --lib build/libfashim.so --out DIR [--only GLOB,…]

DIR gets NAME.trace.gz of each, as tests/traces keeps them: whole models and other programs with few
forwards, the cases of the catalogue with as many as the catalogue runs. The shim only watches
(FASHIM=audit); a trace holds the program's own calls in any mode. Exit status 1 when one is
missing.
"""
import argparse
import fnmatch
import gzip
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import harness
from cases import COMPILED

ROWS = os.path.join(harness.HERE, "..", "traces", "traces.def")
ROW = re.compile(r"^(PROGRAM|BY_RULE|BY_DATA|DECLINED|PASSED_BY)\((?:[A-Z]\d\d, )?(\w+),", re.M)


def rows():
    """{name: is it a case of the catalogue} of every trace."""
    with open(ROWS) as file:
        return {name: kind != "PROGRAM" for kind, name in ROW.findall(file.read())}


def command_of(name, in_catalogue, folder, outputs):
    """How the program is started; `folder` has the compiled ones."""
    entry = COMPILED.get(name)
    if entry:
        return [os.path.join(folder, entry.binary), outputs,
                str(entry.repeat if in_catalogue else entry.few), name]
    return [sys.executable, harness.PROGRAMS_PY, name, "--out", outputs] \
        + ([] if in_catalogue else ["--few"])


def record(name, command, arguments, work):
    """One program's trace into --out: a line for the table, and whether there is a trace."""
    base = os.path.join(work, name)
    more = {} if command[0] == sys.executable else {"LD_LIBRARY_PATH": harness.library_path()}
    environment = harness.shim_environment(arguments.lib, "audit", base + ".jsonl",
                                           FASHIM_RECORD=base + ".trace", **more)
    try:
        run = harness.launch(command, environment, 150, base)
    except OSError as error:
        return f"{name:26} {error}", False
    if run.complaint() or not os.path.exists(base + ".trace"):
        return f"{name:26} {run.complaint() or 'no trace was written'}\n{run.tail(4)}", False
    target = os.path.join(arguments.out, name + ".trace.gz")
    with open(base + ".trace", "rb") as plain, open(target, "wb") as file, \
            gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:  # the same bytes each time
        shutil.copyfileobj(plain, packed)
    return f"{name:26} {os.path.getsize(target):8} bytes {run.seconds:5.1f} s", True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", required=True, help="the shim")
    parser.add_argument("--out", required=True, help="folder for the traces")
    parser.add_argument("--only", default="*", help="comma-separated globs of names")
    parser.add_argument("--programs", help="folder of the compiled programs (LIB's folder/gpu)")
    parser.add_argument("--jobs", type=int, default=max(2, min(10, (os.cpu_count() or 2) - 4)))
    arguments = parser.parse_args()
    folder = arguments.programs or os.path.join(os.path.dirname(os.path.abspath(arguments.lib)),
                                                "gpu")
    os.makedirs(arguments.out, exist_ok=True)
    chosen = {name: case for name, case in rows().items()
              if any(fnmatch.fnmatch(name, glob) for glob in arguments.only.split(","))}
    work = tempfile.mkdtemp(prefix="fashim-record-")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [pool.submit(record, name, command_of(name, case, folder,
                                                     os.path.join(work, name + ".npz")),
                            arguments, work) for name, case in chosen.items()]
        done = [job.result() for job in jobs]
    shutil.rmtree(work, ignore_errors=True)
    print("\n".join(line for line, _ in done))
    return 0 if all(recorded for _, recorded in done) else 1


if __name__ == "__main__":
    sys.exit(main())
