# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of `fashim bench`: SDPA's backends, timed as the command times its own kernels.

Reads one command a line and answers each with one line of JSON; {"error": why} where it could not. The
first answer, unasked, says which PyTorch this is.

    shape B H Sq Sk D DTYPE CAUSAL SETS SEED    inputs, normal numbers, in so many sets
    time BACKEND ROUNDS                         {"us": [of a call, for each round]}
    error BACKEND CASES                         {"max", "rms", "cases"}, against float64
    names BACKEND                               {"names": [the kernels that a call launches]}

BACKEND is flash or math. Kernel time: calls captured into a CUDA graph, over all sets and at least 20, and
its replays timed by events behind a replay that is not.
"""
import json
import math
import os
import sys

CALLS_FEWEST, CALLS_SLOW, REPLAYS_MOST, WARM_CALLS = 20, 4, 20, 3
SHORT_US, ROUND_US = 50.0, 1000.0


class Referee:
    def __init__(self, torch):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        self.torch, self.kernel = torch, sdpa_kernel
        self.backends = {"flash": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH}
        self.timers, self.sets = {}, []

    def describe(self):
        cudnn = self.torch.backends.cudnn.version()
        return {"torch": self.torch.__version__, "cuda": self.torch.version.cuda, "cudnn": str(cudnn),
                "gpu": self.torch.cuda.get_device_name(0)}

    def shape(self, B, H, Sq, Sk, D, dtype, causal, sets, seed):
        self.B, self.H, self.Sq, self.Sk, self.D = (int(x) for x in (B, H, Sq, Sk, D))
        self.dtype = {"f16": self.torch.float16, "bf16": self.torch.bfloat16, "f32": self.torch.float32}[dtype]
        self.causal, self.seed = causal == "1", int(seed)
        self.timers = {}
        generator = self.torch.Generator("cuda").manual_seed(self.seed)
        self.sets = [self.draw(generator) for _ in range(int(sets))]
        return {}

    def draw(self, generator):
        """Q, K and V."""
        return [self.torch.randn((self.B, self.H, rows, self.D), generator=generator, device="cuda",
                                 dtype=self.torch.float32).to(self.dtype) for rows in (self.Sq, self.Sk, self.Sk)]

    def call(self, inputs):
        return self.torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=self.causal)

    def call_several(self, calls):
        """Over the sets in turn."""
        return [self.call(self.sets[n % len(self.sets)]) for n in range(calls)]

    def elapsed(self, work, calls):
        """µs per call of work(), which makes that many."""
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / calls

    def prepare(self, backend):
        """(graph, calls in it, replays in a round)"""
        graph, most = self.torch.cuda.CUDAGraph(), max(CALLS_FEWEST, len(self.sets))
        with self.kernel(self.backends[backend]):
            self.call_several(WARM_CALLS)
            self.torch.cuda.synchronize()
            us = self.elapsed(lambda: self.call_several(WARM_CALLS), WARM_CALLS)
            calls = most if us <= SHORT_US else min(most, max(CALLS_SLOW, int(ROUND_US / us)))
            with self.torch.cuda.graph(graph):
                results = self.call_several(calls)
            del results  # alive together, so that no call of the graph writes where another did
        graph.replay()
        us = self.elapsed(graph.replay, calls)
        return graph, calls, int(min(max(ROUND_US / (us * calls), 1), REPLAYS_MOST))

    def time(self, backend, rounds):
        if backend not in self.timers:
            self.timers[backend] = self.prepare(backend)
        graph, calls, replays = self.timers[backend]

        def work():
            for _ in range(replays):
                graph.replay()
        us = []
        for _ in range(int(rounds)):
            graph.replay()
            us.append(self.elapsed(work, replays * calls))
        return {"us": us}

    def truth(self, inputs, b, h):
        """Attention of one head in double precision."""
        q, k, v = (x[b, h].double() for x in inputs)
        scores = q @ k.T / math.sqrt(self.D)
        if self.causal:
            keys = self.torch.arange(self.Sk, device="cuda")
            scores = scores.masked_fill(keys > self.torch.arange(self.Sq, device="cuda")[:, None], -math.inf)
        return self.torch.softmax(scores, dim=-1) @ v

    def error(self, backend, cases):
        most, mean = 0.0, 0.0
        for case in range(int(cases)):
            inputs = self.draw(self.torch.Generator("cuda").manual_seed(self.seed + 1 + case))
            with self.kernel(self.backends[backend]):
                o = self.call(inputs)
            squares = 0.0
            for b in range(self.B):
                for h in range(self.H):
                    off = (o[b, h].double() - self.truth(inputs, b, h)).abs()
                    most, squares = max(most, off.max().item()), squares + off.square().sum().item()
            mean = max(mean, math.sqrt(squares / o.numel()))
        return {"max": most, "rms": mean, "cases": int(cases)}

    def names(self, backend):
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            with self.kernel(self.backends[backend]):
                self.call(self.sets[0])
            self.torch.cuda.synchronize()
        events = [e for e in profile.key_averages() if e.self_device_time_total > 0]
        return {"names": [e.key for e in sorted(events, key=lambda e: -e.self_device_time_total)]}


def open_torch():
    """(what to answer with, the referee or None)"""
    try:
        import torch
        if not torch.cuda.is_available():
            return {"error": f"PyTorch {torch.__version__} finds no GPU"}, None
        referee = Referee(torch)
        return referee.describe(), referee
    except Exception as error:  # an installation may be broken in any way
        return {"error": str(error).splitlines()[0] if str(error) else repr(error)}, None


def main():
    # What libraries print must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    answer, referee = open_torch()
    print(json.dumps(answer), file=answers, flush=True)
    for line in sys.stdin if referee else ():
        command, *words = line.split()
        try:
            answer = getattr(referee, command)(*words)
        except Exception as error:
            answer = {"error": str(error).splitlines()[0] if str(error) else repr(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
