#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judge must find fault: each test spoils one thing of a good run. Needs numpy, no GPU.

    python3 tests/gpu/test_judge.py
"""
import json
import os
import sys
import tempfile
import unittest
from types import SimpleNamespace

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from judge import Outputs, judge  # noqa: E402
from registry import Expect  # noqa: E402

GOOD = harness.Run(0, 1.0, "p: 10 forwards\n", "", False)


def site(seen, replaced, compared=2, state="verified", number=1, **more):
    return dict(site=number, state=state, reason="none", seen=seen, replaced=replaced,
                compared=compared, passed=seen - replaced - compared, materialised=0,
                snapshots=0, saved_us=1.0) | more


class JudgeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        numbers = numpy.random.default_rng(1)
        self.plain = {f"eager.f{i:04d}.{n}": numbers.standard_normal((4, 8), dtype=numpy.float32)
                      for i in range(10) for n in ("o", "P")}
        self.ours = {key: value.copy() for key, value in self.plain.items()}
        self.header = {"type": "header", "mode": "replace"}
        self.sites, self.reasons, self.more = [site(10, 7)], {}, []
        self.expect = Expect("replace", sites=1, tol=1e-3, exact=("P",))
        self.mode, self.run_, self.end = "replace", GOOD, "exit"

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def failures(self):
        numpy.savez(self.path("plain.npz"), **self.plain)
        numpy.savez(self.path("ours.npz"), **self.ours)
        records = [self.header] + self.more
        if self.end:
            records.append({"type": "summary", "end": self.end, "reasons": self.reasons,
                            "sites": self.sites})
        with open(self.path("log"), "w") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
        entry = SimpleNamespace(name="p", expect=self.expect)
        return judge(entry, self.mode, 10, GOOD, self.run_, Outputs(self.path("plain.npz")),
                     Outputs(self.path("ours.npz")), harness.Log(self.path("log"))).failures

    def finds(self, part):
        found = self.failures()
        self.assertTrue(any(part in sentence for sentence in found), found)

    def test_good(self):
        self.ours["eager.f0005.o"] += 5e-4
        self.assertEqual(self.failures(), [])

    def test_too_far(self):
        self.ours["eager.f0005.o"][1, 2] += 2e-3
        self.finds("differs by 0.002")

    def test_nan(self):
        self.ours["eager.f0005.o"][1, 2] = float("nan")
        self.finds("differs by inf")

    def test_same_nan(self):
        for outputs in (self.plain, self.ours):
            outputs["eager.f0005.o"][1, 2] = float("nan")
        self.assertEqual(self.failures(), [])

    def test_shape(self):
        self.ours["eager.f0005.o"] = self.ours["eager.f0005.o"].reshape(8, 4)
        self.finds("differs by inf")

    def test_exact(self):
        self.ours["eager.f0009.P"][0, 0] += 1e-6
        self.finds("is not bit-identical")

    def test_missing_output(self):
        del self.ours["eager.f0009.P"]
        self.finds("differ in number")

    def test_bits_when_nothing_replaced(self):
        self.sites, self.reasons = [site(10, 0, 0, "declined", reason="drift")], {"drift": 10}
        self.expect = Expect("either", tol=1e-3)
        self.ours["eager.f0005.o"] += 1e-6
        self.finds("nothing was replaced, yet 1 outputs")

    def test_bits_in_compare(self):
        self.header["mode"] = self.mode = "compare"
        self.sites = [site(10, 0, 9)]
        self.ours["eager.f0005.o"] += 1e-6
        self.finds("nothing was replaced, yet")

    def test_replaced_in_audit(self):
        self.header["mode"] = self.mode = "audit"
        self.finds("replaced 7 in mode audit")

    def test_too_few(self):
        self.sites = [site(10, 6)]
        self.finds("all but 3 expected")

    def test_learned_twice(self):
        self.sites = [site(10, 6)]
        self.more = [{"type": "sample", "site": 1, "occurrence": 2, "verdict": "moved"}]
        self.assertEqual(self.failures(), [])
        self.sites = [site(10, 5)]
        self.finds("all but 4 expected")

    def test_learned_twice_while_compared(self):
        def sample(occurrence, kernel, verdict):
            return {"type": "sample", "site": 1, "occurrence": occurrence, "kernel": kernel, "verdict": verdict}
        self.sites = [site(10, 5)]
        self.more = [sample(2, "tma", "moved"), sample(3, "tma", "ok"), sample(4, "twice", "ok"), sample(5, "twice", "ok")]
        self.assertEqual(self.failures(), [])
        self.sites = [site(10, 4)]
        self.finds("all but 5 expected")

    def test_unseen(self):
        self.sites = [site(6, 3)]
        self.finds("replaced 3 of 10 chains")

    def test_more_than_there_are(self):
        self.sites = [site(20, 17)]
        self.finds("but the program has 10 chains")

    def test_declined_though_it_should_not(self):
        self.sites = [site(10, 0, 2, "declined", reason="drift")]
        self.finds("replaced 0 of 10")

    def test_decline_without_reason(self):
        self.expect = Expect("decline", reasons=("not_softmax",))
        self.sites = []
        self.finds("no reason among not_softmax")

    def test_decline_replaced(self):
        self.expect = Expect("decline", reasons=("not_softmax",))
        self.reasons = {"not_softmax": 1}
        self.finds("was replaced 7 times")

    def test_either_needs_a_reason(self):
        self.expect, self.sites = Expect("either"), []
        self.finds("no reason is in the log")

    def test_sdpa_distance(self):
        self.expect = Expect("replace", sites=1, tol="sdpa")
        for key in list(self.plain):
            self.plain[key.replace("eager", "sdpa")] = self.plain[key] + numpy.float32(1e-3)
        self.ours["eager.f0005.o"] += 1.9e-3
        self.assertEqual(self.failures(), [])
        self.ours["eager.f0005.o"] += 3e-4
        self.finds("eager vs SDPA")

    def test_double_error(self):
        self.expect = Expect("replace", sites=1, tol="double", step=1e-4, most=9e-3)
        for key in list(self.plain):
            self.plain[key.replace("eager", "double")] = (
                self.plain[key].astype(numpy.float64) + 1e-3)
        self.ours["eager.f0005.o"] -= 1.05e-3
        self.assertEqual(self.failures(), [])
        self.ours["eager.f0005.o"] -= 2e-4
        self.finds("error against float64")

    def test_log_faults(self):
        self.more = [{"type": "violation", "what": "oops"}]
        self.finds("violation: oops")
        self.header = {"type": "header", "mode": "audit"}
        self.finds("mode in the log is audit")
        self.end = "killed"
        self.finds("summary says end killed")
        self.end = None
        self.finds("no summary")
        self.header = {"type": "other"}
        self.finds("no log")

    def test_process_faults(self):
        self.run_ = harness.Run(-11, 1.0, "", "last words", False)
        self.finds("killed by SIGSEGV")
        self.run_ = harness.Run(-9, 1.0, "", "", True)
        self.finds("hung")
        self.run_ = harness.Run(3, 1.0, "", "", False)
        self.finds("exit status 3")
        self.run_ = harness.Run(0, 1.0, "chatter\np: 10 forwards\n", "", False)
        self.finds("standard output differs")

    def test_records_of_c_programs(self):
        with open(self.path("c.bin"), "wb") as file:
            for value in (1.0, 2.0):
                file.write(b"o 3\n" + numpy.full(3, value, dtype=numpy.float32).tobytes())
        outputs = Outputs(self.path("c.bin"))
        self.assertEqual(len(outputs.of("eager")), 2)
        self.assertEqual(outputs.get(("eager", "f0001", "o")).tolist(), [2.0] * 3)


if __name__ == "__main__":
    unittest.main()
