# SPDX-License-Identifier: Apache-2.0
"""Our kernels beside PyTorch's, on one GPU, in one process.

    python3 tests/gpu/bench --lib build/libfashim_kernels.so [--image FILE] [--quick] [--rows REGEX]
            [--kernel NAME | --all-variants] [--rounds N] [--json FILE] [--commit TEXT] [--list]
    python3 tests/gpu/bench --from FILE [--markdown]        a table from results kept; or the README's

--quick: the rows marked so, 3 rounds. --image: the variants of this part alone (build/kernels/sm_90a/tma_f16.fatbin).
Exit status 1 where a goal or the accuracy rule is short.

The JSON file, rewritten after every row:

    schema      "fashim-bench/1"
    commit      what the kernels were built of; null where nobody said so
    device      gpu, sm, multiprocessors, driver, max_sm_clock, torch, cuda, cudnn, flash4
    copy_gbps   GB/s of a large copy on the device, bytes read and written
    rounds      rounds per row, in which all contestants take turns
    seconds     the whole run
    rows        a list of
        name, shape      shape: B H Sq Sk D dtype causal mask k_down
        kernel           our variant, null where there is none; resources: registers, local_bytes (spills),
                         threads, shared_bytes, blocks (per multiprocessor)
        method, sets     "graph" or "events" (timing.py), sets of inputs in rotation
        times            {label: us (median), low, high, rounds (µs each), calls (per round), ratio (its us over
                         ours), kernels (names it launched)}; labels: ours, chain, flash, flash4, cudnn,
                         efficient, own causal, names of variants
        declined         {label: why a backend does not take the call}
        copied           labels whose time includes making K contiguous, which the backend asks for
        tflops, gbps     ours: 4·B·H·Sq·Sk·D, half of it if causal; bytes moved at least
        best_ratio       the fastest peer's us over ours
        goals            [against, want, got, met, text]; got and met null where not measured
        accuracy         {normal, outliers, steep: errors {label: rms, max}, best_peer, ratio, met}
        clocks           {nvidia-smi field: [least, median, most] while the row was timed}
        error            only where the row could not be run: why
"""
import argparse
import json
import re
import sys
import time

import table
from rows import FLASH4, ROWS


def goal_result(goal, row, result, copy_gbps):
    """The goal and what became of it."""
    times = result["times"]
    if goal.against == "us":
        got = times.get("ours", {}).get("us")
    elif goal.against == "bandwidth":
        got = result["gbps"] / copy_gbps if result["gbps"] else None
    elif goal.against == "best":
        got = result["best_ratio"]
    else:
        got = times.get(goal.against, {}).get("ratio")
    return {"against": goal.against, "want": goal.want, "got": got, "text": goal.text(),
            "met": None if got is None else goal.met(got)}


def measure(row, library, options, clocks, copy_gbps):
    """One row of the result."""
    import accuracy
    import contestants
    import timing
    import torch

    sets = contestants.make_inputs(row, timing.sets_for(row))
    mine = contestants.ours(library, row, sets[0], options.kernel, options.all_variants)
    others, declined = contestants.peers(row, sets[0])
    result = {"name": row.name, "decode": row.is_decode, "declined": declined, "sets": len(sets),
              "shape": {field: getattr(row, field) for field in
                        ("B", "H", "Sq", "Sk", "D", "dtype", "causal", "mask", "k_down")},
              "kernel": mine[0].name if mine else None}
    begin = time.monotonic()
    result["method"], times, failed = timing.race(mine + others, sets, options.rounds)
    result["clocks"] = clocks.between(begin, time.monotonic())
    result["times"] = times
    declined.update(failed)
    result["copied"] = [c.label for c in others if getattr(c, "copy", False)]
    us = times.get("ours", {}).get("us")
    for one in times.values():
        one["ratio"] = one["us"] / us if us else None
    result["best_ratio"] = min((times[c.label]["ratio"] for c in others if c.label in times),
                               default=None) if us else None
    result["tflops"] = row.flops / us * 1e-6 if us else None
    result["gbps"] = row.bytes / us * 1e-3 if us else None
    result["resources"] = library.resources(mine[0].name) if mine else None
    result["goals"] = [goal_result(goal, row, result, copy_gbps)
                       for goal in row.goals + (FLASH4 if "flash4" in times else ())]
    del sets
    for c in mine:
        c.ready.clear()
    torch.cuda.empty_cache()
    if us:
        exact = [c for c in mine + others if c.label in times and c.label not in ("chain", "own causal")]
        result["accuracy"] = accuracy.check(row, exact)
    return result


def failed_row(row, error):
    return {"name": row.name, "decode": row.is_decode, "times": {}, "declined": {}, "copied": [], "goals": [],
            "method": None, "kernel": None, "tflops": None, "gbps": None, "best_ratio": None, "error": str(error)}


def note_kernels(row, result):
    """Which kernels the peers launched; after all timing, since profiling may slow what follows."""
    import contestants
    import machine

    x = contestants.make_inputs(row, 1)[0]
    for peer in contestants.peers(row, x)[0]:
        if peer.label in result["times"]:
            result["times"][peer.label]["kernels"] = machine.kernels_of(peer, x)


def save(result, path):
    if path:
        with open(path, "w") as file:
            json.dump(result, file, indent=1)


def run(options):
    """All rows asked for. Prints as it goes; returns the result."""
    import torch

    import abi
    import machine

    begin = time.monotonic()
    torch.zeros(1, device="cuda")  # makes the context current
    library = abi.Library(options.lib, options.image)
    if options.list:
        for name in library.present():
            print(f"{name:28} {library.resources(name)}")
        return None
    result = {"schema": "fashim-bench/1", "commit": options.commit, "device": machine.describe(),
              "rounds": options.rounds, "copy_gbps": machine.copy_bandwidth() * 1e-9, "rows": []}
    print("\n".join(table.header_lines(result) + [table.TITLE]), flush=True)
    rows = [row for row in ROWS if re.search(options.rows, row.name)
            and (row.quick or not options.quick or options.rows)]
    with machine.Clocks() as clocks:
        for row in rows:
            try:
                one = measure(row, library, options, clocks, result["copy_gbps"])
                print("\n".join([table.row_line(one)] + table.other_lines(one)), flush=True)
            except RuntimeError as error:
                one = failed_row(row, error)
                print(f"{row.name:44} FAILED: {error}", flush=True)
            torch.cuda.empty_cache()
            result["rows"].append(one)
            result["seconds"] = time.monotonic() - begin
            save(result, options.json)
    for row, one in zip(rows, result["rows"]):
        if not options.no_names and "error" not in one:
            note_kernels(row, one)
    result["seconds"] = time.monotonic() - begin
    save(result, options.json)
    return result


def main():
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.split("\n")[0])
    parser.add_argument("--lib", default="build/libfashim_kernels.so")
    parser.add_argument("--image")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", default="", metavar="REGEX")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--kernel", metavar="NAME")
    which.add_argument("--all-variants", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", action="store_true", help="with --from: print the README's table alone")
    parser.add_argument("--commit", metavar="TEXT", help="what the kernels were built of")
    parser.add_argument("--no-names", action="store_true", help="do not profile which kernels peers launch")
    parser.add_argument("--list", action="store_true", help="print the variants in the image")
    parser.add_argument("--from", dest="kept", metavar="FILE", help="print results kept; nothing is run")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 5)
    if options.kept:
        with open(options.kept) as file:
            result = json.load(file)
        if options.markdown:
            print(table.markdown(result))
            return 0
        lines = table.header_lines(result) + [table.TITLE]
        for row in result["rows"]:
            lines += [f"{row['name']:44} FAILED: {row['error']}"] if "error" in row else \
                [table.row_line(row)] + table.other_lines(row)
        print("\n".join(lines))
    else:
        result = run(options)
        if result is None:
            return 0
    print(table.summary(result))
    good = all("error" not in row and all(g["met"] for g in row["goals"])
               and all(a["met"] is not False for a in row.get("accuracy", {}).values()) for row in result["rows"])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
