# SPDX-License-Identifier: Apache-2.0
"""Programs that look at, or write over, what a fused chain leaves out: scores read late or from
another stream, inputs changed between the two GEMMs, training, graph capture, threads.

Outputs named in Expect.exact come straight from the program's own kernels on unchanged inputs, so
they must be the plain run's bits whatever the shim replaced.
"""
import math
import threading
import time

import torch
import torch.nn.functional as F

from chains import SETS, naive, qkv_sets
from common import DEVICE, ON_GPU, draw, small, sync
from registry import Expect, program

READ = ("scores_read_by",)


def chain(q, k, v, scale=0.125):
    """O and P of plain attention."""
    p = torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1)
    return p @ v, p


def inputs(size=None, B=2, H=8, D=64):
    return qkv_sets((B, H, size or small(384, 32), D), torch.float16)[0]


def late(variant, read, clean=60):
    """step(i): clean chains, then one whose P is kept while Q and K are overwritten, then read."""
    sets = inputs()

    def step(i):
        for n in range(clean):
            o, _ = chain(*sets[n % SETS])
        q, k, v = (x.clone() for x in sets[i % SETS])
        o_last, p = chain(q, k, v)
        q.fill_(float("nan"))
        k.zero_()
        return {"o": o, "o_last": o_last, "P": read(p)}

    return step


LATE = dict(chains=61, sites=2, share=0.8, tol=1e-3, exact=("P",))


@program(Expect("replace", **LATE), repeat=2, few=1, quick=True)
def late_copy(variant):
    """P copied to the host after Q and K were overwritten"""
    return late(variant, lambda p: p.cpu())


@program(Expect("replace", **LATE), repeat=2, few=1)
def late_kernel(variant):
    """P read by a kernel after Q and K were overwritten"""
    return late(variant, lambda p: p.float().mean(1))


@program(Expect("replace", **LATE), repeat=2, few=1)
def late_stream(variant):
    """P read on another stream"""
    if not ON_GPU:
        return late(variant, lambda p: p * 1)
    side = torch.cuda.Stream()

    def read(p):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            copy = p * 1
        torch.cuda.current_stream().wait_stream(side)
        return copy

    return late(variant, read)


@program(Expect("replace", **LATE), repeat=2, few=1)
def late_thread(variant):
    """P read by another thread"""

    def read(p):
        kept = []
        worker = threading.Thread(target=lambda: kept.append(p.cpu()))
        worker.start()
        worker.join()
        return kept[0]

    return late(variant, read)


@program(Expect("either", sites=3, tol=1e-3, exact=("P",)), repeat=12, few=4)
def broken(variant):
    """every third chain stops after the softmax and its P is used"""
    sets = inputs()

    def step(i):
        q, k, v = sets[i % SETS]
        if i % 3 == 2:
            return {"P": torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1)}
        return {"o": chain(q, k, v)[0]}

    return step


@program(Expect("either", sites=3, tol=1e-3, exact=("top",)), repeat=10, few=3)
def sync_inside(variant):
    """the host waits for the largest score between the two GEMMs"""
    sets = inputs()

    def step(i):
        q, k, v = sets[i % SETS]
        scores = q @ k.transpose(-1, -2) * 0.125
        top = scores.max().item()
        return {"o": torch.softmax(scores, dim=-1) @ v, "top": torch.tensor(top)}

    return step


@program(Expect("either", sites=2, tol=1e-3), repeat=10, few=3, quick=True)
def edit_inputs(variant):
    """Q and K are overwritten, and V is changed, between the two GEMMs"""
    sets = inputs()

    def step(i):
        q, k, v = (x.clone() for x in sets[i % SETS])
        scores = q @ k.transpose(-1, -2)
        k.mul_(3.0)
        scores = scores * 0.125
        q.fill_(float("inf"))
        p = torch.softmax(scores, dim=-1)
        v.neg_()
        return {"o": p @ v, "k": k}

    return step


@program(Expect("either", sites=2, tol=1e-3, exact=("P",)), repeat=10, few=3)
def edit_p(variant):
    """P is changed in place before PV and returned"""
    sets = inputs()

    def step(i):
        q, k, v = sets[i % SETS]
        p = torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1)
        p.mul_(0.5)
        return {"o": p @ v, "P": p.sum(-1)}

    return step


@program(Expect("decline", sites=3, tol=1e-3, reasons=READ), repeat=10, few=3)
def two_values(variant):
    """one P multiplies two V's"""
    sets = inputs()

    def step(i):
        q, k, v = sets[i % SETS]
        o, p = chain(q, k, v)
        return {"o": o, "second": p @ v.flip(-2)}

    return step


@program(Expect("decline", sites=3, tol=4e-3, reasons=READ), repeat=10, few=3, quick=True)
def need_weights(variant):
    """nn.MultiheadAttention(need_weights=True): the mean over heads reads P"""
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(512, 8, batch_first=True, device=DEVICE,
                                        dtype=torch.float16).eval().requires_grad_(False)
    size = small(256, 24)

    def step(i):
        x = draw((4, size, 512), torch.float16, i)
        o, mean = layer(x, x, x, need_weights=True)
        return {"o": o, "mean": mean}

    return step


class Block(torch.nn.Module):
    """Self-attention with its projections, spelt out."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.heads, self.dropout = heads, dropout

    def forward(self, x):
        B, S, width = x.shape
        q, k, v = self.qkv(x).view(B, S, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        p = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)), dim=-1)
        p = F.dropout(p, self.dropout, self.training)
        return self.out((p @ v).transpose(1, 2).reshape(B, S, width))


def training(dropout):
    torch.manual_seed(0)
    block = Block(512, 8, dropout).to(DEVICE, torch.float16).train()
    size = small(256, 24)

    def step(i):
        torch.manual_seed(100 + i)
        with torch.enable_grad():
            block.zero_grad()
            x = draw((4, size, 512), torch.float16, i).requires_grad_()
            y = block(x)
            (y.float() ** 2).mean().mul(64).backward()
            with torch.no_grad():
                for weight in block.parameters():
                    weight -= 1e-3 * weight.grad
        return {"y": y.detach(), "dx": x.grad, "dw": block.qkv.weight.grad.clone()}

    return step


@program(Expect("decline", sites=8, tol=4e-3, reasons=READ + ("dropout",)), repeat=8, few=3,
         quick=True)
def train_dropout(variant):
    """training, forward and backward, with dropout"""
    return training(0.1)


@program(Expect("decline", sites=8, tol=4e-3, reasons=READ), repeat=8, few=3)
def train(variant):
    """training, forward and backward, without dropout"""
    return training(0.0)


# slack: both chains are open at once while the site is learned, so one more occurrence is only watched
@program(Expect("replace", chains=2, sites=2, slack=1, tol=1e-3), repeat=10, few=3)
def two_streams(variant):
    """two chains, call by call in turn on two streams"""
    sets = inputs()
    sides = [torch.cuda.Stream(), torch.cuda.Stream()] if ON_GPU else [None, None]

    def on(n):
        return torch.cuda.stream(sides[n]) if ON_GPU else threading.Lock()

    def step(i):
        pair = [sets[i % SETS], sets[(i + 3) % SETS]]
        kept = [None, None]
        sync()
        for act in (lambda n: pair[n][0] @ pair[n][1].transpose(-1, -2),
                    lambda n: kept[n] * 0.125,
                    lambda n: torch.softmax(kept[n], dim=-1),
                    lambda n: kept[n] @ pair[n][2]):
            for n in (0, 1):
                with on(n):
                    kept[n] = act(n)
        sync()
        return {"o0": kept[0], "o1": kept[1]}

    return step


@program(Expect("either", chains=2, sites=3, tol=1e-3), repeat=10, few=3)
def interleaved(variant):
    """two chains, call by call in turn on one stream"""
    sets = inputs()

    def step(i):
        (q0, k0, v0), (q1, k1, v1) = sets[i % SETS], sets[(i + 3) % SETS]
        s0, s1 = q0 @ k0.transpose(-1, -2), q1 @ k1.transpose(-1, -2)
        s0, s1 = s0 * 0.125, s1 * 0.125
        p1, p0 = torch.softmax(s1, dim=-1), torch.softmax(s0, dim=-1)
        return {"o0": p0 @ v0, "o1": p1 @ v1}

    return step


@program(Expect("replace", chains=2, sites=2, slack=1, tol=1e-3), repeat=10, few=3)  # as two_streams
def threads(variant):
    """two Python threads, each on a stream of its own"""
    sets = inputs()

    def work(n, i, kept):
        q, k, v = sets[(i + 3 * n) % SETS]
        with torch.no_grad():
            if not ON_GPU:
                kept[n] = naive(q, k, v, 0.125)
                return
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                kept[n] = naive(q, k, v, 0.125)
            side.synchronize()

    def step(i):
        sync()
        kept = [None, None]
        workers = [threading.Thread(target=work, args=(n, i, kept)) for n in (0, 1)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return {"o0": kept[0], "o1": kept[1]}

    return step


# tol: outputs are single rows of V, which reach 4, where a step of fp16 is 2^-9
@program(Expect("replace", chains=3, sites=3, tol=2e-3), repeat=12, few=3)
def late_overflow(variant):
    """q and k grow, until in the last two forwards the product of one key and every seventh query
    is more than fp16 holds: NaN, but where masked_fill hides it"""
    sets = inputs()
    size = sets[0][0].shape[2]
    key, rows = 3, slice(5, None, 7)
    hidden = torch.zeros(size, size, dtype=torch.bool, device=DEVICE)
    hidden[size // 2:, key] = True
    padding = torch.zeros(2, 1, 1, size, dtype=torch.float16, device=DEVICE)
    padding[1, ..., -size // 4:] = torch.finfo(torch.float16).min

    def step(i):
        q, k, v = (x.clone() for x in sets[i % SETS])
        grown = 96.0 if i >= 10 else 24.0 if i >= 8 else 6.0  # 8 * grown^2: 73728, 4608, 288
        q[..., :8] = k[..., :8] = 0
        q[:, :, rows, :8] = k[:, :, key, :8] = grown
        masked = (q @ k.transpose(-1, -2) * 0.125).masked_fill(hidden, float("-inf"))
        padded = q @ k.transpose(-1, -2) * 0.125 + padding
        return {"plain": chain(q, k, v)[0], "masked": torch.softmax(masked, dim=-1) @ v,
                "padded": torch.softmax(padded, dim=-1) @ v}

    return step


# tol: outputs reach 4, where a step of bf16 is 2^-5
@program(Expect("replace", chains=1, sites=1, tol=4e-2), repeat=12, few=3)
def late_steep(variant):
    """scores in bf16 that grow twenty-fold once their site is verified: the program's rounding of them
    then moves outputs by 0.4 to 0.6"""
    sets = qkv_sets((2, 8, small(384, 32), 64), torch.bfloat16)[0]

    def step(i):
        q, k, v = sets[i % SETS]
        return {"o": chain(q * (20.0 if i >= 8 else 1.0), k, v)[0]}

    return step


@program(Expect("replace", sites=2, tol=1e-3), repeat=12, few=3)
def reallocate(variant):
    """memory goes back to the driver after every chain and comes again at the same address"""
    sets = inputs()

    def step(i):
        o = naive(*sets[i % SETS], 0.125).cpu()
        fresh = None
        if ON_GPU:
            torch.cuda.empty_cache()
            fresh = torch.full((2, 8, 384, 384), float(i), dtype=torch.float16, device=DEVICE)
        return {"o": o} | ({"fresh": fresh.float().sum((-1, -2))} if fresh is not None else {})

    return step


# share: replays are the program's own while the numbers of those that were compared are on the way, and
# nobody waits here; slack: those that are compared
@program(Expect("replace", chains=118, sites=1, share=0.4, slack=3, tol=1e-3), repeat=1, few=1, quick=True,
         modes=("audit", "compare", "off"))
def graph(variant):
    """torch.cuda.graph: warm-up, capture, 100 replays, and eager calls among them"""
    sets = inputs(B=1)
    q, k, v = (x.clone() for x in sets[0])

    def step(i):
        out = {}
        if ON_GPU:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(8):
                    warm = naive(q, k, v, 0.125)
            torch.cuda.current_stream().wait_stream(side)
            recorded = torch.cuda.CUDAGraph()
            with torch.cuda.graph(recorded):
                held = naive(q, k, v, 0.125)
            out["warm"] = warm
        replays, eager = [], []
        for n in range(small(100, 4)):
            for to, source in zip((q, k, v), sets[n % SETS]):
                to.copy_(source)
            if ON_GPU:
                time.sleep(1e-3)  # a program that does nothing else is over before a graph of ours is made
                recorded.replay()
                replays.append(held[..., n % 64].clone())
            else:
                replays.append(naive(q, k, v, 0.125)[..., n % 64])
            if n % 10 == 0:
                eager.append(naive(*sets[(n + 1) % SETS], 0.125))
        return out | {"replay": torch.stack(replays), "eager": torch.stack(eager)}

    return step
