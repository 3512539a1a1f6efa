#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""harness.py: what becomes of a program that hangs. Needs no GPU.

    python3 tests/gpu/unittests.py tests/gpu/test_harness.py
"""
import os
import sys
import tempfile
import time
import unittest

import harness

# Starts another in a session of its own, as a launcher of ranks does, says which, and hangs.
PROGRAM = """
import subprocess, time
print(subprocess.Popen(["sleep", "100"], start_new_session=True).pid, flush=True)
time.sleep(100)
"""


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Hangs(unittest.TestCase):
    def launch(self, stacks):
        base = os.path.join(self.folder.name, "run")
        run = harness.launch([sys.executable, "-c", PROGRAM],
                             harness.clean_environment(PYTHONFAULTHANDLER=1), 3, base, stacks)
        self.assertTrue(run.hung)
        for _ in range(100):  # it is killed, not waited for
            if lives(int(run.stdout)):
                time.sleep(0.05)
        self.assertFalse(lives(int(run.stdout)))
        return run, os.path.exists(base + ".stacks")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_nothing_of_it_is_left(self):
        run, stacks = self.launch(False)
        self.assertEqual((run.stderr, stacks), ("", False))

    def test_it_says_where_it_was(self):
        run, stacks = self.launch(True)
        self.assertIn("most recent call first", run.stderr)
        self.assertTrue(stacks)


if __name__ == "__main__":
    unittest.main()
