#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""times.py: its arithmetic, and a whole run of it over processes that only pretend to have a GPU.
Needs neither a GPU nor any package.

    python3 tests/gpu/test_times.py
"""
import json
import os
import sys
import tempfile
import time
import unittest
from types import SimpleNamespace

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import times  # noqa: E402
import times_figures as figures  # noqa: E402
import times_table  # noqa: E402
import times_worker  # noqa: E402
from registry import Expect  # noqa: E402

PACE = {"eager": 2.0, "shim": 1.0, "sdpa": 0.98}  # ms a forward of the made-up models


class Pretence:
    """A device whose times are made up. Under the "shim" it writes a log as the shim would: a site
    that is learned in two forwards, which take 5 and 3 ms more. The models' names say what goes
    wrong with them."""

    def __init__(self):
        self.shim = os.environ.get("FASHIM") == "replace"
        self.site, self.mib = 0, 100.0
        if self.shim:
            self.log = open(os.environ["FASHIM_OUT"].replace("%p", str(os.getpid())), "a")
            self.write(type="header", mode="replace", gpu="none",
                       options={"FASHIM_SCRATCH_MB": "64"})

    def write(self, **record):
        self.log.write(json.dumps(record) + "\n")
        self.log.flush()

    def end(self):
        if self.shim:
            self.write(type="summary", end="exit", scratch_peak=2 ** 25, sites=[])

    def cold(self, variant):
        self.label = "shim" if self.shim else variant

    def expectation(self, name):
        return Expect("replace", tol=0.5)

    def build(self, name, variant):
        if name == "no_sdpa" and variant == "sdpa":
            raise ValueError("has no such attention")
        if name == "dies" and self.shim:
            os._exit(3)
        if name == "hangs" and self.label == "eager":
            time.sleep(60)
        self.name, self.site, self.done, self.ms = name, self.site + 1, 0, 0.0
        self.mib += 10
        return self.forward

    def forward(self, i):
        self.done += 1
        self.ms += PACE[self.label]
        if self.shim and self.done <= 2:
            self.ms += 7.0 - 2 * self.done
            self.write(type="site", site=self.site)
            self.write(type="sample", site=self.site, occurrence=self.done + 1, app_us=500.0)
            self.write(type="state", site=self.site, occurrence=3,
                       state="verified" if self.done == 2 else "learning")
        if self.name == "raises" and self.done > 20:
            raise RuntimeError("CUDA error: made up")
        return {"o": 1.0 if self.shim and self.name == "wrong" else 0.0}

    def elapsed(self, work):
        self.ms = 0.0
        work()
        return {"events": self.ms, "host": self.ms / 2, "wall": self.ms}

    def activities(self, work):
        taken = self.elapsed(work)["events"] * 1e3
        return [("long", 0.0, taken), ("beside it", taken / 2, taken)]

    def memory(self):
        return {"device": self.mib + (32 if self.shim else 0), "torch": self.mib, "peak": self.mib}

    def release(self):
        self.mib = 100.0

    def save(self, outputs, path):
        with open(path, "w") as file:
            json.dump(outputs, file)


def compare(expect, paths):
    """As times.compare_outputs, without numpy."""
    read = {}
    for label, path in paths.items():
        with open(path) as file:
            read[label] = list(json.load(file).values())
    worst = max(abs(a - b) for a, b in zip(read["eager"], read["shim"]))
    return {"difference": worst, "yardstick": expect["tol"],
            "failures": ["differs"] if worst > expect["tol"] else []}


class FiguresTest(unittest.TestCase):
    def test_overlap_counts_once(self):
        self.assertEqual(figures.union([(4, 6), (0, 2), (1, 3), (5, 5.5), (6, 7)]), 6)
        self.assertEqual(figures.union([]), 0)

    def test_kernels_a_forward(self):
        table = figures.by_name([("a", 0, 2), ("b", 2, 9), ("a", 9, 11)], 2)
        self.assertEqual(list(table.items()), [("b", [3.5, 0.5]), ("a", [2.0, 1.0])])

    def test_ratios_are_of_pairs(self):
        # The medians' ratio would be 1; each pair says 2 but for one.
        found = figures.paired([2, 4, 8], [1, 2, 8])
        self.assertEqual(found, {"median": 2, "low": 1, "high": 2})
        self.assertIsNone(figures.paired([1.0], []))

    def row(self, eager, shim, sdpa, S=1024, dtype="f16"):
        row = {"S": S, "dtype": dtype, "eager": {"busy": [eager]}, "shim": {"busy": [shim]},
               "sdpa": {"busy": [sdpa] if sdpa else []}}
        row["ratios"] = figures.ratios(row)
        return figures.shortfalls(row)

    def test_goals(self):
        self.assertEqual(self.row(3, 1.04, 1), [])
        self.assertEqual(self.row(3, 1.06, 1), ["1.06 of SDPA, 1.05 wanted"])
        self.assertEqual(self.row(3, 1.06, 1, S=197), [])
        self.assertEqual(self.row(3, 1.06, None), [])
        self.assertEqual(self.row(1, 1.02, None), ["1.02 of eager (busy)"])
        self.assertEqual(self.row(1, 1.005, None), [])
        self.assertEqual(self.row(3, 1.01, 1, dtype="f32"), ["1.01 of SDPA, below 1 wanted"])
        self.assertEqual(self.row(3, 0.99, 1, dtype="f32"), [])
        self.assertIsNone(figures.shortfalls({"ratios": {}}))

    def records(self, *last):
        return [[{"type": "site", "site": 1}, {"type": "sample", "site": 1, "occurrence": 2,
                                               "app_us": 1000.0}],
                [{"type": "sample", "site": 1, "occurrence": 3, "app_us": 3000.0}, *last],
                [{"type": "sample", "site": 1, "occurrence": 64, "app_us": 2000.0}]]

    def test_cost_of_learning(self):
        state = {"type": "state", "site": 1, "occurrence": 3, "state": "verified"}
        told = figures.learning([5, 4, 4], [25, 8, 1], self.records(state))
        self.assertEqual(told["settled_after"], 2)  # a late comparison teaches nothing
        self.assertEqual(told["extra_ms"], 24)
        self.assertEqual(told["plain_ms"], 6)       # three times the median of 2 ms
        self.assertEqual(told["occurrences_ratio"], 5)
        self.assertEqual((told["sites"], told["unsettled"]), (1, []))

    def test_a_site_that_does_not_settle(self):
        told = figures.learning([5, 4, 4], [25, 8, 1], self.records())
        self.assertEqual(told["unsettled"], [1])
        self.assertIsNone(told["occurrences_ratio"])

    def test_nothing_to_learn(self):
        told = figures.learning([5, 4], [9, 1], [[], []])
        self.assertEqual((told["settled_after"], told["extra_ms"]), (0, 0))


class RunTest(unittest.TestCase):
    """Real processes and pipes; the device is Pretence."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        out = cls.folder.name
        names = ("good", "no_sdpa", "dies", "hangs", "raises", "wrong", "after")
        pattern = os.path.join(out, "times.%p.jsonl")
        plain = harness.clean_environment()
        shim = dict(plain, FASHIM="replace", FASHIM_OUT=pattern)
        me = os.path.abspath(__file__)
        cls.contestants = [
            times.Contestant(label, environment, out, (me, "--worker", variant))
            for label, environment, variant in (
                ("eager", plain, "eager"), ("shim", shim, "eager"), ("sdpa", plain, "sdpa"))]
        arguments = SimpleNamespace(rounds=3, limit=1.5, seconds=60, out=out, work=out, commit="0123abc")
        said, sys.stderr = sys.stderr, open(os.devnull, "w")
        try:
            cls.result = times.run([times.Model(name, f"made up: {name}", 1024, "f16")
                                    for name in names],
                                   cls.contestants,
                                   times.LogTail(pattern, cls.contestants[1].server), arguments,
                                   compare)
        finally:
            sys.stderr.close()
            sys.stderr = said
        cls.rows = {row["name"]: row for row in cls.result["models"]}

    @classmethod
    def tearDownClass(cls):
        for contestant in cls.contestants:
            contestant.server.stop()
        cls.folder.cleanup()

    def test_times(self):
        row = self.rows["good"]
        self.assertNotIn("failed", row)
        self.assertAlmostEqual(row["ratios"]["busy eager/shim"]["median"], 2)
        self.assertAlmostEqual(row["ratios"]["events shim/sdpa"]["median"], 1 / 0.98)
        self.assertEqual([round(x, 6) for x in row["shim"]["busy"]], [1.0] * 3)
        self.assertEqual([round(x, 6) for x in row["shim"]["host"]], [0.5] * 3)
        self.assertAlmostEqual(row["shim"]["sum"], 1.5)  # half of it beside the rest
        self.assertEqual(row["short"], [])

    def test_learning(self):
        told = self.rows["good"]["learning"]
        self.assertEqual(told["settled_after"], 2)
        self.assertAlmostEqual(told["extra_ms"], 6 + 4 - 2 * 2)
        self.assertAlmostEqual(told["occurrences_ratio"], 1 + 6 / 1.5)
        self.assertEqual(self.rows["good"]["shim"]["own_mib"], 0)

    def test_without_sdpa(self):
        row = self.rows["no_sdpa"]
        self.assertIn("has no such attention", row["no_sdpa"])
        self.assertNotIn("failed", row)
        self.assertNotIn("busy shim/sdpa", row["ratios"])

    def test_failures_are_rows(self):
        self.assertEqual(self.rows["dies"]["failed"], "shim: ended, status 3")
        self.assertEqual(self.rows["hangs"]["failed"], "eager: no answer in time")
        self.assertIn("CUDA error", self.rows["raises"]["failed"])
        self.assertEqual(self.rows["wrong"]["outputs"]["failures"], ["differs"])
        self.assertNotIn("failed", self.rows["after"])
        self.assertEqual(self.rows["after"]["short"], [])

    def test_scratch_is_known_or_not(self):
        self.assertIn("at most 32 MiB", times_table.text(self.result))
        killed = dict(self.result, shim=dict(self.result["shim"], scratch_mib=None))
        self.assertIn("scratch of the shim: not known", times_table.text(killed))

    def test_each_model_has_its_own_process(self):
        logs = [name for name in os.listdir(self.folder.name) if name.endswith(".jsonl")]
        self.assertGreaterEqual(len(logs), 7)

    def test_several_runs_as_one(self):
        def only(name, **other):
            return dict(self.result, models=[self.rows[name]], shim=dict(self.result["shim"], **other))
        merged = times.merged([only("good", complaints=["one"]), only("after", scratch_mib=48.0)])
        self.assertEqual([row["name"] for row in merged["models"]], ["good", "after"])
        self.assertEqual((merged["shim"]["complaints"][:1], merged["shim"]["scratch_mib"]), (["one"], 48.0))
        self.assertIsNone(times.merged([only("good"), only("after", scratch_mib=None)])["shim"]["scratch_mib"])
        with self.assertRaisesRegex(ValueError, "different GPUs"):
            times.merged([only("good"), only("after", gpu="another")])
        newer = times.merged([only("good"), dict(only("after"), commit="fedcba9", rounds=2)])
        self.assertEqual((newer["commit"], newer["rounds"]), ("0123abc (made up: after: fedcba9)", 2))
        self.assertEqual(times.merged([newer])["commit"], newer["commit"])
        unnamed = dict(only("good"), commit=None)
        self.assertIsNone(times.merged([unnamed])["commit"])
        self.assertEqual(times.merged([unnamed, only("after")])["commit"], "no commit (made up: after: 0123abc)")

    def test_tables(self):
        text = times_table.text(self.result, 1)
        self.assertIn("FAILED dies: failed: shim: ended, status 3", text)
        self.assertIn("FAILED wrong: output differs", text)
        self.assertIn("32 MiB of 64: met", text)
        self.assertIn("2.00 [2.00, 2.00]", text)
        self.assertEqual(len(times_table.failures(self.result)), 4)
        self.assertIn("| made up: good | 2 | 1 | 0.98 | 2.00 | 1.02 |",
                      times_table.markdown(self.result))
        self.assertIn("the shim as of 0123abc; medians of 3 rounds", times_table.markdown(self.result))
        with open(os.path.join(self.folder.name, "times.json")) as file:
            self.assertEqual(len(json.load(file)["models"]), 7)


def pretend(variant):
    device = Pretence()
    harness.serve(lambda: times_worker.Worker(device, variant).handle)
    device.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        sys.exit(pretend(sys.argv[2]))
    unittest.main()
