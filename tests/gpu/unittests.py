#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one file of unit tests and counts them in TAP, which tests/run.sh reads.

    unittests.py tests/gpu/test_times.py

Tests of what needs a package that this machine lacks are skipped, and say which.
"""
import importlib
import os
import sys
import unittest

PACKAGES = ("numpy",)  # the only ones that a test may lack


class Tap(unittest.TestResult):
    """Prints a line as each test ends."""

    def say(self, word, test):
        print(f"{word} {self.testsRun} {test.id()}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"ok {self.testsRun} # SKIP {test.id()}: {reason}", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("not ok", test)
        print(self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.say("not ok", test)
        print(self.errors[-1][1])


def main():
    folder, name = os.path.split(os.path.abspath(sys.argv[1]))
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    try:
        module = importlib.import_module(os.path.splitext(name)[0])
    except ModuleNotFoundError as missing:
        if missing.name not in PACKAGES:
            raise
        print(f"ok 1 # SKIP {name}: no {missing.name} here")
        return 0
    result = Tap()
    unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
