# SPDX-License-Identifier: Apache-2.0
"""Attention spelt by hand in PyTorch: the ways people write it, one program each.

Each builder draws a few input sets and returns step(i). Variant "sdpa" is the same attention
through scaled_dot_product_attention, "flash" and "cudnn" through that backend alone, "double"
through float64: the yardsticks for tolerance and speed.
"""
import math

import torch
import torch.nn.functional as F

from common import DEVICE, draw, small
from registry import Expect, program

SETS = 8  # distinct input sets


def reference(q, k, v, scale, bias=None, keep=None):
    """Attention in float64 on upcast inputs [.., S, D]; bias is added, keep is a boolean mask."""
    scores = q.double() @ k.double().transpose(-1, -2) * scale
    if bias is not None:
        scores = scores + bias.double()
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    return scores.softmax(-1) @ v.double()


def sdpa(variant, q, k, v, scale, bias=None, keep=None, causal=False):
    """The same through PyTorch's own fused attention."""
    fused = F.scaled_dot_product_attention
    mask = None if causal else (keep if keep is not None else bias)
    if variant == "sdpa":
        return fused(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
               "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}[variant]
    with sdpa_kernel(backend):
        return fused(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)


def qkv_sets(shape, dtype, sets=SETS):
    """Input sets [B,H,S,D] and the usual scale."""
    drawn = [[draw(shape, dtype, 1000 * n + x) for x in range(3)] for n in range(sets)]
    return drawn, 1 / math.sqrt(shape[-1])


def simple(variant, shape, dtype, spell, bias=None, keep=None, causal=False, sets=SETS):
    """step(i) for a spelling spell(q, k, v, scale) of plain attention on [B,H,S,D]."""
    drawn, scale = qkv_sets(shape, dtype, sets)

    def step(i):
        q, k, v = drawn[i % len(drawn)]
        if variant == "eager":
            return {"o": spell(q, k, v, scale)}
        if variant == "double":
            return {"o": reference(q, k, v, scale, bias, keep)}
        return {"o": sdpa(variant, q, k, v, scale, bias, keep, causal)}

    return step


def naive(q, k, v, scale):
    return torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1) @ v


def causal_keep(size):
    return torch.ones(size, size, dtype=torch.bool, device=DEVICE).tril()


def causal_bias(size, dtype):
    bias = torch.zeros(size, size, dtype=dtype, device=DEVICE)
    return bias.masked_fill(~causal_keep(size), torch.finfo(dtype).min)


def shaped(variant, B, H, S, D, dtype="float16", mask="none"):
    """A chain of any shape, for timing: mask is none, causal (masked_fill) or bias (added)."""
    dtype = getattr(torch, dtype)
    size = B * H * S * D * torch.finfo(dtype).bits // 8
    sets = max(2, min(SETS, -(-200_000_000 // (3 * size))))
    keep = causal_keep(S) if mask == "causal" else None
    bias = causal_bias(S, dtype) if mask == "bias" else None

    def spell(q, k, v, scale):
        scores = q @ k.transpose(-1, -2) * scale
        if keep is not None:
            scores = scores.masked_fill(~keep, float("-inf"))
        if bias is not None:
            scores = scores + bias
        return torch.softmax(scores, dim=-1) @ v

    causal = mask != "none" and variant != "double"
    return simple(variant, (B, H, S, D), dtype, spell, bias, keep, causal, sets)


FP16 = dict(tol="double", step=2.5e-4)
BF16 = dict(tol="double", step=2e-3)


@program(Expect("replace", sites=1, most=1e-3, **FP16), variants=("sdpa", "double"), timed={},
         faster=True, quick=True, modes=("audit", "compare", "off"))
def naive_512(variant):
    """softmax(q@k^T*s)@v, fp16, B1 H8 S512 D64"""
    return simple(variant, (1, 8, small(512, 32), 64), torch.float16, naive)


@program(Expect("replace", sites=1, most=1e-3, **FP16), variants=("sdpa", "double"), timed={},
         faster=True, quick=True)
def naive_2048(variant):
    """softmax(q@k^T*s)@v, fp16, B1 H8 S2048 D64"""
    return simple(variant, (1, 8, small(2048, 48), 64), torch.float16, naive)


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def naive_bf16_d128(variant):
    """softmax(q@k^T*s)@v, bf16, B2 H4 S384 D128"""
    return simple(variant, (2, 4, small(384, 32), 128), torch.bfloat16, naive)


@program(Expect("replace", sites=1, tol="double", step=1e-6), variants=("double",))
def naive_f32(variant):
    """softmax(q@k^T*s)@v, strict fp32"""
    return simple(variant, (1, 8, small(512, 32), 64), torch.float32, naive)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def naive_odd(variant):
    """softmax(q@k^T*s)@v, fp16, S=197 and D=40: rows that are not 16-byte aligned"""
    return simple(variant, (3, 5, small(197, 19), 40), torch.float16, naive)


@program(Expect("replace", sites=1, **FP16), variants=("double",), quick=True)
def causal_fill(variant):
    """causal by masked_fill(-inf), fp16"""
    size = small(512, 32)
    keep = causal_keep(size)

    def spell(q, k, v, scale):
        scores = (q @ k.transpose(-1, -2) * scale).masked_fill(~keep, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v

    return simple(variant, (2, 8, size, 64), torch.float16, spell, keep=keep)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def causal_add(variant):
    """causal by an added finite mask, fp16"""
    size = small(512, 32)
    bias = causal_bias(size, torch.float16)

    def spell(q, k, v, scale):
        return torch.softmax(q @ k.transpose(-1, -2) * scale + bias, dim=-1) @ v

    return simple(variant, (2, 8, size, 64), torch.float16, spell, bias=bias)


@program(Expect("replace", sites=1, most=6e-3, **FP16), variants=("double",), quick=True)
def alibi_in_fp32(variant):
    """ALiBi in fp32 makes fp16 scores fp32; masked_fill copies them by the driver (MPT)"""
    H, size = 8, small(512, 32)
    keep = causal_keep(size)
    slopes = 2.0 ** -torch.arange(1, H + 1, device=DEVICE, dtype=torch.float32)
    bias = slopes[:, None, None] * torch.arange(1 - size, 1, device=DEVICE)

    def spell(q, k, v, scale):
        scores = q @ k.transpose(-1, -2) * scale + bias
        scores = scores.masked_fill(~keep, torch.finfo(q.dtype).min)
        return torch.softmax(scores, dim=-1).to(v.dtype) @ v

    return simple(variant, (2, H, size, 64), torch.float16, spell, bias=bias, keep=keep)


@program(Expect("replace", sites=1, **FP16), variants=("double",), quick=True)
def baddbmm(variant):
    """baddbmm(beta=0, alpha=s), softmax, bmm, fp16"""

    def spell(q, k, v, scale):
        B, H, S, D = q.shape
        q, k, v = (x.reshape(B * H, S, D) for x in (q, k, v))
        empty = torch.empty(B * H, S, S, dtype=q.dtype, device=q.device)
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=scale)
        return torch.bmm(scores.softmax(-1), v).reshape(B, H, S, D)

    return simple(variant, (2, 8, small(512, 32), 64), torch.float16, spell)


@program(Expect("either", sites=2, **FP16), variants=("double",))
def baddbmm_bias(variant):
    """baddbmm(beta=1): the bias lies in C before the product"""
    size = small(256, 32)
    bias = draw((16, size, size), torch.float16, 7)

    def spell(q, k, v, scale):
        B, H, S, D = q.shape
        q, k, v = (x.reshape(B * H, S, D) for x in (q, k, v))
        scores = torch.baddbmm(bias, q, k.transpose(1, 2), beta=1, alpha=scale)
        return torch.bmm(scores.softmax(-1), v).reshape(B, H, S, D)

    return simple(variant, (2, 8, size, 64), torch.float16, spell,
                  bias=bias.reshape(2, 8, size, size))


@program(Expect("replace", sites=2, **BF16), variants=("sdpa", "double"), timed={}, quick=True)
def einsum_bf16(variant):
    """einsum bqhd,bkhd, float softmax, bf16: V's copy lands where Q was"""

    def spell(q, k, v, scale):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # [B,S,H,D], not contiguous in D's owner
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * scale
        weights = torch.softmax(scores.float(), dim=-1).to(q.dtype)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v).transpose(1, 2)

    size = small(1024, 32)
    drawn = [[draw((2, size, 12, 64), torch.bfloat16, 1000 * n + x).transpose(1, 2)
              for x in range(3)] for n in range(SETS)]

    def step(i):
        q, k, v = drawn[i % SETS]
        if variant == "eager":
            return {"o": spell(q, k, v, 0.125)}
        if variant == "double":
            return {"o": reference(q, k, v, 0.125)}
        return {"o": sdpa(variant, q, k, v, 0.125)}

    return step


@program(Expect("either", sites=2, **FP16), variants=("double",))
def softcap(variant):
    """scores capped by tanh, fp16"""
    drawn, scale = qkv_sets((2, 8, small(256, 32), 64), torch.float16)

    def step(i):
        q, k, v = drawn[i % SETS]
        if variant == "double":
            q, k, v = q.double(), k.double(), v.double()
        scores = q @ k.transpose(-1, -2) * scale
        scores = torch.tanh(scores / 2.0) * 2.0
        return {"o": torch.softmax(scores, dim=-1) @ v}

    return step


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def softmax_spelt_out(variant):
    """softmax spelt as exp of the difference to the largest, over its sum, fp16"""
    drawn, scale = qkv_sets((2, 8, small(256, 32), 64), torch.float16)

    def step(i):
        q, k, v = drawn[i % SETS]
        if variant == "double":
            q, k, v = q.double(), k.double(), v.double()
        scores = q * scale @ k.transpose(-1, -2)
        weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        return {"o": weights / weights.sum(dim=-1, keepdim=True) @ v}

    return step


@program(Expect("either", sites=2, tol=4e-3))
def autocast(variant):
    """fp32 tensors under autocast"""
    drawn, scale = qkv_sets((2, 8, small(256, 32), 64), torch.float32)

    def step(i):
        q, k, v = drawn[i % SETS]
        with torch.autocast(DEVICE, dtype=torch.float16 if DEVICE == "cuda" else torch.bfloat16):
            return {"o": torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1) @ v}

    return step


@program(Expect("replace", sites=2, tol=2e-3))
def sdpa_math(variant):
    """scaled_dot_product_attention's own math backend, fp16, causal: S read twice, P copied for
    nobody"""
    drawn, scale = qkv_sets((2, 8, small(256, 32), 64), torch.float16)

    def step(i):
        return {"o": sdpa("math", *drawn[i % SETS], scale, causal=True)}

    return step


@program(Expect("either", sites=12, **FP16), repeat=40, few=6, variants=("double",))
def growing(variant):
    """one query against keys that grow by one each time"""
    heads, start = 16, small(200, 20)
    keys = draw((2, heads, start + 64, 64), torch.float16, 1)
    values = draw((2, heads, start + 64, 64), torch.float16, 2)

    def step(i):
        q = draw((2, heads, 1, 64), torch.float16, 100 + i)
        k, v = keys[:, :, :start + i].contiguous(), values[:, :, :start + i].contiguous()
        return {"o": naive(q, k, v, 0.125) if variant == "eager" else reference(q, k, v, 0.125)}

    return step


# ---- scores multiplied and masked by tensors ---------------------------------------------------


def everywhere(variant, drawn, spell):
    """step(i) for a spelling of the i-th set of tensors; for variant "double" they are upcast."""

    def step(i):
        given = drawn[i % len(drawn)]
        if variant == "double":
            given = [x.double() if x.is_floating_point() else x for x in given]
        return {"o": spell(*given)}

    return step


@program(Expect("replace", sites=1, **FP16), variants=("double",), quick=True)
def temperature(variant):
    """a learned temperature in device memory, another each time; no query sees its own key, fp16"""
    size = small(256, 32)
    drawn, _ = qkv_sets((4, 8, size, 64), torch.float16)
    drawn = [x + [draw((), torch.float16, 50 + n, 0.3) - 2] for n, x in enumerate(drawn)]
    own = torch.eye(size, dtype=torch.bool, device=DEVICE)

    def spell(q, k, v, t):
        scores = q @ k.transpose(-1, -2) * t.exp()
        return torch.softmax(scores.masked_fill(own, -65504.0), dim=-1) @ v

    return everywhere(variant, drawn, spell)


@program(Expect("replace", sites=1, **BF16), variants=("double",), quick=True)
def temperature_heads(variant):
    """cosine attention: a factor for each head, a bias, masks of shifted windows, bf16"""
    images, windows, H, N = small(16, 2), small(64, 4), 3, small(64, 9)
    drawn = [[draw((images * windows, H, N, 32), torch.bfloat16, 100 * n + x) for x in range(3)] +
             [draw((H, 1, 1), torch.bfloat16, 50 + n, 0.3) + 1] for n in range(SETS)]
    bias = draw((H, N, N), torch.bfloat16, 9)
    hidden = draw((windows, N, N), torch.bfloat16, 10) > 1
    mask = torch.zeros(windows, N, N, dtype=torch.bfloat16, device=DEVICE)
    mask = mask.masked_fill(hidden, -100)

    def spell(q, k, v, t, bias, mask):
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2) * t.exp()
        scores = (scores + bias).view(images, windows, H, N, N) + mask[None, :, None]
        return torch.softmax(scores.view(-1, H, N, N), dim=-1) @ v

    return everywhere(variant, [x + [bias, mask] for x in drawn], spell)


@program(Expect("replace", sites=1, tol="double", step=1e-6), variants=("double",))
def temperature_divides(variant):
    """attention over the channels of heads, divided by a number for each head, strict fp32"""
    drawn, _ = qkv_sets((small(32, 2), 4, 48, small(196, 20)), torch.float32)
    drawn = [x + [draw((4, 1, 1), torch.float32, 50 + n, 0.3).exp() * 9]
             for n, x in enumerate(drawn)]

    def spell(q, k, v, t):
        return torch.softmax(q @ k.transpose(-1, -2) / t, dim=-1) @ v

    return everywhere(variant, drawn, spell)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def multiplied_mask(variant):
    """a mask of ones that is multiplied in, and what is hidden put 1e4 below, fp16"""
    size = small(512, 32)
    drawn, scale = qkv_sets((2, 12, size, 64), torch.float16)
    seen = causal_keep(size).to(torch.float16)

    def spell(q, k, v, seen):
        scores = q @ k.transpose(-1, -2) * scale
        return torch.softmax(scores * seen + -1e4 * (1 - seen), dim=-1) @ v

    return everywhere(variant, [x + [seen] for x in drawn], spell)


# Whether the fused kernel or the chain is the faster here hangs on the host.
@program(Expect("replace", sites=1, **FP16), variants=("double",), quick=True,
         options={"FASHIM_MIN_SPEEDUP": "0"})
def two_positions(variant):
    """biases of an image's rows and of its columns, decomposed, fp16"""
    B, H, side, D = 2, 4, small(28, 5), 96
    size = side * side
    drawn, scale = qkv_sets((B, H, size, D), torch.float16)
    drawn = [x + [draw((B, H, size, side), torch.float16, 60 + n + 10 * y) for y in range(2)]
             for n, x in enumerate(drawn)]

    def spell(q, k, v, rows, columns):
        scores = (q * scale @ k.transpose(-1, -2)).view(B, H, size, side, side)
        scores = scores + rows[..., None] + columns[..., None, :]
        return torch.softmax(scores.view(B, H, size, size), dim=-1) @ v

    return everywhere(variant, drawn, spell)


# ---- not attention ---------------------------------------------------------------------------


@program(Expect("decline", reasons=("not_softmax", "not_explained", "unknown_kernel")), quick=True)
def linear_attention(variant):
    """(q k^T) v without softmax, and phi(q) (phi(k)^T v)"""
    drawn, scale = qkv_sets((2, 8, small(256, 32), 64), torch.float16)

    def step(i):
        q, k, v = drawn[i % SETS]
        direct = (q @ k.transpose(-1, -2)) * scale @ v
        phi_q, phi_k = F.elu(q) + 1, F.elu(k) + 1
        return {"direct": direct, "kernel": (phi_q * 0.05) @ (phi_k.transpose(-1, -2) * 0.05 @ v)}

    return step


@program(Expect("decline", reasons=("not_softmax", "not_explained", "unknown_kernel")))
def log_softmax(variant):
    """log_softmax in softmax's place"""
    drawn, scale = qkv_sets((2, 8, small(256, 32), 64), torch.float16)

    def step(i):
        q, k, v = drawn[i % SETS]
        return {"o": torch.log_softmax(q @ k.transpose(-1, -2) * scale, dim=-1) @ v * 0.01}

    return step


@program(Expect("decline", reasons=("not_softmax", "not_explained", "unknown_kernel", "layout")))
def other_axis(variant):
    """softmax over the queries"""
    drawn, scale = qkv_sets((2, 8, small(256, 32), 64), torch.float16)

    def step(i):
        q, k, v = drawn[i % SETS]
        return {"o": torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-2) @ v}

    return step
