# SPDX-License-Identifier: Apache-2.0
"""The catalogue's result: one row a case, how it is printed, and what got better or worse since an
earlier one that was kept (catalogue.json)."""
import json
import math

SLOWER = 0.8   # a speed-up may fall to this share of the earlier one
DRIFT = 2.0    # the fused kernel's error may grow by this factor
ROUNDING = 1e-7


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else None


def speed_up(log):
    """Time of the program's own chains over that of the fused kernel, all sites together, each
    weighted by its calls. A kernel's first comparison pays for loading code and does not count; of a site that learned
    another kernel only that one's do."""
    app = fused = 0.0
    for site in log.sites():
        samples = [s for s in log.sample if s["site"] == site["site"] and s.get("app_us")
                   and s.get("fused_us")]
        samples = [s for s in samples if s.get("kernel") == samples[-1].get("kernel")]
        samples = samples[1:] or samples
        if samples:
            app += site["seen"] * median([s["app_us"] for s in samples])
            fused += site["seen"] * median([s["fused_us"] for s in samples])
    return app / fused if fused else None


def worst_error(log, field):
    """Largest error against float64 in the log's comparisons, or None."""
    return max((s["reference"][field] for s in log.sample
                if s.get("reference") and s["reference"].get(field) is not None), default=None)


def finite(value):
    """None for what JSON has no word for: a number that is not one, or that is without end."""
    return value if value is not None and math.isfinite(value) else None


def stated(expect):
    """What must come of a case, in words."""
    reasons = "|".join(expect.reasons)
    return {"replace": "replaced", "decline": "declined " + reasons,
            "either": "replaced or declined " + reasons}[expect.kind].strip()


def row(case, entry, verdict, log):
    """What is kept of one case."""
    failures = list(verdict.failures)
    taken = {site["site"] for site in log.sites() if site["replaced"]}
    routes = sorted({log.site[n].get("route", "?") for n in taken if n in log.site})
    strange = [route for route in routes if route not in case.routes]
    if strange:
        failures.append(f"found by {', '.join(strange)}, expected {' or '.join(case.routes)}")
    reasons = sorted(verdict.reasons, key=lambda name: -verdict.reasons[name])
    if verdict.replaced:
        outcome = "replaced"
    elif reasons:
        outcome = "declined " + reasons[0]
    else:
        outcome = "nothing seen"
    details = sorted({f"{record.get('reason')}: {record['detail']}"
                      for record in list(log.state.values()) + log.decline
                      if record.get("detail")})
    return {"number": case.number, "name": case.name, "stated": stated(entry.expect), "outcome": outcome,
            "routes": routes, "replaced": verdict.replaced, "seen": verdict.seen,
            "chains": verdict.expected, "reasons": reasons, "details": details[:6],
            "speed_up": speed_up(log), "app_error": finite(worst_error(log, "app_max")),
            "fused_error": finite(worst_error(log, "fused_max")),
            "difference": finite(verdict.difference),
            "seconds": round(verdict.seconds, 1), "failures": failures,
            "notes": verdict.notes[:1]}


def result(rows, logs):
    """All that is kept of a run."""
    header = next((log.header for log in logs if log.header), {})
    kept = {label: header.get(label) for label in ("gpu", "driver", "cublas", "fashim")}
    return kept | {"cases": rows}


def load(path):
    with open(path) as file:
        return json.load(file)


def number(value, form):
    return "-" if value is None else format(value, form)


def print_table(kept):
    """The table, what failed and why. Returns how many failed."""
    print(f"{kept['gpu']}, driver {kept['driver']}, cuBLAS {kept['cublas']}, "
          f"fashim {kept['fashim']}")
    print(f"{'case':31} {'':4} {'outcome':28} {'of':>9} {'route':14} {'speed-up':>8} "
          f"{'app err':>8} {'fused err':>9} {'diff':>8}")
    for case in kept["cases"]:
        of = f"{case['replaced']}/{case['chains'] or 0}"
        print(f"{case['number']} {case['name']:27} {'FAIL' if case['failures'] else 'ok':4} "
              f"{case['outcome'][:28]:28} {of:>9} {','.join(case['routes']) or '-':14} "
              f"{number(case['speed_up'], '.2f'):>8} {number(case['app_error'], '.1e'):>8} "
              f"{number(case['fused_error'], '.1e'):>9} {number(case['difference'], '.1e'):>8}")
    bad = [case for case in kept["cases"] if case["failures"]]
    for case in bad:
        print(f"\nFAILED {case['number']} {case['name']} (stated: {case['stated']})")
        for sentence in case["failures"][:4] + case["details"][:4] + case["notes"]:
            print("    " + sentence.replace("\n", "\n    ")[-900:])
    replaced = sum(case["outcome"] == "replaced" for case in kept["cases"])
    print(f"\n{len(kept['cases'])} cases: {replaced} replaced; {len(bad)} not as stated")
    return len(bad)


def changes(old, new):
    """(got worse, merely changed): sentences about one case."""
    worse, other = [], []
    if new["failures"] and not old["failures"]:
        worse.append("no longer as stated: " + new["failures"][0])
    elif old["failures"] and not new["failures"]:
        other.append("now as stated")
    if old["outcome"] != new["outcome"]:
        (worse if old["outcome"] == "replaced" else other).append(
            f"was {old['outcome']}, is {new['outcome']}")
    elif old["routes"] != new["routes"]:
        other.append(f"found by {', '.join(new['routes'])}, was {', '.join(old['routes'])}")
    if old["speed_up"] and new["speed_up"]:
        share = new["speed_up"] / old["speed_up"]
        if share < SLOWER or share > 1 / SLOWER:
            (worse if share < 1 else other).append(
                f"speed-up {new['speed_up']:.2f}, was {old['speed_up']:.2f}")
    if old["fused_error"] is not None and new["fused_error"] is not None and \
            new["fused_error"] > DRIFT * old["fused_error"] + ROUNDING:
        worse.append(f"error of the fused kernel {new['fused_error']:.1e}, "
                     f"was {old['fused_error']:.1e}")
    return worse, other


def print_difference(old, new):
    """What changed between two results. Returns how many cases got worse."""
    before = {(case["number"], case["name"]): case for case in old["cases"]}
    count = 0
    print(f"\ncompared with {len(before)} cases on {old['gpu']}:")
    for case in new["cases"]:
        earlier = before.get((case["number"], case["name"]))
        if not earlier:
            print(f"  new    {case['number']} {case['name']}: {case['outcome']}")
            continue
        worse, other = changes(earlier, case)
        count += bool(worse)
        for word, sentences in (("WORSE", worse), ("other", other)):
            for sentence in sentences:
                print(f"  {word}  {case['number']} {case['name']}: {sentence}")
    print(f"  {count} got worse")
    return count
