# SPDX-License-Identifier: Apache-2.0
"""Decides whether a run under the shim did what it must: outputs against the plain run, and the log
against the program's expectation (registry.Expect)."""
import math
import os
import zipfile

import numpy

LEARNING = 3  # occurrences of a site that may pass before it is replaced
SAMPLE = 64   # FASHIM_SAMPLE's default: one occurrence in this many is compared again


class Outputs:
    """A program's saved arrays, {(variant, forward, name): array}, read when asked for."""

    def __init__(self, path):
        self.path, self.keys, self.error = path, {}, None
        try:
            if path.endswith(".npz"):
                self.archive = numpy.load(path)
                for key in self.archive.files:
                    self.keys[tuple(key.split(".", 2))] = key
            else:
                self.read_records()
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            self.error = f"no outputs: {error}"[:120]

    def read_records(self):
        """Files of the C programs: records "NAME COUNT\\n" and COUNT floats; FILE.1 beside it."""
        self.archive = {}
        for path in (self.path, self.path + ".1"):
            if path != self.path and not os.path.exists(path):
                continue
            with open(path, "rb") as file:
                while header := file.readline():
                    name, count = header.split()
                    array = numpy.frombuffer(file.read(4 * int(count)), dtype=numpy.float32)
                    key = ("eager", f"f{len(self.archive):04d}", name.decode())
                    self.archive[key] = array
                    self.keys[key] = key

    def get(self, key):
        return self.archive[self.keys[key]]

    def of(self, variant):
        return [key for key in self.keys if key[0] == variant]


def distance(a, b):
    """Largest |a - b|; infinite where shapes differ or one is not finite and the other is not the
    same."""
    if a.shape != b.shape:
        return math.inf
    if a.size == 0:
        return 0.0
    difference = numpy.abs(a.astype(numpy.float64) - b)
    if not numpy.isfinite(difference).all():
        same = (a == b) | (numpy.isnan(a) & numpy.isnan(b))
        difference = numpy.where(same, 0.0, numpy.where(numpy.isnan(difference), math.inf,
                                                        difference))
    return float(difference.max())


def same_bits(a, b):
    return a.shape == b.shape and a.tobytes() == b.tobytes()


class Verdict:
    """What came out for one program in one mode. failures: sentences; empty when all is well."""

    def __init__(self, name, mode):
        self.name, self.mode, self.failures, self.notes = name, mode, [], []
        self.difference, self.yardstick, self.identical = None, None, None
        self.seen = self.replaced = self.compared = self.materialised = 0
        self.expected, self.sites, self.reasons, self.seconds = None, [], {}, 0.0
        self.sample_us = {}  # site -> (app, fused), medians of the log's own samples

    def fail(self, sentence):
        self.failures.append(sentence)

    def as_dict(self):
        return dict(vars(self), ok=not self.failures)


def judge_outputs(verdict, expect, plain, run, must_equal):
    """Compares all outputs. must_equal: nothing was replaced, so every bit has to be the same."""
    if plain.error or run.error:
        verdict.fail(plain.error and "plain run: " + plain.error or run.error)
        return
    keys, missing = run.of("eager"), set(plain.of("eager")) ^ set(run.of("eager"))
    if missing or not keys:
        verdict.fail(f"outputs differ in number: {len(plain.of('eager'))} plain, {len(keys)} here")
        return
    furthest, own_error, shim_error, changed, worst = 0.0, 0.0, 0.0, [], None
    for key in keys:
        ours, theirs = run.get(key), plain.get(key)
        name = key[2]
        if not same_bits(ours, theirs):
            changed.append(key)
            gap = distance(ours, theirs)
            if name in expect.exact:
                verdict.fail(f"{key[1]}.{name} is not bit-identical (differs by {gap:.2g})")
            elif name in expect.loose:
                if not gap <= expect.loose[name]:
                    verdict.fail(f"{key[1]}.{name} differs by {gap:.2g} > {expect.loose[name]:.2g}")
            elif gap > furthest:
                furthest, worst = gap, key
        if expect.tol in ("sdpa", "double") and name not in expect.exact + tuple(expect.loose):
            other = (expect.tol,) + key[1:]
            if other in plain.keys:
                truth = plain.get(other)
                own_error = max(own_error, distance(theirs, truth))
                shim_error = max(shim_error, distance(ours, truth))
    verdict.difference, verdict.identical = furthest, not changed
    if must_equal:
        if changed:
            verdict.fail(f"nothing was replaced, yet {len(changed)} outputs are not bit-identical "
                         f"(first {changed[0][1]}.{changed[0][2]}, largest difference "
                         f"{max(distance(run.get(k), plain.get(k)) for k in changed):.2g})")
        return
    where = f" at {worst[1]}.{worst[2]}" if worst else ""
    if expect.tol == "sdpa":
        verdict.yardstick = own_error
        if not furthest <= 2 * own_error:
            verdict.fail(f"differs by {furthest:.2g}{where} > 2 * {own_error:.2g} (eager vs SDPA)")
    elif expect.tol == "double":
        verdict.yardstick = own_error
        if not shim_error <= 2 * own_error + expect.step:
            verdict.fail(f"error against float64 {shim_error:.2g} > 2 * {own_error:.2g} + "
                         f"{expect.step:.2g}")
    else:
        verdict.yardstick = expect.tol
        if not furthest <= expect.tol:
            verdict.fail(f"differs by {furthest:.2g}{where} > {expect.tol:.2g}")
    if expect.most is not None and not furthest <= expect.most:
        verdict.fail(f"differs by {furthest:.2g}{where} > {expect.most:.2g}")


def learned_again(log):
    """{site: comparisons of a kernel that was given up}: the first moved O, so one that rounds as the program does is
    asked, and must agree as often as any. One of the other's may have been under way."""
    again, moved = {}, {}
    for sample in log.sample:
        site, kernel = sample["site"], sample.get("kernel")
        if sample.get("verdict") == "moved":
            moved[site] = kernel
        if site in moved and moved[site] == kernel:
            again[site] = again.get(site, 0) + 1
    return again


def judge_replacing(verdict, expect, log):
    """The log of a `replace` run against the expectation's kind."""
    chains, sites = verdict.expected, [row for row in log.sites() if row["seen"]]
    again = learned_again(log)
    attention = [row for row in sites if row["state"] != "declined"]
    if expect.kind == "replace":
        for row in attention:
            late = row["seen"] - row["replaced"]
            allowed = LEARNING + again.get(row["site"], 0) + expect.slack + row["seen"] // SAMPLE
            if row["seen"] > LEARNING and late > allowed:
                verdict.fail(f"site {row['site']} ({row['state']}): replaced {row['replaced']} of "
                             f"{row['seen']}, all but {allowed} expected")
        if expect.share is not None:
            least = math.floor(expect.share * chains)
        else:
            least = chains - expect.sites * LEARNING - sum(again.values()) - expect.slack - chains // SAMPLE
        if verdict.replaced < least:
            verdict.fail(f"replaced {verdict.replaced} of {chains} chains, at least {least} "
                         "expected")
        if verdict.replaced > chains:
            verdict.fail(f"replaced {verdict.replaced}, but the program has {chains} chains")
    elif expect.kind == "decline":
        for row in sites:
            if row["replaced"] > 2:
                verdict.fail(f"site {row['site']} was replaced {row['replaced']} times")
    elif not verdict.replaced and not verdict.reasons:
        verdict.fail("nothing was replaced and no reason is in the log")
    asked = expect.reasons if expect.kind != "either" or not verdict.replaced else ()
    if asked and not any(reason in verdict.reasons for reason in asked):
        verdict.fail(f"no reason among {', '.join(asked)} in the log "
                     f"(given: {', '.join(verdict.reasons) or 'none'})")


def judge(entry, mode, repeat, plain_run, run, plain, outputs, log):
    """Everything about one run under the shim. Returns a Verdict."""
    verdict = Verdict(entry.name, mode)
    expect, real_mode = entry.expect, "replace" if mode == "poison" else mode
    verdict.seconds = run.seconds
    if plain_run.complaint():
        verdict.fail(f"plain run: {plain_run.complaint()}")
        verdict.notes.append(plain_run.tail())
        return verdict
    if run.complaint():
        verdict.fail(run.complaint())
        verdict.notes.append(run.tail())
    elif run.stdout != plain_run.stdout:
        verdict.fail("standard output differs from the plain run's")
    no_log_wanted = mode == "off" or (expect.silent and not log.header)
    for complaint in () if no_log_wanted else log.complaints(real_mode):
        verdict.fail(complaint)
    if mode == "off" and log.total("seen"):
        verdict.fail("mode off looked at chains")
    verdict.seen, verdict.replaced = log.total("seen"), log.total("replaced")
    verdict.compared, verdict.materialised = log.total("compared"), log.total("materialised")
    verdict.sites, verdict.reasons = log.sites(), log.reasons()
    verdict.expected = expect.chains * repeat + expect.fixed
    for number in {record["site"] for record in log.sample}:
        pairs = [(r["app_us"], r["fused_us"]) for r in log.sample if r["site"] == number
                 and r.get("app_us") and r.get("fused_us")]
        if pairs:
            verdict.sample_us[number] = [sorted(x)[len(pairs) // 2] for x in zip(*pairs)]
    if not run.complaint():
        judge_outputs(verdict, expect, plain, outputs,
                      must_equal=real_mode != "replace" or not verdict.replaced)
    if log.summary and real_mode == "replace":
        judge_replacing(verdict, expect, log)
    elif log.summary:
        if verdict.replaced:
            verdict.fail(f"replaced {verdict.replaced} in mode {mode}")
        if mode == "compare" and expect.kind == "replace" and not verdict.compared:
            verdict.fail("mode compare compared nothing")
        if mode == "audit" and verdict.compared:
            verdict.fail("mode audit compared something")
    return verdict
