#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What watching costs: wall time of a forward plain and under FASHIM=audit, in turn, as a ratio.

    audit_cost.py --lib build/libfashim.so --out DIR [--rounds 11] [NAME …]      (default: bert)
"""
import argparse
import json
import os
import statistics

import harness


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=["bert"])
    parser.add_argument("--lib", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--count", type=int, default=30, help="forwards a round")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    log = os.path.join(arguments.out, "audit_cost.jsonl")
    plain = harness.Server(dict(os.environ), os.path.join(arguments.out, "plain.err"))
    audit = harness.Server(harness.shim_environment(os.path.abspath(arguments.lib), "audit", log,
                                                    FASHIM_BUDGET="5"),
                           os.path.join(arguments.out, "audit.err"))
    for name in arguments.names:
        for server in (plain, audit):
            answer = server.ask(prepare=name, name=name, variant="eager")
            if "error" in answer:
                raise SystemExit(f"{name}: {answer['error']}")
        rounds = []
        for _ in range(arguments.rounds):
            rounds.append([server.ask(round=name, count=arguments.count, wall=True)["ms"]
                           for server in (plain, audit)])
        ratios = sorted(b / a for a, b in rounds)
        print(json.dumps({
            "name": name, "plain_ms": round(statistics.median(r[0] for r in rounds), 4),
            "audit_ms": round(statistics.median(r[1] for r in rounds), 4),
            "ratio": round(statistics.median(ratios), 4),
            "spread": [round(ratios[0], 4), round(ratios[-1], 4)]}))
    for server in (plain, audit):
        server.stop(grace=5)


if __name__ == "__main__":
    main()
