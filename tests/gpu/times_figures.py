# SPDX-License-Identifier: Apache-2.0
"""What times.py makes of its measurements: how long a GPU was busy, ratios of rounds that were
measured in turn, what learning cost, and which goals are met. Plain numbers in, plain numbers out.
"""
import statistics

NEAR_SDPA = 1.05     # 16-bit models of at least LONG tokens: most that they may take, in SDPA's time
LONG = 512
NOISE = 1.01         # "not slower than eager": what two runs of the same program differ by
LEARNING_COST = 5.0  # most that a site's watched occurrences may take, in their plain time


def union(intervals):
    """Length of what [(start, end)] cover together: work that overlaps counts once."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def by_name(activities, forwards):
    """{name: [µs a forward, launches a forward]} of [(name, start µs, end µs)], longest first."""
    table = {}
    for name, start, end in activities:
        row = table.setdefault(name, [0.0, 0.0])
        row[0] += (end - start) / forwards
        row[1] += 1 / forwards
    return dict(sorted(table.items(), key=lambda item: -item[1][0]))


def paired(above, below):
    """Ratio of two contestants' rounds, each round's pair by itself: median and extremes."""
    ratios = [a / b for a, b in zip(above, below) if a and b]
    if not ratios:
        return None
    return {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}


def ratios(row):
    """{"eager/shim" and "shim/sdpa" of each measure: paired()} for a model's row."""
    found = {}
    for measure in ("busy", "events"):
        for above, below in (("eager", "shim"), ("shim", "sdpa")):
            pair = paired(*(row.get(label, {}).get(measure) or [] for label in (above, below)))
            if pair:
                found[f"{measure} {above}/{below}"] = pair
    return found


def middle(row, label, measure):
    """Median of a contestant's rounds, or None."""
    rounds = row.get(label, {}).get(measure)
    return statistics.median(rounds) if rounds else None


def shortfalls(row):
    """Sentences on the goals of speed that a model misses; None where nothing was measured."""
    found = row["ratios"]
    if not found:
        return None
    said = []
    for measure in ("busy", "events"):
        eager = found.get(f"{measure} eager/shim")
        if eager and eager["median"] * NOISE < 1:
            said.append(f"{1 / eager['median']:.2f} of eager ({measure})")
    near = found.get("busy shim/sdpa")
    if near and row["dtype"] == "f32" and near["median"] >= 1:
        said.append(f"{near['median']:.2f} of SDPA, below 1 wanted")
    if near and row["dtype"] != "f32" and row["S"] >= LONG and near["median"] > NEAR_SDPA:
        said.append(f"{near['median']:.2f} of SDPA, {NEAR_SDPA} wanted")
    return said


# ---- learning ----


def is_learning(record):
    """Does a record of the log tell of a site that is being learned? A comparison of a site that
    was verified long ago does not."""
    return record.get("type") in ("site", "state", "identify") or \
        (record.get("type") == "sample" and record.get("occurrence", 0) <= 8)


def unsettled(records):
    """Sites that became known and are neither verified nor declined. records: a list for each of
    several forwards."""
    flat = [record for new in records for record in new]
    return {r["site"] for r in flat if r.get("type") == "site"} - \
        {r["site"] for r in flat if r.get("type") == "state"}


def learning(eager_ms, shim_ms, records):
    """What the first forwards of a model cost under the shim.

    eager_ms, shim_ms: wall time of each; records: the log's new records after each. The extra time
    of all forwards up to the last that taught something is put on the sites' watched occurrences,
    whose plain time is what the log says of the program's own chain on the GPU.
    """
    taught = [any(map(is_learning, new)) for new in records]
    settled = max((i + 1 for i, found in enumerate(taught) if found), default=0)
    everything = [record for new in records for record in new]
    final = {r["site"]: r for r in everything if r.get("type") == "state"}
    app_us = {}
    for record in everything:
        if record.get("type") == "sample" and record.get("app_us"):
            app_us.setdefault(record["site"], []).append(record["app_us"])
    plain = sum(final[site].get("occurrence", 3) * statistics.median(us) / 1e3
                for site, us in app_us.items() if site in final)
    extra = sum(shim_ms[:settled]) - sum(eager_ms[:settled])
    known = {r["site"] for r in everything if r.get("type") == "site"}
    return {"sites": len(known), "unsettled": sorted(unsettled(records)), "settled_after": settled,
            "eager_ms": eager_ms, "shim_ms": shim_ms, "extra_ms": extra,
            "forwards_ratio": sum(shim_ms[:3]) / sum(eager_ms[:3]) if sum(eager_ms[:3]) else None,
            "plain_ms": plain, "occurrences_ratio": 1 + extra / plain if plain else None}
