#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the shim does to programs on a real GPU.

    run.py --lib build/libfashim.so --out DIR [--quick] [--only GLOB,…] [--modes replace,…]
           [--poison] [--no-time] [--record DIR]
    run.py --catalogue --lib build/libfashim.so --out DIR [--only GLOB,…]
           [--compare tests/gpu/reference/catalogue.json]
    run.py --diff OLD.json NEW.json

Every program runs plain and under the shim, each in a process of its own; outputs are compared, the
log is checked against what the program's row expects. A crash or a hang is a row of the table.

The table's programs run side by side, in several modes, and those with a timed form are timed
alone, in turn: eager, eager under the shim, SDPA. The catalogue is of what real programs do: each
case has the GPU to itself, and must be found by one of its routes; how fast whole models are is
times.py's question. DIR gets table.txt, logs.tar.gz, and results.json or catalogue.json (what
--compare and --diff read). Exit status 1 when a row failed, or a case got worse.
"""
import argparse
import contextlib
import fcntl
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import cases
import catalogue_table
import harness
import programs
import table
from registry import PROGRAMS

MODES = ("replace", "poison", "audit", "compare", "off")
SLOW = ("bert_attentions", "gpt2", "llama1b", "llama8b", "jax_f16", "graph", "vit", "bert", "t5")
ALONE = ("jax", "cupy", "triton")  # libraries that are set up once a process


def matches(arguments, *texts):
    return any(fnmatch.fnmatch(text, glob) for glob in arguments.only.split(",") for text in texts)


def entries_of(arguments):
    """The programs that are asked for, the slowest first, and the catalogue's cases among them."""
    if arguments.catalogue:
        chosen = [case for case in cases.CASES if matches(arguments, case.number, case.name)]
        programs.load([case.name for case in chosen if case.name not in cases.COMPILED])
        known = PROGRAMS | cases.COMPILED
        return list({case.name: known[case.name] for case in chosen}.values()), chosen
    programs.load([])
    everything = list(PROGRAMS.values()) + [cases.COMPILED[name] for name in cases.TABLE]
    entries = [entry for entry in everything if matches(arguments, entry.name)
               and (entry.quick or not arguments.quick or arguments.only != "*")]
    return sorted(entries, key=lambda e: SLOW.index(e.name) if e.name in SLOW else len(SLOW)), []


class Runner:
    """All runs of one call: plans them, runs them side by side, keeps what came out."""

    def __init__(self, arguments):
        self.lib, self.arguments = os.path.abspath(arguments.lib), arguments
        self.work = tempfile.mkdtemp(prefix="fashim-gpu-")  # one process, one set of files
        self.binaries = arguments.programs or os.path.join(os.path.dirname(self.lib), "gpu")
        self.timeout = arguments.timeout or (40 if arguments.catalogue else 100)
        self.end = time.monotonic() + (1e9 if arguments.catalogue else arguments.deadline)
        self.entries, self.cases = entries_of(arguments)
        self.verdicts = {}  # by program and mode

    def path(self, name, mode, suffix=""):
        return os.path.join(self.work, f"{name}.{mode}{suffix}")

    def outputs_path(self, entry, mode):
        return self.path(entry.name, mode, ".bin" if entry.binary else ".npz")

    def log(self, entry, mode="replace"):
        return harness.Log(self.path(entry.name, mode, ".jsonl"))

    def modes(self, entry):
        if self.arguments.catalogue:
            return ["replace"]
        more = list(() if self.arguments.quick else entry.modes)
        modes = self.arguments.modes.split(",") if self.arguments.modes else ["replace"] + more
        return modes + (["poison"] if self.arguments.poison and "poison" not in modes else [])

    def launch(self, command, environment, limit, base):
        """One process, to its end or to its time limit."""
        limit = min(limit, self.end - time.monotonic())
        if limit < 1:
            return harness.Run(127, 0.0, "", "not started: the table's deadline had passed", False)
        try:
            return harness.launch(command, environment, limit, base)
        except OSError as error:
            return harness.Run(127, 0.0, "", str(error), False)

    @contextlib.contextmanager
    def turn(self):
        """The GPU for one case of the catalogue; Python's programs take it themselves, later."""
        with open(os.path.join(self.work, "gpu.turn"), "w") as file:
            if self.arguments.catalogue:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def compiled(self, entry, mode, environment):
        command = [os.path.join(self.binaries, entry.binary), self.outputs_path(entry, mode),
                   str(entry.repeat), entry.name]
        with self.turn():
            return self.launch(command, environment | {"LD_LIBRARY_PATH": harness.library_path()},
                               self.timeout, self.path(entry.name, mode))

    # ---- plain runs ----

    def plain_python(self, entries):
        """Several programs in one process; {name: Run}."""
        names = [entry.name for entry in entries]
        command = [sys.executable, harness.PROGRAMS_PY, *names, "--out-dir", self.work, "--also",
                   ",".join(sorted({variant for entry in entries for variant in entry.variants}))]
        limit = 60 + self.timeout * len(names) if self.arguments.catalogue else self.timeout
        run = self.launch(command, harness.clean_environment(), limit,
                          self.path(names[0], "plain"))
        done = {}
        for entry in entries:
            line = f"{entry.name}: {entry.repeat} forwards\n"
            if line in run.stdout:
                os.replace(os.path.join(self.work, entry.name + ".npz"),
                           self.outputs_path(entry, "plain"))
                done[entry.name] = harness.Run(0, run.seconds, line, "", False)
            else:
                done[entry.name] = harness.Run(run.rc or 1, run.seconds, "", run.stderr, run.hung)
        return done if len(entries) > 1 else {names[0]: run}

    def plain_compiled(self, entry):
        return {entry.name: self.compiled(entry, "plain", harness.clean_environment())}

    def plain(self, pool):
        """{name: a future of {name: Run}}. The catalogue's programs share processes, and all are
        done; one that its process's end took along runs once more, alone."""
        python = [entry for entry in self.entries if not entry.binary]
        shared = [entry for entry in python if self.arguments.catalogue
                  and not any(word in entry.name for word in ALONE)]
        shards = [[entry] for entry in python if entry not in shared]
        shards += [shared[n::self.arguments.jobs] for n in range(self.arguments.jobs)]
        work = {}
        for shard in shards:
            if shard:
                job = pool.submit(self.plain_python, shard)
                work |= dict.fromkeys([entry.name for entry in shard], job)
        work |= {entry.name: pool.submit(self.plain_compiled, entry)
                 for entry in self.entries if entry.binary}
        for entry in shared:
            if work[entry.name].result()[entry.name].complaint():
                work[entry.name] = pool.submit(self.plain_python, [entry])
        if self.arguments.catalogue:
            for job in work.values():
                job.result()
            print("# plain runs done", file=sys.stderr, flush=True)
        return work

    # ---- runs under the shim ----

    def shim(self, entry, mode):
        more = dict(entry.options)
        if mode == "poison":
            more["FASHIM_POISON"] = 1
        if self.arguments.catalogue:
            more.update(GPU_TURN=os.path.join(self.work, "gpu.turn"), GPU_SECONDS=int(self.timeout))
        environment = harness.shim_environment(self.lib, "replace" if mode == "poison" else mode,
                                               self.path(entry.name, mode, ".jsonl"), **more)
        if entry.binary:
            return self.compiled(entry, mode, environment)
        command = [sys.executable, harness.PROGRAMS_PY, entry.name, "--out",
                   self.outputs_path(entry, mode)]
        return self.launch(command, environment, 240 if self.arguments.catalogue else self.timeout,
                           self.path(entry.name, mode))

    def check(self, entry, mode, plain, run):
        from judge import Outputs, Verdict, judge  # these need numpy; the skip line does not
        try:
            return judge(entry, mode, entry.repeat, plain, run,
                         Outputs(self.outputs_path(entry, "plain")),
                         Outputs(self.outputs_path(entry, mode)), self.log(entry, mode))
        except Exception as error:  # a row, not the end
            verdict = Verdict(entry.name, mode)
            verdict.fail(f"judging failed: {type(error).__name__}: {error}")
            verdict.notes.append(traceback.format_exc())
            return verdict

    def again_plain(self, entry, verdict):
        """Bits that differ with nothing replaced: is the program itself reproducible?"""
        from judge import Outputs
        kept = self.outputs_path(entry, "plain")
        os.rename(kept, kept + ".first.npz")
        self.plain_python([entry])
        first, second = (Outputs(path) for path in (kept + ".first.npz", kept))
        if not first.error and not second.error:
            changed = [key for key in first.of("eager") if key not in second.keys
                       or first.get(key).tobytes() != second.get(key).tobytes()]
            verdict.notes.append(f"two plain runs differ in {len(changed)} outputs")
        os.replace(kept + ".first.npz", kept)

    def run(self):
        """All correctness runs: the plain ones and those under the shim, several at once."""
        with ThreadPoolExecutor(self.arguments.jobs) as pool:
            plain = self.plain(pool)
            runs = [(entry, mode, pool.submit(self.shim, entry, mode))
                    for entry in self.entries for mode in self.modes(entry)]
            for entry, mode, run in runs:
                verdict = self.check(entry, mode, plain[entry.name].result()[entry.name],
                                     run.result())
                self.verdicts[entry.name, mode] = verdict
                print(f"# {entry.name} {mode}: {'ok' if not verdict.failures else 'FAILED'} "
                      f"({verdict.seconds:.1f} s)", file=sys.stderr, flush=True)
        for entry in self.entries:
            for mode in () if entry.binary else self.modes(entry):
                verdict = self.verdicts[entry.name, mode]
                if any("nothing was replaced, yet" in failure for failure in verdict.failures):
                    self.again_plain(entry, verdict)

    def pack(self, path):
        """Logs and messages into one archive; the outputs are large and were compared."""
        with tarfile.open(path, "w:gz") as tar:
            for name in sorted(os.listdir(self.work)):
                full = os.path.join(self.work, name)
                if name.endswith((".jsonl", ".stderr")) and os.path.getsize(full):
                    tar.add(full, arcname=name)


def run_table(runner, arguments, start):
    """The table's programs, and their times. What is kept of it, and how to print it."""
    if not arguments.time_only:
        runner.run()
    timed = [entry for entry in runner.entries if entry.timed is not None]
    times = {} if arguments.no_time or not timed else \
        table.time_all(timed, runner.lib, runner.work, runner.end)
    verdicts = sorted(runner.verdicts.values(), key=lambda v: (MODES.index(v.mode), v.name))
    seconds = time.monotonic() - start
    kept = {"verdicts": [v.as_dict() for v in verdicts], "times": times, "seconds": seconds}
    return "results.json", kept, lambda: table.print_table(verdicts, times, seconds)


def run_catalogue(runner, arguments, start):
    """The same for the catalogue's cases."""
    runner.run()
    known = {entry.name: entry for entry in runner.entries}
    rows = [catalogue_table.row(case, known[case.name], runner.verdicts[case.name, "replace"],
                                runner.log(known[case.name])) for case in runner.cases]
    kept = catalogue_table.result(rows, map(runner.log, runner.entries))

    def show():
        failed = catalogue_table.print_table(kept)
        if arguments.compare:
            earlier = catalogue_table.load(arguments.compare)
            failed += catalogue_table.print_difference(earlier, kept)
        print(f"{time.monotonic() - start:.0f} s")
        return failed

    return "catalogue.json", kept, show


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", help="the shim")
    parser.add_argument("--out", help="folder for the results")
    parser.add_argument("--only", default="*",
                        help="comma-separated globs of names, or of the catalogue's numbers")
    parser.add_argument("--quick", action="store_true", help="the rows that matter most")
    parser.add_argument("--modes", help="these modes for every program: " + ",".join(MODES))
    parser.add_argument("--poison", action="store_true", help="also with FASHIM_POISON=1")
    parser.add_argument("--no-time", action="store_true", help="correctness alone")
    parser.add_argument("--time-only", action="store_true", help="timings alone")
    parser.add_argument("--catalogue", action="store_true", help="the catalogue's cases instead")
    parser.add_argument("--compare", metavar="FILE", help="an earlier catalogue.json")
    parser.add_argument("--diff", nargs=2, metavar=("OLD", "NEW"), help="compare two of them alone")
    parser.add_argument("--record", metavar="DIR", help="record traces instead (see record.py)")
    parser.add_argument("--programs", help="folder of the compiled programs (LIB's folder/gpu)")
    parser.add_argument("--jobs", type=int, default=max(2, min(10, (os.cpu_count() or 2) - 4)))
    parser.add_argument("--timeout", type=float,
                        help="seconds for one process (100), or of the GPU for one case (40)")
    parser.add_argument("--deadline", type=float, default=480, help="seconds for the whole table")
    parser.add_argument("--keep", action="store_true", help="keep the saved outputs")
    arguments = parser.parse_args()
    if not arguments.diff and not (arguments.lib and arguments.out):
        parser.error("--lib and --out, or --diff")
    return arguments


def main():
    arguments = parse()
    if arguments.diff:
        old, new = (catalogue_table.load(path) for path in arguments.diff)
        return 1 if catalogue_table.print_difference(old, new) else 0
    start = time.monotonic()
    if "FASHIM_TEST_DEVICE" not in os.environ and not harness.have_gpu():
        print("skipped: no CUDA device here; the GPU tests did not run")
        return 0
    if arguments.record:
        return subprocess.call([sys.executable, os.path.join(harness.HERE, "record.py"), "--lib",
                                arguments.lib, "--out", arguments.record, "--only",
                                arguments.only])
    if not os.path.exists(arguments.lib):
        print(f"run.py: no {arguments.lib}: build it first (make)", file=sys.stderr)
        return 2
    os.makedirs(arguments.out, exist_ok=True)
    runner = Runner(arguments)
    name, kept, show = (run_catalogue if arguments.catalogue else run_table)(runner, arguments,
                                                                             start)
    with open(os.path.join(arguments.out, name), "w") as file:
        json.dump(kept, file, indent=1, default=str, allow_nan=not arguments.catalogue)
    runner.pack(os.path.join(arguments.out, "logs.tar.gz"))
    failed = harness.printed(show, os.path.join(arguments.out, "table.txt"))
    if arguments.keep:
        print(f"outputs and logs: {runner.work}")
    else:
        shutil.rmtree(runner.work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
