#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The catalogue of what real programs do, run case by case on a GPU.

    catalogue.py --lib build/libfashim.so --out DIR [--only GLOB,…] [--record]
                 [--compare tests/gpu/reference/catalogue.json]
    catalogue.py --diff OLD.json NEW.json

Every program runs plain, then under the shim in a process of its own that has the GPU to itself;
a crash or a hang is a row of the table. DIR gets table.txt, catalogue.json (what --compare and
--diff read), logs.tar.gz and, with --record, traces.tar.gz. Exit status 1 when a case is not as
stated or got worse. How fast the whole models are is times.py's question.
"""
import argparse
import contextlib
import fcntl
import fnmatch
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import catalogue_reference
import harness
import programs
from catalogue_cases import CASES, COMPILED, COMPILED_REPEAT
from registry import PROGRAMS

ALONE = ("jax", "cupy", "triton")  # libraries that are set up once a process
TRACES_MIB = 13.0


def entry_of(case, folder):
    """The registered program of a case, or a compiled one as a row of the same form."""
    if case.name in COMPILED:
        program, expect = COMPILED[case.name]
        return SimpleNamespace(name=case.name, expect=expect, repeat=COMPILED_REPEAT, timed=None,
                               variants=(), command=os.path.join(folder, program))
    return PROGRAMS[case.name]


class Catalogue:
    """One run over the chosen cases: files, processes, verdicts."""

    def __init__(self, arguments):
        self.lib = os.path.abspath(arguments.lib)
        self.work = tempfile.mkdtemp(prefix="fashim-catalogue-")
        self.jobs, self.seconds = arguments.jobs, arguments.timeout
        self.recording = arguments.record
        patterns = arguments.only.split(",")
        self.cases = [case for case in CASES
                      if any(fnmatch.fnmatch(text, p) for p in patterns
                             for text in (case.number, case.name))]
        folder = arguments.programs or os.path.join(os.path.dirname(self.lib), "gpu", "catalogue")
        programs.load([case.name for case in self.cases if case.name not in COMPILED])
        self.entries = {case.name: entry_of(case, folder) for case in self.cases}

    def path(self, name, suffix):
        return os.path.join(self.work, name + suffix)

    def outputs(self, entry, way):
        return self.path(entry.name, f".{way}" + (".bin" if hasattr(entry, "command") else ".npz"))

    def turn(self):
        return self.path("gpu", ".turn")

    # ---- plain runs ----

    def plain_python(self, names, number):
        """Several programs in one process; {name: Run}."""
        command = [sys.executable, harness.PROGRAMS_PY, *names, "--out-dir", self.work,
                   "--also", "double,sdpa"]
        run = harness.launch(command, harness.clean_environment(),
                             60 + self.seconds * len(names), self.path(f"plain{number}", ""))
        done = {}
        for name in names:
            line = f"{name}: {PROGRAMS[name].repeat} forwards\n"
            if line in run.stdout:
                os.replace(self.path(name, ".npz"), self.outputs(PROGRAMS[name], "plain"))
                done[name] = harness.Run(0, run.seconds, line, "", False)
            else:
                done[name] = harness.Run(run.rc or 1, run.seconds, "", run.stderr, run.hung)
        return done

    def plain_compiled(self, name):
        entry = self.entries[name]
        environment = harness.clean_environment(LD_LIBRARY_PATH=harness.library_path())
        return {name: self.launch_compiled(entry, "plain", environment)}

    def launch_compiled(self, entry, way, environment):
        command = [entry.command, self.outputs(entry, way), str(entry.repeat), entry.name]
        with open(self.turn(), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                return harness.launch(command, environment, self.seconds,
                                      self.path(entry.name, "." + way))
            except OSError as error:
                return harness.Run(127, 0.0, "", str(error), False)

    def plain(self, pool):
        """All plain runs; a program that its process's end took along runs once more, alone."""
        names = [name for name, entry in self.entries.items() if not hasattr(entry, "command")]
        alone = [name for name in names if any(word in name for word in ALONE)]
        shared = [name for name in names if name not in alone]
        shards = [[name] for name in alone] + [shared[n::self.jobs] for n in range(self.jobs)]
        work = [pool.submit(self.plain_python, shard, number)
                for number, shard in enumerate(shards) if shard]
        work += [pool.submit(self.plain_compiled, name) for name in self.entries
                 if name not in names]
        runs = {name: run for job in work for name, run in job.result().items()}
        again = [name for name in shared if runs[name].complaint()]
        work = [pool.submit(self.plain_python, [name], f"-{name}") for name in again]
        for job in work:
            runs.update(job.result())
        return runs

    # ---- runs under the shim ----

    def environment(self, entry):
        more = {"FASHIM_RECORD": self.path(entry.name, ".trace")} if self.recording else {}
        if hasattr(entry, "command"):
            more["LD_LIBRARY_PATH"] = harness.library_path()
        else:
            more.update(GPU_TURN=self.turn(), GPU_SECONDS=int(self.seconds))
        return harness.shim_environment(self.lib, "replace", self.path(entry.name, ".jsonl"),
                                        **more)

    def shim(self, entry):
        environment = self.environment(entry)
        if hasattr(entry, "command"):
            return self.launch_compiled(entry, "shim", environment)
        command = [sys.executable, harness.PROGRAMS_PY, entry.name, "--out",
                   self.outputs(entry, "shim")]
        return harness.launch(command, environment, 240, self.path(entry.name, ".shim"))

    def row(self, case, plain, run):
        """One row of the table: what was found out about a case, whatever happened."""
        from judge import Outputs, Verdict, judge  # these need numpy; --diff does not
        entry = self.entries[case.name]
        log = harness.Log(self.path(case.name, ".jsonl"))
        try:
            verdict = judge(entry, "replace", entry.repeat, plain, run,
                            Outputs(self.outputs(entry, "plain")),
                            Outputs(self.outputs(entry, "shim")), log)
        except Exception as error:  # a row, not the end
            verdict = Verdict(case.name, "replace")
            verdict.fail(f"judging failed: {type(error).__name__}: {error}")
        return catalogue_reference.row(case, entry.expect, verdict, log)

    def run(self):
        with ThreadPoolExecutor(self.jobs) as pool:
            plain = self.plain(pool)
            print("# plain runs done", file=sys.stderr, flush=True)
            runs = {name: pool.submit(self.shim, entry) for name, entry in self.entries.items()}
            rows = []
            for case in self.cases:
                rows.append(self.row(case, plain[case.name], runs[case.name].result()))
                print(f"# {case.key}: {rows[-1]['outcome']}", file=sys.stderr, flush=True)
        return rows

    def pack(self, out):
        """logs.tar.gz, and traces.tar.gz with as many traces as fit, the smallest first."""
        with tarfile.open(os.path.join(out, "logs.tar.gz"), "w:gz") as tar:
            for name in sorted(os.listdir(self.work)):
                path = os.path.join(self.work, name)
                if name.endswith((".jsonl", ".stderr")) and os.path.getsize(path):
                    tar.add(path, arcname=name)
        if not self.recording:
            return
        traces = [name for name in os.listdir(self.work) if name.endswith(".trace")]
        traces.sort(key=lambda name: os.path.getsize(self.path(name, "")))
        target = os.path.join(out, "traces.tar.gz")
        with tarfile.open(target, "w:gz") as tar:
            for n, name in enumerate(traces):
                tar.add(self.path(name, ""), arcname=name)
                tar.fileobj.flush()
                if os.path.getsize(target) > TRACES_MIB * 2 ** 20:
                    print("traces left out: " + " ".join(traces[n + 1:]))
                    break


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", help="the shim")
    parser.add_argument("--out", help="folder for the results")
    parser.add_argument("--only", default="*", help="comma-separated globs of numbers and names")
    parser.add_argument("--record", action="store_true", help="write a trace of every case")
    parser.add_argument("--compare", metavar="FILE", help="an earlier catalogue.json")
    parser.add_argument("--diff", nargs=2, metavar=("OLD", "NEW"), help="compare two of them alone")
    parser.add_argument("--programs", help="folder of the compiled programs")
    parser.add_argument("--jobs", type=int, default=max(2, min(10, (os.cpu_count() or 2) - 4)))
    parser.add_argument("--timeout", type=float, default=40, help="seconds of GPU for one case")
    parser.add_argument("--keep", action="store_true", help="keep the saved outputs")
    arguments = parser.parse_args()
    if arguments.diff:
        old, new = (catalogue_reference.load(path) for path in arguments.diff)
        return 1 if catalogue_reference.print_difference(old, new) else 0
    if not arguments.lib or not arguments.out:
        parser.error("--lib and --out, or --diff")
    if "FASHIM_TEST_DEVICE" not in os.environ and not harness.have_gpu():
        print("skipped: no CUDA device here; the catalogue did not run")
        return 0
    start = time.monotonic()
    os.makedirs(arguments.out, exist_ok=True)
    catalogue = Catalogue(arguments)
    rows = catalogue.run()
    catalogue.pack(arguments.out)
    result = catalogue_reference.result(rows, harness, catalogue.work)
    with open(os.path.join(arguments.out, "catalogue.json"), "w") as file:
        json.dump(result, file, indent=1, allow_nan=False)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        failed = catalogue_reference.print_table(result)
        if arguments.compare:
            failed += catalogue_reference.print_difference(
                catalogue_reference.load(arguments.compare), result)
        print(f"{time.monotonic() - start:.0f} s")
    print(text.getvalue(), end="")
    with open(os.path.join(arguments.out, "table.txt"), "w") as file:
        file.write(text.getvalue())
    if arguments.keep:
        print(f"outputs and logs: {catalogue.work}")
    else:
        shutil.rmtree(catalogue.work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
