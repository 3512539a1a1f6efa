#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""profile_kernels.py on counters made up: who is matched with what, and what is said to bind. Needs no GPU.

    python3 tests/gpu/test_profile.py
"""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import profile_kernels as profile  # noqa: E402

LAUNCHED = ["v", "fashim_v", "f16 B1", "2000000", "1000"]


def kernel(name="fashim_v", **changed):
    """A launch as ncu tells it: 2 µs, nothing busy, all multiprocessors filled."""
    row = {profile.OTHERS[key]: "0" for key in profile.OTHERS} | {metric: "1.5" for metric in profile.UNITS.values()}
    row |= {profile.STALL % stall: "0" for stall in profile.STALLS}
    row |= {"Kernel Name": name, profile.OTHERS["ns"]: "2,000", profile.OTHERS["active"]: "90",
            profile.OTHERS["elapsed"]: "100"}
    return row | {{**profile.UNITS, **profile.OTHERS}.get(key) or profile.STALL % key: value
                  for key, value in changed.items()}


class ProfileTest(unittest.TestCase):
    def measured(self, **changed):
        return profile.measured(kernel(**changed), LAUNCHED)

    def test_a_busy_unit_binds(self):
        self.assertEqual(self.measured(tensor="71.0", xu="65")["binds"], "tensor cores")

    def test_an_empty_gpu_binds(self):
        row = self.measured(active="24", tensor="14", wait="2")
        self.assertEqual(row["binds"], "too few blocks: 24% of the multiprocessors' time")

    def test_else_the_longest_stall(self):
        row = self.measured(wait="1.5", long_scoreboard="3.5", barrier="0.5", sleeping="0.1")
        self.assertEqual([name for name, _ in row["stalls"]], ["long_scoreboard", "wait", "barrier"])
        self.assertEqual(row["binds"], "waiting: memory, L2 or a copy")

    def test_units_of_time_and_work(self):
        row = self.measured()
        self.assertAlmostEqual(row["us"], 2.0)
        self.assertAlmostEqual(row["tflops"], 1.0)
        self.assertAlmostEqual(row["gbps"], 0.5)

    def test_a_metric_that_ncu_lacks_is_left_out(self):
        row = profile.measured({key: value for key, value in kernel().items() if key != profile.UNITS["l2"]}, LAUNCHED)
        self.assertIsNone(row["l2"])
        self.assertIn(" – ", profile.kernel_line(row))

    def test_what_runs_before_is_preparation(self):
        rows = profile.match([kernel("fashim_look"), kernel(), kernel()], [LAUNCHED, LAUNCHED])
        self.assertEqual([row["before_us"] for row in rows], [2.0, 0.0])

    def test_a_launch_without_counters_is_an_error(self):
        with self.assertRaises(SystemExit):
            profile.match([kernel()], [LAUNCHED, LAUNCHED])

    def test_the_page_keeps_what_is_around(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write(f"above\n{profile.MARKS[0]}\nold\n{profile.MARKS[1]}\nbelow\n")
            file.flush()
            profile.write_page(file.name, "new\n")
            file.seek(0)
            self.assertEqual(file.read(), f"above\n{profile.MARKS[0]}\nnew\n{profile.MARKS[1]}\nbelow\n")

    def test_a_page_without_marks_is_left_alone(self):
        with tempfile.NamedTemporaryFile("w") as file:
            with self.assertRaises(SystemExit):
                profile.write_page(file.name, "new\n")


if __name__ == "__main__":
    unittest.main()
