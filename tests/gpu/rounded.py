#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernels that round P beside the unfused chain that they repeat and the fastest that does not (on a GPU):

    tests/gpu/rounded.py [--lib build/libfashim_kernels.so] [--image PART.fatbin] [--only WORD,…]

A line for each variant that takes the call, and for the one that would be chosen without roundings: microseconds of GPU time, in a graph of many, and how far O is from the chain's, root mean square
relative to it. The chain is PyTorch's: matmul, times the scale, plus a bias, softmax, matmul, each stored in 16 bits.
With --image the variants of that part, else those of the library."""
import argparse
import math
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench"))
import abi  # noqa: E402
import torch  # noqa: E402

PRODUCT, SCALED, BIASED, WEIGHTS = 1, 2, 4, 8
REPEATS, ROUNDS = 20, 9
# name, B, H, Sq, Sk, D, what is added
SHAPES = [("small", 2, 8, 512, 512, 64, ""), ("padding", 8, 12, 512, 512, 64, "keys"),
          ("llama", 1, 32, 2048, 2048, 128, "causal"), ("vit", 4, 16, 197, 197, 64, ""),
          ("unet", 1, 8, 4096, 4096, 40, ""), ("t5", 4, 8, 512, 512, 64, "heads"),
          ("decode", 8, 32, 1, 2048, 128, ""), ("decode-one", 1, 32, 1, 2048, 128, ""),
          ("long", 1, 32, 4096, 4096, 64, "tensor"), ("deep", 1, 32, 2048, 2048, 128, "tensor"),
          ("wider", 1, 8, 2048, 2048, 256, "tensor"),
          ("axial", 64, 8, 96, 96, 32, ""), ("patches", 8, 32, 200, 200, 16, ""), ("brief", 32, 12, 128, 128, 64, "keys"),
          ("windows", 512, 4, 49, 49, 32, "heads"), ("decode-few", 1, 24, 1, 228, 128, ""),
          ("decode-heads", 5, 8, 1, 384, 96, "keys"), ("decode-short", 2, 4, 1, 64, 128, ""),
          ("decode-batch", 4, 32, 1, 512, 128, "keys"), ("decode-narrow", 4, 12, 1, 1024, 64, "keys"),
          ("decode-deep", 2, 8, 1, 1024, 256, ""), ("decode-long", 1, 32, 1, 8192, 128, ""),
          ("decode-two", 1, 32, 2, 1024, 128, ""), ("decode-four", 1, 32, 4, 1024, 128, ""),
          ("gpt", 4, 12, 1024, 1024, 64, "causal"), ("wide", 2, 8, 1024, 1024, 256, ""),
          ("latents", 1, 2, 256, 4096, 128, ""), ("latents-hidden", 1, 4, 384, 2048, 64, "keys"),
          ("latents-one", 1, 1, 256, 8192, 64, ""), ("objects", 1, 8, 100, 1024, 32, ""), ("few-heads", 1, 2, 512, 512, 64, ""),
          ("few-causal", 1, 2, 1024, 1024, 128, "causal"), ("speech", 1, 6, 32, 1500, 64, "")]


def microseconds(run):
    """GPU time of one call."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run(stream.cuda_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(REPEATS):
                run(stream.cuda_stream)
        times = []
        for _ in range(ROUNDS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(1e3 * begin.elapsed_time(end) / REPEATS)
    return statistics.median(times[2:])


def operands(shape, dtype):
    """Q, K, V, and what is added, as a program holds them."""
    _, B, H, Sq, Sk, D, added = shape
    torch.manual_seed(1)
    q, k, v = (torch.randn(B, H, s, D, device="cuda", dtype=dtype) for s in (Sq, Sk, Sk))
    q = q * 2
    lowest = torch.finfo(dtype).min
    bias = None
    if added == "keys":
        bias = torch.zeros(B, 1, 1, Sk, device="cuda", dtype=dtype)
        for b in range(B):
            bias[b, ..., Sk - 20 * b - 1:] = lowest
    if added == "heads":
        bias = torch.randn(1, H, Sq, Sk, device="cuda", dtype=dtype)
    if added in ("causal", "tensor"):
        bias = torch.full((1, 1, Sq, Sk), lowest, device="cuda", dtype=dtype).triu(1 + Sk - Sq)
    return q, k, v, bias


def measure(library, shape, dtype):
    name, B, H, Sq, Sk, D, added = shape
    scale = 1.0 if added == "heads" else 1.0 / math.sqrt(D)
    exact = math.log2(scale) == int(math.log2(scale))
    q, k, v, bias = operands(shape, dtype)
    if added == "heads":
        q *= 0.125

    def chain(_=None):
        x = torch.matmul(q, k.transpose(2, 3))
        if scale != 1.0:
            x = x * scale
        if bias is not None:
            x = x + bias
        return torch.matmul(torch.softmax(x, -1), v)

    want = chain().float()
    times = {"chain": microseconds(chain)}
    print(f"{name} B{B} H{H} {Sq}x{Sk} D{D} {added} {str(dtype)[6:]}: chain {times['chain']:.1f} us", flush=True)
    for rounds in (False, True):
        o = torch.empty(B, H, Sq, D, device="cuda", dtype=dtype)
        a = abi.arguments(q, k, v, o, scale, added == "causal", None if added == "causal" else bias)
        if bias is not None:
            a.spec.round_x = a.q.dtype
        if rounds:
            a.spec.round_s = PRODUCT | (0 if exact else SCALED) | (BIASED if bias is not None else 0) | WEIGHTS
            a.spec.alpha = 1.0
        chosen = library.select(a)
        names = [n for n in library.present() if library.select(a, n) == n and "ladder" not in n]
        if not rounds:
            names = [n for n in names if n == chosen]
        for variant in names:
            o.fill_(float("nan"))
            call = library.prepare(variant, a)
            us = microseconds(call.launch)
            off = ((o.float() - want).pow(2).mean().sqrt() / want.pow(2).mean().sqrt()).item()
            print(f"    {variant:28s} {us:8.1f} us  chain/it {times['chain'] / us:5.2f}  off {off:.1e}"
                  f"{'  CHOSEN' if variant == chosen else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lib", default="build/libfashim_kernels.so")
    parser.add_argument("--image")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    torch.zeros(1, device="cuda")
    library = abi.Library(options.lib, options.image)
    for shape in SHAPES:
        if any(word in shape[0] for word in options.only.split(",")):
            measure(library, shape, getattr(torch, options.dtype))


if __name__ == "__main__":
    main()
