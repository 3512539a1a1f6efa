# SPDX-License-Identifier: Apache-2.0
"""times.py's result as text: the models' times with their goals, what learning cost, and why a
row failed; and the first of these as Markdown for the README."""
import times_figures as figures

LABELS = ("eager", "shim", "sdpa")


def number(value, form=".2f"):
    return "-" if value is None else format(value, form)


def spread(pair):
    """A paired ratio with its extremes."""
    return f"{pair['median']:.2f} [{pair['low']:.2f}, {pair['high']:.2f}]" if pair else "-"


def goal(row):
    if row["short"] is None:
        return "-"
    return "met" if not row["short"] else "SHORT: " + "; ".join(row["short"])


def times(result):
    """The models' times."""
    yield (f"{'GPU ms a forward':16} {'S':>4} {'':4} | {'busy: eager':>11} {'shim':>8} {'sdpa':>8} "
           f"{'eager/shim':>18} {'shim/sdpa':>18} | {'events: eager':>13} {'shim':>8} {'sdpa':>8} "
           f"| {'host: eager':>11} {'shim':>8} {'sdpa':>8} | goal")
    for row in result["models"]:
        busy, events, host = (
            [number(figures.middle(row, label, measure), ".3f") for label in LABELS]
            for measure in ("busy", "events", "host"))
        found = row["ratios"]
        yield (f"{row['name']:16} {row['S']:4} {row['dtype']:4} | {busy[0]:>11} {busy[1]:>8} "
               f"{busy[2]:>8} {spread(found.get('busy eager/shim')):>18} "
               f"{spread(found.get('busy shim/sdpa')):>18} | {events[0]:>13} {events[1]:>8} "
               f"{events[2]:>8} | {host[0]:>11} {host[1]:>8} {host[2]:>8} | {goal(row)}")
        if row.get("no_sdpa") and "failed" not in row:
            yield f"{'':16} no SDPA: {row['no_sdpa'][:100]}"


def learned(row):
    """Was a site's watching within its goal? None where nothing was learned or measured."""
    taken = row.get("learning", {}).get("occurrences_ratio")
    return None if taken is None else taken <= figures.LEARNING_COST


def learning(result):
    """What learning cost, and memory."""
    yield (f"\n{'learning':16} {'sites':>5} {'settled':>7} {'extra ms':>8} {'their 3 plain ms':>16} "
           f"{'x plain':>7} {'goal':5} | {'first 3 forwards, ms: eager; shim':42} | "
           f"{'peak MiB: eager':>15} {'shim':>7} {'sdpa':>7} {'own':>6} {'kept':>6} | outputs")
    for row in result["models"]:
        told = row.get("learning")
        if not told:
            continue
        first = "; ".join(" ".join(f"{ms:.1f}" for ms in told[key][:3])
                          for key in ("eager_ms", "shim_ms"))
        peak = [number(row.get(label, {}).get("peak_mib"), ".0f") for label in LABELS]
        shim, eager = row["shim"], row["eager"]
        own, kept = (number(shim[key] - eager[key], ".0f") if key in shim and key in eager else "-"
                     for key in ("own_mib", "kept_mib"))
        outputs = row.get("outputs", {})
        said = "differ" if outputs.get("failures") else number(outputs.get("difference"), ".1e")
        met = {True: "met", False: "SHORT", None: "-"}[learned(row)]
        sites = f"{told['sites']}" + (f"-{len(told['unsettled'])}" if told["unsettled"] else "")
        settled = min(told["settled_after"], len(told["shim_ms"]) + 1)
        settled = f">{settled - 1}" if settled > len(told["shim_ms"]) else str(settled)
        yield (f"{row['name']:16} {sites:>5} {settled:>7} {told['extra_ms']:>8.1f} "
               f"{told['plain_ms']:>16.2f} {number(told['occurrences_ratio'], '.1f'):>7} {met:5} | "
               f"{first:42} | {peak[0]:>15} {peak[1]:>7} {peak[2]:>7} {own:>6} {kept:>6} | {said}")


def kernels(result, shown):
    """The longest kernels of each contestant."""
    for row in result["models"]:
        for label in LABELS:
            listed = row.get(label, {}).get("kernels", {})
            if shown and listed:
                yield f"\n{row['name']} {label}: {number(row[label].get('sum'), '.3f')} ms in all"
            for name, (us, launches) in list(listed.items())[:shown]:
                yield f"  {us:9.1f} us {launches:6.1f} x  {name[:120]}"


def failures(result):
    """Sentences on what went wrong; a goal that is missed is none of it."""
    said = [f"{row['name']}: failed: {row['failed']}"
            for row in result["models"] if row.get("failed")]
    for row in result["models"]:
        said += [f"{row['name']}: output {sentence}"
                 for sentence in row.get("outputs", {}).get("failures", ())]
    return said + [f"log: {sentence}" for sentence in result["shim"].get("complaints", ())]


def text(result, shown=0):
    """All of it."""
    shim = result["shim"]
    lines = [f"{shim.get('gpu')}; medians of {result['rounds']} rounds in turn, [least, most] ratio"]
    lines += [*times(result), *learning(result)]
    if shim["scratch_mib"] is None:
        lines.append("\nscratch of the shim: not known, its process did not end by itself")
    else:
        within = shim["scratch_mib"] <= shim["scratch_limit_mib"]
        lines.append(f"\nscratch of the shim at most {shim['scratch_mib']:.0f} MiB of "
                     f"{shim['scratch_limit_mib']:.0f}: {'met' if within else 'SHORT'}")
    lines += [*kernels(result, shown), *(f"FAILED {sentence}" for sentence in failures(result))]
    measured = [row for row in result["models"] if row["short"] is not None]
    met = sum(not row["short"] for row in measured)
    taught = [learned(row) for row in result["models"] if learned(row) is not None]
    lines.append(f"{met} of {len(measured)} models meet their goal, {sum(taught)} of {len(taught)} "
                 f"learn within theirs; {result['seconds']:.0f} s")
    return "\n".join(lines) + "\n"


def markdown(result):
    """The table of busy times for the README."""
    lines = ["| model | eager ms | under fashim | edited to SDPA | eager / fashim | fashim / SDPA |",
             "|---|---|---|---|---|---|"]
    for row in result["models"]:
        busy = [number(figures.middle(row, label, "busy"), ".3g").replace("-", "–")
                for label in LABELS]
        cells = [row["ratios"].get(key, {}).get("median")
                 for key in ("busy eager/shim", "busy shim/sdpa")]
        lines.append(f"| {row['about']} | " + " | ".join(
            busy + [number(cell).replace("-", "–") for cell in cells]) + " |")
    shim = result["shim"]
    lines += ["", f"{shim.get('gpu')}, CUDA driver {shim.get('driver')}, the shim as of {result.get('commit') or 'no commit'}; "
                  f"medians of {result['rounds']} rounds in turn."]
    return "\n".join(lines) + "\n"
