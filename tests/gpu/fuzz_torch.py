#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random PyTorch programs, plain and under the shim, held against themselves in float64.

    fuzz_torch.py --lib build/libfashim.so --out DIR [--seeds 0-839] [--jobs 14] [--per-process 60] [--deadline S]
            [--settings FASHIM_POISON=1,FASHIM_BUDGET=0] [--compile-share 0.05] [--timeout 120]
    fuzz_torch.py … --only SEED          one seed: its program in pseudo-code, and how far each output is off
    fuzz_torch.py --device cpu --twice   without a shim: are the programs themselves sound, and the same twice?

A seed is a program (fuzz_torch_programs.py): some layers of attention as people spell it, 10 to 16 iterations on new
inputs, and what programs do around it. Each chunk of --per-process seeds has two processes, plain and shim, whose
programs share the caching allocator's memory. The plain one runs each program in float64, too. An output is wrong where
the shim's is further from float64 than four times plain's own distance and some roundings of the type (FLOOR) of the
largest number, or where NaN or infinities stand elsewhere. Large outputs are kept as samples and as largest, smallest
and mean of blocks. Without other --settings there is no limit on cost, and slow kernels count, too.

A line for each program that differs, raises something else, or in which a process dies or hangs; then the sums.
The exit status is 1 if there was one, or a violation in a log. DIR keeps logs, stderr, and outputs of what differed.
The same seed is another program after a change here or with another --compile-share.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import copy
import faulthandler
import gc
import json
import os
import random
import struct
import sys
import time
import zlib

import numpy
import torch
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common  # noqa: E402
import fuzz_torch_programs as programs  # noqa: E402
import harness  # noqa: E402

FLOOR = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
SOUND = {"float32": 2e-3, "float16": 0.1, "bfloat16": 0.5}  # plain from float64, with --device cpu
KEPT = 4096  # numbers of an output that are kept as they are; of larger ones this many, and as many blocks
MASKED = 9000  # from here on numbers are scores that a mask has hidden, and are measured apart
STUCK = 70  # exit status: the device answers no more


def digest(x):
    """What is kept of an output: all, or a sample and largest, smallest and mean of blocks. No number of it moves by
    more than the largest move in x."""
    x = numpy.asarray(x).ravel()
    if x.size <= 4 * KEPT:
        return x.astype(numpy.float32)
    starts = numpy.arange(0, x.size, -(-x.size // KEPT))
    counts = numpy.diff(numpy.append(starts, x.size))
    parts = [x[::(x.size // KEPT) | 1], numpy.maximum.reduceat(x, starts), numpy.minimum.reduceat(x, starts),
             numpy.add.reduceat(x.astype(numpy.float64), starts) / counts]
    return numpy.concatenate([part.astype(numpy.float32) for part in parts])


def host(x):
    x = x.detach().to("cpu", copy=True)
    return x.numpy() if x.dtype == torch.float64 else x.float().numpy()


class Run:
    """One run of a program on one device."""

    def __init__(self, program, device, exact):
        self.program, self.device, self.exact, self.native = program, device, exact, program.dtype
        self.dtype, self.wide = (torch.float64,) * 2 if exact else (self.native, torch.float32)
        self.cuda, self.static = device == "cuda", program.static
        self.i = self.layer = 0
        self.kept, self.state, self.leaves = {}, {}, {}
        self.shown, self.pending, self.at_end, self.hooks = {}, {}, {}, []
        self.compiled = self.graph = None

    def numbers(self, name, shape, scale, i):
        seed = zlib.crc32(f"{self.program.seed}/{self.layer}/{name}/{i}/{tuple(shape)}".encode())
        x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale
        return x.to(self.native).to(self.device, self.dtype)

    def leaf(self, name, x):
        if self.program.trains:
            self.leaves[f"{self.layer}.{name}"] = x.requires_grad_()
        return x

    def fixed(self, name, shape, scale=1.0):
        """The same in all iterations."""
        made = f"{self.layer}.{name}.{tuple(shape)}" not in self.kept
        x = self.memo(f"{name}.{tuple(shape)}", lambda: self.numbers(name, shape, scale, -1))
        return self.leaf(name, x) if made and name.startswith("w") else x

    def memo(self, name, make):
        name = f"{self.layer}.{name}"
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    def buffer(self, name, x):
        """x at the same place in each iteration, where the program has static inputs."""
        if not self.static:
            return x
        return self.memo(f"{name}.{tuple(x.shape)}", lambda: torch.empty_like(x)).copy_(x)

    def input(self, name, shape, scale=1.0):
        """Other numbers in each iteration; only in prepare()."""
        return self.leaf(name, self.buffer(name, self.numbers(name, shape, scale, self.i)))

    def integers(self, name, values):
        return self.buffer(name, torch.tensor(values, device=self.device))

    def lengths(self, name, count, most):
        rng = random.Random(f"{self.program.seed}/{self.layer}/{name}/{self.i}")
        return self.integers(name, [rng.randint((most + 1) // 2, most) for _ in range(count)])

    def low(self, x):
        """The lowest number of the type that x has when the program does not run in float64."""
        kind = x.dtype if not self.exact else self.program.autocast or self.native
        return torch.finfo(kind).min

    def factor(self):
        return self.scale

    def show(self, name, x, when="step"):
        """x is an output, read at the end of the iteration, now, or when all have ended (loop)."""
        if when == "step":
            self.pending[f"{self.layer}.{name}"] = x  # nothing of the iteration, for torch.compile
        elif when == "now":
            self.shown[f"{self.i:02}.{self.layer}.{name}"] = digest(host(x))
        else:
            self.at_end[f"{self.i:02}.{self.layer}.{name}"] = x

    def flush(self):
        for hook in self.hooks:
            hook()
        self.hooks.clear()
        for name, x in self.pending.items():
            self.shown[f"{self.i:02}.{name}"] = digest(host(x))
        if not self.graph:  # whose outputs stay where they are
            self.pending.clear()

    def end(self):
        for name, x in self.at_end.items():
            self.shown[name] = digest(host(x))
        return self.shown


# ---- a program, and one run of it -------------------------------------------------------------------


class Tensors:
    """Those of one layer in one iteration."""

    def __init__(self, Sq, Sk):
        self.Sq, self.Sk, self.S, self.keep, self.seen = Sq, Sk, Sq, None, None


class Program:
    def __init__(self, seed, small, compile_share):
        self.seed, rng = seed, random.Random(f"fashim {seed}")
        self.mode = "compile" if rng.random() < compile_share else rng.choices(
            ("eager", "graph", "train", "checkpoint", "others"), (80, 7, 4, 2, 7))[0]
        self.trains = self.mode in ("train", "checkpoint")
        kind = rng.choices(("float16", "bfloat16", "float32", "autocast"), (32, 24, 30, 14))[0]
        half = rng.choice((torch.float16, torch.bfloat16))
        self.autocast = half if kind == "autocast" else None
        self.dtype = torch.float32 if kind == "autocast" else getattr(torch, kind)
        self.rounding = str(self.autocast or self.dtype).removeprefix("torch.")
        self.shapes(rng, small)
        self.iterations = rng.randint(10, 16)
        changes = self.mode == "eager"
        self.scale = rng.choices((self.D ** -0.5, 1 / self.D, 0.1, 1.3 * self.D ** -0.5), (8, 1, 1, 1))[0]
        self.scale_moves_at = 7 if changes and rng.random() < 0.06 else 1000
        self.pattern = rng.choices(("same", "keys grow", "alternate", "queries alternate"), (85, 5, 5, 5))[0]
        self.pattern = self.pattern if changes else "same"
        self.peak = rng.choice((1.0, 1.0, 1.0, 1.4, 0.3, 2.0))
        self.static, self.biased = not self.trains and (self.mode == "graph" or rng.random() < 0.3), rng.random() < 0.5
        self.eventful = rng.random() < 0.4
        self.capture_at = rng.choice((0, 4, 4))
        self.grad = "enable_grad" if self.trains else "no_grad" if self.mode != "eager" else \
            rng.choices(("no_grad", "inference_mode", "enable_grad"), (6, 2, 1))[0]
        self.reduces_overhead = rng.random() < 0.35
        granted = {"eager": "ioh", "graph": "io", "train": "h", "compile": "", "checkpoint": "", "others": ""}[self.mode]
        self.granted = set(granted) - ({"o"} if self.autocast else set())
        self.granted |= {"s"} if self.Sq == self.Sk and self.pattern != "keys grow" else set()
        self.granted |= {"d"} if self.D == self.Dv else set()
        self.depth = rng.choices((1, 2, 3, 4), (50, 25, 15, 10))[0]
        self.layers = [programs.make_layer(rng, self, True)]
        alike = rng.random() < 0.7
        for _ in range(1, self.depth):
            self.layers.append(self.layers[0] if alike else programs.make_layer(rng, self, False))
        self.alike = alike

    def shapes(self, rng, small):
        self.B, self.H = rng.choice((1, 1, 2, 2, 3, 4)), rng.choice((1, 2, 3, 4, 4, 6, 8, 8, 12, 12))
        self.Sq, self.Sk = (rng.choice(programs.SIZES) if rng.random() < 0.8 else rng.randint(1, 600) for _ in "qk")
        self.Sk = self.Sq if rng.random() < 0.6 and self.Sq > 1 else self.Sk
        self.D = rng.choice(programs.WIDTHS)
        self.Dv = self.D if rng.random() < 0.9 else rng.choice(programs.WIDTHS)
        most = 6_000_000 if rng.random() < 0.08 else 1_500_000
        if small:
            most, same = 20_000, self.Sq == self.Sk
            self.Sq, self.Sk = (1 + (S - 1) % 41 for S in (self.Sq, self.Sk))
            self.B, self.D, self.Dv = min(self.B, 2), min(self.D, 48), min(self.Dv, 48) if not same else min(self.D, 48)
        while self.B * self.H * self.Sq * self.Sk > most or self.H * max(self.D, self.Dv) > 1280:
            if self.H > 1 and (self.H >= self.B or self.H * max(self.D, self.Dv) > 1280):
                self.H -= 1
            else:
                self.B -= 1
        self.E = self.H * self.Dv

    def lengths(self, i):
        if self.pattern == "keys grow":
            return self.Sq, self.Sk + i
        if self.pattern == "alternate" and i % 2:
            return (max(1, self.Sq // 2),) * 2 if self.Sq == self.Sk else (self.Sq, max(1, self.Sk // 2))
        if self.pattern == "queries alternate" and i % 2:
            return (self.Sq + 1,) * 2 if self.Sq == self.Sk else (self.Sq + 1, self.Sk)
        return self.Sq, self.Sk

    def describe(self):
        how = self.mode + (" (reduce-overhead)" if self.mode == "compile" and self.reduces_overhead else
                           f" (captured at {self.capture_at})" if self.mode == "graph" else "")
        lines = [f"{how}, {self.grad}, {'autocast ' if self.autocast else ''}{self.rounding}, B={self.B} H={self.H} Sq={self.Sq} "
                 f"Sk={self.Sk} D={self.D} Dv={self.Dv} scale={self.scale:.4g}"
                 f"{' x1.7 from i=7' if self.scale_moves_at < 99 else ''}, inputs x{self.peak}"
                 f"{' in static buffers' if self.static else ''}, lengths {self.pattern}, {self.iterations} iterations"]
        for n, layer in enumerate(self.layers[:1] if self.alike else self.layers):
            lines.append(f"layer {n}:" if not self.alike else f"{self.depth} layers of:")
            lines += ["    " + line for stage in layer for line in stage.text.split("\n") if line]
        return "\n".join(lines)


def prepare(c):
    """What the iteration is given, for each layer."""
    found, p = [], c.program
    for n, layer in enumerate(p.layers):
        c.layer = n
        t = Tensors(*p.lengths(c.i))
        if n == 0:
            t.h = c.input("h", (p.B, t.Sq, p.E))
        for stage in layer:
            if stage.prepare:
                stage.prepare(c, t)
        found.append(t)
    return found


def run_layer(c, t, layer):
    for stage in layer:
        stage.run(c, t)
    return t.h


def body(c, found):
    h = found[0].h
    for n, layer in enumerate(c.program.layers):
        c.layer, waiting, c.hooks = n, c.hooks, []
        t, found[n] = found[n], None
        if c.program.mode == "checkpoint" and not c.exact:
            def again(h, t=t, layer=layer, n=n):
                fresh = copy.copy(t)
                c.layer, fresh.h = n, h  # it comes again in backward
                return run_layer(c, fresh, layer)

            h = checkpoint(again, h, use_reentrant=False)
        else:
            t.h = h
            h = (c.compiled if c.compiled and c.i else run_layer)(c, t, layer)  # what stays the same is drawn by then
        del t
        for hook in waiting:
            hook()
    c.show("out", h)
    return h


def replay(c):
    """A graph, of what ran eagerly before."""
    if not c.graph:
        if c.i < c.program.capture_at:
            body(c, prepare(c))
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                body(c, prepare(c))
                c.pending.clear()
        torch.cuda.current_stream().wait_stream(stream)
        found = prepare(c)  # anew, since running changes it
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            body(c, found)
        c.graph = graph
    else:
        prepare(c)
    c.graph.replay()


def train(c):
    h = body(c, prepare(c))
    c.layer = 99
    (h * c.fixed("loss", h.shape, 0.1)).sum().backward()
    for name, x in c.leaves.items():
        if x.grad is not None:
            c.show("grad " + name, x.grad)
            x.grad = None


def perform(program, device, exact):
    """{output: its digest} of all iterations."""
    c = Run(program, device, exact)
    if program.mode == "compile" and not exact:
        import torch._inductor.config as inductor
        inductor.pattern_matcher = False  # attention spelt out is what is asked for
        mode = "reduce-overhead" if program.reduces_overhead and c.cuda else None
        c.compiled = torch.compile(run_layer, dynamic=False, mode=mode)
    autocast = contextlib.nullcontext() if exact or not program.autocast else \
        torch.autocast(device, dtype=program.autocast, cache_enabled=program.mode != "graph")
    with getattr(torch, program.grad)():
        for c.i in range(program.iterations):
            c.scale = program.scale * (1.7 if c.i >= program.scale_moves_at else 1.0)
            with autocast:
                if program.mode == "graph" and c.cuda and not exact:
                    replay(c)
                elif program.trains:
                    train(c)
                else:
                    if c.compiled:
                        torch.compiler.cudagraph_mark_step_begin()
                    body(c, prepare(c))
            c.flush()
        shown = c.end()
    if c.compiled:
        torch._dynamo.reset()
    return shown


# ---- a process --------------------------------------------------------------------------------------


def replaced_so_far():
    """By the shim's live counters (shim/log/log_format.h), which may be a moment late."""
    try:
        with open(os.environ["FASHIM_OUT"] + ".live", "rb") as file:
            data = file.read()
        return sum(struct.unpack_from("<Q", data, 600 + 72 * n + 16)[0] for n in range(256))
    except (KeyError, OSError, struct.error):
        return 0


def attempt(program, device, exact=False):
    """What the program gives, or what it raises; and whether the device still answers."""
    try:
        shown = perform(program, device, exact)
    except Exception as error:  # has to be the same under the shim
        shown = {"#raised": numpy.array(f"{type(error).__name__}: {error}"[:400])}
    gc.collect()
    try:
        if device == "cuda":
            torch.cuda.synchronize()
    except RuntimeError as error:
        return {"#raised": numpy.array(f"{shown.get('#raised', '')} {error}"[:400])}, False
    return shown, True


def numbers(text):
    """"3,5-7": 3, 5, 6, 7"""
    return [n for piece in text.split(",") for first, _, last in [piece.partition("-")]
            for n in range(int(first), int(last or first) + 1)]


def worker(arguments):
    """Runs the seeds, keeps SEED.LABEL.npz of each."""
    faulthandler.enable()
    common.setup()
    torch.set_num_threads(1)
    plain, device = arguments.worker == "plain", arguments.device
    for seed in numbers(arguments.seeds):
        with open(arguments.progress, "w") as file:
            file.write(str(seed))
        faulthandler.dump_traceback_later(arguments.timeout, exit=True)
        program = Program(seed, device == "cpu", arguments.compile_share)
        before = replaced_so_far()
        shown, answers = attempt(program, device)
        kept = {"a " + name: x for name, x in shown.items()}
        if plain and answers:
            exact, answers = attempt(program, device, exact=True)
            kept.update({"e " + name: x for name, x in exact.items()})
        if arguments.twice and answers:
            again, answers = attempt(program, device)
            kept.update({"b " + name: x for name, x in again.items()})
        faulthandler.cancel_dump_traceback_later()
        if not plain:
            time.sleep(0.03)
        path = os.path.join(arguments.out, f"{seed}.{arguments.worker}.npz")
        with open(path + ".part", "wb") as file:
            numpy.savez(file, **kept, replaced=replaced_so_far() - before)
        os.rename(path + ".part", path)
        if not answers:
            sys.stderr.flush()
            os._exit(STUCK)
    return 0


# ---- the judge --------------------------------------------------------------------------------------


def part(kept, letter):
    return {name[2:]: x for name, x in kept.items() if name.startswith(letter + " ")}


def compare(plain, shim, exact, floor):
    """Rows (error over what is allowed, output, error, plain's error, largest number or a word), worst first."""
    rows = []
    for name in sorted(set(plain) | set(shim)):
        if name not in plain or name not in shim or plain[name].shape != shim[name].shape:
            rows.append((numpy.inf, name, 0, 0, "is not there, or of another shape"))
            continue
        a, b = plain[name].astype(float), shim[name].astype(float)
        e = exact[name].astype(float) if name in exact and exact[name].shape == a.shape else a
        odd = ~(numpy.isfinite(a) & numpy.isfinite(b))
        if not numpy.array_equal(a[odd], b[odd], equal_nan=True):
            rows.append((numpy.inf, name, 0, 0, f"{(a[odd] != b[odd]).sum()} of {a.size} NaN or infinite on one side"))
            continue
        fine = ~odd & numpy.isfinite(e)
        for some in (fine & (abs(e) < MASKED), fine & (abs(e) >= MASKED)):
            if some.any():
                largest, ours, theirs = (abs(x[some]).max() for x in (e, b - e, a - e))
                scale = max(largest, 1.0) if "grad" in name else largest  # of gradients that vanish rounding is left
                rows.append((ours / max(4 * theirs + floor * scale, 1e-30), name, ours, theirs, f"largest {largest:.3g}"))
    return sorted(rows, key=lambda row: (-row[0], row[1]))


def load(out, seed, label):
    try:
        with numpy.load(os.path.join(out, f"{seed}.{label}.npz")) as file:
            return dict(file)
    except (OSError, ValueError):
        return {}


class Judge:
    def __init__(self, arguments):
        self.arguments, self.counts = arguments, collections.Counter()

    def judge(self, seed, dead):
        """Says what is wrong with a seed, if anything."""
        cpu, out = self.arguments.device == "cpu", self.arguments.out
        program = Program(seed, cpu, self.arguments.compile_share)
        plain, shim = load(out, seed, "plain"), load(out, seed, "plain" if cpu else "shim")
        a, b, e = part(plain, "a"), part(shim, "a"), part(plain, "e")
        said = []
        self.counts["programs"] += 1
        self.counts["with replaced"] += shim.get("replaced", 0) > 0
        ends = [dead.get(label, "").split("\n")[0] for label in ("plain", "shim")]
        self.counts["died"] += any(ends)
        if ends[0] != ends[1]:
            said += [f"{label}: {text}" for label, text in dead.items()]
        elif a.get("#raised") != b.get("#raised"):
            said += [f"plain raised {a.get('#raised')}", f"shim raised {b.get('#raised')}"]
        self.counts["raised"] += "#raised" in a
        if "#raised" in e and "#raised" not in a or cpu and "#raised" in a:
            said.append(f"UNSOUND: raised {a.get('#raised')}, in float64 {e.get('#raised')}")
        rows = [] if "#raised" in a or "#raised" in b else compare(a, b, e, FLOOR[program.rounding])
        if cpu:
            again = part(plain, "b")
            if again and any(not numpy.array_equal(a[n], again.get(n), equal_nan="#" not in n) for n in a):
                said.append("UNSTEADY: the second run has other bits")
            said += [f"UNSOUND: {name} off by {theirs:.2g}, {word}" for _, name, _, theirs, word in rows
                     if theirs > SOUND[program.rounding] * float(word.split()[-1])][:3]
        elif rows and rows[0][0] > 1:
            beyond = [row for row in rows if row[0] > 1]
            said.append(f"{len(beyond)} of {len(rows)} outputs differ, first {min(row[1] for row in beyond)}, worst:")
            said += [f"    {name}: off by {ours:.3g} (plain {theirs:.2g}), {word}, x{ratio:.1f}"
                     for ratio, name, ours, theirs, word in beyond[:4]]
        if self.arguments.only is not None:
            print(program.describe())
            for ratio, name, ours, theirs, word in rows:
                print(f"    {name}: off by {ours:.3g} (plain {theirs:.2g}), {word}, x{ratio:.2f}")
        if said:
            self.counts["differing"] += 1
            print("\n".join([f"seed {seed}: {said[0]}", *("    " + line for line in said[1:]),
                             *("    | " + line for line in program.describe().split("\n"))]), flush=True)
        else:
            for label in ("plain", "shim"):
                with contextlib.suppress(OSError):
                    os.remove(os.path.join(out, f"{seed}.{label}.npz"))

    def log(self, path):
        """Counts what a log says."""
        log = harness.Log(path)
        self.counts["occurrences"] += log.total("seen")
        self.counts["replaced"] += log.total("replaced")
        self.counts["compared"] += log.total("compared")
        with contextlib.suppress(OSError), open(path, errors="replace") as file:
            for line in file:
                if '"type":"forgotten"' in line:
                    record = json.loads(line)
                    self.counts["occurrences"] += record["seen"]
                    self.counts["replaced"] += record["replaced"]
        for record in log.violation:
            self.counts["violations"] += 1
            print(f"{path}: violation: {record.get('what')}", flush=True)


def run_side(arguments, label, number, seeds):
    """All seeds of a chunk, in one process, or in more where it dies. ({seed: how it died}, logs)"""
    dead, logs = {}, []
    left = list(seeds)
    while left:
        base = os.path.join(arguments.out, f"chunk{number}.{label}.{len(logs)}")
        more = {"TORCHINDUCTOR_CACHE_DIR": os.path.join(arguments.out, "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": 1}
        environment = harness.clean_environment(**more)
        if label == "shim":
            settings = dict(pair.split("=", 1) for pair in arguments.settings.split(",") if pair)
            environment = harness.shim_environment(arguments.lib, "replace", base + ".jsonl", **settings, **more)
        logs.append(base + ".jsonl")
        command = [sys.executable, os.path.abspath(__file__), "--worker", label, "--progress", base + ".progress", "--out",
                   arguments.out, "--device", arguments.device, "--compile-share", str(arguments.compile_share),
                   "--timeout", str(arguments.timeout), *(["--twice"] if arguments.twice else []),
                   "--seeds", ",".join(map(str, left))]
        run = harness.launch(command, environment, 120 + 4 * arguments.timeout + 8 * len(left), base)
        if run.rc == 0 and not run.hung:
            break
        try:
            with open(base + ".progress") as file:
                at = int(file.read())
        except (OSError, ValueError):
            at = left[0]
        if run.rc != STUCK:
            dead[at] = f"{run.complaint()}\n" + "\n".join("    " + line for line in run.tail(12).split("\n"))
        left = left[left.index(at) + 1:]
    return dead, logs


def main(arguments):
    begin = time.monotonic()
    os.makedirs(arguments.out, exist_ok=True)
    seeds = numbers(arguments.seeds) if arguments.only is None else [arguments.only]
    chunks = [seeds[n:n + arguments.per_process] for n in range(0, len(seeds), arguments.per_process)]
    sides, judge, left = ["plain"] if arguments.device == "cpu" else ["plain", "shim"], Judge(arguments), 0

    def chunk(number):
        """Both sides at once."""
        if time.monotonic() - begin > arguments.deadline:
            return None
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return list(pool.map(lambda label: run_side(arguments, label, number, chunks[number]), sides))

    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs // len(sides))) as pool:
        for number, results in enumerate(pool.map(chunk, range(len(chunks)))):
            if results is None:
                left += len(chunks[number])
                continue
            for seed in chunks[number]:
                judge.judge(seed, {label: dead[seed] for label, (dead, _) in zip(sides, results) if seed in dead})
            for path in results[-1][1]:
                judge.log(path)
    counts = judge.counts
    print(f"{counts['programs']} programs, {counts['differing']} differing; {counts['replaced']} of {counts['occurrences']} "
          f"occurrences replaced, in about {counts['with replaced']} programs; {counts['raised']} raised, {counts['died']} died; "
          f"{counts['violations']} violations; {time.monotonic() - begin:.0f} s" + (f"; {left} left at the deadline" if left else ""))
    return 1 if counts["differing"] or counts["violations"] else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", default="build/libfashim.so")
    parser.add_argument("--out", default="build/fuzz_torch")
    parser.add_argument("--seeds", default="0-839")
    parser.add_argument("--only", type=int, metavar="SEED")
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--per-process", type=int, default=60)
    parser.add_argument("--settings", default="FASHIM_BUDGET=0,FASHIM_MIN_SPEEDUP=0")
    parser.add_argument("--compile-share", type=float, default=0.05)
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one program")
    parser.add_argument("--deadline", type=float, default=1e9, metavar="S", help="no chunk is begun later")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--progress", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    ARGUMENTS = parse()
    numpy.seterr(all="ignore")
    sys.exit(worker(ARGUMENTS) if ARGUMENTS.worker else main(ARGUMENTS))
