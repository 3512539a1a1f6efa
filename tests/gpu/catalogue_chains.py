# SPDX-License-Identifier: Apache-2.0
"""The positive cases of the catalogue that PyTorch programs spell: each builder repeats one program
family's order of operations, layouts and casts, on inputs that change from forward to forward.

Variant "double" is the same spelling on the same inputs in float64, where casts do nothing.
"""
import math

import torch
import torch.nn.functional as F

from chains import BF16, FP16, causal_bias, causal_keep
from common import DEVICE, draw, small
from registry import Expect, program

SETS = 4  # distinct input sets
F32 = dict(tol="double", step=1e-6)
TF32 = dict(tol="double", step=1e-3)
LEAST = -10000.0  # what older programs add where a key is hidden


def spelt(variant, sets, spell):
    """step(i) for spell(*tensors): the i-th set as it is, or in float64."""

    def step(i):
        tensors = sets[i % len(sets)]
        if variant == "double":
            tensors = [x.double() if x.is_floating_point() else x for x in tensors]
        return {"o": spell(*tensors)}

    return step


def drawn(shapes, dtype, sets=SETS):
    """Input sets of one tensor for each shape."""
    return [[draw(shape, dtype, 1000 * n + x) for x, shape in enumerate(shapes)]
            for n in range(sets)]


def bhsd(B, H, S, D, dtype, Sk=None, sets=SETS):
    """Input sets q, k, v, contiguous [B,H,S,D]."""
    keys = (B, H, Sk or S, D)
    return drawn([(B, H, S, D), keys, keys], dtype, sets)


def wide(x):
    """At least float32."""
    return x if x.dtype == torch.float64 else x.float()


def softmax32(x):
    """softmax(x, dtype=float32): one kernel for fp16, a cast and a kernel for bf16."""
    return F.softmax(x, dim=-1, dtype=torch.promote_types(x.dtype, torch.float32))


def heads_together(o):
    """[B,H,S,D] -> contiguous [B,S,H,D], as the output projection wants it."""
    return o.transpose(1, 2).contiguous()


def hidden_keys(batch, size, seed, dtype):
    """Additive padding mask [B,1,1,Sk]: keys past a length that differs from row to row."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(size // 2, size + 1, (batch,), generator=generator).to(DEVICE)
    hidden = torch.arange(size, device=DEVICE) >= lengths[:, None]
    mask = torch.zeros(batch, size, dtype=dtype, device=DEVICE)
    return mask.masked_fill(hidden, torch.finfo(dtype).min)[:, None, None]


# ---- decoders of the transformers library ------------------------------------------------------


def hf(q, k, v, mask):
    """The spelling that most decoders of the transformers library share."""
    weights = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    weights = softmax32(weights + mask).to(q.dtype)
    return heads_together(weights @ v)


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def hf_causal_bf16_prefill(variant):
    """scale, added causal mask [B,1,S,S], float softmax, cast; bf16 B2 H8 S1024 D128"""
    size = small(1024, 32)
    mask = causal_bias(size, torch.bfloat16).expand(2, 1, size, size).contiguous()
    return spelt(variant, [q + [mask] for q in bhsd(2, 8, size, 128, torch.bfloat16)], hf)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def hf_fp16_half_to_float(variant):
    """softmax from half to float in one kernel; scores of some hundreds"""
    size = small(512, 32)
    mask = causal_bias(size, torch.float16)[None, None]
    sets = bhsd(2, 8, size, 64, torch.float16)
    return spelt(variant, [[q * 6, k * 6, v, mask] for q, k, v in sets], hf)


@program(Expect("either", sites=1, **FP16), variants=("double",))
def hf_fp16_overflow(variant):
    """the product overflows half precision in some rows, which gives NaN there"""
    size = small(512, 32)
    mask = causal_bias(size, torch.float16)[None, None]
    sets = [[q.clone(), k, v, mask] for q, k, v in bhsd(2, 8, size, 64, torch.float16)]
    for q, *_ in sets:
        q[:, :, -3:] *= 30000
    return spelt(variant, sets, hf)


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def hf_gqa_repeat_kv(variant):
    """32 heads of queries on 8 heads of keys, repeated by a copy"""
    size, D = small(512, 32), 64
    mask = causal_bias(size, torch.bfloat16)[None, None]
    sets = drawn([(2, 32, size, D), (2, 8, size, D), (2, 8, size, D)], torch.bfloat16)

    def repeat(x):
        B, H, S, _ = x.shape
        return x[:, :, None].expand(B, H, 4, S, D).reshape(B, 4 * H, S, D)

    return spelt(variant, [s + [mask] for s in sets],
                 lambda q, k, v, m: hf(q, repeat(k), repeat(v), m))


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def hf_batch1_interleaved(variant):
    """batch 1: Q read in place with ld = H*D, K and V contiguous"""
    size, H, D = small(512, 32), 16, 64
    mask = causal_bias(size, torch.float16)[None, None]
    sets = drawn([(1, size, H, D), (1, H, size, D), (1, H, size, D)], torch.float16)
    return spelt(variant, [[q.transpose(1, 2), k, v, mask] for q, k, v in sets], hf)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def hf_batch1_fused_qkv(variant):
    """batch 1: Q, K and V read in place from one projection, ld = 3*H*D"""
    size, H, D = small(512, 32), 16, 64
    mask = causal_bias(size, torch.float16)[None, None]

    def spell(qkv, m):
        q, k, v = (x.view(1, size, H, D).transpose(1, 2) for x in qkv.split(H * D, dim=2))
        return hf(q, k, v, m)

    return spelt(variant, [s + [mask] for s in drawn([(1, size, 3 * H * D)], torch.float16)], spell)


@program(Expect("either", sites=2, reasons=("slower",), **FP16), repeat=32, few=8,
         variants=("double",))
def hf_decode_q1_growing(variant):
    """one query against a cache that cat makes one longer each time"""
    start = small(700, 20)
    keys, values = (draw((4, 16, start + 64, 64), torch.float16, x) for x in (1, 2))

    def step(i):
        q = draw((4, 16, 1, 64), torch.float16, 100 + i)
        n = start + i
        k, v = (torch.cat([x[:, :, :n - 1], x[:, :, n - 1:n]], dim=2) for x in (keys, values))
        if variant == "double":
            q, k, v = q.double(), k.double(), v.double()
        weights = q @ k.transpose(2, 3) * 0.125
        return {"o": heads_together(softmax32(weights).to(q.dtype) @ v)}

    return step


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def hf_static_cache(variant):
    """K and V are whole buffers of max_len; an added mask hides what is not yet written"""
    length, size = small(1024, 48), small(256, 16)
    sets = bhsd(2, 16, size, 64, torch.bfloat16, Sk=length)
    masks = []
    for n in range(SETS):
        seen = torch.arange(length, device=DEVICE) <= \
            torch.arange(size, device=DEVICE)[:, None] + 16 * n
        mask = torch.zeros(2, 1, size, length, dtype=torch.bfloat16, device=DEVICE)
        masks.append(mask.masked_fill(~seen, torch.finfo(torch.bfloat16).min))
    return spelt(variant, [s + [m] for s, m in zip(sets, masks)], hf)


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def hf_sliced_cache(variant):
    """K and V are the filled part of larger buffers: batch stride > Sk*D"""
    length, size = small(1024, 48), small(640, 24)
    mask = causal_bias(size, torch.bfloat16)[None, None]
    sets = drawn([(2, 16, size, 64), (2, 16, length, 64), (2, 16, length, 64)], torch.bfloat16)
    return spelt(variant, [[q, k[:, :, :size], v[:, :, :size], mask] for q, k, v in sets], hf)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def bert_padding_mask(variant):
    """division by a number, padding mask [B,1,1,Sk] added, softmax in half precision"""
    size = small(384, 24)
    sets = [s + [hidden_keys(4, size, n, torch.float16)]
            for n, s in enumerate(bhsd(4, 12, size, 64, torch.float16))]

    def spell(q, k, v, mask):
        scores = q @ k.transpose(-1, -2) / math.sqrt(64)
        return heads_together(F.softmax(scores + mask, dim=-1) @ v)

    return spelt(variant, sets, spell)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def gpt2_device_scalar_where(variant):
    """division by a number in device memory, where() for causality, a padding mask on top"""
    size, B = small(512, 24), 2
    keep = causal_keep(size)[None, None]
    sets = [s + [hidden_keys(B, size, n, torch.float16).flip(-1)]
            for n, s in enumerate(bhsd(B, 12, size, 64, torch.float16))]

    def spell(q, k, v, mask):
        weights = q @ k.transpose(-1, -2)
        weights = weights / torch.full([], 8.0, dtype=weights.dtype, device=weights.device)
        least = torch.full([], torch.finfo(torch.float16).min, dtype=weights.dtype,
                           device=weights.device)
        weights = torch.where(keep, weights, least) + mask
        o = heads_together(F.softmax(weights, dim=-1).type(v.dtype) @ v)
        # What a padding row attends to is decided by rounding alone; nobody looks at it.
        return o.masked_fill((mask < 0).view(B, size, 1, 1), 0)

    return spelt(variant, sets, spell)


def t5(variant, dtype):
    """No scale; position bias [1,H,Sq,Sk] added in place; float softmax."""
    size = small(512, 24)
    bias = draw((1, 12, size, size), dtype, 77)
    sets = [[q * 0.125, k, v, bias] for q, k, v in bhsd(4, 12, size, 64, dtype)]

    def spell(q, k, v, position):
        scores = q @ k.transpose(3, 2)
        scores += position
        return heads_together(F.softmax(wide(scores), dim=-1).type_as(scores) @ v)

    return spelt(variant, sets, spell)


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def t5_bias_inplace(variant):
    """no scale, bias added in place, float softmax; bf16"""
    return t5(variant, torch.bfloat16)


@program(Expect("replace", sites=1, **F32), variants=("double",))
def t5_bias_inplace_f32(variant):
    """the same in strict fp32"""
    return t5(variant, torch.float32)


def slopes(heads):
    """ALiBi's slopes for a power of two of heads."""
    return torch.tensor([2 ** (-8 * (h + 1) / heads) for h in range(heads)], device=DEVICE)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def bloom_baddbmm_beta1(variant):
    """ALiBi [B*H,1,Sk] is copied into C, the product adds to it; then a causal mask"""
    B, H, D, size = 2, 16, 64, small(512, 24)
    alibi = (slopes(H)[:, None, None] * torch.arange(size, device=DEVICE)).to(torch.float16)
    alibi = alibi.repeat(B, 1, 1)
    mask = causal_bias(size, torch.float16)[None, None]
    sets = drawn([(B * H, size, D), (B * H, size, D), (B * H, size, D)], torch.float16)

    def spell(q, k, v, a, m):
        scores = a.baddbmm(batch1=q, batch2=k.transpose(1, 2), beta=1.0, alpha=D ** -0.5)
        scores = scores.view(B, H, size, size) + m
        weights = softmax32(scores).to(q.dtype).view(B * H, size, size)
        return torch.bmm(weights, v).view(B, H, size, D).transpose(1, 2).reshape(B, size, H * D)

    return spelt(variant, [s + [alibi, mask] for s in sets], spell)


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def gemma_softcap(variant):
    """scale, scores capped by tanh, added mask, float softmax"""
    size = small(512, 24)
    mask = causal_bias(size, torch.bfloat16)[None, None]

    def spell(q, k, v, m):
        scores = q @ k.transpose(2, 3) * 0.125
        scores = torch.tanh(scores / 5.0) * 5.0
        return heads_together(softmax32(scores + m).to(q.dtype) @ v)

    return spelt(variant, [[q * 2, k * 2, v, mask]
                           for q, k, v in bhsd(2, 8, size, 64, torch.bfloat16)], spell)


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def gptoss_sink_ld(variant):
    """a sink column: cat to Sk+1, row maximum subtracted, softmax, last column dropped"""
    B, H, size = 2, 16, small(512, 24)
    sinks = draw((H,), torch.bfloat16, 5, scale=2.0)
    mask = causal_bias(size, torch.bfloat16)[None, None]

    def spell(q, k, v, s, m):
        weights = q @ k.transpose(2, 3) * 0.125 + m
        column = s.reshape(1, -1, 1, 1).expand(B, -1, size, -1)
        both = torch.cat([weights, column], dim=-1)
        both = both - both.max(dim=-1, keepdim=True).values
        return heads_together(F.softmax(both, dim=-1)[..., :-1] @ v)

    return spelt(variant, [s + [sinks, mask] for s in bhsd(B, H, size, 64, torch.bfloat16)], spell)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def mqa_folded_rows(variant):
    """one head of keys: queries of all heads are rows of one product"""
    B, H, D, size = 2, 16, 64, small(256, 16)
    keep = causal_keep(size)[None, :, None]
    sets = drawn([(B, size, H, D), (B, size, D), (B, size, D)], torch.float16)

    def spell(q, k, v):
        scores = torch.empty(B, size * H, size, dtype=q.dtype, device=q.device)
        scores = torch.baddbmm(scores, q.view(B, size * H, D), k.transpose(1, 2), beta=0,
                               alpha=D ** -0.5).view(B, size, H, size)
        least = torch.full([], torch.finfo(torch.float16).min, dtype=q.dtype, device=q.device)
        weights = F.softmax(torch.where(keep, scores, least), dim=-1)
        return torch.bmm(weights.view(B, size * H, size), v).view(B, size, H * D)

    return spelt(variant, sets, spell)


# ---- fp32, mixed precision, other places for the scale -----------------------------------------


def nano(q, k, v):
    """The spelling of small training repositories."""
    S = q.shape[2]
    scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(k.size(-1)))
    scores = scores.masked_fill(torch.ones(S, S, device=q.device).tril() == 0, float("-inf"))
    return heads_together(F.softmax(scores, dim=-1) @ v)


@program(Expect("replace", sites=1, **TF32), variants=("double",))
def plain_fp32_tf32(variant):
    """fp32 tensors, TF32 allowed, masked_fill(-inf)"""
    torch.backends.cuda.matmul.allow_tf32 = True
    return spelt(variant, bhsd(4, 12, small(1024, 24), 64, torch.float32), nano)


@program(Expect("replace", sites=1, **F32), variants=("double",))
def plain_fp32_strict(variant):
    """fp32 tensors, TF32 forbidden, masked_fill(-inf); S1024 D64"""
    return spelt(variant, bhsd(4, 12, small(1024, 24), 64, torch.float32), nano)


@program(Expect("replace", sites=1, **F32), variants=("double",))
def plain_fp32_strict_d128(variant):
    """the same with D128"""
    return spelt(variant, bhsd(2, 16, small(1024, 24), 128, torch.float32), nano)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def prescaled_q(variant):
    """the query projection is scaled before a 3-D bmm: the chain sees alpha 1"""
    B, H, D, size = 4, 12, 64, small(512, 24)
    mask = [hidden_keys(B, size, n, torch.float16) for n in range(SETS)]
    sets = drawn([(B * H, size, D), (B * H, size, D), (B * H, size, D)], torch.float16)

    def spell(q, k, v, m):
        weights = torch.bmm(q * D ** -0.5, k.transpose(1, 2))
        weights = (weights.view(B, H, size, size) + m).view(B * H, size, size)
        return torch.bmm(F.softmax(weights, dim=-1), v).view(B, H, size, D).transpose(1, 2)

    return spelt(variant, [s + [m] for s, m in zip(sets, mask)], spell)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def split_scale_qk(variant):
    """a quarter power of the depth on both sides, K as [D,S], float softmax; S1500"""
    size, H, D = small(1500, 24), 6, 64
    sets = drawn([(2, size, H, D)] * 3, torch.float16)

    def spell(q, k, v):
        scale = D ** -0.25
        scores = wide((q.permute(0, 2, 1, 3) * scale) @ (k.permute(0, 2, 3, 1) * scale))
        weights = F.softmax(scores, dim=-1).to(q.dtype)
        return (weights @ v.permute(0, 2, 1, 3)).permute(0, 2, 1, 3).flatten(start_dim=2)

    return spelt(variant, sets, spell)


@program(Expect("either", sites=1, reasons=("scores_read_by", "unknown_kernel"), tol=4e-3))
def native_mha_alias_q(variant):
    """nn.MultiheadAttention's fast path without weights: O is written over Q"""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(512, 8, batch_first=True, device=DEVICE,
                                        dtype=torch.float16).eval().requires_grad_(False)
    size = small(512, 24)

    def step(i):
        x = draw((4, size, 512), torch.float16, i)
        with sdpa_kernel(SDPBackend.MATH):
            return {"o": layer(x, x, x, need_weights=False)[0]}

    return step


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def einsum_bhsd(variant):
    """einsum on [B,H,S,D], the scale on the scores, fp16"""

    def spell(q, k, v):
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * 0.125
        return torch.einsum("bhij,bhjd->bhid", scores.softmax(dim=-1), v)

    return spelt(variant, bhsd(2, 8, small(512, 24), 64, torch.float16), spell)


@program(Expect("either", sites=1, reasons=("layout", "not_softmax", "unknown_kernel"), **FP16),
         variants=("double",))
def einsum_scores_transposed(variant):
    """scores laid out keys first, softmax over the first of the two"""

    def spell(q, k, v):
        scores = torch.einsum("bjhd,bihd->bhji", k, q) * 0.125
        return torch.einsum("bhji,bjhd->bihd", scores.softmax(dim=-2), v)

    size = small(512, 24)
    return spelt(variant, drawn([(2, size, 8, 64)] * 3, torch.float16), spell)


# ---- images, audio, proteins -------------------------------------------------------------------


def diffusers(q, k, v):
    """baddbmm into an empty tensor; 3-D."""
    empty = torch.empty(q.shape[0], q.shape[1], k.shape[1], dtype=q.dtype, device=q.device)
    scores = torch.baddbmm(empty, q, k.transpose(-1, -2), beta=0, alpha=q.shape[-1] ** -0.5)
    return torch.bmm(scores.softmax(dim=-1).to(q.dtype), v)


def latent(variant, size, keys, D):
    return spelt(variant, drawn([(16, size, D), (16, keys, D), (16, keys, D)], torch.float16),
                 diffusers)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def diffusers_baddbmm_beta0(variant):
    """self-attention of a latent picture, D=40"""
    return latent(variant, small(1024, 16), small(1024, 16), 40)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def diffusers_d160(variant):
    """the same lower down, D=160"""
    return latent(variant, small(256, 16), small(256, 16), 160)


@program(Expect("either", sites=1, reasons=("slower",), **FP16), variants=("double",))
def diffusers_cross_77(variant):
    """cross-attention on 77 words, D=80: odd leading dimension"""
    return latent(variant, small(1024, 16), 77, 80)


@program(Expect("replace", chains=4, sites=1, **FP16), variants=("double",))
def diffusers_sliced(variant):
    """a loop over slices of the heads that writes into slices of the result"""

    def spell(q, k, v):
        out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
        for n in range(0, q.shape[0], 4):
            out[n:n + 4] = diffusers(q[n:n + 4], k[n:n + 4], v[n:n + 4])
        return out

    return spelt(variant, drawn([(16, small(1024, 16), 40)] * 3, torch.float16), spell)


def channels_first(variant, C, size):
    """[B,C,HW]: Q^T K, and V P^T with P as first operand."""

    def spell(q, k, v):
        weights = torch.bmm(q.permute(0, 2, 1), k) * int(C) ** -0.5
        weights = F.softmax(weights, dim=2)
        return torch.bmm(v, weights.permute(0, 2, 1))

    return spelt(variant, drawn([(2, C, size)] * 3, torch.float16), spell)


@program(Expect("either", sites=1, reasons=("no_kernel", "layout"), **FP16), variants=("double",))
def vae_channels_first(variant):
    """the attention block of a picture's autoencoder: one head of 512"""
    return channels_first(variant, 512, small(1024, 16))


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def channels_first_d64(variant):
    """the same with a head of 64"""
    return channels_first(variant, 64, small(1024, 16))


@program(Expect("either", sites=1, reasons=("slower", "mask_form"), **FP16), variants=("double",))
def swin_bias_window(variant):
    """1024 windows of 49: bias [H,49,49], then a window mask through a 5-D view"""
    B, windows, H, N = small(16, 1), small(64, 4), 4, 49
    bias = draw((H, N, N), torch.float16, 9)
    hidden = draw((windows, N, N), torch.float16, 10) > 1
    mask = torch.zeros(windows, N, N, dtype=torch.float16, device=DEVICE).masked_fill(hidden, -100)
    sets = drawn([(B * windows, H, N, 32)] * 3, torch.float16)

    def spell(q, k, v, b, m):
        scores = (q * 32 ** -0.5) @ k.transpose(-2, -1) + b[None]
        scores = scores.view(B, windows, H, N, N) + m[None, :, None]
        weights = F.softmax(scores.view(-1, H, N, N), dim=-1)
        return (weights @ v).transpose(1, 2).reshape(B * windows, N, H * 32)

    return spelt(variant, [s + [bias, mask] for s in sets], spell)


@program(Expect("either", sites=1, reasons=("mask_form", "not_explained"), **FP16),
         variants=("double",))
def conformer_relpos(variant):
    """a second product, shifted, is added to the first; masked_fill before and after the softmax"""
    B, H, D, size = 2, 8, 64, small(384, 24)
    where = draw((H, 2 * size - 1, D), torch.float16, 3)
    sets = []
    for n, (q, k, v) in enumerate(bhsd(B, H, size, D, torch.float16)):
        hidden = hidden_keys(B, size, n, torch.float16) < 0
        sets.append([q, k, v, draw((H, 1, D), torch.float16, 20),
                     draw((H, 1, D), torch.float16, 21), where, hidden])

    def spell(q, k, v, u, w, p, hidden):
        ac = (q + u) @ k.transpose(-2, -1)
        bd = (q + w) @ p.transpose(-2, -1)
        bd = F.pad(bd, (1, 0)).view(B, H, 2 * size, size)[:, :, 1:].reshape(B, H, size, -1)
        scores = (ac + bd[..., :size]) / math.sqrt(D)
        weights = F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        return heads_together(weights.masked_fill(hidden, 0.0) @ v)

    return spelt(variant, sets, spell)


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def openfold_two_biases(variant):
    """five dimensions, a mask and a pair bias both added in place, D=32"""
    N, H, D, size = small(32, 2), 4, 32, small(256, 16)
    pair = draw((1, 1, H, size, size), torch.bfloat16, 30)
    sets = []
    for n, (q, k, v) in enumerate(drawn([(1, N, H, size, D)] * 3, torch.bfloat16)):
        mask = hidden_keys(N, size, n, torch.bfloat16).clamp(min=-1e9).view(1, N, 1, 1, size)
        sets.append([q * D ** -0.5, k, v, mask, pair])

    def spell(q, k, v, m, p):
        a = torch.matmul(q, k.transpose(-1, -2))
        a += m
        a += p
        return torch.matmul(F.softmax(a, dim=-1), v).transpose(-2, -3)

    return spelt(variant, sets, spell)


def sbhd(q, k, scale):
    """Scores [B*H,Sq,Sk] of [S,B,H,D] operands: ld = B*H*D, batch stride D."""
    S, B, H, D = q.shape
    q, k = (x.reshape(S, B * H, D).transpose(0, 1) for x in (q, k))
    empty = torch.empty(B * H, S, S, dtype=q.dtype, device=q.device)
    return torch.baddbmm(empty, q, k.transpose(1, 2), beta=0.0, alpha=scale)


def sbhd_values(weights, v):
    S, B, H, D = v.shape
    o = torch.bmm(weights.view(B * H, S, S), v.reshape(S, B * H, D).transpose(0, 1))
    return o.view(B, H, S, D).permute(2, 0, 1, 3).contiguous()


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def megatron_sbhd(variant):
    """sequence first, batch 2, masked_fill(-10000) in fp32"""
    size = small(512, 24)
    hidden = ~causal_keep(size)

    def spell(q, k, v):
        scores = wide(sbhd(q, k, 0.125)).masked_fill(hidden, LEAST)
        return sbhd_values(F.softmax(scores, dim=-1).to(q.dtype), v)

    return spelt(variant, drawn([(size, 2, 8, 64)] * 3, torch.bfloat16), spell)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def ort_plain_graph(variant):
    """an exported graph that nothing fused: MatMul, Cast, Softmax, Cast, MatMul; scale in Q"""

    def spell(q, k, v):
        scores = wide(torch.matmul(q * 0.125, k.transpose(-1, -2)))
        return torch.matmul(torch.softmax(scores, dim=-1).to(v.dtype), v)

    return spelt(variant, bhsd(2, 16, small(1024, 24), 64, torch.float16), spell)
