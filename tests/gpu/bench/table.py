# SPDX-License-Identifier: Apache-2.0
"""Results as text for a terminal and as Markdown for the README; needs no GPU."""
PEERS = ("chain", "flash", "flash4", "cudnn", "efficient")


def number(value, digits=3):
    """About three digits, as people write them."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def goal_text(goal):
    got = goal["got"]
    if got is None:
        return f"{goal['text']}: not measured"
    value = f"{got:.0%}" if goal["against"] == "bandwidth" else f"{got:.3g}"
    return f"{goal['text']}: {value} {'met' if goal['met'] else 'SHORT'}"


def accuracy_text(row):
    """The worst of the kinds: ratio to the most exact peer."""
    ratios = {kind: one["ratio"] for kind, one in row.get("accuracy", {}).items() if one["ratio"] is not None}
    if not ratios:
        return "-"
    # a NaN is the worst of all, and max() would not say so
    worst = max(ratios, key=lambda kind: (ratios[kind] != ratios[kind], ratios[kind]))
    met = all(row["accuracy"][kind]["met"] for kind in ratios)
    return f"{ratios[worst]:.2f} {worst}{'' if met else ' SHORT'}"


def times(row, label):
    return row["times"].get(label, {})


def spread(row, label="ours"):
    t = times(row, label)
    return f"{(t['high'] - t['low']) / t['us']:.0%}" if t.get("us") else "-"


def rate(row):
    """Ours: what a decode row reads, what another computes."""
    value, unit = (row["gbps"], "GB/s") if row["decode"] else (row["tflops"], "TFLOP/s")
    return f"{value:.0f} {unit}" if value else "-"


def header_lines(result):
    d = result["device"]
    return [f"{d['gpu']}, driver {d['driver']}, PyTorch {d['torch']}, cuDNN {d['cudnn']}; copy "
            f"{result['copy_gbps']:.0f} GB/s; {result['rounds']} rounds, medians, kernel time"]


def row_line(row):
    cells = [f"{number(times(row, label).get('us')):>7}" for label in ("ours",) + PEERS]
    goals = "; ".join(goal_text(goal) for goal in row["goals"])
    clock = row.get("clocks", {}).get("clocks.sm", [None] * 3)[1]
    return (f"{row['name']:44} {' '.join(cells)} {spread(row):>4} {rate(row):>12} {row['method'] or '-':6} "
            f"{number(clock, 4):>5}  rms×{accuracy_text(row):14} {row['kernel'] or 'no kernel':24} {goals}")


TITLE = (f"{'µs per call':44} {'ours':>7} {'chain':>7} {'flash':>7} {'flash4':>7} {'cudnn':>7} {'effic.':>7} "
         f"{'±':>4} {'rate':>12} {'by':6} {'MHz':>5}  {'rms/best peer':18} {'kernel':24} goals")


def other_lines(row):
    """Our other contestants (own causal, all variants), fastest first, and what declined."""
    ours = {label: t for label, t in row["times"].items() if label != "ours" and label not in PEERS}
    lines = [f"    {label:40} {number(t['us']):>7}  {t['us'] / times(row, 'ours')['us']:.2f} of ours"
             for label, t in sorted(ours.items(), key=lambda item: item[1]["us"])]
    if row["copied"]:
        lines.append(f"    with a copy of K first: {', '.join(row['copied'])}")
    return lines + [f"    {label} does not take it: {why}" for label, why in row["declined"].items()]


def summary(result):
    goals = [goal for row in result["rows"] for goal in row["goals"]]
    checked = [one["met"] for row in result["rows"] for one in row.get("accuracy", {}).values()]
    return (f"{sum(g['met'] is True for g in goals)} of {len(goals)} goals met, "
            f"accuracy {sum(m is True for m in checked)} of {len(checked)}; {result['seconds']:.0f} s")


def flash4_text(device):
    """Results from before it was measured do not name it."""
    version = device.get("flash4")
    return f", flash-attn-4 {version}" if version else ""


def markdown(result):
    """The table of the README."""
    lines = ["| B H S D | fused µs | the chain | FlashAttention-2 | FlashAttention-4 | cuDNN | mem-efficient | "
             "fused rate | fastest of these / fused | error / most exact peer |", "|---" * 10 + "|"]
    for row in result["rows"]:
        cells = [number(times(row, label).get("us")) for label in ("ours",) + PEERS]
        best = row["best_ratio"]
        lines.append(f"| {row['name']} | {' | '.join(cells)} | {rate(row)} | {f'{best:.2f}' if best else '-'} | "
                     f"{accuracy_text(row)} |")
    d = result["device"]
    lines += ["", f"{d['gpu']}, driver {d['driver']}, PyTorch {d['torch']}, cuDNN {d['cudnn']}{flash4_text(d)}, "
                  f"kernels as of {result['commit'] or 'no commit'}; medians of {result['rounds']} rounds in which all take turns, "
                  f"GPU time, random inputs that do not fit the cache."]
    return "\n".join(lines)
