# SPDX-License-Identifier: Apache-2.0
"""Programs on two GPUs: a process for each, which talk through NCCL, or one process with both.

In a process that has one, "cuda" is the GPU of its rank. many.py runs them.
"""
import atexit
import datetime
import math
import os
import signal

import torch
import torch.distributed as dist
import torch.nn.functional as F

from common import DEVICE, ON_GPU, draw, small
from hazards import Block, chain
from registry import Expect, program

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
PEER = (RANK + 1) % max(RANKS, 1)
LAYERS = small(6, 2)
HEADS, D = small(16, 4), 64
WIDTH = HEADS * D
GPUS = ["cuda:0", "cuda:1"] if ON_GPU else ["cpu", "cpu"]


def join():
    """Becomes a rank of the group; one whose peer died does not outlive it for long."""
    if dist.is_initialized():
        return
    signal.alarm(int(os.environ.get("RANK_SECONDS", 60)))  # a launcher's end does not end its ranks
    if ON_GPU:
        torch.cuda.set_device(RANK)
    backend, patience = "nccl" if ON_GPU else "gloo", datetime.timedelta(seconds=45)
    if "RANKS_MEET" in os.environ:
        dist.init_process_group(backend, "file://" + os.environ["RANKS_MEET"], patience, RANKS, RANK)
    else:  # under a launcher
        dist.init_process_group(backend, timeout=patience)
    atexit.register(dist.destroy_process_group)


def attention(variant, q, k, v):
    """O of [B,H,S,D], spelt out or by PyTorch's own."""
    if variant == "sdpa":
        return F.scaled_dot_product_attention(q, k, v)
    return chain(q, k, v, 1 / math.sqrt(q.size(-1)))[0]


def weights(layers, shape, dtype):
    return [draw(shape, dtype, 100 + n, 1 / math.sqrt(shape[-1])) for n in range(layers)]


def split(qkv, heads):
    """q, k, v [B,heads,S,D] of a projection [B,S,3*heads*D]."""
    B, S, _ = qkv.shape
    return qkv.view(B, S, 3, heads, D).permute(2, 0, 3, 1, 4)


def merge(o):
    return o.transpose(1, 2).reshape(o.size(0), o.size(2), -1)


# ---- a process for each GPU ------------------------------------------------------------------


def tensor_parallel(variant, dtype):
    """Each rank has its heads; what they put into the residual stream is summed."""
    join()
    mine = HEADS // RANKS
    whole = weights(LAYERS, (3, HEADS, D, WIDTH), dtype)
    into = [w[:, RANK * mine:(RANK + 1) * mine].reshape(-1, WIDTH) for w in whole]
    out = [w[:, RANK * mine * D:(RANK + 1) * mine * D].contiguous()
           for w in weights(LAYERS, (WIDTH, WIDTH), dtype)]

    def step(i):
        x = draw((4, small(1024, 16), WIDTH), dtype, i)
        for qkv, o in zip(into, out):
            h = F.layer_norm(x, (WIDTH,))
            y = F.linear(merge(attention(variant, *split(F.linear(h, qkv), mine))), o)
            dist.all_reduce(y)
            x = x + y
        return {"y": x[:, ::8]}

    return step


@program(Expect("replace", chains=LAYERS, tol="sdpa"), repeat=8, variants=("sdpa",), ranks=2)
def tensor_parallel_f16(variant):
    """tensor parallel layers with all-reduce, fp16"""
    return tensor_parallel(variant, torch.float16)


@program(Expect("replace", chains=LAYERS, tol="sdpa"), repeat=8, variants=("sdpa",), ranks=2,
         tags=("torchrun",))
def tensor_parallel_bf16(variant):
    """tensor parallel layers with all-reduce, bf16, started by torchrun"""
    return tensor_parallel(variant, torch.bfloat16)


class Hop:
    """Keys and values on their way to the peer, and its own on their way here."""

    def __init__(self, kept):
        self.come = [torch.empty_like(t) for t in kept]
        self.work = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, t, PEER) for t in kept] +
            [dist.P2POp(dist.irecv, t, PEER) for t in self.come])

    def arrived(self):
        for work in self.work:
            work.wait()
        return self.come


def ring(variant, blocks):
    """step(i): queries stay, keys and values go round; blocks(q, pairs of k and v) makes O."""
    join()
    into = weights(LAYERS, (3 * WIDTH, WIDTH), torch.float16)

    def hops(k, v):
        for hop in range(RANKS):
            going = Hop((k, v)) if hop < RANKS - 1 else None
            yield k, v
            if going:
                k, v = going.arrived()

    def step(i):
        x = draw((2, small(1024, 16), WIDTH), torch.float16, 10 * i + RANK)
        for qkv in into:
            # copies that attention here could do without are what is sent
            q, k, v = (t.contiguous() for t in split(F.linear(F.layer_norm(x, (WIDTH,)), qkv),
                                                     HEADS))
            x = x + merge(blocks(q, hops(k, v)))
        return {"y": x[:, ::4]}

    return step


@program(Expect("replace", chains=2 * LAYERS, sites=4, tol="sdpa"), repeat=8, variants=("sdpa",),
         ranks=2)
def ring_blocks(variant):
    """keys and values sent round while they are attended to; O is the blocks' mean"""

    def blocks(q, pairs):
        return torch.stack([attention(variant, q, k, v) for k, v in pairs]).mean(0)

    return ring(variant, blocks)


# The sum of exponents is taken of the scores, behind the softmax: they are needed in each hop.
@program(Expect("decline", chains=2 * LAYERS, sites=4, tol=8e-3, reasons=("scores_read_by",)),
         repeat=8, ranks=2)
def ring_attention(variant):
    """ring attention: blocks merged by their sums of exponents"""

    def blocks(q, pairs):
        o = total = None
        for k, v in pairs:
            s = q @ k.transpose(-1, -2) * (1 / math.sqrt(D))
            block, here = torch.softmax(s, dim=-1) @ v, torch.logsumexp(s.float(), -1, True)
            if o is None:
                o, total = block.float(), here
            else:
                both = torch.logaddexp(total, here)
                o = o * (total - both).exp() + block * (here - both).exp()
                total = both
        return o.half()

    return ring(variant, blocks)


@program(Expect("replace", chains=LAYERS, sites=2, tol="sdpa"), repeat=8, variants=("sdpa",),
         ranks=2)
def ulysses(variant):
    """half of the tokens with all heads become all tokens with half of the heads, and back"""
    join()
    into = weights(LAYERS, (3 * WIDTH, WIDTH), torch.float16)

    def exchange(x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x)
        return out

    def heads_here(t):
        """[B,S/ranks,H,D] -> [B,H/ranks,S,D]"""
        B, S, H, _ = t.shape
        t = exchange(t.view(B, S, RANKS, H // RANKS, D).permute(2, 0, 1, 3, 4).contiguous())
        return t.permute(1, 3, 0, 2, 4).reshape(B, H // RANKS, RANKS * S, D)

    def tokens_here(o):
        """[B,H/ranks,S,D] -> [B,S/ranks,H*D]"""
        B, H, S, _ = o.shape
        o = exchange(o.view(B, H, RANKS, S // RANKS, D).permute(2, 0, 3, 1, 4).contiguous())
        return o.permute(1, 2, 0, 3, 4).reshape(B, S // RANKS, RANKS * H * D)

    def step(i):
        x = draw((2, small(512, 16), WIDTH), torch.float16, 10 * i + RANK)
        for qkv in into:
            q, k, v = F.linear(F.layer_norm(x, (WIDTH,)), qkv).view(
                2, -1, 3, HEADS, D).unbind(2)
            x = x + tokens_here(attention(variant, heads_here(q), heads_here(k), heads_here(v)))
        return {"y": x[:, ::4]}

    return step


@program(Expect("decline", sites=8, exact=("y", "loss", "dw", "w"),
                reasons=("scores_read_by", "training")), repeat=8, ranks=2)
def data_parallel_training(variant):
    """DistributedDataParallel: forward, backward with gradients summed on the way, a step"""
    join()
    torch.manual_seed(0)
    blocks = torch.nn.Sequential(*(Block(512, 8, 0.0) for _ in range(3)))
    net = torch.nn.parallel.DistributedDataParallel(
        blocks.to(DEVICE, torch.float16).train(), device_ids=[RANK] if ON_GPU else None,
        bucket_cap_mb=1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def step(i):
        with torch.enable_grad():
            optimizer.zero_grad()
            y = net(draw((4, small(256, 24), 512), torch.float16, 10 * i + RANK))
            loss = (y.float() ** 2).mean() * 64
            loss.backward()
        optimizer.step()
        weight = blocks[0].qkv.weight
        return {"y": y.detach(), "loss": loss.detach(), "dw": weight.grad.clone(),
                "w": weight.detach().clone()}

    return step


@program(Expect("replace", chains=60, tol=4e-3, exact=("P",)), repeat=2, ranks=2, tags=("mps",))
def mps_pair(variant):
    """two processes on one GPU, side by side under NVIDIA's Multi-Process Service"""
    sets = [[draw((4, 8, small(512, 16), D), torch.float16, 100 * RANK + 10 * n + x)
             for x in range(3)] for n in range(4)]

    def step(i):
        for n in range(60):
            o, p = chain(*sets[(n + i) % 4])
        return {"o": o, "P": p[:, :, ::8].clone()}

    return step


# ---- one process with both GPUs --------------------------------------------------------------


class Stage(torch.nn.Module):
    """A layer that lies on one of the GPUs."""

    def __init__(self, number, variant):
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.variant = variant

    def forward(self, x):
        q, k, v = split(self.qkv(F.layer_norm(x, (WIDTH,))), HEADS)
        return x + self.out(merge(attention(self.variant, q, k, v)))


def stages(variant):
    torch.manual_seed(0)
    return [Stage(n, variant).half().requires_grad_(False) for n in range(LAYERS)]


@program(Expect("replace", chains=4 * LAYERS, sites=4, tol="sdpa"), repeat=6, variants=("sdpa",))
def pipeline(variant):
    """the first layers on GPU 0, the others on GPU 1, four micro-batches one behind the other"""
    layers = stages(variant)
    half = LAYERS // 2
    first = torch.nn.Sequential(*layers[:half]).to(GPUS[0])
    second = torch.nn.Sequential(*layers[half:]).to(GPUS[1])

    def step(i):
        done = []
        for n in range(4):
            x = draw((2, small(1024, 16), WIDTH), torch.float16, 10 * i + n).to(GPUS[0])
            done.append(second(first(x).to(GPUS[1], non_blocking=True)))
        return {"y": torch.stack(done)[:, :, ::8]}

    return step


# slack: threads launch a site's calls on both GPUs at once, so one more on each passes while it is learned
@program(Expect("replace", chains=2 * LAYERS, sites=4, tol="sdpa", share=0.5, slack=2), repeat=12,
         variants=("sdpa",), modes=("poison",))
def data_parallel_threads(variant):
    """nn.DataParallel: a thread for each GPU, weights copied to both for every forward"""
    net = torch.nn.Sequential(*stages(variant)).to(GPUS[0])
    if ON_GPU:
        net = torch.nn.DataParallel(net, device_ids=[0, 1])

    def step(i):
        y = net(draw((4, small(1024, 16), WIDTH), torch.float16, i).to(GPUS[0]))
        return {"y": y[:, ::8]}

    return step


@program(Expect("replace", chains=61, sites=2, tol=2e-3, exact=("P",)), repeat=6,
         modes=("poison",))
def peer_copies(variant):
    """P is copied to the other GPU by the driver or by a kernel, its inputs are overwritten from there"""
    here, there = GPUS
    sets = [[draw((2, 8, small(384, 32), D), torch.float16, 10 * n + x).to(here) for x in range(3)]
            for n in range(4)]
    other = draw((2, 8, small(384, 32), D), torch.float32, 99).to(there)

    def overwritten(q, k, p):
        q.copy_(other)  # converted on its way: a kernel of the other GPU's
        k.copy_(other.half())
        return p

    looks = (lambda q, k, p: p.to(there), lambda q, k, p: p.to(there, torch.float32), overwritten)

    def step(i):
        for n in range(60):
            o, _ = chain(*sets[n % 4])
        q, k, v = (t.clone() for t in sets[i % 4])
        last, p = chain(q, k, v)
        p = looks[i % 3](q, k, p)
        k.zero_()
        q.fill_(float("nan"))
        return {"o": o, "last": last, "P": p.to(there)}

    return step
