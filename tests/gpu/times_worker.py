#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One contestant of times.py: a process that builds models in one variant, and measures forwards of
the one that is open when it is told to.

    [LD_PRELOAD=build/libfashim.so] times_worker.py eager|sdpa I/N    requests: methods of Worker

I/N: keep to the I-th of N parts of the processors (from 0), so that what the others have waiting
does not come in the way.
"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import times_figures as figures  # noqa: E402
from registry import PROGRAMS  # noqa: E402

INPUTS = 4     # forwards take turns at so many inputs
SESSIONS = 4   # of the profiler, at most, for one figure
HEAD = 64      # launches that open a profiler's session; see Torch.activities
SPIN = "spin_kernel"
SHOWN = 16     # kernels listed for a model
MIB = 2 ** 20


class Torch:
    """The GPU by way of PyTorch: all that a Worker needs to know of it."""

    def __init__(self):
        import torch
        import common
        import catalogue_models  # noqa: F401  registers its programs, and those of models.py
        self.torch, self.sessions = torch, 0
        common.setup()
        torch.set_grad_enabled(False)

    def cold(self, variant):
        """What a process pays once, whatever the model: context, cuBLAS, the shim's kernels. A
        model's own kernels are loaded by its first forward, as they are in any program."""
        import models
        model = models.bert_model(variant, 256, 2, 4)
        for i in range(12):
            models.bert_forward(model, 2, 96, i % INPUTS)
        self.torch.cuda.synchronize()
        read_libraries()

    def expectation(self, name):
        return PROGRAMS[name].expect

    def build(self, name, variant):
        """step(i) of a program. A model that takes "sdpa" and then does not call it is refused."""
        entry = PROGRAMS[name]
        step = entry.build(variant, **(entry.timed or {}))
        if variant == "sdpa" and not self.calls_sdpa(step):
            raise ValueError("asked for SDPA, the model does not call it")
        return step

    def calls_sdpa(self, step):
        functional, called = self.torch.nn.functional, []
        real = functional.scaled_dot_product_attention

        def counted(*arguments, **named):
            called.append(True)
            return real(*arguments, **named)

        functional.scaled_dot_product_attention = counted
        try:
            step(0)
        finally:
            functional.scaled_dot_product_attention = real
        return bool(called)

    def elapsed(self, work):
        """Milliseconds of work(): between events around it, until the host was through with it,
        until all was done."""
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda.synchronize()
        start = time.perf_counter()
        first.record()
        work()
        last.record()
        host = time.perf_counter() - start
        self.torch.cuda.synchronize()
        wall = time.perf_counter() - start
        return {"events": first.elapsed_time(last), "host": host * 1e3, "wall": wall * 1e3}

    def activities(self, work):
        """[(name, start µs, end µs)] of all kernels, copies and fills of work().

        The n-th session of a process may lose its first n records (pytorch issue 192021), so each
        opens with kernels that do nothing. As one of them got through, nothing after it is lost.
        """
        from torch.autograd import DeviceType
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(HEAD + 2 * self.sessions):
                self.torch.cuda._sleep(1)
            work()
            self.torch.cuda.synchronize()
        self.sessions += 1
        found = [(event.name, event.time_range.start, event.time_range.end)
                 for event in profiler.events() if event.device_type == DeviceType.CUDA
                 and not getattr(event, "is_user_annotation", False)]
        if not any(SPIN in name for name, _, _ in found):
            raise RuntimeError("the profiler lost the head of its session")
        return [activity for activity in found if SPIN not in activity[0]]

    def memory(self):
        """MiB: in use on the device by everybody, held by PyTorch here, most that tensors took."""
        free, total = self.torch.cuda.mem_get_info()
        return {"device": (total - free) / MIB, "torch": self.torch.cuda.memory_reserved() / MIB,
                "peak": self.torch.cuda.max_memory_allocated() / MIB}

    def release(self):
        import programs
        programs.release()
        self.torch.cuda.synchronize()
        self.torch.cuda.reset_peak_memory_stats()

    def save(self, outputs, path):
        """Writes {key: tensor} where judge.Outputs can read it."""
        import numpy
        import programs
        numpy.savez(path, **{key: programs.to_numpy(value) for key, value in outputs.items()})


def read_libraries():
    """Reads the libraries that kernels are loaded from: else the first process to need a kernel
    waits for the disk, and the others do not."""
    with open("/proc/self/maps") as maps:
        libraries = {line.split()[-1] for line in maps if ".so" in line}
    for path in filter(os.path.isfile, libraries):
        with open(path, "rb") as file:
            while file.read(16 * MIB):
                pass


class Worker:
    """Requests are {"do": method, …arguments}; what a method returns is the answer."""

    def __init__(self, device, variant):
        self.device, self.variant, self.step, self.next = device, variant, None, 0
        device.cold(variant)

    def handle(self, request):
        request.pop("timeout", None)
        return getattr(self, request.pop("do"))(**request) or {}

    def forwards(self, count):
        for _ in range(count):
            self.step(self.next % INPUTS)
            self.next += 1

    def open(self, name):
        """Builds a model; the answer tells how exact it has to be."""
        self.close()
        self.step, self.next = self.device.build(name, self.variant), 0
        return {"expect": vars(self.device.expectation(name))}

    def first(self):
        """One forward by itself, waited for."""
        return self.device.elapsed(lambda: self.forwards(1))

    def warm(self, count):
        self.forwards(count)
        self.device.elapsed(lambda: None)  # waits

    def events(self, count):
        """Milliseconds a forward of several on end, after one that does not count."""
        self.forwards(1)
        taken = self.device.elapsed(lambda: self.forwards(count))
        return {label: ms / count for label, ms in taken.items()}

    def activities(self, count):
        """Now and then a session of PyTorch 2.11's profiler ends in an assertion of its own
        (collection.cpp, "inserted.second"): then the next one counts."""
        for _ in range(SESSIONS - 1):
            try:
                return self.device.activities(lambda: self.forwards(count))
            except RuntimeError as error:
                print(f"a profiler's session was lost: {error}", file=sys.stderr, flush=True)
        return self.device.activities(lambda: self.forwards(count))

    def busy(self, count):
        """Milliseconds a forward in which the GPU did something, and what."""
        self.forwards(1)
        done = self.activities(count)
        kernels = figures.by_name(done, count)
        return {"busy": figures.union((start, end) for _, start, end in done) / 1e3 / count,
                "sum": sum(us for us, _ in kernels.values()) / 1e3,
                "launches": len(done) / count,
                "kernels": {name[:160]: kernels[name] for name in list(kernels)[:SHOWN]}}

    def memory(self):
        return self.device.memory()

    def keep(self, path, inputs, name=None, variant=None):
        """Saves the outputs on the first inputs: of the open model, or of another one that is
        built for it."""
        step = self.device.build(name, variant) if name else self.step
        kept = {f"{variant or self.variant}.f{i:04d}.{key}": value
                for i in range(inputs) for key, value in step(i).items()}
        self.device.save(kept, path)

    def close(self):
        self.step = None
        self.device.release()


def keep_to(part):
    """Part "I/N" of the processors this process may use."""
    number, parts = (int(word) for word in part.split("/"))
    processors = sorted(os.sched_getaffinity(0))
    share = len(processors) // parts
    if share:
        os.sched_setaffinity(0, processors[number * share:(number + 1) * share])


if __name__ == "__main__":
    keep_to(sys.argv[2])
    sys.exit(harness.serve(lambda: Worker(Torch(), sys.argv[1]).handle))
