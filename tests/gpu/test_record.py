#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record.py: every trace that is kept has a program to record it anew. Needs no GPU.

    python3 tests/gpu/unittests.py tests/gpu/test_record.py
"""
import glob
import os
import re
import unittest

import harness
import record
from cases import CASES, COMPILED


def builders():
    """Names of the Python programs, found in their sources: importing them takes torch."""
    found = {f"inductor_{n:02}" for n in range(1, 31)}
    for path in glob.glob(os.path.join(harness.HERE, "*.py")):
        with open(path) as file:
            found |= {name.rstrip("_") for name in re.findall(
                r"^@program\((?:.|\n)*?^def (\w+)\(variant", file.read(), re.M)}
    return found


class Rows(unittest.TestCase):
    def test_each_trace_has_a_row(self):
        kept = glob.glob(os.path.join(os.path.dirname(record.ROWS), "*.trace.gz"))
        self.assertEqual({os.path.basename(path).split(".")[0] for path in kept},
                         set(record.rows()))

    def test_each_row_has_a_program(self):
        known = builders() | set(COMPILED)
        self.assertEqual(set(record.rows()) - known, set())

    def test_cases_run_as_the_catalogue_runs_them(self):
        with open(record.ROWS) as file:
            without = set(re.findall(r"^NOT_RECORDED\(\w+, (\w+),", file.read(), re.M))
        cases = {case.name for case in CASES if case.number[0] != "M"} - without
        self.assertEqual({name for name, in_catalogue in record.rows().items() if in_catalogue},
                         cases)
        self.assertNotIn("--few", record.command_of("graph", True, "", "x"))
        self.assertIn("--few", record.command_of("bert", False, "", "x"))
        self.assertEqual(record.command_of("marian_ptr_arrays", True, "f", "x")[0],
                         "f/catalogue/marian")


if __name__ == "__main__":
    unittest.main()
