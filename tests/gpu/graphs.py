# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs (FASHIM_GRAPHS=prove): attention captured by PyTorch and replayed with other inputs.

Warm-up iterations are what a site is verified by; a graph's chains are replaced in its launches, after
the first of these were compared. Launches that the program makes while those numbers are under way are its
own, so that the programs wait for the first replays, as one does that looks at what comes out.
"""
import math

import torch

from common import DEVICE, ON_GPU, draw, small, sync
from registry import Expect, program

REPLAYS = small(1000, 4)
STEPS = small(400, 4)
WARM_UP = 8
LOOKED_AT = 24  # replays
COMPARED = 3  # launches that compare before one is replaced, each for all layers of a site


class Layer(torch.nn.Module):
    """Self-attention with its projections, spelt out."""

    def __init__(self, width, heads):
        super().__init__()
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.heads = heads

    def forward(self, x, kept=None):
        B, S, width = x.shape
        q, k, v = self.qkv(x).view(B, S, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        p = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)), dim=-1)
        if kept is not None:
            kept.append(p)
        return x + self.out((p @ v).transpose(1, 2).reshape(B, S, width))


def network(layers, width=768, heads=12):
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
    return net.to(DEVICE, torch.float16).eval().requires_grad_(False)


def captured(run):
    """Runs it as often as torch.cuda.graph asks for, then captures it: (replay, what it returned)."""
    if not ON_GPU:
        kept = [run()]
        return (lambda: kept.__setitem__(0, run())), kept
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            run()
    torch.cuda.current_stream().wait_stream(side)
    sync()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [run()]

    def replay():
        """A graph does not hold what it reads: run() has it."""
        return run and graph.replay()

    return replay, kept


@program(Expect("replace", chains=6 * REPLAYS, fixed=6 * WARM_UP, sites=2, share=0.95, tol=4e-3,
                slack=6 * COMPARED, exact=("P",)),
         repeat=1, few=1, quick=True, modes=("poison", "off"))
def graph_layers(variant):
    """a captured network; the first layer's P is asked for after half of the replays"""
    net = network(6)
    inputs = [draw((4, small(512, 16), 768), torch.float16, i) for i in range(8)]
    x = inputs[0].clone()

    def run():
        kept = []
        y = net[0](x, kept)
        return net[1:](y), kept[0]

    def step(i):
        replay, kept = captured(run)
        outputs, P = [], None
        for n in range(REPLAYS):
            x.copy_(inputs[(n * 5) % 8])
            replay()
            if n < LOOKED_AT:
                sync()
            if n % 37 == 5 or n == REPLAYS // 2:
                outputs.append(kept[0][0][:, ::16].clone())
            if n == REPLAYS // 2:
                P = kept[0][1][:, :, ::8].clone()
        return {"y": torch.stack(outputs), "P": P}

    return step


# tol: outputs reach 14, where two steps of fp16 are 2^-6
@program(Expect("replace", chains=6 * STEPS, fixed=6 * WARM_UP, sites=4, share=0.95, tol=1.6e-2,
                slack=6 * COMPARED),
         repeat=1, few=1, modes=("poison",))
def graph_decode(variant):
    """a captured decoding step: a cache that grows in its place, a mask made from the position"""
    B, H, D, S, L = small(8, 2), small(16, 2), 64, small(1024, 32), 6
    columns = torch.arange(S, device=DEVICE)

    def step(i):
        keys = [draw((B, H, S, D), torch.float16, 100 + n) for n in range(L)]
        values = [draw((B, H, S, D), torch.float16, 200 + n) for n in range(L)]
        weight = draw((D, D), torch.float16, 5, 0.1)
        x = draw((B, H, 1, D), torch.float16, 1)
        position = torch.full((1,), S // 2, dtype=torch.long, device=DEVICE)

        def run():
            h = x
            bias = torch.where(columns <= position, 0.0, float("-inf")).to(torch.float16)
            for k, v in zip(keys, values):
                k.index_copy_(2, position, h @ weight)
                v.index_copy_(2, position, h)
                h = h + torch.softmax(h @ k.transpose(-1, -2) * 0.125 + bias, dim=-1) @ v
            return h

        replay, kept = captured(run)
        outputs = []
        for n in range(STEPS):
            position.fill_(S // 2 + n)
            x.copy_(draw((B, H, 1, D), torch.float16, 1000 + n))
            replay()
            if n < LOOKED_AT:
                sync()
            if n % 20 == 3:
                outputs.append(kept[0].clone())
        return {"y": torch.stack(outputs)}

    return step


@program(Expect("either", chains=4 * 300, sites=6, tol=4e-3), repeat=1, few=1)
def graph_compiled(variant):
    """torch.compile(mode="reduce-overhead"), which captures what it compiled"""
    import torch._inductor.config as inductor
    inductor.pattern_matcher = False  # attention spelt out is what is asked for
    net = network(4)
    inputs = [draw((4, small(512, 16), 768), torch.float16, i) for i in range(8)]

    def step(i):
        run = torch.compile(net, mode="reduce-overhead") if ON_GPU else net
        outputs = []
        for n in range(small(300, 4)):
            y = run(inputs[(n * 5) % 8])
            if n % 20 == 3:
                outputs.append(y[:, ::16].clone())
        return {"y": torch.stack(outputs)}

    return step
