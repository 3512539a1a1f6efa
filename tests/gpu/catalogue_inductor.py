# SPDX-License-Identifier: Apache-2.0
"""The thirty orders of operations that PyTorch's compiler looks for, run eagerly: one row of
PATTERNS for each, registered as the programs inductor_01 … inductor_30.

A row says how the operands lie ("bhsd", "bshd": heads third and permuted, "3d", "strided": every
second column of a wider tensor), their type, and spells what happens from Q, K, V (and a mask)
to the output. Dropout is there in evaluation mode, as it is in the models.
"""
import math

import torch
import torch.nn.functional as F

from catalogue_chains import F32, bhsd, drawn, hidden_keys, slopes, spelt, wide
from chains import FP16, causal_keep
from common import DEVICE, draw, small
from registry import Expect, program

B, H, D = 2, 8, 64
HALF, FULL = torch.float16, torch.float32


def off(x):
    """Dropout of a model in evaluation mode."""
    return F.dropout(x, p=0.1, training=False)


def product(q, k):
    return torch.matmul(q, k.transpose(-2, -1))


def permuted(q, k, v):
    return tuple(x.permute(0, 2, 1, 3) for x in (q, k, v))


def soft(x):
    return x.softmax(dim=-1)


def soft_float(x, like):
    return F.softmax(wide(x), dim=-1).type_as(like)


def causal_where(scores):
    """GPT-2: where(causal, scores, least)."""
    least = torch.full((), torch.finfo(HALF).min, dtype=scores.dtype, device=scores.device)
    return torch.where(causal_keep(scores.shape[-1]), scores, least)


def divided_by_tensor(scores):
    return scores / torch.full([], D ** 0.5, dtype=scores.dtype, device=scores.device)


def p01(q, k, v):
    return soft(product(q, k).div(8.0)) @ v


def p02(q, k, v):
    return soft(product(q, k).mul(0.125)) @ v


def p03(q, k, v):
    return off(soft(product(q, k).div(8.0))) @ v


def p04(q, k, v):
    return off(soft(product(q, k).mul(0.125))) @ v


def p05(q, k, v, mask):
    return soft(product(q, k) / math.sqrt(D) + mask) @ v


def p06(q, k, v, mask):
    return off(soft(product(q, k) / math.sqrt(D) + mask)) @ v


def p07(q, k, v):
    q, k, v = permuted(q, k, v)
    return F.softmax(wide(product(q, k) / math.sqrt(D)), dim=-1).to(q.dtype) @ v


def p08(q, k, v):
    q, k, v = permuted(q, k, v)
    return off(F.softmax(wide(product(q, k) / math.sqrt(D)), dim=-1)).to(q.dtype) @ v


def p09(q, k, v):
    q, k, v = permuted(q, k, v)
    return F.softmax(wide(product(q / math.sqrt(D), k)), dim=-1).to(q.dtype) @ v


def p10(q, k, v):
    q, k, v = permuted(q, k, v)
    return off(F.softmax(wide(product(q / math.sqrt(D), k)), dim=-1)).to(q.dtype) @ v


def p11(q, k, v):
    q, k, v = permuted(q, k, v)
    return soft(product(q, k).div(8.0)) @ v


def p12(q, k, v):
    q, k, v = permuted(q, k, v)
    return off(soft(product(q, k).div(8.0))) @ v


def p13(q, k, v):
    return torch.bmm(off(soft(torch.bmm(q, k.transpose(1, 2)))), v)


def p14(q, k, v, mask):
    q, k, v = permuted(q, k, v)
    return soft(product(q, k).div(8.0) + mask) @ v


def p15(q, k, v, mask):
    q, k, v = permuted(q, k, v)
    hidden = (mask < 0).expand(-1, 1, q.shape[2], -1)
    return soft(product(q, k).div(8.0).masked_fill(hidden, -math.inf)) @ v


def p16(q, k, v, mask):
    q, k, v = permuted(q, k, v)
    return off(soft(product(q, k).div(8.0) + wide(mask))).to(q.dtype) @ v


def p17(q, k, v, mask):
    q, k, v = permuted(q, k, v)
    hidden = (mask < 0).expand(-1, 1, q.shape[2], -1)
    return off(soft(product(q, k).div(8.0).masked_fill(hidden, -math.inf))) @ v


def p18(q, k, v):
    q, k, v = permuted(q, k, v)
    return off(soft(causal_where(divided_by_tensor(product(q, k))))) @ v


def p19(q, k, v, mask):
    scores = causal_where(divided_by_tensor(product(q, k))) + mask
    return off(soft(scores).type(v.dtype)) @ v


def p20(q, k, v, mask):
    q, k, v = permuted(q, k, v)
    hidden = (mask < 0).expand(-1, 1, q.shape[2], -1)
    return off(soft(product(q.div(8.0), k).masked_fill(hidden, -math.inf))) @ v


def p21(q, k, v, mask):
    q, k, v = permuted(q, k, v)
    scores = product(q, k) + mask
    return off(soft_float(scores, q)) @ v


def p22(q, k, v, mask):
    q, k, v = (x.permute(0, 2, 1, 3).contiguous() for x in (q, k, v))
    scores = product(q, k) + mask
    return off(soft_float(scores, q)) @ v


def p23(q, k, v):
    q, k, v = permuted(q, k, v)
    return off(soft_float(product(q, k), q)) @ v


def p24(q, k, v, mask):
    scores = torch.bmm(q, k.transpose(1, 2))
    size = scores.shape[-1]
    scores = (scores.view(B, H, size, size) + wide(mask)).view(B * H, size, size)
    return torch.bmm(off(soft(scores)).to(q.dtype), v)


def p25(q, k, v, mask):
    q, k, v = permuted(q, k, v)
    scores = wide(product(q, k) + mask)
    return off((scores - 0.0).softmax(dim=-1).to(q.dtype)) @ v


def p26(q, k, v, mask):
    q, k, v = (x.permute(0, 2, 1, 3).contiguous() for x in (q, k, v))
    scores = wide(product(q, k) + mask)
    return off(scores.softmax(dim=-1).to(q.dtype)) @ v


def p27(q, k, v):
    q, k, v = (x.permute(0, 2, 1, 3).contiguous() for x in (q, k, v))
    return off(wide(product(q, k)).softmax(dim=-1).to(q.dtype)) @ v


def p28(q, k, v):
    return off(soft(product(q, k).mul(0.125))) @ v


def safe(scores):
    """Softmax that gives zeros where a whole row is hidden."""
    weights = soft(scores)
    lost = torch.all(scores == -math.inf, dim=-1, keepdim=True)
    return torch.where(lost, torch.zeros((), dtype=weights.dtype, device=scores.device), weights)


def p29(q, k, v, mask):
    q, k, v = permuted(q, k, v)
    scale = math.sqrt(0.125)
    return safe(torch.matmul(q * scale, k.transpose(-2, -1) * scale) + mask) @ v


def p30(q, k, v):
    q, k, v = permuted(q, k, v)
    scale = math.sqrt(0.125)
    return safe(torch.matmul(q * scale, k.transpose(-2, -1) * scale)) @ v


# number: spelling, how the operands lie, mask, type
PATTERNS = {
    1: (p01, "bhsd", None, HALF),
    2: (p02, "bhsd", None, HALF),
    3: (p03, "bhsd", None, HALF),
    4: (p04, "bhsd", None, HALF),
    5: (p05, "bhsd", "padding", HALF),
    6: (p06, "bhsd", "padding", HALF),
    7: (p07, "bshd", None, HALF),
    8: (p08, "bshd", None, HALF),
    9: (p09, "bshd", None, HALF),
    10: (p10, "bshd", None, HALF),
    11: (p11, "bshd", None, HALF),
    12: (p12, "bshd", None, HALF),
    13: (p13, "3d", None, HALF),
    14: (p14, "bshd", "padding", HALF),
    15: (p15, "bshd", "padding", HALF),
    16: (p16, "bshd", "padding", HALF),
    17: (p17, "bshd", "padding", HALF),
    18: (p18, "bshd", None, HALF),
    19: (p19, "bhsd", "bias", HALF),
    20: (p20, "bshd", "padding", HALF),
    21: (p21, "bshd", "bias", HALF),
    22: (p22, "bshd", "bias", HALF),
    23: (p23, "bshd", None, HALF),
    24: (p24, "3d", "padding", HALF),
    25: (p25, "bshd", "bias", FULL),
    26: (p26, "bshd", "bias", FULL),
    27: (p27, "bshd", None, FULL),
    28: (p28, "strided", None, HALF),
    29: (p29, "bshd", "padding", FULL),
    30: (p30, "bshd", None, FULL),
}
SCALES = (13, 21, 22, 23, 24, 25, 26, 27)  # without a scale of their own


def operands(number, lie, mask, dtype):
    """Input sets of one pattern."""
    size = small(512, 24)
    if lie == "bhsd":
        sets = bhsd(B, H, size, D, dtype)
    elif lie == "strided":
        sets = [[x[..., ::2, :] for x in s] for s in bhsd(B, H, 2 * size, D, dtype)]
    else:
        shape = (B, size, H, D) if lie == "bshd" else (B * H, size, D)
        sets = drawn([shape] * 3, dtype)
    if number in SCALES:
        sets = [[q * 0.125, k, v] for q, k, v in sets]
    if mask == "padding":
        sets = [s + [hidden_keys(B, size, n, dtype)] for n, s in enumerate(sets)]
    elif mask == "bias":
        near = -slopes(H)[:, None, None] * torch.arange(size, device=DEVICE).flip(0)
        bias = draw((1, H, size, size), torch.float32, 50) + near
        sets = [s + [bias.to(dtype)] for s in sets]
    return sets


def register(number):
    spell, lie, mask, dtype = PATTERNS[number]
    expect = Expect("replace", sites=1, **(F32 if dtype == FULL else FP16))

    def build(variant):
        return spelt(variant, operands(number, lie, mask, dtype), spell)

    build.__name__ = f"inductor_{number:02}"
    build.__doc__ = f"pattern {number}: {lie}, mask {mask}, {dtype}"
    program(expect, variants=("double",))(build)


for number_ in PATTERNS:
    register(number_)
