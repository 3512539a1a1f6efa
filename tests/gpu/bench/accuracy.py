# SPDX-License-Identifier: Apache-2.0
"""Errors against float64 on sampled rows, for normal inputs, outliers and steep logits.

The rule: our root mean square error is at most RULE times that of the most exact SDPA backend that takes
the call, in the same dtype and on the same inputs.
"""
import math

import torch

import contestants

KINDS = ("normal", "outliers", "steep")
RULE = 1.1
HEADS, QUERIES = 8, 64  # sampled


def spread(total, count):
    """`count` or fewer of range(total): the first, the last, and evenly between."""
    count = min(count, total)
    return sorted({n * (total - 1) // max(1, count - 1) for n in range(count)})


def samples(row):
    """[(b, h, tensor of query indices)], the indices differing from head to head."""
    some = []
    for n, head in enumerate(spread(row.B * row.H, HEADS)):
        queries = {(i + n) % row.Sq for i in spread(row.Sq, QUERIES)} | {0, row.Sq - 1}
        some.append((head // row.H, head % row.H, torch.tensor(sorted(queries), device="cuda")))
    return some


def truth(row, x, b, h, queries):
    scores = x.q[b, h, queries].double() @ x.k[b, h].double().T * row.scale
    if row.causal:
        keys = torch.arange(row.Sk, device="cuda")
        scores = scores.masked_fill(keys > queries[:, None], -math.inf)
    if x.mask is not None:
        mask = x.mask.expand(row.B, row.H, row.Sq, row.Sk)[b, h, queries]
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.double()
    return torch.softmax(scores, dim=-1) @ x.v[b, h].double()


def errors(row, x, who):
    """{label: {"rms", "max"}} of each contestant; NaN where a result is not finite."""
    points = samples(row)
    exact = [truth(row, x, *point) for point in points]
    found = {}
    for contestant in who:
        x.o.fill_(math.nan)
        with contestant.open():
            o = contestant.call(x)
        off = torch.cat([(o[b, h, queries].double() - want).flatten()
                         for (b, h, queries), want in zip(points, exact)])
        found[contestant.label] = {"rms": off.square().mean().sqrt().item(), "max": off.abs().max().item()}
    return found


def check(row, who, kinds=KINDS):
    """{kind: {"errors": {label: …}, "best_peer", "ratio", "met"}}; `who` without the chain. Best peer,
    ratio and met are None where no backend takes the call."""
    result = {}
    for kind in kinds:
        x = contestants.make_inputs(row, 1, kind, seed=2)[0]
        found = errors(row, x, who)
        exact = {label: found[label]["rms"] for label in contestants.BACKENDS if label in found}
        best = min(exact, key=exact.get, default=None)
        ratio = found["ours"]["rms"] / exact[best] if best else None
        result[kind] = {"errors": found, "best_peer": best, "ratio": ratio,
                        "met": ratio <= RULE if best else None}
    return result
