#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention alone over many shapes: eager, eager under the shim, SDPA's flash and cuDNN backends.

    shapes.py --lib build/libfashim.so --out DIR [--only GLOB,…] [--rounds N]

All contestants are timed in turn, round by round, in two long-lived processes (plain and
shim), with inputs that do not fit into the L2 cache together. Small shapes are bound by the host here, as they
are in a program; the log's own samples (GPU time of the chain alone) stand beside them.
"""
import argparse
import fnmatch
import json
import os
import sys

import harness

# B H S D dtype mask
SHAPES = [(1, 8, 512, 64, "float16", "none"), (1, 8, 2048, 64, "float16", "none"),
          (8, 12, 128, 64, "float16", "none"), (32, 12, 512, 64, "float16", "none"),
          (32, 16, 197, 64, "float16", "none"),
          (4, 16, 2048, 64, "float16", "none"), (4, 16, 2048, 64, "float16", "causal"),
          (2, 16, 4096, 64, "float16", "none"), (2, 16, 4096, 64, "float16", "bias"),
          (2, 16, 4096, 128, "float16", "none"), (2, 16, 4096, 128, "float16", "causal"),
          (2, 16, 4096, 128, "bfloat16", "none"), (2, 8, 4096, 256, "float16", "none"),
          (2, 8, 4096, 256, "float16", "causal")]


def named(shape):
    B, H, S, D, dtype, mask = shape
    return f"{dtype}-{B}x{H}x{S}x{D}-{mask}"


def from_log(path, shape):
    """Medians of the log's samples for one shape: (app, fused) in µs, or None. The log is read when
    all is over; sites are found by their dimensions."""
    log, (B, H, S, D, dtype, mask) = harness.Log(path), shape
    short = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}[dtype]
    plain = mask == "none"
    found = [n for n, r in log.site.items()
             if r.get("B", 0) * r.get("H", 0) == B * H and r.get("Sq") == S and r.get("D") == D
             and r.get("dtype") == short and (r.get("mask") == "none") == plain]
    pairs = [(r["app_us"], r["fused_us"]) for r in log.sample
             if r["site"] in found and r.get("app_us") and r.get("fused_us")]
    return [sorted(x)[len(pairs) // 2] for x in zip(*pairs)] if pairs else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="*")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    log = os.path.join(arguments.out, "shapes.jsonl")
    if os.path.exists(log):
        os.remove(log)
    plain = harness.Server(harness.clean_environment(),
                           os.path.join(arguments.out, "shapes.plain.stderr"))
    shim = harness.Server(harness.shim_environment(arguments.lib, "replace", log),
                          os.path.join(arguments.out, "shapes.shim.stderr"))
    rows = {}
    for shape in SHAPES:
        if not any(fnmatch.fnmatch(named(shape), p) for p in arguments.only.split(",")):
            continue
        asked = dict(zip(("B", "H", "S", "D", "dtype", "mask"), shape))
        contestants = [("eager", plain, dict(shape=asked, variant="eager")),
                       ("shim", shim, dict(shape=asked, variant="eager"))]
        for backend in ("flash", "cudnn"):
            contestants.append((backend, plain, dict(shape=asked, variant=backend)))
        rows[named(shape)] = (shape, harness.race(contestants, rounds=arguments.rounds,
                                                  target_ms=30))
    plain.stop(5)
    shim.stop(20)
    print(f"{'us a chain':32} {'eager':>9} {'shim':>9} {'flash':>9} {'cudnn':>9} "
          f"{'eager/shim':>10} {'cudnn/shim':>10}  {'spread (eager shim flash cudnn)':32} log: app, fused")
    for name, (shape, row) in rows.items():
        us = {x: row[x]["ms"] * 1e3 if "ms" in row.get(x, {}) else None
              for x in ("eager", "shim", "flash", "cudnn")}
        ratio = [us[x] / us["shim"] if us[x] and us["shim"] else None for x in ("eager", "cudnn")]
        spread = " ".join(f"{(row[x]['high'] - row[x]['low']) / row[x]['ms']:.1%}" if us[x] else "-"
                          for x in us)
        own = from_log(log, shape)
        cells = " ".join(f"{'-' if value is None else format(value, '.1f'):>9}"
                         for value in us.values())
        ratios = " ".join(f"{'-' if value is None else format(value, '.2f'):>10}"
                          for value in ratio)
        print(f"{name:32} {cells} {ratios}  {spread:32} "
              f"{'-' if not own else f'{own[0]:.1f}, {own[1]:.1f}'}")
        for label in us:
            if "error" in row.get(label, {}):
                print(f"    {label}: {row[label]['error']}")
    with open(os.path.join(arguments.out, "shapes.json"), "w") as file:
        json.dump({name: row for name, (_, row) in rows.items()}, file, indent=1)
    return 1 if any("ms" not in row.get("shim", {}) for _, row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
