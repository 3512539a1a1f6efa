# SPDX-License-Identifier: Apache-2.0
"""Device, random inputs and precision settings shared by the PyTorch test programs.

FASHIM_TEST_DEVICE=cpu runs everything small and on the processor: a check of the programs
themselves, not of the shim.
"""
import os

import torch

DEVICE = os.environ.get("FASHIM_TEST_DEVICE", "cuda")
ON_GPU = DEVICE == "cuda"


def setup():
    """Deterministic, and strict about float32: TF32 stays off."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(2)


def small(full, tiny):
    """`full` on a GPU, `tiny` where the processor does the work."""
    return full if ON_GPU else tiny


def draw(shape, dtype, seed, scale=1.0):
    """Normal numbers that depend on the seed alone."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    numbers = torch.randn(shape, generator=generator, device=DEVICE, dtype=torch.float32)
    return (numbers * scale).to(dtype)


def tokens(shape, vocabulary, seed):
    """Token numbers that depend on the seed alone."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randint(0, vocabulary, shape, generator=generator, device=DEVICE)


def sync():
    if ON_GPU:
        torch.cuda.synchronize()
