#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the shim does to programs on two GPUs.

    many.py --lib build/libfashim.so --out DIR [--only GLOB,…] [--modes replace,…] [--jobs N] [--keep]

The programs of two_gpus.py and the compiled one that reads across, plain and under the shim: as many processes as a
program has ranks, each with outputs and a log of its own, which are judged as run.py's are. Skipped where there are
fewer than two devices. NCCL's and other libraries' variables are passed on. DIR gets many.json, many.txt, logs, and the stacks of
programs that hang.
"""
import argparse
import contextlib
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import harness
import programs
import table
from cases import PEERS
from registry import PROGRAMS

SECONDS = 50  # for one program; none takes a third of it where nothing hangs


@contextlib.contextmanager
def service(folder):
    """NVIDIA's Multi-Process Service for GPU 0: its clients' variables, or None where there is none."""
    control = shutil.which("nvidia-cuda-mps-control")
    variables = {"CUDA_MPS_PIPE_DIRECTORY": os.path.join(folder, "pipe"), "CUDA_MPS_LOG_DIRECTORY": folder,
                 "CUDA_VISIBLE_DEVICES": "0"}
    environment = harness.clean_environment(**variables)
    if control:
        os.makedirs(variables["CUDA_MPS_PIPE_DIRECTORY"], exist_ok=True)
        control = subprocess.call([control, "-d"], env=environment, stdin=subprocess.DEVNULL, timeout=20) == 0
    try:
        yield variables if control else None
    finally:
        if control:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", env=environment, timeout=20, check=False)


class Runner:
    def __init__(self, arguments):
        self.lib, self.arguments = os.path.abspath(arguments.lib), arguments
        self.work = tempfile.mkdtemp(prefix="fashim-many-")
        self.end = time.monotonic() + arguments.deadline
        programs.load(programs.MANY)
        known = [entry for entry in PROGRAMS.values() if entry.build.__module__ in programs.MANY] + list(PEERS.values())
        self.entries = [entry for entry in known
                        if any(fnmatch.fnmatch(entry.name, glob) for glob in arguments.only.split(","))]
        self.skipped = []

    def path(self, entry, mode, end):
        return os.path.join(self.work, f"{entry.name}.{mode}.{end}")

    def command(self, entry, mode, also):
        if entry.binary:
            folder = os.path.join(os.path.dirname(self.lib), "gpu")
            return [os.path.join(folder, entry.binary), self.path(entry, mode, "0.npz")[:-3] + "bin",
                    str(entry.repeat), entry.name]
        program = [harness.PROGRAMS_PY, entry.name, "--out", self.path(entry, mode, "%r.npz")]
        if also and entry.variants:
            program += ["--also", ",".join(entry.variants)]
        if "torchrun" not in entry.tags:
            return [sys.executable, *program]
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(entry.ranks), *program]

    def environment(self, entry, mode, more):
        if mode == "plain":
            return harness.clean_environment(**more)
        options = dict(entry.options, **more)
        if mode == "poison":
            options["FASHIM_POISON"] = 1
        return harness.shim_environment(self.lib, "replace" if mode == "poison" else mode,
                                        self.path(entry, mode, "%r.jsonl"), **options)

    def launch(self, entry, mode, more):
        """All processes of one program; [Run], by rank."""
        more = dict(more, RANK_SECONDS=SECONDS + 60, PYTHONFAULTHANDLER=1)
        if entry.binary:
            more["LD_LIBRARY_PATH"] = harness.library_path()
        limit = max(1, min(SECONDS, self.end - time.monotonic()))
        command = self.command(entry, mode, mode == "plain")
        if "torchrun" in entry.tags:
            run = harness.launch(command, self.environment(entry, mode, more), limit, self.path(entry, mode, "all"),
                                 stacks=True)
            return [run] * entry.ranks
        # Ranks meet in a file: a port that was free may be another's by the time that one listens there.
        more.update(WORLD_SIZE=entry.ranks, RANKS_MEET=self.path(entry, mode, "meet"))

        def one(rank):
            environment = self.environment(entry, mode, dict(more, RANK=rank, LOCAL_RANK=rank))
            return harness.launch(command, environment, limit, self.path(entry, mode, str(rank)), stacks=True)

        with ThreadPoolExecutor(entry.ranks) as pool:
            return list(pool.map(one, range(entry.ranks)))

    def judged(self, entry, mode, plain, runs):
        """[Verdict], by rank."""
        from judge import Outputs, judge  # these need numpy; the skip line does not
        end, verdicts = "bin" if entry.binary else "npz", []
        for rank, run in enumerate(runs):
            kept = [Outputs(self.path(entry, m, f"{rank}.{end}")) for m in ("plain", mode)]
            verdict = judge(entry, mode, entry.repeat, plain[rank], run, *kept,
                            harness.Log(self.path(entry, mode, f"{rank}.jsonl")))
            if entry.ranks > 1:
                verdict.name += f".{rank}"
            verdicts.append(verdict)
        return verdicts

    def run_entry(self, entry, more):
        """One program in all its modes, one behind the other."""
        plain, verdicts = self.launch(entry, "plain", more), []
        fine = not any(run.complaint() for run in plain)
        for mode in (self.arguments.modes.split(",") if self.arguments.modes else ("replace", *entry.modes)):
            if fine or not verdicts:
                verdicts += self.judged(entry, mode, plain, self.launch(entry, mode, more) if fine else plain)
        good = not any(verdict.failures for verdict in verdicts)
        print(f"# {entry.name}: {'ok' if good else 'FAILED'} ({sum(v.seconds for v in verdicts):.1f} s)",
              file=sys.stderr, flush=True)
        return verdicts

    def run(self):
        verdicts = []
        with ThreadPoolExecutor(self.arguments.jobs) as pool:
            for found in pool.map(lambda entry: self.run_entry(entry, {}),
                                  [entry for entry in self.entries if "mps" not in entry.tags]):
                verdicts += found
        for entry in self.entries:
            if "mps" not in entry.tags:
                continue
            with service(os.path.join(self.work, "mps")) as variables:
                found = self.run_entry(entry, variables) if variables else []
                if found and any(f.startswith("plain run:") for v in found for f in v.failures):
                    self.skipped.append(f"{entry.name}: it does not run under the service here: {found[0].failures[0]}")
                elif found:
                    verdicts += found
                else:
                    self.skipped.append(f"{entry.name}: no Multi-Process Service here")
        return verdicts

    def keep_logs(self, folder):
        """Logs and messages; the outputs are large and were compared."""
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(self.work):
            full = os.path.join(self.work, name)
            if name.endswith((".jsonl", ".stderr", ".stacks")) and os.path.getsize(full):
                shutil.copy(full, folder)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", required=True, help="the shim")
    parser.add_argument("--out", required=True, help="folder for the results")
    parser.add_argument("--only", default="*", help="comma-separated globs of names")
    parser.add_argument("--modes", help="these modes for every program: replace,poison,audit,compare,off")
    parser.add_argument("--jobs", type=int, default=8, help="programs at a time")
    parser.add_argument("--deadline", type=float, default=200, help="seconds for all")
    parser.add_argument("--keep", action="store_true", help="keep the saved outputs")
    return parser.parse_args()


def main():
    arguments, start = parse(), time.monotonic()
    if "FASHIM_TEST_DEVICE" not in os.environ and harness.device_count() < 2:
        print("skipped: fewer than two CUDA devices here; programs on two GPUs did not run")
        return 0
    os.makedirs(arguments.out, exist_ok=True)
    runner = Runner(arguments)
    verdicts = runner.run()
    seconds = time.monotonic() - start

    def show():
        failed = table.print_table(verdicts, {}, seconds)
        for line in runner.skipped:
            print("skipped:", line)
        return failed

    failed = harness.printed(show, os.path.join(arguments.out, "many.txt"))
    with open(os.path.join(arguments.out, "many.json"), "w") as file:
        json.dump({"verdicts": [v.as_dict() for v in verdicts], "seconds": seconds}, file, indent=1, default=str)
    runner.keep_logs(os.path.join(arguments.out, "many"))
    if arguments.keep:
        print(f"outputs and logs: {runner.work}")
    else:
        shutil.rmtree(runner.work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
