#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test programs by name and keeps every forward's outputs.

    programs.py NAME… --out FILE.npz | --out-dir DIR [--repeat N | --few] [--also sdpa,double]
    programs.py NAME --time [--attn sdpa]       median GPU ms a forward, as JSON
    programs.py --list
    programs.py --serve                         timing on request, for run.py and shapes.py

Outputs are saved as float32 (exact for 16-bit types) under "VARIANT.fNNNN.OUTPUT".
"""
import argparse
import contextlib
import fcntl
import json
import os
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from registry import PROGRAMS  # noqa: E402


TABLE = ("other_libraries", "chains", "hazards", "graphs", "models")
CATALOGUE = ("catalogue_chains", "catalogue_floors", "catalogue_inductor", "catalogue_refusals",
             "catalogue_unseen")
MODELS = ("models", "catalogue_models")
MANY = ("two_gpus",)  # many.py's


def load(names):
    """Imports no more than the named programs need; importing transformers takes seconds. Without
    names: what run.py makes its table of, which the catalogue's programs are not part of."""
    for module in TABLE[:-1] + MANY + CATALOGUE + MODELS if names else TABLE:
        __import__(module)
        if names and all(name in PROGRAMS for name in names):
            return


@contextlib.contextmanager
def gpu_turn():
    """The GPU for this process alone, where GPU_TURN names the lock file that processes share: what
    they import meanwhile disturbs nobody. GPU_SECONDS ends a process that keeps its turn too long.
    """
    path = os.environ.get("GPU_TURN")
    if not path:
        yield
        return
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available():
        torch.cuda.synchronize()  # makes the context, which takes long and disturbs nobody either
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        signal.alarm(int(os.environ["GPU_SECONDS"]))
        yield
        signal.alarm(0)


def to_numpy(value):
    """A float32 (or integer, or float64) array of a tensor of any library."""
    import numpy
    if hasattr(value, "detach"):
        import torch
        value = value.detach().cpu()
        return (value.float() if value.dtype in (torch.float16, torch.bfloat16) else value).numpy()
    if type(value).__module__.startswith("cupy"):
        value = value.get()
    value = numpy.asarray(value)
    return value if value.dtype in (numpy.float64, numpy.int64) else value.astype(numpy.float32)


def quiet_gradients():
    """torch.no_grad() where PyTorch is in use at all."""
    torch = sys.modules.get("torch")
    return torch.no_grad() if torch else contextlib.nullcontext()


def forwards(entry, variant, repeat):
    """Yields the outputs of every forward of a program, on the host."""
    if "torch" in sys.modules:
        import common
        common.setup()
    with quiet_gradients():
        step = entry.build(variant)
        for i in range(repeat):
            yield {name: to_numpy(value) for name, value in step(i).items()}
        for i in range(repeat, repeat + getattr(step, "extra", 0)):
            yield {name: to_numpy(value) for name, value in step(i, last=repeat).items()}


def record(entry, path, repeat, also):
    """Runs one program and saves what it computed."""
    import numpy
    kept = {}
    for variant in ("eager",) + tuple(v for v in also if v in entry.variants):
        for i, outputs in enumerate(forwards(entry, variant, repeat)):
            for name, array in outputs.items():
                kept[f"{variant}.f{i:04d}.{name}"] = array
        release()
    with open(path + ".part", "wb") as file:
        numpy.savez(file, **kept)
    os.replace(path + ".part", path)


def release():
    """Gives the memory of finished programs back."""
    import gc
    gc.collect()
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available():
        torch.cuda.empty_cache()


# ---- timing ----------------------------------------------------------------------------------


HEAD_START_MS = 25


class Timed:
    """A program ready to be timed: warmed up, and measured in rounds of events around forwards."""

    def __init__(self, step):
        self.step, self.next, self.host_ms = step, 0, None

    def run(self, count):
        for _ in range(count):
            self.step(self.next % 8)
            self.next += 1

    def round(self, count):
        """GPU milliseconds a forward, over `count` forwards after two that do not count."""
        import torch
        with torch.no_grad():
            self.run(2)
            if not torch.cuda.is_available():
                start = time.perf_counter()
                self.run(count)
                return (time.perf_counter() - start) * 1e3 / count
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            # The GPU starts late, so that the launches are queued by then and gaps on the
            # host's side do not count: no more forwards than fit into that time.
            if self.host_ms is None:
                start = time.perf_counter()
                self.run(2)
                self.host_ms = (time.perf_counter() - start) * 500
                torch.cuda.synchronize()
            count = max(1, min(count, int(HEAD_START_MS / self.host_ms)))
            torch.cuda._sleep(int(HEAD_START_MS * 2_000_000))
            first.record()
            self.run(count)
            last.record()
            last.synchronize()
            return first.elapsed_time(last) / count

    def wall(self, count):
        """Wall milliseconds a forward, the host's part included."""
        import common
        import torch
        with torch.no_grad():
            common.sync()
            start = time.perf_counter()
            self.run(count)
            common.sync()
        return (time.perf_counter() - start) * 1e3 / count


def prepare(name, variant, shape=None):
    """The timed form of a registered program, or of a chain of any shape (chains.shaped)."""
    import torch
    import common
    common.setup()
    if not shape:
        load([name])
    with torch.no_grad():
        if shape:
            import chains
            step = chains.shaped(variant, **shape)
        else:
            step = PROGRAMS[name].build(variant, **(PROGRAMS[name].timed or {}))
        timed = Timed(step)
        timed.run(8)  # learning and autotuning are over
        common.sync()
    return timed


def serving():
    """Answers requests, for harness.serve():
        {"prepare": id, "name": …, "variant": …} or {"prepare": id, "shape": {…}, "variant": …}
        {"round": id, "count": n, "wall": true|false}  ->  {"ms": …}      {"drop": id}
    """
    load([])
    ready = {}

    def handle(request):
        if "prepare" in request:
            ready[request["prepare"]] = prepare(request.get("name"), request["variant"],
                                                request.get("shape"))
        elif "round" in request:
            timed = ready[request["round"]]
            measure = timed.wall if request.get("wall") else timed.round
            return {"ms": measure(request["count"])}
        elif "drop" in request:
            ready.pop(request["drop"], None)
            release()
        return {"ok": True}

    return handle


def time_alone(name, variant):
    """Median and spread of five rounds, in one process."""
    timed = prepare(name, variant)
    guess = timed.round(4)
    count = max(3, min(200, int(40 / max(guess, 1e-3))))
    rounds = sorted(timed.round(count) for _ in range(5))
    return {"name": name, "variant": variant, "ms": rounds[2],
            "spread": (rounds[-1] - rounds[0]) / rounds[2], "count": count}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", help="file for one program's outputs; %%r: the rank")
    parser.add_argument("--out-dir", help="folder for NAME.npz of each program")
    parser.add_argument("--repeat", type=int, help="forwards, instead of the program's own number")
    parser.add_argument("--few", action="store_true", help="the short run: few forwards")
    parser.add_argument("--also", default="", help="further variants to run: sdpa,double")
    parser.add_argument("--attn", default="eager", help="variant to time")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--serve", action="store_true")
    arguments = parser.parse_args()
    if arguments.serve:
        return harness.serve(serving)
    load(arguments.names)
    if arguments.list:
        for entry in PROGRAMS.values():
            print(f"{entry.name:18} {entry.about}")
        return 0
    unknown = [name for name in arguments.names if name not in PROGRAMS]
    if unknown or not arguments.names:
        parser.error(f"unknown program: {' '.join(unknown) or '(none named)'}; see --list")
    failed = 0
    for name in arguments.names:
        entry = PROGRAMS[name]
        if arguments.time:
            print(json.dumps(time_alone(name, arguments.attn)))
            continue
        repeat = arguments.repeat or (entry.few if arguments.few else entry.repeat)
        path = arguments.out or os.path.join(arguments.out_dir or ".", name + ".npz")
        path = path.replace("%r", os.environ.get("RANK", "0"))
        try:
            with gpu_turn():
                record(entry, path, repeat, arguments.also.split(","))
            print(f"{name}: {repeat} forwards", flush=True)
        except Exception:
            traceback.print_exc()
            print(f"{name}: failed", flush=True)
            failed += 1
        release()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
