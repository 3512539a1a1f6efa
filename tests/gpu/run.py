#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of what the shim does on a real GPU.

    run.py --lib build/libfashim.so --out DIR [--quick] [--only GLOB,…] [--modes replace,audit,…]
           [--poison] [--no-time] [--record DIR]

Every program runs plain and under the shim; outputs are compared, the log is checked against what
the program's row expects, and the programs with a timed form are timed alone, in turn: eager,
eager under the shim, SDPA. The table goes to stdout and to DIR/table.txt, what is behind it to
DIR/results.json, logs and messages to DIR/logs.tar.gz. Exit status 1 when a row failed.
"""
import argparse
import contextlib
import fnmatch
import io
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
from types import SimpleNamespace

import harness
import programs
from registry import PROGRAMS, Expect

MODES = ("replace", "poison", "audit", "compare", "off")
SLOW = ("bert_attentions", "gpt2", "llama1b", "llama8b", "jax_f16", "graph", "vit", "bert", "t5")
COMPILED = {
    "static_cudart": Expect("replace", sites=1, tol=1e-3, exact=("P",)),
    "dlopen_cublas": Expect("replace", sites=1, tol=1e-3, exact=("P",)),
    "linked_driver": Expect("replace", sites=1, tol=1e-3, exact=("P",)),
    "two_threads": Expect("replace", chains=4, sites=6, tol=1e-3),
    "two_contexts": Expect("replace", chains=2, sites=4, tol=1e-3),
}


def compiled_programs(folder):
    """The C programs as rows like those of the registry."""
    return [SimpleNamespace(name=name, expect=expect, repeat=40, timed=None, faster=False,
                            quick=name != "linked_driver", variants=(),
                            modes=("audit", "compare") if name == "static_cudart" else (),
                            command=os.path.join(folder, name))
            for name, expect in COMPILED.items()]


class Table:
    """All runs of one call: plans them, runs them side by side, keeps what came out."""

    def __init__(self, arguments):
        self.lib = os.path.abspath(arguments.lib)
        self.out = tempfile.mkdtemp(prefix="fashim-gpu-")  # one process, one set of files
        self.jobs, self.timeout = arguments.jobs, arguments.timeout
        self.end = time.monotonic() + arguments.deadline
        self.forced = arguments.modes.split(",") if arguments.modes else None
        self.poison, self.quick = arguments.poison, arguments.quick
        folder = arguments.programs or os.path.join(os.path.dirname(self.lib), "gpu")
        programs.load([])
        everything = list(PROGRAMS.values()) + compiled_programs(folder)
        patterns = arguments.only.split(",")
        self.entries = [entry for entry in everything
                        if any(fnmatch.fnmatch(entry.name, p) for p in patterns)
                        and (entry.quick or not self.quick or arguments.only != "*")]
        self.entries.sort(key=lambda e: SLOW.index(e.name) if e.name in SLOW else len(SLOW))
        self.plain_runs, self.verdicts = {}, []

    def path(self, name, mode, suffix):
        return os.path.join(self.out, f"{name}.{mode}{suffix}")

    def outputs_path(self, entry, mode):
        return self.path(entry.name, mode, ".bin" if hasattr(entry, "command") else ".npz")

    def modes(self, entry):
        modes = self.forced or ["replace"] + list(() if self.quick else entry.modes)
        return modes + (["poison"] if self.poison and "poison" not in modes else [])

    def command(self, entry, mode):
        if hasattr(entry, "command"):
            return [entry.command, self.outputs_path(entry, mode), str(entry.repeat)]
        also = ["--also", ",".join(entry.variants)] if mode == "plain" and entry.variants else []
        return [sys.executable, harness.PROGRAMS_PY, entry.name, "--out",
                self.outputs_path(entry, mode)] + also

    def environment(self, entry, mode):
        more = {"LD_LIBRARY_PATH": harness.library_path()} if hasattr(entry, "command") else {}
        if mode == "plain":
            return harness.clean_environment(**more)
        more |= getattr(entry, "options", {})
        if mode == "poison":
            more["FASHIM_POISON"] = 1
        return harness.shim_environment(self.lib, "replace" if mode == "poison" else mode,
                                        self.path(entry.name, mode, ".jsonl"), **more)

    def run_one(self, entry, mode):
        """One process, to its end or to its time limit."""
        limit = min(self.timeout, self.end - time.monotonic())
        if limit < 1:
            return harness.Run(127, 0.0, "", "not started: the table's deadline had passed", False)
        try:
            return harness.launch(self.command(entry, mode), self.environment(entry, mode), limit,
                                  self.path(entry.name, mode, ""))
        except OSError as error:
            return harness.Run(127, 0.0, "", str(error), False)

    def check(self, entry, mode, run):
        from judge import Outputs, Verdict, judge  # these need numpy; the skip line does not
        try:
            return judge(entry, mode, entry.repeat, self.plain_runs[entry.name], run,
                         Outputs(self.outputs_path(entry, "plain")),
                         Outputs(self.outputs_path(entry, mode)),
                         harness.Log(self.path(entry.name, mode, ".jsonl")))
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
        self.run_one(entry, "plain")
        first, second = (Outputs(path) for path in (kept + ".first.npz", kept))
        if not first.error and not second.error:
            changed = [key for key in first.of("eager") if key not in second.keys
                       or first.get(key).tobytes() != second.get(key).tobytes()]
            verdict.notes.append(f"two plain runs differ in {len(changed)} outputs")
        os.replace(kept + ".first.npz", kept)

    def run(self):
        """All correctness runs: the plain ones and those under the shim, several at once."""
        with ThreadPoolExecutor(self.jobs) as pool:
            plain = {entry.name: pool.submit(self.run_one, entry, "plain")
                     for entry in self.entries}
            shim = [(entry, mode, pool.submit(self.run_one, entry, mode))
                    for entry in self.entries for mode in self.modes(entry)]
            for entry, mode, run in shim:
                self.plain_runs[entry.name] = plain[entry.name].result()
                verdict = self.check(entry, mode, run.result())
                self.verdicts.append(verdict)
                print(f"# {entry.name} {mode}: {'ok' if not verdict.failures else 'FAILED'} "
                      f"({verdict.seconds:.1f} s)", file=sys.stderr, flush=True)
        for verdict in self.verdicts:
            if any("nothing was replaced, yet" in failure for failure in verdict.failures):
                entry = next(e for e in self.entries if e.name == verdict.name)
                if not hasattr(entry, "command"):
                    self.again_plain(entry, verdict)

    def pack(self, path):
        """Logs and messages into one archive; the outputs are large and were compared."""
        with tarfile.open(path, "w:gz") as tar:
            for name in sorted(os.listdir(self.out)):
                full = os.path.join(self.out, name)
                if name.endswith((".jsonl", ".stderr")) and os.path.getsize(full):
                    tar.add(full, arcname=name)


def time_all(entries, library, out, end):
    """Timed rows: {name: {"eager": …, "shim": …, "sdpa": …, "failures": […]}}; none is begun after
    the monotonic time `end`."""
    plain = harness.Server(harness.clean_environment(), os.path.join(out, "timing.plain.stderr"))
    shim = harness.Server(harness.shim_environment(library, "replace",
                                                   os.path.join(out, "timing.jsonl")),
                          os.path.join(out, "timing.shim.stderr"))
    rows = {}
    for entry in entries:
        if time.monotonic() > end:
            rows[entry.name] = {"failures": ["not timed: the table's deadline had passed"]}
            continue
        contestants = [("eager", plain, dict(name=entry.name, variant="eager")),
                       ("shim", shim, dict(name=entry.name, variant="eager"))]
        if "sdpa" in entry.variants:
            contestants.append(("sdpa", plain, dict(name=entry.name, variant="sdpa")))
        row = harness.race(contestants)
        row["failures"] = [f"timing {label}: {row.get(label, {}).get('error', 'no result')}"
                           for label, _, _ in contestants if "ms" not in row.get(label, {})]
        if entry.faster and not row["failures"] and not row["shim"]["ms"] < row["eager"]["ms"]:
            row["failures"].append(f"not faster: {row['shim']['ms']:.4f} ms under the shim, "
                                   f"{row['eager']['ms']:.4f} ms plain")
        rows[entry.name] = row
        print(f"# timed {entry.name}", file=sys.stderr, flush=True)
    plain.stop(5)
    shim.stop(20)
    wrong = harness.Log(os.path.join(out, "timing.jsonl")).complaints("replace")
    return rows | ({"timing log": {"failures": wrong}} if wrong else {})


def number(value, form="{:.2g}"):
    return "-" if value is None else form.format(value)


def print_table(verdicts, times, seconds):
    """The compact table, timings, then what failed and why. Returns the number of failed rows."""
    print(f"{'program':18} {'mode':8} {'':4} {'replaced/chains':>15} {'cmp':>4} {'mat':>4} "
          f"{'diff':>8} {'yard':>8}  sites and reasons")
    for v in verdicts:
        states = " ".join(f"#{row['site']}{'' if row['state'] == 'verified' else row['state'][0]}:"
                          f"{row['replaced']}/{row['seen']}" for row in v.sites[:8])
        reasons = " ".join(f"{name}({count})" for name, count in v.reasons.items())
        print(f"{v.name:18} {v.mode:8} {'FAIL' if v.failures else 'ok':4} "
              f"{f'{v.replaced}/{v.expected}':>15} {v.compared:4} {v.materialised:4} "
              f"{'same' if v.identical else number(v.difference):>8} {number(v.yardstick):>8}  "
              f"{states} {reasons}".rstrip())
    if times:
        print(f"\n{'GPU ms a forward':18} {'eager':>9} {'shim':>9} {'sdpa':>9} {'eager/shim':>11} "
              f"{'sdpa/shim':>10}   spread of eager, shim, sdpa")
    for name, row in times.items():
        ms = {label: row.get(label, {}).get("ms") for label in ("eager", "shim", "sdpa")}
        ratio = {label: ms[label] / ms["shim"] if ms[label] and ms["shim"] else None
                 for label in ("eager", "sdpa")}
        spread = " ".join(f"{(row[x]['high'] - row[x]['low']) / row[x]['ms']:.1%}"
                          for x in ("eager", "shim", "sdpa") if "ms" in row.get(x, {}))
        print(f"{name:18} {number(ms['eager'], '{:.4f}'):>9} {number(ms['shim'], '{:.4f}'):>9} "
              f"{number(ms['sdpa'], '{:.4f}'):>9} {number(ratio['eager'], '{:.2f}'):>11} "
              f"{number(ratio['sdpa'], '{:.2f}'):>10}   {spread}")
    bad = [v for v in verdicts if v.failures]
    for v in bad:
        print(f"\nFAILED {v.name} ({v.mode})")
        for sentence in v.failures[:5] + v.notes[:2]:
            print("    " + sentence.replace("\n", "\n    ")[-1200:])
    late = [(name, sentence) for name, row in times.items() for sentence in row["failures"]]
    for name, sentence in late:
        print(f"\nFAILED {name} (timing)\n    {sentence}")
    failed = len(bad) + len({name for name, _ in late})
    print(f"\n{len(verdicts) + len(times) - failed} passed, {failed} failed, in {seconds:.0f} s")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", required=True, help="the shim")
    parser.add_argument("--out", required=True, help="folder for the results")
    parser.add_argument("--only", default="*", help="comma-separated globs of program names")
    parser.add_argument("--quick", action="store_true", help="the rows that matter most")
    parser.add_argument("--modes", help="these modes for every program: " + ",".join(MODES))
    parser.add_argument("--poison", action="store_true", help="also with FASHIM_POISON=1")
    parser.add_argument("--no-time", action="store_true", help="correctness alone")
    parser.add_argument("--time-only", action="store_true", help="timings alone")
    parser.add_argument("--record", metavar="DIR", help="record traces instead (see record.py)")
    parser.add_argument("--programs", help="folder of the compiled programs (LIB's folder/gpu)")
    parser.add_argument("--jobs", type=int, default=max(2, min(10, (os.cpu_count() or 2) - 4)))
    parser.add_argument("--timeout", type=float, default=100, help="seconds for one process")
    parser.add_argument("--deadline", type=float, default=480, help="seconds for the whole table")
    parser.add_argument("--keep", action="store_true", help="keep the saved outputs")
    arguments = parser.parse_args()
    start = time.monotonic()
    if "FASHIM_TEST_DEVICE" not in os.environ and not harness.have_gpu():
        print("skipped: no CUDA device here; the GPU tests did not run")
        return 0
    if arguments.record:
        here = os.path.dirname(os.path.abspath(__file__))
        return subprocess.call([sys.executable, os.path.join(here, "record.py"), "--lib",
                                arguments.lib, "--out", arguments.record, "--only",
                                arguments.only])
    if not os.path.exists(arguments.lib):
        print(f"run.py: no {arguments.lib}: build it first (make)", file=sys.stderr)
        return 2
    table = Table(arguments)
    if not arguments.time_only:
        table.run()
    times = {}
    if not arguments.no_time:
        timed = [entry for entry in table.entries if entry.timed is not None]
        times = time_all(timed, table.lib, table.out, table.end) if timed else {}
    table.verdicts.sort(key=lambda v: (MODES.index(v.mode), v.name))
    seconds = time.monotonic() - start
    os.makedirs(arguments.out, exist_ok=True)
    with open(os.path.join(arguments.out, "results.json"), "w") as file:
        json.dump({"verdicts": [v.as_dict() for v in table.verdicts], "times": times,
                   "seconds": seconds}, file, indent=1, default=str)
    table.pack(os.path.join(arguments.out, "logs.tar.gz"))
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        failed = print_table(table.verdicts, times, seconds)
    print(text.getvalue(), end="")
    with open(os.path.join(arguments.out, "table.txt"), "w") as file:
        file.write(text.getvalue())
    if arguments.keep:
        print(f"outputs and logs: {table.out}")
    else:
        shutil.rmtree(table.out, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
