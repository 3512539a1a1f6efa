# SPDX-License-Identifier: Apache-2.0
"""The negative cases of the catalogue that no older program covers: what looks like attention to
somebody who counts GEMMs, and chains whose scores have another use.

Outputs named in Expect.exact are the program's own kernels' on unchanged inputs, bit for bit.
"""
import math

import torch
import torch.nn.functional as F

from catalogue_chains import SETS, bhsd, drawn, spelt, wide
from chains import FP16
from common import DEVICE, ON_GPU, draw, small
from registry import Expect, program

NOT_SOFTMAX = ("not_softmax", "not_explained", "unknown_kernel", "unaccounted_pointer")
READ = ("scores_read_by",)


def fp16_sets(B=2, H=8, D=64):
    return bhsd(B, H, small(512, 24), D, torch.float16)


@program(Expect("decline", tol=4e-3, reasons=READ, exact=("qk",)), repeat=6)
def whisper_qk_returned(variant):
    """the scores are returned beside the output, and kept"""
    sets = fp16_sets()

    def step(i):
        q, k, v = sets[i % SETS]
        scale = q.shape[-1] ** -0.25
        qk = wide((q * scale) @ (k * scale).transpose(-1, -2))
        o = F.softmax(qk, dim=-1).to(q.dtype) @ v
        return {"o": o, "qk": qk[..., ::8]}

    return step


@program(Expect("decline", tol=4e-3, reasons=READ, exact=("path",)), repeat=6)
def whisper_alignment(variant):
    """the probabilities of some heads are normalised and averaged once the layer is done"""
    sets = fp16_sets()

    def step(i):
        q, k, v = sets[i % SETS]
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1)
        o = weights @ v
        heads = weights[:, 2:5].float()
        heads = (heads - heads.mean(-2, keepdim=True)) / heads.std(-2, keepdim=True)
        return {"o": o, "path": heads.mean(1)[..., ::4]}

    return step


@program(Expect("decline", sites=4, tol=4e-3, reasons=NOT_SOFTMAX + READ), repeat=6)
def bwd_lookalike(variant):
    """dP = dO V^T, the softmax's derivative, dQ = dS K: the forward's pair of GEMMs"""
    sets = fp16_sets()

    def step(i):
        do, v, k = sets[i % SETS]
        p = torch.softmax(draw(do.shape[:3] + v.shape[2:3], torch.float16, i), dim=-1)
        dp = do @ v.transpose(-1, -2)
        ds = torch.ops.aten._softmax_backward_data(dp, p, -1, dp.dtype) * 0.125
        return {"dq": ds @ k}

    return step


@program(Expect("decline", tol=4e-3, reasons=NOT_SOFTMAX + ("layout",)), repeat=6)
def moe_router(variant):
    """softmax over experts, the best two kept and made to sum to one, then a product with them"""
    sets = drawn([(1, small(2048, 32), 512), (1, 64, 512), (1, 64, 512)], torch.float16)

    def step(i):
        x, gate, experts = sets[i % SETS]
        share = F.softmax(torch.bmm(x, gate.transpose(1, 2)) * 0.05, dim=-1)
        best, which = share.topk(2, dim=-1)
        kept = torch.zeros_like(share).scatter(-1, which, best / best.sum(-1, keepdim=True))
        return {"y": torch.bmm(kept, experts)}

    return step


@program(Expect("decline", tol=4e-3, sites=4, reasons=NOT_SOFTMAX + READ + ("layout",)), repeat=6)
def talking_heads(variant):
    """heads are mixed before and after the softmax"""
    sets = fp16_sets()
    before, after = (draw((8, 8), torch.float16, x, scale=0.5) for x in (61, 62))

    def step(i):
        q, k, v = sets[i % SETS]
        scores = torch.einsum("bhij,hg->bgij", q @ k.transpose(-1, -2) * 0.125, before)
        weights = torch.einsum("bgij,gh->bhij", scores.softmax(-1), after)
        return {"o": weights @ v}

    return step


@program(Expect("decline", tol=4e-3, reasons=NOT_SOFTMAX), repeat=6)
def squared_relu(variant):
    """relu(s)^2 divided by its sum, in softmax's place"""
    sets = fp16_sets()

    def step(i):
        q, k, v = sets[i % SETS]
        weights = F.relu(q @ k.transpose(-1, -2) * 0.125).square()
        return {"o": weights / (weights.sum(-1, keepdim=True) + 1) @ v}

    return step


@program(Expect("decline", tol=4e-3, sites=3, reasons=("dropout",) + NOT_SOFTMAX), repeat=6)
def dropout_active(variant):
    """dropout on P, in a forward without gradients"""
    sets = fp16_sets()

    def step(i):
        torch.manual_seed(i)
        q, k, v = sets[i % SETS]
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1)
        return {"o": F.dropout(weights, 0.1, training=True) @ v}

    return step


@program(Expect("either", sites=2, tol=1e-3, exact=("S",)), repeat=8)
def mid_chain_memset(variant):
    """the scores are cleared between the softmax and PV, and looked at afterwards"""
    sets = fp16_sets()

    def step(i):
        q, k, v = sets[i % SETS]
        scores = (q * 0.125) @ k.transpose(-1, -2)
        weights = torch.softmax(scores, dim=-1)
        scores.zero_()
        return {"o": weights @ v, "S": scores[..., ::16]}

    return step


@program(Expect("decline", sites=3, tol=1e-3, reasons=READ + ("chain_broken",), exact=("top",)),
         repeat=8)
def mid_chain_stream(variant):
    """another stream, ordered by an event, reduces the scores between the two GEMMs"""
    sets = fp16_sets()
    side = torch.cuda.Stream() if ON_GPU else None

    def step(i):
        q, k, v = sets[i % SETS]
        scores = q @ k.transpose(-1, -2) * 0.125
        if not ON_GPU:
            return {"o": torch.softmax(scores, dim=-1) @ v, "top": scores.amax(-1)}
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            top = scores.amax(-1)
        o = torch.softmax(scores, dim=-1) @ v
        torch.cuda.current_stream().wait_stream(side)
        return {"o": o, "top": top}

    return step


@program(Expect("either", sites=2, tol=3e-3), repeat=8)
def mid_chain_value_rewritten(variant):
    """V is rewritten in place between the softmax and PV (twice as wide, so that O is, and what
    rounding P costs it), K between QK^T and the softmax"""
    sets = fp16_sets()

    def step(i):
        q, k, v = (x.clone() for x in sets[i % SETS])
        scores = q @ k.transpose(-1, -2) * 0.125
        k.copy_(v)
        weights = torch.softmax(scores, dim=-1)
        v.mul_(-2.0).add_(1.0)
        return {"o": weights @ v, "k": k[..., ::16]}

    return step


@program(Expect("decline", tol=4e-3, reasons=("beta",)), repeat=6)
def beta_in_values(variant):
    """the second product adds to a residual that lies in its output"""
    sets = drawn([(16, small(512, 24), 64)] * 4, torch.float16)

    def step(i):
        q, k, v, rest = sets[i % SETS]
        weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.125, dim=-1)
        return {"o": torch.baddbmm(rest, weights, v, beta=1, alpha=1)}

    return step


@program(Expect("decline", tol=1e-12, reasons=("dtype",)), repeat=6)
def double_precision(variant):
    """attention in float64"""
    return spelt("double", fp16_sets(H=4), lambda q, k, v: torch.softmax(
        q @ k.transpose(-1, -2) / math.sqrt(64), dim=-1) @ v)


@program(Expect("decline", tol=1e-5, reasons=NOT_SOFTMAX + ("dtype", "layout")), repeat=6)
def complex_products(variant):
    """complex products with a softmax of magnitudes between them"""
    sets = fp16_sets(H=4)

    def step(i):
        q, k, v = (x.float() for x in sets[i % SETS])
        scores = torch.complex(q, k) @ torch.complex(k, v).transpose(-1, -2)
        weights = torch.softmax(scores.abs() * 0.05, dim=-1)
        return {"o": torch.view_as_real(weights.to(torch.complex64) @ torch.complex(v, q))}

    return step


@program(Expect("replace", chains=2, sites=2, **FP16), repeat=10, variants=("double",))
def same_addresses(variant):
    """two chains of different meaning in the same freed buffers, one after the other"""
    sets = fp16_sets()

    def step(i):
        q, k, v = sets[i % SETS]
        if variant == "double":
            q, k, v = q.double(), k.double(), v.double()
        keep = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=DEVICE).tril()
        plain = torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1) @ v
        scores = (q @ k.transpose(-1, -2) * 0.125).masked_fill(~keep, float("-inf"))
        return {"plain": plain, "causal": torch.softmax(scores, dim=-1) @ v}

    return step
