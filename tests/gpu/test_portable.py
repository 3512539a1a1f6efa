#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""portable.py: what it reads of kernel_check, and when a build is slower.

    python3 tests/gpu/test_portable.py
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import portable  # noqa: E402

SAID = """\
tma_f16_d64_r128               12.5 us  550.1 TFLOP/s  B8 H16 S512 D64 f16  CHOSEN
wmma_f16_d64_r64               40.0 us  171.9 TFLOP/s  B8 H16 S512 D64 f16
12 variants, 0 of them wrong, without a case, or missing
"""


class Portable(unittest.TestCase):
    def test_lines(self):
        case = "B8 H16 S512 D64 f16"
        self.assertEqual(portable.times(SAID), {("tma_f16_d64_r128", case): 12.5, ("wmma_f16_d64_r64", case): 40.0})

    def test_fastest(self):
        self.assertEqual(portable.fastest([{"a": 3.0, "b": 1.0}, {"a": 2.0}]), {"a": 2.0, "b": 1.0})

    def test_slower_by_the_median(self):
        native = {("fast", str(n)): 10.0 for n in range(5)} | {("slow", str(n)): 10.0 for n in range(5)}
        ours = {("fast", str(n)): 10.1 for n in range(5)} | {("slow", str(n)): 10.3 for n in range(5)}
        ours["fast", "0"] = 20.0  # one that was disturbed
        lines, slower = portable.judge(native, ours)
        self.assertEqual(slower, ["slow"])
        self.assertIn("1.030 times as long", lines[0])
        self.assertIn("1 variants slower", lines[-1])

    def test_missing(self):
        self.assertEqual(portable.judge({("gone", "a"): 1.0}, {("new", "a"): 1.0})[1], ["gone", "new"])


if __name__ == "__main__":
    unittest.main()
