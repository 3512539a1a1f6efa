#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models, GPU milliseconds a forward: eager, eager under the shim, edited to SDPA.

    times.py --lib build/libfashim.so --out DIR [--only GLOB,…] [--rounds N] [--kernels N] [--commit TEXT]
    times.py --from FILE… [--markdown]      what runs kept, as one; or the README's table of it

A model has processes of its own, one a contestant, as it has for its users: the shim learns of a process what
it then asks of every site in it. All build the model at once; then one at a time has the GPU, in rounds A B C,
C B A, …, so that ratios are of rounds beside each other. Models have the width and length of real ones and 2 to
6 layers (models.py, catalogue_models.py).

Two passes a model. The first times forwards by events and by the host's clock, beginning with the first
ten, each by itself: what learning costs. Code that a model needs is loaded by its first forward in
either process, as CUDA does by default. The second pass asks the profiler how long the GPU was
busy; once it was used, a process's launches are slower, which is why it comes last.

DIR gets times.txt, times.md, times.json (rewritten after each model), the log, and what the
processes said. Exit status 1 when a contestant failed or an output is wrong; a goal that is missed
is printed and no failure.
"""
import argparse
import fnmatch
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import namedtuple
from types import SimpleNamespace

import harness
import times_figures as figures
import times_table

Model = namedtuple("Model", "name about S dtype no_sdpa", defaults=("",))
MODELS = (
    Model("bert", "BERT-large, 6 layers, B8 S512 padded fp16", 512, "f16"),
    Model("gpt2", "GPT-2-medium, 6 layers, B4 S1024 fp16", 1024, "f16"),
    Model("llama1b", "Llama-1B, 4 layers, S4096 bf16", 4096, "bf16"),
    Model("llama8b", "Llama-8B, 2 layers, S2048 bf16", 2048, "bf16"),
    Model("vit", "ViT-large, 6 layers, B32 S197 fp16", 197, "f16"),
    Model("t5", "T5-base encoder, 4 layers, B8 S512 fp32", 512, "f32"),
    Model("whisper_encoder", "Whisper-medium encoder, 4 layers, B4 S1500 fp16", 1500, "f16"),
    Model("gemma2", "Gemma-2-2B, 4 layers, S2048 bf16", 2048, "bf16", "SDPA has no softcap"),
    Model("bloom", "BLOOM-1b1, 4 layers, B2 S1024 fp16", 1024, "f16"),
    Model("falcon", "Falcon-7B, 4 layers, S1024 bf16", 1024, "bf16"),
    Model("opt", "OPT-1.3B, 4 layers, B2 S1024 padded fp16", 1024, "f16"),
    Model("clip", "CLIP ViT-L/14, 4 layers, B8 S577 fp16", 577, "f16"),
    Model("swin", "Swin-B, 2 layers a stage, B16, windows of 49, fp16", 49, "f16"))
FIRST, WARM, MORE = 10, 20, 40  # forwards one by one, then on end; then while a site learns
CHUNK = 10                      # of those on end
AGAIN = 12                      # forwards before the second pass
ROUND_MS, BUSY_MS = 40.0, 15.0  # what a round of a pass shall take
COMPARED = 2                    # inputs whose outputs are compared
REFUSAL = "ValueError"          # what building a variant raises that a model does not have
WORKER = os.path.join(harness.HERE, "times_worker.py")


class Failed(Exception):
    """A contestant could not do what it was told."""


class Contestant:
    """A variant and the process that runs it."""

    def __init__(self, label, environment, out, command):
        self.label, self.end = label, 0.0
        self.server = harness.Server(environment, os.path.join(out, f"times.{label}.stderr"),
                                     command)

    def seconds(self):
        return max(0.1, self.end - time.monotonic())

    def take(self, answer):
        """The answer to a request. A process that failed is started anew for the next one, unless
        it merely has no such model."""
        if "error" in answer:
            if not answer["error"].startswith(REFUSAL):
                self.server.stop()
            raise Failed(f"{self.label}: {answer['error']}")
        return answer

    def ask(self, do, **request):
        return self.take(self.server.ask(self.seconds(), do=do, **request))


def together(contestants, requests):
    """Asks all at once: {label: answer, or the Failed that came of it}. requests: {label: {…}}"""
    asked = [c for c in contestants if c.label in requests]
    sent = {c.label: c.server.send(**requests[c.label]) for c in asked}
    answers = {}
    for c in asked:
        try:
            answers[c.label] = c.take(c.server.answer(c.seconds()) if sent[c.label]
                                      else {"error": "not running"})
        except Failed as failure:
            answers[c.label] = failure
    return answers


class LogTail:
    """The records that the process under the shim has added to its log since last asked."""

    def __init__(self, pattern, server):
        self.pattern, self.server, self.path, self.offset = pattern, server, None, 0

    def new(self):
        path = self.pattern.replace("%p", str(self.server.process.pid))
        if path != self.path:
            self.path, self.offset = path, 0
        try:
            with open(path, "rb") as file:
                file.seek(self.offset)
                text = file.read()
        except OSError:
            return []
        whole = text[:text.rfind(b"\n") + 1]
        self.offset += len(whole)
        return [record for record in map(parsed, whole.splitlines()) if record]


def parsed(line):
    """A record, or None for a line that is none; harness.Log counts those at the end."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def rounds(field, count, measure):
    """measure(contestant) for each, `count` times, the order turned around each time."""
    for n in range(count):
        for contestant in field if n % 2 == 0 else reversed(field):
            measure(contestant)


class Times:
    """One run: the contestants, what was measured so far."""

    def __init__(self, contestants, log, arguments, compare):
        self.contestants, self.log, self.compare = contestants, log, compare
        self.rounds, self.limit, self.folder = arguments.rounds, arguments.limit, arguments.work
        self.rows = {}

    def open(self, model, row):
        """All build the model. Returns who can; without eager or the shim nobody can."""
        end = time.monotonic() + self.limit
        for contestant in self.contestants:
            contestant.end = end
        field = [c for c in self.contestants if c.label != "sdpa" or not row.get("no_sdpa")]
        answers = together(field, {c.label: dict(do="open", name=model.name) for c in field})
        for label, answer in answers.items():
            if not isinstance(answer, Failed):
                row["expect"] = answer["expect"]
            elif label == "sdpa":
                row["no_sdpa"] = str(answer)
            else:
                raise answer
        return [c for c in field if c.label != "sdpa" or not row.get("no_sdpa")]

    def begin(self, contestant, row):
        """The first forwards, one by one, and enough more that nothing is new. Returns what each
        added to the log."""
        mine, records = row.setdefault(contestant.label, {}), []
        new = self.log.new if contestant.label == "shim" else list
        before = contestant.ask("memory")
        new()
        mine["first"] = []
        for _ in range(FIRST):
            mine["first"].append(contestant.ask("first"))
            records.append(new())
        for _ in range(WARM // CHUNK):
            contestant.ask("warm", count=CHUNK)
            records.append(new())
        for _ in range(MORE // CHUNK):
            if figures.unsettled(records):
                contestant.ask("warm", count=CHUNK)
                records.append(new())
        mine["own_mib"] = outside(contestant.ask("memory")) - outside(before)
        return records

    def close(self, contestant, row):
        """Gives a model's memory back; the row gets what did not come back."""
        mine, before = row[contestant.label], contestant.ask("memory")
        contestant.ask("close")
        mine["kept_mib"] = mine["own_mib"] + outside(contestant.ask("memory")) - outside(before)

    def forwards_in(self, ms, row):
        """How many forwards take `ms`, by eager's pace."""
        pace = sorted(taken["wall"] for taken in row["eager"]["first"])[FIRST // 2]
        return max(2, min(20, round(ms / max(pace, 1e-3))))

    def first_pass(self, model, row):
        field = self.open(model, row)
        records = {contestant.label: self.begin(contestant, row) for contestant in field}
        row["learning"] = figures.learning(*(
            [taken["wall"] for taken in row[label]["first"]] for label in ("eager", "shim")),
            records["shim"])
        count = self.forwards_in(ROUND_MS, row)

        def measure(contestant):
            mine, taken = row[contestant.label], contestant.ask("events", count=count)
            for label in ("events", "host"):
                mine.setdefault(label, []).append(taken[label])

        rounds(field, self.rounds, measure)
        for contestant in field:
            row[contestant.label]["peak_mib"] = contestant.ask("memory")["peak"]
        row["outputs"] = self.outputs(model, row, field)
        for contestant in field:
            self.close(contestant, row)

    def second_pass(self, model, row):
        field = self.open(model, row)
        count = self.forwards_in(BUSY_MS, row)
        for contestant in field:
            contestant.ask("warm", count=AGAIN)

        def measure(contestant):
            mine, taken = row[contestant.label], contestant.ask("busy", count=count)
            mine.setdefault("busy", []).append(taken["busy"])
            mine.setdefault("launches", []).append(taken["launches"])
            mine.update(sum=taken["sum"], kernels=taken["kernels"])

        rounds(field, self.rounds, measure)
        for contestant in field:
            contestant.ask("close")

    def outputs(self, model, row, field):
        """Compares what the shim's model computes with what the plain one does."""
        paths = {c.label: os.path.join(self.folder, c.label + ".npz") for c in field}
        requests = {label: dict(do="keep", path=path, inputs=COMPARED)
                    for label, path in paths.items()}
        for answer in together(field, requests).values():
            if isinstance(answer, Failed):
                raise answer
        if row["expect"]["tol"] == "double":
            paths["double"] = os.path.join(self.folder, "double.npz")
            field[0].ask("keep", path=paths["double"], inputs=COMPARED, name=model.name,
                         variant="double")
        return self.compare(row["expect"], paths)

    def one(self, model, work):
        """Does work(model, row); what fails is said in the row and the others go on."""
        row = self.rows.setdefault(model.name, dict(model._asdict(), ratios={}))
        if row.get("failed"):
            return row
        try:
            work(model, row)
        except Failed as failure:
            row["failed"] = str(failure)
        except Exception as error:  # a row, not the end
            traceback.print_exc()
            row["failed"] = f"{type(error).__name__}: {error}"
        row["ratios"] = figures.ratios(row)
        row["short"] = figures.shortfalls(row)
        return row


def outside(memory):
    """MiB on the device that PyTorch here does not hold; differences of it are what one process
    took, for the others stand still meanwhile."""
    return memory["device"] - memory["torch"]


def compare_outputs(expect, paths):
    """What judge.py says of the saved outputs, by the program's own tolerance."""
    from judge import Outputs, Verdict, judge_outputs  # these need numpy
    from registry import Expect

    class Saved:
        """Several files as one judge.Outputs."""

        def __init__(self, *files):
            parts = [Outputs(path) for path in files]
            self.error = next((part.error for part in parts if part.error), None)
            self.keys = {key: part for part in parts for key in part.keys}

        def of(self, variant):
            return [key for key in self.keys if key[0] == variant]

        def get(self, key):
            return self.keys[key].get(key)

    verdict, expect = Verdict("", "replace"), Expect(**expect)
    plain = Saved(*(path for label, path in paths.items() if label != "shim"))
    if expect.tol == "sdpa" and "sdpa" not in paths:
        return {"failures": ["not compared: the yardstick is SDPA's output"]}
    judge_outputs(verdict, expect, plain, Saved(paths["shim"]), must_equal=False)
    return {"difference": verdict.difference, "yardstick": verdict.yardstick,
            "failures": verdict.failures}


def shim_part(log, mode):
    """What the log says at the end of the run."""
    read = harness.Log(log.path or "")
    options = (read.header or {}).get("options", {})
    return {"complaints": read.complaints(mode), "gpu": (read.header or {}).get("gpu"),
            "driver": (read.header or {}).get("driver"),
            "scratch_mib": read.summary["scratch_peak"] / 2 ** 20 if read.summary else None,
            "scratch_limit_mib": float(options.get("FASHIM_SCRATCH_MB", 1024))}


def merged(results):
    """Several as one, all on one kind of GPU: each model's row is of the last that has it. Rounds are what all have; the
    commit is the first one's, and of rows that are of another what that is."""
    rows = {row["name"]: dict(row, commit=row.get("commit", result["commit"]))
            for result in results for row in result["models"]}
    commit, others = (results[0]["commit"] or "").split(" (")[0] or None, {}
    for row in rows.values():
        if row["commit"] != commit:
            others.setdefault(row["commit"] or "no commit", []).append(row["about"].split(",")[0])
    if others:
        commit = f"{commit or 'no commit'} (" + "; ".join(f"{', '.join(names)}: {of}" for of, names in others.items()) + ")"
    order = [model.name for model in MODELS]
    rows = sorted(rows.values(), key=lambda row: order.index(row["name"]) if row["name"] in order else len(order))
    shims = [result["shim"] for result in results]
    return dict(results[0], commit=commit, rounds=min(result["rounds"] for result in results), models=rows,
                shim=together_said(shims), seconds=sum(result.get("seconds", 0) for result in results))


def together_said(shims):
    """What shim_part said of several processes as one; scratch is not known where it is not of one of them."""
    scratch = [shim["scratch_mib"] for shim in shims]
    known = [shim for shim in shims if shim["gpu"]]
    if len({shim["gpu"] for shim in known}) > 1:
        raise ValueError("they ran on different GPUs: " + ", ".join(sorted({shim["gpu"] for shim in known})))
    return dict((known or shims)[0], complaints=[line for shim in shims for line in shim["complaints"]],
                scratch_mib=None if None in scratch else max(scratch))


def run(models, contestants, log, arguments, compare=compare_outputs):
    """Both passes over all models, each in processes of its own. Returns what times.json holds."""
    start, times, shims = time.monotonic(), Times(contestants, log, arguments, compare), []
    result = {"commit": arguments.commit, "rounds": arguments.rounds, "models": [], "shim": {}}
    for model in models:
        if time.monotonic() - start > arguments.seconds:
            times.one(model, out_of_time)
        else:
            log.path = None
            for contestant in contestants:
                contestant.server.spawn()
            for contestant in contestants:
                contestant.server.answer(120)
            for work in (times.first_pass, times.second_pass):
                times.one(model, work)
            for contestant in contestants:
                contestant.server.stop(20)
            if not times.rows[model.name].get("failed"):  # or the row says so
                shims.append(shim_part(log, "replace"))
        print(f"# {time.monotonic() - start:5.0f} s  {model.name}: {times.rows[model.name].get('failed', 'done')}",
              file=sys.stderr, flush=True)
        result.update(models=list(times.rows.values()), seconds=time.monotonic() - start)
        result["shim"] = together_said(shims or [shim_part(SimpleNamespace(path=None), "replace")])
        write(arguments.out, "times.json", json.dumps(result, indent=1))
    return result


def out_of_time(model, row):
    raise Failed("not measured: the run's time was over")


def read(path):
    with open(path) as file:
        return json.load(file)


def write(folder, name, text):
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", default="build/libfashim.so", help="the shim")
    parser.add_argument("--out", default="build/times", help="folder for the results")
    parser.add_argument("--commit", metavar="TEXT", help="what the shim was built of")
    parser.add_argument("--from", dest="kept", metavar="FILE", nargs="+", help="print results kept; nothing is run")
    parser.add_argument("--markdown", action="store_true", help="with --from: print the README's table alone")
    parser.add_argument("--only", default="*", help="comma-separated globs of models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kernels", type=int, default=0, help="list so many kernels of each")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a pass of a model")
    parser.add_argument("--seconds", type=float, default=240, help="no model is begun later")
    arguments = parser.parse_args()
    if arguments.kept:
        result = merged([read(path) for path in arguments.kept])
        print(times_table.markdown(result) if arguments.markdown else times_table.text(result, arguments.kernels),
              end="")
        return 0
    if not harness.have_gpu():
        print("skipped: no CUDA device here; nothing was timed")
        return 0
    os.makedirs(arguments.out, exist_ok=True)
    arguments.work = tempfile.mkdtemp(prefix="fashim-times-")
    pattern = os.path.join(os.path.abspath(arguments.out), "times.%p.jsonl")
    plain, shim = harness.clean_environment(), harness.shim_environment(arguments.lib, "replace",
                                                                        pattern)
    contestants = [Contestant(label, environment, arguments.out, (WORKER, variant, f"{n}/3"))
                   for n, (label, environment, variant) in enumerate((
                       ("eager", plain, "eager"), ("shim", shim, "eager"),
                       ("sdpa", plain, "sdpa")))]
    models = [model for model in MODELS
              if any(fnmatch.fnmatch(model.name, p) for p in arguments.only.split(","))]
    try:
        result = run(models, contestants, LogTail(pattern, contestants[1].server), arguments)
    finally:
        for contestant in contestants:
            contestant.server.stop()
        shutil.rmtree(arguments.work, ignore_errors=True)
    text = times_table.text(result, arguments.kernels)
    print(text, end="")
    write(arguments.out, "times.txt", text)
    write(arguments.out, "times.md", times_table.markdown(result))
    return 1 if times_table.failures(result) else 0


if __name__ == "__main__":
    sys.exit(main())
