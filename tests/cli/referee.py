# SPDX-License-Identifier: Apache-2.0
"""Stands in for `fashim bench`'s referee where there is no PyTorch: answers at once, with times that no
machine takes. REFEREE in the environment makes it misbehave: "secret", math launches a fused kernel;
"unnamed", nobody knows what it launches; "dies", it is gone after the first race has begun; "broken", it
cannot time; "junk", it speaks no JSON; "none", there is no PyTorch."""
import json
import os
import sys

manner = os.environ.get("REFEREE", "")
names = {"flash": ["void pytorch_flash::flash_fwd_kernel<64>"], "math": ["nvjet_hsh_64x64", "softmax_warp_forward"]}
if manner == "secret":
    names["math"] = ["fmha_cutlassF_f16_aligned_64x64_rf_sm80"]
if manner == "unnamed":
    names["math"] = []


def say(answer):
    print("?" if manner == "junk" else json.dumps(answer), flush=True)


say({"error": "No module named 'torch'"} if manner == "none" else
    {"torch": "9.8.7", "cuda": "13.0", "cudnn": "91200", "gpu": "simgpu (CPU)"})
for count, line in enumerate(sys.stdin):
    command, *words = line.split()
    if command == "time" and manner == "broken":
        say({"error": "CUDA error: an illegal memory access was encountered"})
    elif command == "time" and manner == "dies" and count > 2:
        sys.exit(1)
    elif command == "time":
        say({"us": [1e9 + count * 1e6]})
    elif command == "error":
        say({"max": 2e-4, "rms": 1e-5, "cases": int(words[1])})
    elif command == "names":
        say({"names": names[words[0]]})
    else:
        say({})
