# SPDX-License-Identifier: Apache-2.0
"""Who computes a row: our kernels, the chain that programs spell out, SDPA's three fused backends, and
FlashAttention-4 where it is installed (the package flash-attn-4, which compiles as it is called).

A contestant has a `label` and `call(inputs)`, which enqueues one attention on the current stream and
returns its O; `open()` is entered around any number of calls.
"""
import contextlib
import math
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import abi
import machine

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION}


class Inputs:
    """Operands of one call; `o` is where ours writes."""

    def __init__(self, q, k, v, mask):
        self.q, self.k, self.v, self.mask = q, k, v, mask
        self.o = torch.empty_like(q, memory_format=torch.contiguous_format)


def draw(shape, dtype, kind, generator):
    """Normal numbers; kind "outliers": one in a thousand has one of variance 100 added."""
    x = torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32)
    if kind == "outliers":
        chosen = torch.rand(shape, generator=generator, device="cuda") < 0.001
        x += 10 * torch.randn(shape, generator=generator, device="cuda") * chosen
    return x.to(dtype)


def make_mask(row, generator):
    if row.mask == "bias":
        return draw((row.B, row.H, row.Sq, row.Sk), DTYPES[row.dtype], "normal", generator)
    if row.mask == "causal":
        return triangle(row)[None, None]
    if row.mask == "padding":
        # rows of a batch are padded more and more, the first not at all
        kept = torch.linspace(row.Sk, row.Sk // 2, row.B, device="cuda").long()
        return (torch.arange(row.Sk, device="cuda") < kept[:, None])[:, None, None]
    return None


def triangle(row):
    lowest = torch.finfo(DTYPES[row.dtype]).min
    return torch.full((row.Sq, row.Sk), lowest, dtype=DTYPES[row.dtype], device="cuda").triu(1)


def make_inputs(row, count, kind="normal", seed=1):
    """`count` independent sets of operands; a mask with one value per row or key is shared. Kind
    "steep": logits to about ±80."""
    generator = torch.Generator("cuda").manual_seed(seed)
    dtype, sets = DTYPES[row.dtype], []
    mask = make_mask(row, generator)
    for n in range(count):
        q = draw((row.B, row.H, row.Sq, row.D), dtype, kind, generator)
        shape = (row.B, row.H, row.D, row.Sk) if row.k_down else (row.B, row.H, row.Sk, row.D)
        k = draw(shape, dtype, kind, generator)
        k = k.transpose(-1, -2) if row.k_down else k
        v = draw((row.B, row.H, row.Sk, row.D), dtype, kind, generator)
        if kind == "steep":
            logits = q[0, 0].float() @ k[0, 0].float().T * row.scale
            q = (q * (80 / logits.abs().max())).to(dtype)
        if row.mask == "bias" and n:
            mask = make_mask(row, generator)
        sets.append(Inputs(q, k, v, mask))
    return sets


class Ours:
    """One of our kernels. `causal`: the mask of the row is said, not given."""

    def __init__(self, library, row, name, label="ours", causal=None):
        self.library, self.row, self.name, self.label = library, row, name, label
        self.causal, self.ready = causal, {}

    open = staticmethod(contextlib.nullcontext)

    def call(self, x):
        if x not in self.ready:
            self.ready[x] = self.library.prepare(self.name, arguments(self.row, x, self.causal))
        self.ready[x].launch(torch.cuda.current_stream().cuda_stream)
        return x.o


def arguments(row, x, causal=None):
    """Our call for a row's inputs."""
    if causal is None:
        return abi.arguments(x.q, x.k, x.v, x.o, row.scale, row.causal, x.mask)
    return abi.arguments(x.q, x.k, x.v, x.o, row.scale, causal)


class Chain:
    """matmul, scale, mask, softmax, matmul: what the shim replaces."""

    label = "chain"

    def __init__(self, row):
        self.row, self.triangle = row, triangle(row) if row.causal else None

    open = staticmethod(contextlib.nullcontext)

    def call(self, x):
        scores = torch.matmul(x.q, x.k.transpose(-1, -2)) * self.row.scale
        if self.triangle is not None:
            scores = scores + self.triangle
        if x.mask is not None and x.mask.dtype == torch.bool:
            scores = scores.masked_fill(~x.mask, -math.inf)
        elif x.mask is not None:
            scores = scores + x.mask
        return torch.matmul(torch.softmax(scores, dim=-1), x.v)


class Sdpa:
    """One backend; `copy`: K is made contiguous first, within the call."""

    def __init__(self, row, backend, copy=False):
        self.row, self.label, self.copy = row, backend, copy

    def open(self):
        return sdpa_kernel(BACKENDS[self.label])

    def call(self, x):
        k = x.k.contiguous() if self.copy else x.k
        return scaled_dot_product_attention(x.q, k, x.v, attn_mask=x.mask, is_causal=self.row.causal,
                                            scale=self.row.scale)

    def declined(self, x):
        """Why the backend does not take the call, or None."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                with self.open():
                    self.call(x)
                torch.cuda.synchronize()
                return None
            except RuntimeError as error:
                reasons = [str(w.message).split(" (Triggered")[0] for w in said]
                own = [r for r in reasons if "because" not in r and "has been runtime disabled" not in r]
                return (own or [str(error)])[0].splitlines()[0][:160]


class Flash4:
    """FlashAttention-4 as its package is called: tensors [B,S,H,D], here the same memory as everyone's."""

    label = "flash4"

    def __init__(self, row):
        self.row, self.function = row, None

    open = staticmethod(contextlib.nullcontext)

    def call(self, x):
        found = self.function(*(t.transpose(1, 2) for t in (x.q, x.k, x.v)), softmax_scale=self.row.scale,
                              causal=self.row.causal)
        return (found[0] if isinstance(found, tuple) else found).transpose(1, 2)

    def declined(self, x):
        if self.row.mask:
            return "it takes no tensor as mask"
        try:
            from flash_attn.cute import flash_attn_func
            self.function = flash_attn_func
            self.call(x)
            torch.cuda.synchronize()
            return None
        except Exception as error:  # it has a compiler of its own, with errors of its own
            return f"{type(error).__name__}: {error}".splitlines()[0][:160]


def peers(row, x):
    """(those that take the row's inputs, {label: why not}). A layout that SDPA does not take is
    copied for it within the timed call. FlashAttention-4 is asked where it is installed, for rows of
    kernels that are for a Hopper, as it is."""
    asked = [Sdpa(row, backend) for backend in BACKENDS]
    if machine.version("flash-attn-4") and not row.portable:
        asked.append(Flash4(row))
    taking, declined = [Chain(row)], {}
    for peer in asked:
        why = peer.declined(x)
        if why and row.k_down and isinstance(peer, Sdpa):
            peer = Sdpa(row, peer.label, copy=True)
            why = peer.declined(x)
        if why:
            declined[peer.label] = why
        else:
            taking.append(peer)
    return taking, declined


def ours(library, row, x, forced=None, every=False):
    """Our contestants for a row; the first is the one that counts."""
    args = arguments(row, x)
    chosen = library.select(args, forced, row.portable)
    found = [Ours(library, row, chosen)] if chosen else []
    plain = library.select(arguments(row, x, causal=True)) if row.variant_of_itself else None
    if chosen and plain:
        found.append(Ours(library, row, plain, "own causal", causal=True))
    if every:
        found += [Ours(library, row, name, name) for name in library.present()
                  if name != chosen and library.select(args, name) == name]
    return found
