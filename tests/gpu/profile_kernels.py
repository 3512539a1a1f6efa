#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What binds each kernel: Nsight Compute's counters for variants that stand for their families, and
compute-sanitizer's four tools over small calls.

    python3 tests/gpu/profile_kernels.py --build build --out DIR [--only WORD]... [--no-sanitize]
    python3 tests/gpu/profile_kernels.py --from DIR/profile.json [--page kernels/README.md]

DIR gets
    ncu.csv        every metric of every launch, as ncu wrote it
    profile.json   machine, rows, sanitizers: what the tables are made of
    profile.md     the tables
    sanitize.txt   what the sanitizers said
--page writes the table of kernels between the page's two profile markers. Skips with a line where no GPU or
no ncu is; exit status 1 when a launch was not profiled or a sanitizer found something. The clocks
are left alone and caches are not flushed between passes, so a call that fits the L2 finds it warm.
"""
import argparse
import csv
import glob
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MARKS = "<!-- begin profile -->", "<!-- end profile -->"
ELAPSED, ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"

# Our names for what is measured. Units of the machine first: percent of what each can do.
UNITS = {
    "tensor": "sm__pipe_tensor_cycles_active" + ELAPSED,
    "xu": "sm__inst_executed_pipe_xu" + ELAPSED,
    "fma": "sm__inst_executed_pipe_fma" + ELAPSED,
    "alu": "sm__inst_executed_pipe_alu" + ELAPSED,
    "issue": "sm__issue_active" + ELAPSED,
    "l1": "l1tex__throughput" + ELAPSED,
    "l2": "lts__throughput" + ELAPSED,
    "dram": "gpu__dram_throughput" + ELAPSED,
}
OTHERS = {
    "ns": "gpu__time_duration.sum",
    "warps": "sm__warps_active" + ACTIVE,
    "active": "sm__cycles_active.avg",
    "elapsed": "sm__cycles_elapsed.max",
    "registers": "launch__registers_per_thread",
    "shared": "launch__shared_mem_per_block",
    "blocks": "launch__grid_size",
    "threads": "launch__block_size",
    "local": "smsp__sass_inst_executed_op_local_ld.sum",
}
STALL = "smsp__average_warps_issue_stalled_%s_per_issue_active.ratio"
STALLS = {
    "barrier": "a block's barrier",
    "branch_resolving": "branches",
    "dispatch_stall": "the dispatcher",
    "drain": "stores on their way out",
    "gmma": "the tensor cores' queue",
    "imc_miss": "constants",
    "lg_throttle": "the queue to memory",
    "long_scoreboard": "memory, L2 or a copy",
    "math_pipe_throttle": "a busy arithmetic unit",
    "membar": "memory fences",
    "mio_throttle": "the queue to shared memory and exp",
    "no_instruction": "instructions",
    "not_selected": "another warp's turn",
    "short_scoreboard": "shared memory or exp",
    "sleeping": "sleep",
    "wait": "fixed latency of arithmetic",
}
UNIT_NAMES = {"tensor": "tensor cores", "xu": "exp (XU)", "fma": "fp32 arithmetic", "alu": "integer arithmetic",
              "issue": "instruction issue", "l1": "shared memory", "l2": "L2", "dram": "DRAM"}
BUSY = 60  # percent from which a unit, or below which the filling of the GPU, is called what binds
TOOLS = "memcheck", "racecheck", "synccheck", "initcheck"
SMALL = "f16_d64", "f32_d64"  # parts of names: one width of every family


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def run_ncu(build, out, words):
    """ncu over the launcher. Returns its rows, and the launcher's, as lists of dicts and of fields."""
    metrics = [*UNITS.values(), *OTHERS.values(), *(STALL % name for name in STALLS)]
    log = os.path.join(out, "ncu.csv")
    done = subprocess.run(
        ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--log-file", log, "--clock-control", "none",
         "--cache-control", "none", "--kernel-name-base", "function", "--kernel-name", "regex:^fashim_",
         "--metrics", ",".join(metrics), os.path.join(build, "gpu", "profile_launch"), *words],
        stdout=subprocess.PIPE, text=True)
    with open(log) as file:
        lines = [line for line in file if line.startswith('"')]
    kernels = [row for row in csv.DictReader(lines) if row.get("ID")]
    if done.returncode or not kernels:
        sys.exit(f"profile: ncu ended with {done.returncode}, {len(kernels)} kernels; see {log}")
    return kernels, [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 4]


def binding(row):
    """What keeps a kernel from being faster, in words."""
    unit = max(UNITS, key=lambda name: row[name] or 0)
    if (row[unit] or 0) >= BUSY:
        return UNIT_NAMES[unit]
    if row["filled"] < BUSY:
        return "too few blocks: %.0f%% of the multiprocessors' time" % row["filled"]
    return "waiting: " + STALLS[row["stalls"][0][0]] if row["stalls"] else "unknown"


def measured(kernel, launched):
    """A row: what ncu says of a kernel, and what the launcher says of its call."""
    variant, symbol, call, operations, least = launched
    row = {"variant": variant, "symbol": symbol, "call": call}
    row |= {name: number(kernel.get(metric, "")) for name, metric in (UNITS | OTHERS).items()}
    row["us"] = row.pop("ns") * 1e-3
    row["tflops"] = float(operations) / row["us"] * 1e-6
    row["gbps"] = float(least) / row["us"] * 1e-3
    active, elapsed = row.pop("active"), row.pop("elapsed")
    row["filled"] = 100 * active / elapsed
    stalls = {name: number(kernel.get(STALL % name, "")) or 0 for name in STALLS}
    row["stalls"] = sorted(((name, value) for name, value in stalls.items() if value),
                           key=lambda one: -one[1])[:3]
    row["binds"] = binding(row)
    return row


def match(kernels, launches):
    """Rows in the launcher's order. What ran before a variant's own kernel is its preparation."""
    rows, before = [], 0.0
    waiting = iter(launches)
    launched = next(waiting, None)
    for kernel in kernels:
        if launched is None:
            break
        if kernel["Kernel Name"].split("(")[0] == launched[1]:
            rows.append(measured(kernel, launched) | {"before_us": before})
            before, launched = 0.0, next(waiting, None)
        else:
            before += (number(kernel[OTHERS["ns"]]) or 0) * 1e-3
    if launched is not None:
        sys.exit(f"profile: ncu has no launch of {launched[1]}")
    return rows


def sanitize(build, out):
    """The four tools side by side over the small calls. Returns [tool, variants, ok, line]."""
    command = ["sh", os.path.join(HERE, "sanitize_kernels.sh"), os.path.join(build, "gpu", "kernel_check")]
    running = [(tool, part, subprocess.Popen(command + [part], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                             text=True, env=os.environ | {"SANITIZE_TOOLS": tool, "SANITIZE_TIMEOUT": "100"}))
               for tool in TOOLS for part in SMALL]
    results = []
    with open(os.path.join(out, "sanitize.txt"), "w") as file:
        for tool, part, process in running:
            text = process.communicate()[0]
            file.write(f"== {tool}, variants *{part}*\n{text}\n")
            results.append([tool, part, process.returncode == 0 and ": ok" in text, text.split("\n")[0]])
    return results


def output_of(*command):
    """What a command prints; nothing where it cannot be run."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    except OSError:
        return ""


def machine():
    fields = "name,driver_version,clocks.max.sm"
    told = output_of("nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader", "-i", "0")
    gpu, driver, clock = (told.strip().split(", ") + ["?"] * 3)[:3]
    version = output_of("ncu", "--version")
    found = re.search(r"Version (\S+)", version)
    return {"gpu": gpu, "driver": driver, "max_sm_clock": clock, "ncu": found.group(1) if found else "?",
            "date": time.strftime("%Y-%m-%d")}


def percent(value):
    return "–" if value is None else "%.0f" % value


def kernel_line(row):
    cells = [f"`{row['variant']}`", row["call"], "%.3g" % row["us"], "%.0f" % row["tflops"], "%.0f" % row["gbps"]]
    cells += [percent(row[name]) for name in UNITS] + [percent(row["warps"]), percent(row["filled"])]
    cells += ["%.0f" % (row["registers"] or 0), "%.0f" % ((row["shared"] or 0) / 1024)]
    cells += [", ".join("%s %.1f" % tuple(stall) for stall in row["stalls"]), row["binds"]]
    return "| " + " | ".join(cells) + " |"


def kernel_table(result, rows):
    """Markdown."""
    m = result["machine"]
    head = ["variant", "call", "µs", "TFLOP/s", "GB/s", *UNITS, "warps", "filled", "regs", "KB", "stalls", "binds"]
    lines = [f"{m['gpu']}, driver {m['driver']}, Nsight Compute {m['ncu']}, {m['date']}; one launch each. Units in "
             "percent of their peak over the launch; warps: of those that a multiprocessor holds; filled: share of the "
             "multiprocessors' time with a block on them; stalls: warps that wait, for each one that issues.", "",
             "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + [kernel_line(row) for row in rows]) + "\n"


def tables(result):
    """All that was measured and found, as Markdown."""
    lines = [f"| {tool} | `*{part}*` | {line.split(': ', 1)[-1]} |" for tool, part, _, line in result["sanitizers"]]
    if lines:
        lines = ["", "| compute-sanitizer | variants | result |", "|---|---|---|"] + lines
    return kernel_table(result, result["rows"]) + "".join(line + "\n" for line in lines)


def page_table(result):
    """The kernels alone, and of the ladder's last step the one that was chosen."""
    return kernel_table(result, [row for row in result["rows"]
                                 if not re.search("/(18_tuned|20_rolling_slices)_", row["variant"])])


def write_page(path, text):
    with open(path) as file:
        page = file.read()
    before, found, rest = page.partition(MARKS[0])
    _, closed, after = rest.partition(MARKS[1])
    if not found or not closed:
        sys.exit(f"profile: no {MARKS[0]} and {MARKS[1]} in {path}")
    with open(path, "w") as file:
        file.write(f"{before}{MARKS[0]}\n{text}{MARKS[1]}{after}")


def profile(options):
    """All of it on this machine. Returns the result, None where there is nothing to measure with."""
    if not glob.glob("/dev/nvidia[0-9]*"):
        print("skipped: no CUDA device here; nothing was profiled")
        return None
    if not output_of("ncu", "--version"):
        print("skipped: no ncu (Nsight Compute) here; nothing was profiled")
        return None
    os.makedirs(options.out, exist_ok=True)
    kernels, launches = run_ncu(options.build, options.out, options.only)
    result = {"schema": "fashim-profile/1", "machine": machine(), "rows": match(kernels, launches),
              "sanitizers": [] if options.no_sanitize else sanitize(options.build, options.out)}
    with open(os.path.join(options.out, "profile.json"), "w") as file:
        json.dump(result, file, indent=1)
    with open(os.path.join(options.out, "profile.md"), "w") as file:
        file.write(tables(result))
    return result


def main():
    parser = argparse.ArgumentParser(prog="profile", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="build/profile")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="variants or calls with this")
    parser.add_argument("--no-sanitize", action="store_true")
    parser.add_argument("--from", dest="kept", metavar="FILE", help="tables from results kept; nothing is run")
    parser.add_argument("--page", metavar="FILE", help="write the tables into this page")
    options = parser.parse_args()
    if options.kept:
        with open(options.kept) as file:
            result = json.load(file)
    else:
        result = profile(options)
        if result is None:
            return 0
    if options.page:
        write_page(options.page, page_table(result))
    else:
        print(tables(result), end="")
    return 0 if all(ok for _, _, ok, _ in result["sanitizers"]) else 1


if __name__ == "__main__":
    sys.exit(main())
