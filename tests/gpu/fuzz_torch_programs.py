# SPDX-License-Identifier: Apache-2.0
"""The programs of fuzz_torch.py: attention as people spell it in PyTorch, put together by a seed.

make_layer() gives the stages of a layer. A stage is a line of pseudo-code and a function of (c, t): t holds the tensors
of one layer, c, a Run, what one run of the program draws, keeps and shows. A Run that is exact is the same program on the
same numbers in float64, run eagerly. A new stage is a row of a table below: its weight, what it needs, and a function of
(rng, program) that gives the Stage. Needs, of which a program grants some (PyTorch, or what the run is for, forbids others):

    i changes tensors in place    o writes by out=    h looks at the iteration, or waits for the device
    s as many queries as keys     d values as wide as keys    c causal    x operands that may be drawn, or changed
"""
import concurrent.futures
import math

import torch
import torch.nn.functional as F

SIZES = (1, 1, 7, 16, 33, 64, 64, 77, 128, 128, 197, 256, 256, 257, 512, 577)
WIDTHS = (64, 64, 64, 64, 32, 128, 128, 16, 24, 36, 40, 48, 72, 80, 96, 160)
INF = float("-inf")


class Stage:
    """A line of the program. prepare(c, t): draws what the iteration gets, outside of graphs and of what is compiled."""

    def __init__(self, text, run, prepare=None):
        self.text, self.run, self.prepare = text, run, prepare


def pick(rng, program, table):
    rows = [(weight, make) for weight, needs, make in table if set(needs) <= program.grants]
    return rng.choices([make for _, make in rows], [weight for weight, _ in rows])[0](rng, program)


def setter(name, text, compute):
    """t.name = compute(c, t)"""
    return lambda rng, p: Stage(f"{name} = {text}", lambda c, t: setattr(t, name, compute(c, t)))


def effect(text, change):
    return lambda rng, p: Stage(text, change)


nothing = effect("", lambda c, t: None)

# ---- operands: t.q, t.k, t.v [B,H,S,D] of whatever strides ------------------------------------------


def heads(x, H):
    return x.view(*x.shape[:2], H, -1).transpose(1, 2)


def packed(rng, p):
    how = rng.choice(("chunk", "split", "permute", "unbind", "interleaved", "sequence first"))
    drawn, W = rng.random() < 0.4, p.H * p.D

    def prepare(c, t):
        if drawn:
            t.qkv = c.input("qkv", (t.S, p.B, 3 * W) if how == "sequence first" else (p.B, t.S, 3 * W), p.peak)

    def run(c, t):
        x = t.qkv if drawn else F.linear(t.h, c.fixed("w_qkv", (3 * W, p.E), p.E ** -0.5))
        if how == "sequence first":
            t.q, t.k, t.v = (y.reshape(t.S, p.B * p.H, p.D).transpose(0, 1).unflatten(0, (p.B, p.H))
                             for y in (x if drawn else x.transpose(0, 1)).chunk(3, -1))
        elif how == "permute":
            t.q, t.k, t.v = x.view(p.B, t.S, 3, p.H, p.D).permute(2, 0, 3, 1, 4)
        elif how == "unbind":
            t.q, t.k, t.v = (y.transpose(1, 2) for y in x.view(p.B, t.S, 3, p.H, p.D).unbind(2))
        elif how == "interleaved":
            t.q, t.k, t.v = heads(x, p.H).chunk(3, -1)
        else:
            t.q, t.k, t.v = (heads(y, p.H) for y in (x.chunk(3, -1) if how == "chunk" else x.split(W, 2)))

    return Stage(f"q, k, v = {how}({'an input' if drawn else 'linear(h)'} [B,S,3*H*D])", run, prepare)


def projected(rng, p):
    cross, contiguous = "s" not in p.grants or rng.random() < 0.2, rng.random() < 0.3

    def prepare(c, t):
        if cross:
            t.memory = c.input("memory", (p.B, t.Sk, p.E))

    def run(c, t):
        source = t.memory if cross else t.h
        for name, x, width in (("q", t.h, p.D), ("k", source, p.D), ("v", source, p.Dv)):
            x = heads(F.linear(x, c.fixed("w_" + name, (p.H * width, p.E), p.E ** -0.5), c.fixed("b_" + name, (p.H * width,))
                               if p.biased else None), p.H)
            setattr(t, name, x.contiguous() if contiguous else x)

    return Stage(f"q = linear(h); k, v = linear({'memory' if cross else 'h'}), heads{', contiguous' * contiguous}", run, prepare)


LAYOUTS = {  # what is drawn for B, H, S, D; the view of it
    "[B,H,S,D]": (lambda B, H, S, D: (B, H, S, D), lambda x, S, D: x),
    "[B,S,H,D]^T": (lambda B, H, S, D: (B, S, H, D), lambda x, S, D: x.transpose(1, 2)),
    "slice": (lambda B, H, S, D: (B, H, S + 5, D + 8), lambda x, S, D: x[:, :, 3:3 + S, :D]),
    "odd slice": (lambda B, H, S, D: (B, H, S + 1, D + 3), lambda x, S, D: x[:, :, 1:, 2:2 + D]),
    "[B,H,D,S]^T": (lambda B, H, S, D: (B, H, D, S), lambda x, S, D: x.transpose(2, 3)),
    "[H,B,S,D]^T": (lambda B, H, S, D: (H, B, S, D), lambda x, S, D: x.transpose(0, 1)),
    "every second": (lambda B, H, S, D: (B, 2 * H, S, D), lambda x, S, D: x[:, ::2]),
}


def drawn(rng, p):
    names = rng.choices(list(LAYOUTS), (6, 4, 1, 0.5, 1, 0.5, 0.5), k=3)
    group = rng.choice([g for g in (1, 1, 1, 2, 3, 4, 6, 12) if p.H % g == 0])
    repeat = rng.choice(("expand", "expand", "repeat_interleave", "repeat"))

    def prepare(c, t):
        for name, layout, S, D in zip("qkv", names, (t.Sq, t.Sk, t.Sk), (p.D, p.D, p.Dv)):
            shape = LAYOUTS[layout][0](p.B, p.H // (group if name != "q" else 1), S, D)
            setattr(t, "raw_" + name, c.input(name, shape, p.peak))

    def run(c, t):
        for name, layout, S, D in zip("qkv", names, (t.Sq, t.Sk, t.Sk), (p.D, p.D, p.Dv)):
            x = LAYOUTS[layout][1](getattr(t, "raw_" + name), S, D)
            if group > 1 and name != "q":
                x = x.repeat_interleave(group, 1) if repeat == "repeat_interleave" else x.repeat(1, group, 1, 1) \
                    if repeat == "repeat" else x[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)
            setattr(t, name, x)

    return Stage(f"q, k, v = inputs {', '.join(names)}" + f", {group} heads a key by {repeat}" * (group > 1), run, prepare)


def cached(rng, p):
    how = rng.choice(("index_copy_", "slice", "cat")) if "h" in p.grants else "index_copy_"
    flat, new = rng.random() < 0.3, min(p.Sq, rng.choice((1, 1, 4)))
    most = p.Sk + new * p.iterations

    def prepare(c, t):
        t.n = p.Sk + new * c.i
        t.raw_q, t.new = c.input("q", (p.B, p.H, t.Sq, p.D), p.peak), {}
        for name, D in (("k", p.D), ("v", p.Dv)):
            t.new[name] = c.input(name, (p.B, new, p.H, D), p.peak).transpose(1, 2)
        t.at = c.integers("at", list(range(t.n, t.n + new)))

    def run(c, t):
        t.q = t.raw_q
        for name, D in (("k", p.D), ("v", p.Dv)):
            if how == "cat":
                before = c.memo("cache_" + name, lambda: c.numbers(name, (p.B, p.H, p.Sk, D), p.peak, -1))
                c.kept[f"{c.layer}.cache_{name}"] = x = torch.cat([before, t.new[name]], 2)
            else:
                shape = (p.B, most, p.H, D) if flat else (p.B, p.H, most, D)
                cache = c.memo("cache_" + name, lambda: c.numbers(name, shape, p.peak, -1))
                x = cache.transpose(1, 2) if flat else cache
                if how == "slice":
                    x[:, :, t.n:t.n + new] = t.new[name]
                    x = x[:, :, :t.n + new]
                else:
                    x.index_copy_(2, t.at, t.new[name])
            setattr(t, name, x)
        t.seen = (torch.arange(t.k.shape[2], device=c.device) <= t.at[-1]) if how == "index_copy_" else None

    return Stage(f"k, v = cache{' [B,M,H,D]^T' if flat else ''} of {p.Sk}+, {new} new a time by {how}", run, prepare)


OPERANDS = ((4, "x", drawn), (2, "", projected), (4, "sd", packed), (1.2, "xi", cached))

# ---- scale and product ------------------------------------------------------------------------------


def flat3(x):
    return x.reshape(-1, *x.shape[2:])


def to4(s, q):
    return s.view(*q.shape[:2], *s.shape[1:])


PRODUCTS = (
    (6, "", setter("s", "q @ k.transpose(-1, -2)", lambda c, t: t.q @ t.k.transpose(-1, -2))),
    (2, "", setter("s", "einsum('bhqd,bhkd->bhqk', q, k)", lambda c, t: torch.einsum("bhqd,bhkd->bhqk", t.q, t.k))),
    (3, "", setter("s", "bmm(q3, k3^T)", lambda c, t: to4(torch.bmm(flat3(t.q), flat3(t.k).transpose(1, 2)), t.q))),
    (0.6, "", setter("s", "(k @ q^T)^T", lambda c, t: (t.k @ t.q.transpose(-1, -2)).transpose(-1, -2))),
    (0.5, "", setter("s", "cat of q @ halves of k^T", lambda c, t: torch.cat([t.q @ k.mT for k in t.k.chunk(2, 2)], -1))),
    (0.4, "", setter("s", "stack of q[b] @ k[b]^T", lambda c, t: torch.stack([q @ k.mT for q, k in zip(t.q, t.k)]))),
    (1, "o", setter("s", "matmul(q, k^T, out=empty)", lambda c, t: torch.matmul(
        t.q, t.k.mT, out=torch.empty(*t.q.shape[:3], t.k.shape[2], dtype=t.q.dtype, device=c.device)))),
    (0.6, "o", setter("s", "matmul(q, k^T, out=the same each time)", lambda c, t: torch.matmul(
        t.q, t.k.mT, out=c.memo(f"s_out{tuple(t.q.shape)}{t.k.shape[2]}", lambda: torch.zeros(
            *t.q.shape[:3], t.k.shape[2], dtype=t.q.dtype, device=c.device))))),
)


def alpha(beta):
    def compute(c, t):
        shape = (t.q.shape[0] * t.q.shape[1], t.q.shape[2], t.k.shape[2])
        base = c.fixed("added", shape) if beta else torch.empty(shape, dtype=t.q.dtype, device=c.device)
        return to4(torch.baddbmm(base, flat3(t.q), flat3(t.k).transpose(1, 2), beta=beta, alpha=c.factor()), t.q)

    return setter("s", f"baddbmm({'bias' if beta else 'empty'}, q3, k3^T, beta={beta}, alpha=scale)", compute)


BEFORE = (  # of the scale: in front of the product
    (3, "", setter("q", "q * scale", lambda c, t: t.q * c.factor())),
    (1, "i", effect("q.mul_(scale)", lambda c, t: t.q.mul_(c.factor()))),
    (1, "", setter("k", "k * scale", lambda c, t: t.k * c.factor())),
    (1, "", lambda rng, p: Stage("q, k = q * sqrt(scale), k * sqrt(scale)", lambda c, t: t.__dict__.update(
        q=t.q * math.sqrt(c.factor()), k=t.k * math.sqrt(c.factor())))),
)
AFTER = (
    (5, "", setter("s", "s * scale", lambda c, t: t.s * c.factor())),
    (3, "", setter("s", "s / (1 / scale)", lambda c, t: t.s / (1 / c.factor()))),
    (1, "i", effect("s.mul_(scale)", lambda c, t: t.s.mul_(c.factor()))),
    (1, "i", effect("s /= 1 / scale", lambda c, t: t.s.div_(1 / c.factor()))),
    (1, "", setter("s", "s * scale on the device", lambda c, t: t.s * c.memo(
        f"scale{c.factor()}", lambda: torch.full((), c.factor(), dtype=c.dtype, device=c.device)))),
    (0.7, "ih", setter("s", "s * scale on the device, changed there", lambda c, t: t.s * c.memo(
        "moving", lambda: torch.zeros((), dtype=c.dtype, device=c.device)).fill_(c.factor()))),
    (0.5, "", setter("s", "s / torch.tensor(1 / scale)", lambda c, t: t.s / torch.tensor(1 / c.factor()))),
)
SOFTCAP = ((0.4, "", setter("s", "einsum('bhqk,hg->bgqk', s, mix)", lambda c, t: torch.einsum(
    "bhqk,hg->bgqk", t.s, c.fixed("mix_s", (t.s.shape[1],) * 2, 0.5).to(t.s.dtype)))), (12, "", nothing), (1, "", setter("s", "20 * tanh(s / 20)", lambda c, t: 20 * torch.tanh(t.s / 20))),
           (0.4, "i", effect("s.div_(5).tanh_().mul_(5)", lambda c, t: t.s.div_(5.0).tanh_().mul_(5.0))))

# ---- masks ------------------------------------------------------------------------------------------


def positions(c, t):
    """Of the queries, as a column, and of the keys; the last query is beside the last key, or beyond."""
    Sq, Sk = t.s.shape[-2:]
    rows = (torch.arange(Sq, device=c.device) + max(0, Sk - Sq)).clamp(max=Sk - 1)
    return rows[:, None], torch.arange(Sk, device=c.device)


def past(c, t, width=10000):
    rows, columns = positions(c, t)
    return (columns <= rows) & (columns > rows - width)


def some(c, t):
    shape = (t.s.shape[0], 1, *t.s.shape[-2:])
    keep = c.memo(f"some{shape}", lambda: c.numbers("some", shape, 1.0, -1) > -0.8125)  # any type has this number
    return keep | (positions(c, t)[1] == 0)


KEEPS = {  # which keys are seen; with "left" and "causal" some queries see none
    "causal": (5, past), "window": (1, lambda c, t: past(c, t, 40)), "some": (1, some),
    "blocks": (0.7, lambda c, t: positions(c, t)[0] // 48 == positions(c, t)[1] // 48),
    "padding": (4, lambda c, t: (positions(c, t)[1] < t.lengths[:, None])[:, None, None]),
    "left": (0.5, lambda c, t: (positions(c, t)[1] >= t.s.shape[-1] - t.lengths[:, None])[:, None, None]),
}
HIDE = (  # how what is not seen is hidden: (weight, needs, text, new scores)
    (4, "", "s.masked_fill(~keep, -inf)", lambda c, t, keep: t.s.masked_fill(~keep, INF)),
    (2, "", "s.masked_fill(~keep, finfo.min)", lambda c, t, keep: t.s.masked_fill(~keep, c.low(t.s))),
    (2, "", "s.masked_fill(keep.int() == 0, -1e9)", lambda c, t, keep: t.s.masked_fill(
        keep.int() == 0, -1e4 if c.low(t.s) > -1e6 else -1e9)),
    (1.5, "i", "s.masked_fill_(~keep, -inf)", lambda c, t, keep: t.s.masked_fill_(~keep, INF)),
    (1.5, "", "where(keep, s, -inf)", lambda c, t, keep: torch.where(
        keep, t.s, torch.full((), INF, dtype=t.s.dtype, device=c.device))),
    (1, "", "where(keep, s, finfo.min)", lambda c, t, keep: torch.where(keep, t.s, c.low(t.s))),
    (2, "", "s + (1 - keep.to(dtype)) * -10000", lambda c, t, keep: t.s + (1.0 - keep.to(t.s.dtype)) * -10000.0),
    (2, "", "s + (1 - keep.to(dtype)) * finfo.min", lambda c, t, keep: t.s + (1.0 - keep.to(t.s.dtype)) * c.low(t.s)),
    (3, "", "s + zeros.masked_fill(~keep, -inf)", lambda c, t, keep: t.s + torch.zeros(
        keep.shape, dtype=t.s.dtype, device=c.device).masked_fill(~keep, INF)),
    (0.6, "i", "s += zeros.masked_fill(~keep, -10000)", lambda c, t, keep: t.s.add_(torch.zeros(
        keep.shape, dtype=t.s.dtype, device=c.device).masked_fill(~keep, -10000.0))),
    (0.5, "", "maximum(s + log(keep), finfo.min)", lambda c, t, keep: torch.maximum(
        t.s + keep.to(t.s.dtype).log(), torch.full((), c.low(t.s), dtype=t.s.dtype, device=c.device))),
    (2, "c", "s + full(-inf).triu(1)", lambda c, t, keep: t.s + c.memo(f"triu{tuple(t.s.shape[-2:])}", lambda: torch.full(
        t.s.shape[-2:], INF, dtype=t.s.dtype, device=c.device).triu(1 + max(0, t.s.shape[-1] - t.s.shape[-2])))),
    (1, "c", "s.masked_fill(ones.tril() == 0, -inf)", lambda c, t, keep: t.s.masked_fill(torch.ones(
        t.s.shape[-2:], device=c.device).tril(max(0, t.s.shape[-1] - t.s.shape[-2])) == 0, INF)),
)


def hidden(rng, p, find=None, infinite=False):
    find = find or rng.choices(list(KEEPS), [weight for weight, _ in KEEPS.values()])[0]
    rows = [row for row in HIDE if set(row[1]) <= p.grants | ({"c"} if find == "causal" else set()) and (not infinite or "-inf" in row[2])]
    _, _, text, hide = rng.choices(rows, [row[0] for row in rows])[0]
    lengths, once = find in ("padding", "left"), rng.random() < 0.6 and find not in ("padding", "left")

    def prepare(c, t):
        if lengths:
            t.lengths = c.lengths("lengths", p.B, t.Sk)

    def run(c, t):
        keep = c.memo(f"keep{find}{tuple(t.s.shape)}", lambda: KEEPS[find][1](c, t)) if once else KEEPS[find][1](c, t)
        t.keep = keep if t.keep is None else keep & t.keep
        t.s = hide(c, t, keep)

    return Stage(f"keep = {find}{' (lengths change)' * lengths}{' (made once)' * once}; s = {text}", run, prepare)


def several(stages):
    return Stage("\n".join(s.text for s in stages if s.text), lambda c, t: [s.run(c, t) for s in stages],
                 lambda c, t: [s.prepare(c, t) for s in stages if s.prepare])


def changing(rng, p):
    """Another mask from iteration 9 on."""
    one, other = rng.choice((nothing, hidden, biased))(rng, p), rng.choice((hidden, biased))(rng, p)
    return Stage(f"i < 9: {one.text or 'no mask'}\ni >= 9: {other.text}", lambda c, t: (one if c.i < 9 else other).run(c, t),
                 several([one, other]).prepare)


def bias_of(c, t, kind):
    B, H, Sq, Sk = t.s.shape
    rows, columns = positions(c, t)
    if kind.startswith("alibi"):
        slopes = torch.exp2(-torch.arange(1, H + 1, device=c.device, dtype=c.dtype) * 8 / H)[:, None, None]
        return slopes * (-(columns - rows).abs() if kind.endswith("]") else columns - (Sk - 1)).to(c.dtype)
    if kind == "table":
        return c.fixed("table", (64, H))[(columns - rows).clamp(-32, 31) + 32].permute(2, 0, 1).unsqueeze(0)
    return c.fixed("bias", {"[1,H,Sq,Sk]": (1, H, Sq, Sk), "[B,1,Sq,Sk]": (B, 1, Sq, Sk), "[Sq,Sk]": (Sq, Sk)}[kind])


def biased(rng, p):
    kind = rng.choice(("[1,H,Sq,Sk]", "[B,1,1,Sk]", "alibi", "alibi [H,Sq,Sk]", "table", "[B,1,Sq,Sk]", "[Sq,Sk]", "q @ table"))
    place = "i" in p.grants and rng.random() < 0.25

    def prepare(c, t):
        t.key_bias = c.input("key_bias", (p.B, 1, 1, t.Sk)) if kind == "[B,1,1,Sk]" else None

    def run(c, t):
        if kind == "[B,1,1,Sk]":
            bias = t.key_bias if t.key_bias.shape[-1] == t.s.shape[-1] else 0.5
        elif kind == "q @ table":
            bias = t.q @ c.fixed("table_q", (t.q.shape[-1], t.s.shape[-1]), t.q.shape[-1] ** -0.5)
        else:
            bias = bias_of(c, t, kind)
        t.s = t.s.add_(bias) if place else t.s + bias

    return Stage(f"s {'+=' if place else '= s +'} bias {kind}", run, prepare)


MASKS = ((5, "", nothing), (6, "", hidden), (2, "", biased), (1, "h", changing),
         (1, "", lambda rng, p: several([biased(rng, p), hidden(rng, p)])),
         (1, "", lambda rng, p: several([hidden(rng, p, "causal"), hidden(rng, p, rng.choice(("padding", "window", "some")))])),
         (0.3, "", lambda rng, p: several([hidden(rng, p, "causal", True), hidden(rng, p, "left", True)])))

# ---- softmax ----------------------------------------------------------------------------------------


def by_hand(c, t, top=True, eps=0.0, one=0.0, keep=False):
    e = torch.exp(t.s - t.s.amax(-1, keepdim=True)) if top else torch.exp(t.s)
    if keep and t.keep is not None:
        e = e * t.keep.to(e.dtype)
    return e / (e.sum(-1, keepdim=True) + eps + one)


SOFTMAX = (
    (7, "", setter("p", "softmax(s, -1)", lambda c, t: torch.softmax(t.s, -1))),
    (4, "", setter("p", "softmax(s, -1, dtype=float32).to(v.dtype)", lambda c, t: F.softmax(t.s, -1, dtype=c.wide).to(t.v.dtype))),
    (2, "", setter("p", "softmax(s.float(), -1).type_as(v)", lambda c, t: F.softmax(t.s.to(c.wide), -1).type_as(t.v))),
    (2, "", setter("p", "e / e.sum(-1), e = exp(s - max)", by_hand)),
    (0.8, "", setter("p", "e / e.sum(-1), e = exp(s)", lambda c, t: by_hand(c, t, top=False))),
    (0.8, "i", setter("p", "e.div_(e.sum(-1)), e = s.sub_(max).exp_()", lambda c, t: t.s.div_(
        t.s.sub_(t.s.max(-1, keepdim=True).values).exp_().sum(-1, keepdim=True)))),
    (0.5, "", setter("p", "log_softmax(s, -1).exp()", lambda c, t: torch.log_softmax(t.s, -1).exp())),
    (1, "", setter("p", "softmax(s, -1).nan_to_num(0)", lambda c, t: torch.softmax(t.s, -1).nan_to_num(0.0))),
    (0.4, "", setter("p", "e / (e.sum(-1) + 1e-3)", lambda c, t: by_hand(c, t, eps=1e-3))),
    (0.4, "", setter("p", "softmax1: exp(s) / (1 + sum)", lambda c, t: by_hand(c, t, top=False, one=1.0))),
    (0.8, "", setter("p", "softmax(cat(s, sink))[..., :-1]", lambda c, t: torch.softmax(torch.cat([t.s, c.fixed(
        "sink", (1, t.s.shape[1], 1, 1)).to(t.s.dtype).expand(*t.s.shape[:3], 1)], -1), -1)[..., :-1])),
    (0.5, "", setter("p", "exp(s - logsumexp(s))", lambda c, t: torch.exp(t.s - torch.logsumexp(t.s, -1, keepdim=True)))),
    (0.5, "", setter("p", "e * keep / sum, e = exp(s - max)", lambda c, t: by_hand(c, t, keep=True, eps=1e-6))),
    (0.5, "", setter("p", "softmax(s, -1) * keep", lambda c, t: torch.softmax(t.s, -1) * (1.0 if t.keep is None else t.keep.to(t.v.dtype)))),
    (0.3, "", setter("p", "softmax(s^T, -2)^T", lambda c, t: torch.softmax(t.s.transpose(-1, -2), -2).transpose(-1, -2))),
    (0.6, "o", setter("p", "softmax(s, -1, out=empty)", lambda c, t: torch.softmax(t.s, -1, out=torch.empty_like(t.s)))),
)

# ---- what becomes of P ------------------------------------------------------------------------------


def on_side_stream(c, work):
    """work() on another stream, ordered on both sides."""
    if not c.cuda:
        return work()
    stream = c.memo("stream", torch.cuda.Stream)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = work()
    torch.cuda.current_stream().wait_stream(stream)
    return result


def pinned(c, x):
    """A copy that arrives later."""
    if not c.cuda:
        return c.show("pinned", x.clone())
    copy = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    copy.copy_(x, non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    c.hooks.append(lambda: (event.synchronize(), c.show("pinned", copy)))


def by_thread(c, x):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pool.submit(c.show, "thread", x, "now").result()


READERS = (  # reading P: weight, needs, text, function of (c, p)
    (2, "", "show(P)", lambda c, p: c.show("P", p)), (1, "h", "show(P.cpu())", lambda c, p: c.show("P", p, "now")),
    (2, "h", "kept.append(P), read after the loop", lambda c, p: c.show("P", p, "loop")),
    (2, "h", "a hook reads P after the next layer", lambda c, p: c.hooks.append(lambda: c.show("P_hook", p * 1))),
    (1, "h", "P[0, 0, -1, 0].item()", lambda c, p: c.show("item", torch.tensor(p[0, 0, -1, 0].item()))),
    (1, "", "P[:, -1, -1]", lambda c, p: c.show("row", p[:, -1, -1])), (1, "", "P.mean(1)", lambda c, p: c.show("mean", p.mean(1))),
    (1, "", "P.sum()", lambda c, p: c.show("sum", p.mean())), (1, "", "1 + entropy of P", lambda c, p: c.show(
        "entropy", 1 - (p * (p.to(torch.promote_types(p.dtype, torch.float32)) + 1e-6).log()).sum(-1))),
    (1, "", "P.sum(-2)", lambda c, p: c.show("columns", p.sum(-2))), (1, "h", "pinned.copy_(P, non_blocking)", pinned),
    (1, "h", "a side stream reads P", lambda c, p: c.show("side", on_side_stream(c, lambda: p * 2))),
    (0.5, "h", "a thread reads P", by_thread), (0.7, "i", "P.clone().mul_(3)", lambda c, p: c.show("clone", p.clone().mul_(3))),
    (0.7, "", "P^T @ P[..., :8]", lambda c, p: c.show("PtX", p.transpose(-1, -2) @ p[..., :8])),
    (0.7, "", "P.amax(-1)", lambda c, p: c.show("top", p.amax(-1))),
)


def read(rng, p, of="p"):
    rows = [row for row in READERS if set(row[1]) <= p.grants]
    _, _, text, look = rng.choices(rows, [row[0] for row in rows])[0]
    kind, n = rng.choice(("once", "once", "once", "from", "all")) if "h" in p.grants else "all", rng.randint(5, p.iterations - 1)
    when = {"once": f"i == {n}: ", "from": f"i >= {n}: ", "all": ""}[kind]

    def run(c, t):
        if kind == "all" or c.i == n or kind == "from" and c.i > n:
            look(c, getattr(t, of))

    return Stage(when + (text if of == "p" else text.replace("P", "S")), run)


P_STAGES = (
    (14, "", nothing), (7, "", read), (3, "", setter("p", "dropout(p, 0.1, training=False)", lambda c, t: F.dropout(t.p, 0.1, False))),
    (1, "", setter("p", "dropout(p, 0.0, training=True)", lambda c, t: F.dropout(t.p, 0.0, True))),
    (1, "", setter("p", "p * gate[H,1,1]", lambda c, t: t.p * c.fixed("gate", (t.p.shape[1], 1, 1)).to(t.p.dtype))),
    (0.6, "i", effect("p[..., 0] = 0", lambda c, t: t.p[..., 0].zero_())),
    (0.6, "", setter("p", "p / (p.sum(-1) + 1e-6)", lambda c, t: t.p / (t.p.sum(-1, keepdim=True) + 1e-6))),
    (0.5, "", setter(
        "p", "einsum('bhqk,hg->bgqk', p, mix)", lambda c, t: torch.einsum("bhqk,hg->bgqk", t.p, c.fixed(
            "mix_p", (t.p.shape[1],) * 2, 0.5).to(t.p.dtype)))), (0.5, "sh", effect(
        "rollout = P.mean(1) @ rollout", lambda c, t: c.show("rollout", c.state.update({t.p.shape: t.p.detach().mean(1) @ c.state.get(
            t.p.shape, torch.eye(t.p.shape[-1], dtype=t.p.dtype, device=c.device))}) or c.state[t.p.shape]))),
    (0.5, "", effect("show(p @ (v * v))", lambda c, t: c.show("second", t.p.to(t.v.dtype) @ (t.v * t.v)))),
    (0.4, "", setter("p", "p.clone()", lambda c, t: t.p.clone())), (0.3, "i", effect("p.mul_(0.5)", lambda c, t: t.p.mul_(0.5))),
    (0.6, "", lambda rng, p: several([read(rng, p), read(rng, p)])),
)

# ---- the second product, and what follows -----------------------------------------------------------


def as_v(t):
    return t.p.to(t.v.dtype)


SECOND = (
    (6, "", setter("o", "p @ v", lambda c, t: as_v(t) @ t.v)),
    (2, "", setter("o", "einsum('bhqk,bhkd->bhqd', p, v)", lambda c, t: torch.einsum("bhqk,bhkd->bhqd", as_v(t), t.v))),
    (1, "", setter("o", "einsum('bhqk,bhkd->bqhd', p, v)", lambda c, t: torch.einsum("bhqk,bhkd->bqhd", as_v(t), t.v).transpose(1, 2))),
    (3, "", setter("o", "bmm(p3, v3)", lambda c, t: to4(torch.bmm(flat3(as_v(t)), flat3(t.v)), t.p))),
    (0.5, "", setter("o", "baddbmm(before, p3, v3)", lambda c, t: to4(torch.baddbmm(c.fixed(
        "before", (t.p.shape[0] * t.p.shape[1], t.p.shape[2], t.v.shape[-1])), flat3(as_v(t)), flat3(t.v)), t.p))), 
    (1, "o", setter("o", "matmul(p, v, out=the same)", lambda c, t: torch.matmul(as_v(t), t.v, out=c.memo(
        f"o{tuple(t.p.shape)}", lambda: torch.zeros(*t.p.shape[:3], t.v.shape[3], dtype=t.v.dtype, device=c.device))))),
    (0.6, "od", setter("o", "matmul(p, v, out=q where q is contiguous)", lambda c, t: torch.matmul(
        as_v(t), t.v, out=t.q if t.q.is_contiguous() and t.q.shape[1:] == (*t.p.shape[1:3], t.v.shape[-1]) else None))),
    (0.4, "", setter("o", "(v^T @ p^T)^T", lambda c, t: (t.v.mT @ as_v(t).mT).mT)),
    (0.4, "", setter("o", "cat of halves of p's rows @ v", lambda c, t: torch.cat([x @ t.v for x in as_v(t).chunk(2, 2)], 2))),
    (0.4, "", setter("o", "p[..., :n] @ v[:n] + p[..., n:] @ v[n:]", lambda c, t: sum(
        x @ y for x, y in zip(as_v(t).chunk(2, -1), t.v.chunk(2, 2))))),
)
MERGE = (
    (5, "", setter("m", "o.transpose(1, 2).reshape(B, Sq, E)", lambda c, t: t.o.transpose(1, 2).reshape(t.o.shape[0], t.o.shape[2], -1))),
    (2, "", setter("m", "o.transpose(1, 2).contiguous().flatten(2)", lambda c, t: t.o.transpose(1, 2).contiguous().flatten(2))),
    (1, "", setter("m", "o.permute(0, 2, 1, 3).flatten(2)", lambda c, t: t.o.permute(0, 2, 1, 3).flatten(2))),
    (0.7, "", setter("m", "cat(o.unbind(1), -1)", lambda c, t: torch.cat(t.o.unbind(1), -1))),
    (0.7, "i", setter("m", "empty.copy_(o.transpose(1, 2))", lambda c, t: torch.empty(
        t.o.shape[0], t.o.shape[2], *t.o.shape[1::2], dtype=t.o.dtype, device=c.device).copy_(t.o.transpose(1, 2)).flatten(2))),
)


def after(rng, p):
    linear, residual, norm, mlp = (rng.random() < share for share in (0.6, 0.6, 0.5, 0.25))
    norm = norm or p.depth > 1  # numbers would grow

    def run(c, t):
        c.show("m", t.m)
        x = F.linear(t.m, c.fixed("w_o", (p.E, p.E), p.E ** -0.5)) if linear else t.m
        x = t.h + x if residual else x
        x = F.layer_norm(x, (p.E,)) if norm else x
        t.h = x + F.linear(F.gelu(F.linear(x, c.fixed("w_1", (64, p.E), p.E ** -0.5))), c.fixed("w_2", (p.E, 64), 0.1)) if mlp else x

    words = linear * ["linear"] + residual * ["residual"] + norm * ["norm"] + mlp * ["mlp"]
    return Stage("h = " + (", ".join(words) or "as it is") + " of m", run)


# ---- events -----------------------------------------------------------------------------------------


def changed(name, text, change):
    """The operand is changed, or what it is an expanded view of."""
    return effect(text, lambda c, t: change(getattr(t, ("" if all(getattr(t, name).stride()) else "raw_") + name)))


ANYWHERE = (
    (8, "i", effect("junk = empty_like(s).fill_(7), thrown away", lambda c, t: [
        torch.empty_like(t.s).fill_(7) for _ in "two"] and None)),
    (3, "", effect("an unrelated product and softmax", lambda c, t: c.show("other", torch.softmax(c.fixed("other", (48, 48)) @ c.fixed(
        "other", (48, 48)) * 0.02, -1)))),
    (1, "h", effect("empty_cache()", lambda c, t: c.cuda and torch.cuda.empty_cache())),
    (1, "h", effect("synchronize()", lambda c, t: c.cuda and torch.cuda.synchronize())),
    (1, "h", effect("a side stream works", lambda c, t: c.show("work", on_side_stream(c, lambda: c.fixed("work", (64, 64)) * 2)))),
)
BETWEEN = ANYWHERE + (  # the product and softmax
    (1, "ix", changed("q", "q.fill_(nan)", lambda x: x.fill_(float("nan")))), (1, "ix", changed("k", "k.mul_(3)", lambda x: x.mul_(3))),
    (1, "h", effect("s.max().item()", lambda c, t: c.show("most", torch.tensor(t.s.max().item())))),
    (1, "", lambda rng, p: read(rng, p, "s")), (1, "ix", changed("v", "v.neg_()", lambda x: x.neg_())),
)
BEFORE_PV = ANYWHERE + (
    (2, "ix", changed("v", "v.mul_(0.5)", lambda x: x.mul_(0.5))), (2, "ix", changed("k", "k.fill_(inf)", lambda x: x.fill_(float("inf")))),
    (2, "i", effect("del s; others take its memory", lambda c, t: (t.__dict__.update(s=None), torch.empty_like(t.p).fill_(5)))),
    (1, "i", effect("s.zero_()", lambda c, t: t.s is not None and t.s.data_ptr() != t.p.data_ptr() and t.s.zero_())),
)
AFTER_PV = ANYWHERE[1:] + (
    (3, "", read), (2, "ix", changed("v", "v.fill_(nan)", lambda x: x.fill_(float("nan")))),
    (2, "ix", changed("q", "q.zero_()", lambda x: x.zero_())), (1, "i", effect("p.zero_()", lambda c, t: t.p.zero_())),
    (2, "i", effect("del s, p; others take their memory", lambda c, t: (
        t.__dict__.update(s=None, p=None), torch.empty(*t.q.shape[:3], t.k.shape[2], dtype=t.q.dtype, device=c.device).fill_(5)))),
)

# ---- attention that others spell --------------------------------------------------------------------


def whole(q, k, v, scale: float):
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * scale, -1), v)


def triangle(q, k, v, scale: float):
    s = torch.matmul(q * scale, k.transpose(-1, -2))
    hide = torch.ones(s.shape[-2], s.shape[-1], device=s.device, dtype=torch.bool).triu(1)
    return torch.matmul(torch.softmax(s.masked_fill(hide, float("-inf")), -1), v)


def core(rng, p):
    """From q, k, v to o by torch.func, torch.jit, or PyTorch's own."""
    spelt = rng.choice((whole, triangle))
    how, over = rng.choice(("vmap", "vmap of vmap", "jit.script", "jit.trace", "sdpa", "sdpa")), (0, 0, 0, None)

    def make(c, t):
        if how.startswith("jit"):
            traced = how == "jit.trace" and torch.jit.trace(lambda *qkv: spelt(*qkv, p.scale), (t.q, t.k, t.v), check_trace=False)
            return (lambda q, k, v, scale: traced(q, k, v)) if traced else torch.jit.script(spelt)
        once = torch.func.vmap(spelt, over)
        return torch.func.vmap(once, over) if how == "vmap of vmap" else once

    def run(c, t):
        if how == "sdpa" and not c.exact:
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                t.o = F.scaled_dot_product_attention(t.q, t.k, t.v, is_causal=spelt is triangle, scale=p.scale)
        else:
            t.o = (spelt if c.exact else c.memo("core", lambda: make(c, t)))(t.q, t.k, t.v, p.scale)

    return Stage(f"o = {how} of {spelt.__name__} attention", run)


def multi_head(rng, p):
    """All of a layer by nn.MultiheadAttention's function, which gives P, too."""
    average, n = rng.random() < 0.5, rng.randint(5, 2 * p.iterations)

    def run(c, t):
        x = t.h.transpose(0, 1)
        o, weights = F.multi_head_attention_forward(
            x, x, x, p.E, p.H, c.fixed("w_in", (3 * p.E, p.E), p.E ** -0.5), c.fixed("b_in", (3 * p.E,)), None, None,
            False, 0.0, c.fixed("w_out", (p.E, p.E), p.E ** -0.5), c.fixed("b_out", (p.E,)), training=False,
            average_attn_weights=average)
        t.m = o.transpose(0, 1)
        if c.i == n:
            c.show("weights", weights)

    return Stage(f"m, P = multi_head_attention_forward(h, h, h){'' if n >= p.iterations else f'; i == {n}: show(P)'}", run)


# ---- a layer ----------------------------------------------------------------------------------------


def make_layer(rng, p, first):
    """The stages of a layer. p.grants: what it may need; changed on the way."""
    p.grants = set(p.granted) | ({"x"} if first or rng.random() < 0.3 else set())
    if p.mode == "others" and "s" in p.grants and rng.random() < 0.2:
        return [multi_head(rng, p), after(rng, p)]
    stages = [pick(rng, p, OPERANDS)]
    cache = stages[0].text.startswith("k, v = cache")
    p.grants = set(p.granted) - {"s"} if cache else set(p.granted) | {"x"}
    if p.mode == "others" and not cache:
        return stages + [core(rng, p), pick(rng, p, MERGE), after(rng, p)]
    softmax = pick(rng, p, SOFTMAX)
    place = rng.choices(("before", "after", "alpha", "none"), (3, 6, 1.5, 0 if "exp(s)" in softmax.text else 0.7))[0]
    stages += [pick(rng, p, BEFORE)] * (place == "before")
    stages += [alpha(rng.choice((0, 0, 1)))(rng, p) if place == "alpha" else pick(rng, p, PRODUCTS)]
    stages += [pick(rng, p, AFTER)] * (place == "after") + [pick(rng, p, SOFTCAP), pick(rng, p, MASKS)]
    if cache:
        stages.append(Stage("", lambda c, t: t.seen is not None and setattr(t, "s", t.s.masked_fill(~t.seen, INF))))
    event = p.eventful and rng.choice((BETWEEN, BEFORE_PV, AFTER_PV))
    stages += [pick(rng, p, BETWEEN)] * (event is BETWEEN) + [softmax, pick(rng, p, P_STAGES)]
    stages += [pick(rng, p, BEFORE_PV)] * (event is BEFORE_PV) + [pick(rng, p, SECOND), pick(rng, p, MERGE)]
    return stages + [pick(rng, p, AFTER_PV)] * (event is AFTER_PV) + [after(rng, p)]
