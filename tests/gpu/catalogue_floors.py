# SPDX-License-Identifier: Apache-2.0
"""Scores that are raised to the lowest number there is, which takes back what masks add up to: as the
cases of catalogue_chains.py."""
import math

import torch
import torch.nn.functional as F

from catalogue_chains import F32, bhsd, heads_together, hidden_keys, softmax32, spelt
from chains import BF16, FP16
from common import DEVICE, small
from registry import Expect, program


@program(Expect("replace", sites=1, **F32), variants=("double",))
def sum_of_masks_floored(variant):
    """two masks of the lowest number are added: -inf where both hide, which a maximum takes back"""
    size = small(384, 24)
    causal = torch.full((size, size), torch.finfo(torch.float32).min, device=DEVICE).triu(1)
    sets = [s + [hidden_keys(4, size, n, torch.float32).expand(4, 1, size, size) + causal]
            for n, s in enumerate(bhsd(4, 12, size, 64, torch.float32))]

    def spell(q, k, v, mask):
        scores = q @ k.transpose(-1, -2) + mask
        least = torch.tensor(torch.finfo(torch.float32).min, device=scores.device)
        weights = F.softmax(torch.max(scores, least.to(scores.dtype)), dim=-1)
        return heads_together(weights @ v)

    return spelt(variant, sets, spell)


def floored(variant, dtype, place):
    """As above in 16 bits, the lowest number being the host's or the device's, softmax in fp32."""
    size = small(384, 24)
    causal = torch.full((size, size), torch.finfo(dtype).min, dtype=dtype, device=DEVICE).triu(1)
    sets = [s + [hidden_keys(4, size, n, dtype).flip(-1).expand(4, 1, size, size) + causal]
            for n, s in enumerate(bhsd(4, 12, size, 64, dtype))]

    def spell(q, k, v, mask):
        scores = q @ k.transpose(-1, -2) / math.sqrt(64) + mask
        scores = torch.max(scores, torch.tensor(torch.finfo(dtype).min, device=place))
        return heads_together(softmax32(scores).to(q.dtype) @ v)

    return spelt(variant, sets, spell)


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def llama_floored(variant):
    """the sum of masks is raised to the lowest number, which the functor holds: llama of 2023"""
    return floored(variant, torch.float16, "cpu")


@program(Expect("replace", sites=1, **FP16), variants=("double",))
def opt_floored(variant):
    """… which lies on the device, in fp32: opt of 2023"""
    return floored(variant, torch.float16, DEVICE)


@program(Expect("replace", sites=1, **BF16), variants=("double",))
def llama_floored_bf16(variant):
    """the bias is raised first; bf16 rounds as the program does"""
    return floored(variant, torch.bfloat16, "cpu")
