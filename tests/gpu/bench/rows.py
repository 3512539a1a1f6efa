# SPDX-License-Identifier: Apache-2.0
"""What is measured: one row per shape, each with the goals that it has to meet.

A goal is a ratio, peer time / our time, against one contestant ("flash", "flash4", "cudnn", "efficient",
"chain", "own causal") or against the "best" of the peers; or it is about ourselves: "us", at most so many
microseconds; "bandwidth", at least that part of the measured copy bandwidth.
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    against: str
    want: float

    def met(self, got):
        return got <= self.want if self.against == "us" else got >= self.want

    def text(self):
        sign = "≤" if self.against == "us" else "≥"
        if self.against == "bandwidth":
            return f"{sign} {self.want:.0%} of copy"
        return f"{sign} {self.want:g} µs" if self.against == "us" else f"{self.against} {sign} {self.want:g}"


@dataclass(frozen=True)
class Row:
    B: int
    H: int
    Sq: int
    Sk: int
    D: int
    dtype: str
    causal: bool = False
    mask: str = ""        # "bias": [B,H,Sq,Sk]; "padding": boolean [B,1,1,Sk]; "causal": [1,1,Sq,Sk], added
    k_down: bool = False  # K is stored [D,Sk]
    portable: bool = False  # our variant: the one for GPUs of any architecture
    goals: tuple = ()
    quick: bool = False

    @property
    def name(self):
        lengths = f"S{self.Sk}" if self.Sq == self.Sk else f"Sq{self.Sq} Sk{self.Sk}"
        words = [f"B{self.B} H{self.H} {lengths} D{self.D} {self.dtype}", self.causal and "causal",
                 {"bias": "bias [B,H,Sq,Sk]", "padding": "mask [B,1,1,Sk]",
                  "causal": "causal as a tensor"}.get(self.mask), self.k_down and "K [D,S]",
                 self.portable and "portable kernel", self.is_decode and "decode"]
        return " ".join(word for word in words if word)

    @property
    def is_decode(self):
        return self.Sq == 1

    @property
    def scale(self):
        return self.D ** -0.5

    @property
    def flops(self):
        return 4 * self.B * self.H * self.Sq * self.Sk * self.D / (2 if self.causal or self.mask == "causal" else 1)

    @property
    def bytes(self):
        """The least that has to be moved: Q, K, V and O once, and the bias or mask."""
        scores = {"bias": 2 * self.B * self.H * self.Sq * self.Sk, "causal": 2 * self.Sq * self.Sk,
                  "padding": self.B * self.Sk}.get(self.mask, 0)
        return 4 * self.B * self.H * (self.Sq + self.Sk) * self.D + scores

    @property
    def variant_of_itself(self):
        """The contestant "own causal": the same call with the mask said instead of given."""
        return self.mask == "causal"


def square(B, H, S, D, dtype="f16", **more):
    return Row(B, H, S, S, D, dtype, **more)


def both(B, H, S, D, goals, quick=(), **more):
    """A shape without mask and causal; quick: which of them are quick rows."""
    return [square(B, H, S, D, causal=causal, goals=goals, quick=causal in quick, **more)
            for causal in (False, True)]


LATENCY = (Goal("flash", 2.5), Goal("cudnn", 2.2), Goal("us", 4.0))
BEST = (Goal("best", 1.1),)
MASKED = (Goal("best", 1.2),)
FLASH4 = (Goal("flash4", 1.0),)  # of each row that it takes, where it is there
DECODE = (Goal("best", 1.0), Goal("bandwidth", 0.8))


def against_cudnn(ratio):
    return (Goal("cudnn", ratio),)


def portable(B, H, S, D, ratio, quick=()):
    """Of the kernels for GPUs of any architecture, against FlashAttention-2, which is one."""
    return both(B, H, S, D, (Goal("flash", ratio),), quick, portable=True)


ROWS = [
    *both(1, 8, 512, 64, LATENCY, quick=(False, True)),
    square(8, 12, 128, 64, goals=BEST, quick=True),
    square(32, 12, 512, 64, goals=BEST, quick=True),
    square(32, 16, 512, 128, goals=BEST),
    *both(4, 16, 2048, 64, against_cudnn(1.05)),
    *both(2, 16, 4096, 64, against_cudnn(1.05), quick=(False, True)),
    *both(1, 16, 16384, 64, against_cudnn(1.05)),
    *both(4, 16, 2048, 128, against_cudnn(1.0)),
    *both(2, 16, 4096, 128, against_cudnn(1.0), quick=(False, True)),
    *both(1, 16, 16384, 128, against_cudnn(1.0)),
    *both(2, 8, 4096, 256, against_cudnn(1.0), quick=(False,)),
    square(2, 16, 2048, 64, "bf16", mask="bias", goals=MASKED, quick=True),
    square(2, 16, 2048, 128, "bf16", mask="bias", goals=MASKED),
    square(8, 16, 512, 64, mask="padding", goals=MASKED, quick=True),
    square(4, 16, 2048, 128, mask="padding", goals=MASKED),
    square(32, 16, 197, 64, k_down=True, goals=MASKED, quick=True),
    square(2, 16, 4096, 128, "bf16", mask="causal", goals=(Goal("own causal", 1 / 1.15),), quick=True),
    Row(1, 32, 1, 4096, 128, "f16", goals=DECODE, quick=True),
    Row(1, 32, 1, 32768, 128, "f16", goals=DECODE),
    Row(16, 8, 1, 2048, 64, "f16", goals=DECODE, quick=True),
    *portable(4, 16, 2048, 64, 1.1),
    *portable(2, 16, 4096, 64, 1.1),
    *portable(4, 16, 2048, 128, 1.05),
    *portable(2, 16, 4096, 128, 1.05, quick=(False,)),
    *portable(2, 16, 4096, 40, 1.2),
    *portable(2, 16, 4096, 80, 1.2),
    *portable(2, 16, 4096, 96, 1.2),
    *portable(2, 8, 4096, 160, 1.2),
    *portable(2, 8, 4096, 256, 1.0),
]
