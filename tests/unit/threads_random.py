#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUDA kernels whose addresses are computed at random, for test_threads.c: threads_random.py SEED COUNT

    rk0, rk1 …(float *o, const float *x, int n, int m, int q, long w)
"""
import random
import sys

NUMBERS = [1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 64, 96, 100, 128, 192, 255, 256, 1000, 1024]
ROWS = ["bx * blockDim.x + tx", "(gridDim.x - bx - 1) * (blockDim.x / 32) + tx / 32", "bx * 4 + tx / 64", "bx",
        "by * gridDim.x + bx", "(bx * blockDim.x + tx) * 4", "bx * m + tx"]


class Kernel:
    def __init__(self, rng, name):
        self.rng, self.name = rng, name
        self.type = rng.choice(["int", "int", "unsigned"])
        self.names = ["bx", "by", "bz", "tx", "n", "m", "q", "i", "i", "i"]

    def number(self, depth):
        pick, deeper = self.rng.choice, lambda: self.number(depth - 1)
        if depth == 0 or self.rng.random() < 0.15:
            return pick(self.names) if self.rng.random() < 0.75 else str(pick(NUMBERS))
        kind = pick(["+", "+", "-", "*", "*", "/", "/", "%", "%", "&", "|", "^", ">>", "<<", "min", "max", "choice", "-x",
                     "~x", "abs"])
        if kind in "+-*&|^":
            return f"({deeper()} {kind} {deeper()})"
        if kind in "/%":
            by = pick(["m", "n", "q", deeper(), str(pick(NUMBERS))])
            return f"({deeper()} {kind} ({self.type})max(1, (int)({by})))"
        if kind in (">>", "<<"):
            return f"({deeper()} {kind} {self.rng.randint(1, 8)})"
        if kind in ("min", "max"):
            return f"{kind}(({self.type})({deeper()}), ({self.type})({deeper()}))"
        if kind == "choice":
            return f"({self.condition(depth - 1)} ? ({self.type}){deeper()} : ({self.type}){deeper()})"
        return f"abs((int)({deeper()}))" if kind == "abs" else f"({kind[0]}({self.type})({deeper()}))"

    def condition(self, depth):
        compares = self.rng.choice(["<", ">", "==", "!=", "<=", ">="])
        return f"({self.type})({self.number(depth)}) {compares} ({self.type})({self.number(depth)})"

    def place(self):
        return self.rng.choice([f"(long)({self.number(2)})", self.number(2), f"({self.number(2)}) % 997",
                                f"(long)({self.number(1)}) * {self.rng.choice(['m', 'n', 'w', '64'])} + i"])

    def lines(self):
        pick, kind = self.rng.choice, self.type
        yield f'extern "C" __global__ void {self.name}(float *o, const float *x, int n, int m, int q, long w)'
        yield "{"
        yield f"const {kind} bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z, tx = threadIdx.x, i = {pick(ROWS)};"
        for v in range(self.rng.randint(1, 4)):
            yield f"{kind} v{v} = {self.number(self.rng.randint(1, 3))};"
            self.names.append(f"v{v}")
        if self.rng.random() < 0.4:
            yield f"if ({self.condition(1)}) v0 = {self.number(2)}; else v0 += {self.number(2)};"
        if self.rng.random() < 0.35:
            begin, step = pick(["tx % 32", "0", "tx"]), pick(["32", "1", "blockDim.x", "7"])
            end = pick(["m", "n", "i % (unsigned)max(1, n)", "(unsigned)v0 % 64u", "min(n, 200)"])
            yield f"for ({kind} j = {begin}; j < ({kind})({end}) && j < 3000; j += {step})"
            self.names.append("j")
        if self.rng.random() < 0.7:
            yield f"if ({self.condition(1)})"
        if self.rng.random() < 0.6:
            yield f"o[{self.place()}] = x[{self.place()}];"
        else:  # what was stored, or lies beside it, is loaded
            at = self.place()
            yield f"{{ const long at = {at};"
            yield f"o[at] = x[{self.place()}];"
            to, source = pick(["0", "1", "32", "4096", "m"]), pick(["at", "at + 1", "at + 32", "at + n", self.place()])
            yield f"o[at + {to}] += o[{source}]; }}"
        yield "}"


def main():
    rng = random.Random(int(sys.argv[1]))
    for k in range(int(sys.argv[2])):
        print("\n".join(Kernel(rng, f"rk{k}").lines()))


main()
