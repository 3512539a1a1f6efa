# SPDX-License-Identifier: Apache-2.0
"""The table of programs: their times, and how all of it is printed."""
import os
import sys
import time

import harness


def time_all(entries, library, out, end):
    """Timed rows: {name: {"eager": …, "shim": …, "sdpa": …, "failures": […]}}; none is begun after
    the monotonic time `end`."""
    plain = harness.Server(harness.clean_environment(), os.path.join(out, "timing.plain.stderr"))
    shim = harness.Server(harness.shim_environment(library, "replace",
                                                   os.path.join(out, "timing.jsonl")),
                          os.path.join(out, "timing.shim.stderr"))
    rows = {}
    for entry in entries:
        if time.monotonic() > end:
            rows[entry.name] = {"failures": ["not timed: the table's deadline had passed"]}
            continue
        contestants = [("eager", plain, dict(name=entry.name, variant="eager")),
                       ("shim", shim, dict(name=entry.name, variant="eager"))]
        if "sdpa" in entry.variants:
            contestants.append(("sdpa", plain, dict(name=entry.name, variant="sdpa")))
        row = harness.race(contestants)
        row["failures"] = [f"timing {label}: {row.get(label, {}).get('error', 'no result')}"
                           for label, _, _ in contestants if "ms" not in row.get(label, {})]
        if entry.faster and not row["failures"] and not row["shim"]["ms"] < row["eager"]["ms"]:
            row["failures"].append(f"not faster: {row['shim']['ms']:.4f} ms under the shim, "
                                   f"{row['eager']['ms']:.4f} ms plain")
        rows[entry.name] = row
        print(f"# timed {entry.name}", file=sys.stderr, flush=True)
    plain.stop(5)
    shim.stop(20)
    wrong = harness.Log(os.path.join(out, "timing.jsonl")).complaints("replace")
    return rows | ({"timing log": {"failures": wrong}} if wrong else {})


def number(value, form="{:.2g}"):
    return "-" if value is None else form.format(value)


def print_table(verdicts, times, seconds):
    """The compact table, timings, then what failed and why. Returns the number of failed rows."""
    print(f"{'program':18} {'mode':8} {'':4} {'replaced/chains':>15} {'cmp':>4} {'mat':>4} "
          f"{'diff':>8} {'yard':>8}  sites and reasons")
    for v in verdicts:
        states = " ".join(f"#{row['site']}{'' if row['state'] == 'verified' else row['state'][0]}:"
                          f"{row['replaced']}/{row['seen']}" for row in v.sites[:8])
        reasons = " ".join(f"{name}({count})" for name, count in v.reasons.items())
        print(f"{v.name:18} {v.mode:8} {'FAIL' if v.failures else 'ok':4} "
              f"{f'{v.replaced}/{v.expected}':>15} {v.compared:4} {v.materialised:4} "
              f"{'same' if v.identical else number(v.difference):>8} {number(v.yardstick):>8}  "
              f"{states} {reasons}".rstrip())
    if times:
        print(f"\n{'GPU ms a forward':18} {'eager':>9} {'shim':>9} {'sdpa':>9} {'eager/shim':>11} "
              f"{'sdpa/shim':>10}   spread of eager, shim, sdpa")
    for name, row in times.items():
        ms = {label: row.get(label, {}).get("ms") for label in ("eager", "shim", "sdpa")}
        ratio = {label: ms[label] / ms["shim"] if ms[label] and ms["shim"] else None
                 for label in ("eager", "sdpa")}
        spread = " ".join(f"{(row[x]['high'] - row[x]['low']) / row[x]['ms']:.1%}"
                          for x in ("eager", "shim", "sdpa") if "ms" in row.get(x, {}))
        print(f"{name:18} {number(ms['eager'], '{:.4f}'):>9} {number(ms['shim'], '{:.4f}'):>9} "
              f"{number(ms['sdpa'], '{:.4f}'):>9} {number(ratio['eager'], '{:.2f}'):>11} "
              f"{number(ratio['sdpa'], '{:.2f}'):>10}   {spread}")
    bad = [v for v in verdicts if v.failures]
    for v in bad:
        print(f"\nFAILED {v.name} ({v.mode})")
        for sentence in v.failures[:5] + v.notes[:2]:
            print("    " + sentence.replace("\n", "\n    ")[-1200:])
    late = [(name, sentence) for name, row in times.items() for sentence in row["failures"]]
    for name, sentence in late:
        print(f"\nFAILED {name} (timing)\n    {sentence}")
    failed = len(bad) + len({name for name, _ in late})
    print(f"\n{len(verdicts) + len(times) - failed} passed, {failed} failed, in {seconds:.0f} s")
    return failed
