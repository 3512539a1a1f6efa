#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the GPU is busy in one forward of a program of the table, and with what.

    [LD_PRELOAD=build/libfashim.so] busy.py VARIANT,… PROGRAM,…

VARIANT: eager, sdpa. For each: the median time of a forward by events (which an eager program's
host often decides), the host's own, the sum over all kernels by PyTorch's profiler, and the kernels
that take longest.
"""
import collections
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

import programs
from registry import PROGRAMS

WARM, TIMED, PROFILED, SHOWN = 40, 30, 3, 16


def by_events(step):
    """(milliseconds between events, milliseconds of the host), medians."""
    between, host = [], []
    for _ in range(TIMED):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start = time.perf_counter()
        first.record()
        step(0)
        last.record()
        host.append((time.perf_counter() - start) * 1e3)
        torch.cuda.synchronize()
        between.append(first.elapsed_time(last))
    return sorted(between)[TIMED // 2], sorted(host)[TIMED // 2]


def by_kernel(step):
    """{kernel: (µs, launches)} of one forward."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(PROFILED):
            step(0)
        torch.cuda.synchronize()
    time_of, count_of = collections.Counter(), collections.Counter()
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            time_of[event.name] += event.device_time / PROFILED
            count_of[event.name] += 1
    return {name: (us, count_of[name] / PROFILED) for name, us in time_of.most_common()}


def main():
    variants, names = (argument.split(",") for argument in sys.argv[1:3])
    programs.load([])
    for name in names:
        for variant in variants:
            with torch.no_grad():
                step = PROGRAMS[name].build(variant, **(PROGRAMS[name].timed or {}))
                for i in range(WARM):
                    step(i % 4)
                torch.cuda.synchronize()
                between, host = by_events(step)
                kernels = by_kernel(step)
            busy = sum(us for us, _ in kernels.values()) / 1e3
            print(f"{name} {variant}: busy {busy:.3f} ms, events {between:.3f} ms, "
                  f"host {host:.3f} ms")
            for kernel, (us, launches) in list(kernels.items())[:SHOWN]:
                print(f"  {us:9.1f} us {launches:6.1f} x  {kernel[:100]}")
            del step


if __name__ == "__main__":
    main()
