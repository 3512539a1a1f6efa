#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the kernels of a portable build, which CUDA 12's assembler made, run as fast as those of the native one?

    portable.py [--rounds N] [--all] NATIVE PORTABLE [WORD…]

NATIVE, PORTABLE: the two builds' gpu/kernel_check. Both time the variant that is chosen for each timed case (kernel_check
-c; with --all every one that takes it, -t, which takes minutes a round), of the cases whose names have all WORDs, in
turn, N times. Of each variant and case the fastest of the rounds counts; a variant is slower where the median over its
cases is by more than 2 %. Prints those, and all in one line; status 1 where there is one.
"""
import argparse
import math
import re
import statistics
import subprocess
import sys

LIMIT = 1.02
LINE = re.compile(r"^(\S+) +([\d.]+) us +[\d.]+ TFLOP/s  (.*?)(?:  CHOSEN)?$")


def times(text):
    """(variant, case): us, of what kernel_check -t prints."""
    found = {}
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            found[match[1], match[3]] = float(match[2])
    return found


def fastest(rounds):
    """Of several such, the least of each."""
    best = {}
    for one in rounds:
        for key, us in one.items():
            best[key] = min(us, best.get(key, us))
    return best


def judge(native, portable):
    """(lines, variants that are slower or missing) of two such."""
    ratios, lines, slower = {}, [], []
    for (variant, case), us in native.items():
        if (variant, case) in portable and us > 0:
            ratios.setdefault(variant, []).append(portable[variant, case] / us)
    for variant in sorted({variant for variant, _ in native} | {variant for variant, _ in portable}):
        if variant not in ratios:
            slower.append(variant)
            lines.append(f"{variant:28} is in one of them alone")
        elif statistics.median(ratios[variant]) > LIMIT:
            slower.append(variant)
            lines.append(f"{variant:28} {statistics.median(ratios[variant]):.3f} times as long, of {len(ratios[variant])} cases "
                         f"{min(ratios[variant]):.3f} to {max(ratios[variant]):.3f}")
    every = [ratio for some in ratios.values() for ratio in some]
    if every:
        lines.append(f"{len(ratios)} variants, {len(every)} cases: {math.exp(statistics.fmean(map(math.log, every))):.4f} times as long "
                     f"(geometric mean); {len(slower)} variants slower by more than {LIMIT - 1:.0%}")
    return lines, slower


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("native")
    parser.add_argument("portable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_intermixed_args()
    rounds = {options.native: [], options.portable: []}
    for _ in range(options.rounds):
        for program, results in rounds.items():
            said = subprocess.run([program, "-t" if options.all else "-c", *options.words], capture_output=True, text=True)
            if said.returncode:
                sys.exit(f"{program}: {said.stdout[-500:]}{said.stderr[-500:]}")
            results.append(times(said.stdout))
    lines, slower = judge(fastest(rounds[options.native]), fastest(rounds[options.portable]))
    print("\n".join(lines) or "nothing was timed")
    return 1 if slower or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
