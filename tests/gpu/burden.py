#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the shim costs programs of which it cannot make much: host time, plain, under audit and under replace, in turn.

    burden.py --lib build/libfashim.so --out DIR [--rounds 2] [--deadline 95] [NAME …]

One server a mode imports PyTorch and transformers once, before CUDA is initialised, and forks a process for each run, one at
a time: plain, audit, replace, plain, … A run makes its first three forwards, then many. *host* is the CPU time of the process
from the beginning of a forward to its return, *wall* the time until the device has ended, too; both are medians of a
run's forwards. A line gives, for each mode, the median over the rounds, and for the shim's modes the ratio to plain of the
same round with its spread; then what the shim says that it spent, by purpose, and of its hooks the ns a call, between a
short run and a long one. The budget is the default one.
"""
import argparse
import glob
import json
import os
import statistics
import sys
import time

import harness

MODES = ("plain", "audit", "replace")


# ---- models: random weights, small -----------------------------------------------------------------


def bert(batch, tokens, layers):
    def make(torch, transformers):
        config = transformers.BertConfig(num_hidden_layers=layers, attn_implementation="eager")
        model = transformers.BertModel(config).half().eval().cuda()
        ids = torch.randint(0, 30000, (batch, tokens), device="cuda")
        mask = torch.ones_like(ids)
        return lambda: model(ids, attention_mask=mask)
    return make


def vision(kind, batch, side, **options):
    def make(torch, transformers):
        config = getattr(transformers, kind + "Config")(**options)
        model = getattr(transformers, kind + "Model")(config).half().eval().cuda()
        pixels = torch.randn(batch, 3, side, side, device="cuda", dtype=torch.float16)
        return lambda: model(pixels)
    return make


def qwen(torch, transformers):
    config = transformers.Qwen2Config(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                                      num_attention_heads=8, num_key_value_heads=2, attn_implementation="eager")
    model = transformers.Qwen2ForCausalLM(config).half().eval().cuda()
    ids = torch.randint(0, 1000, (1, 100), device="cuda")
    mask = torch.ones_like(ids)
    return lambda: model.generate(ids, attention_mask=mask, max_new_tokens=24, min_new_tokens=24, do_sample=False,
                                  pad_token_id=0)


MODELS = {  # how it is made, forwards of a long run
    "bert": (bert(8, 512, 6), 100),
    "segformer": (vision("Segformer", 2, 224), 100),
    "generate": (qwen, 6),
    "levit": (vision("Levit", 8, 224), 80),
    "bert_short": (bert(1, 48, 12), 100),
}


# ---- a server and its children -----------------------------------------------------------------------


def measure(torch, transformers, name, count):
    """[(host ms, wall ms)] of the forwards."""
    torch.manual_seed(0)
    forward = MODELS[name][0](torch, transformers)
    torch.cuda.synchronize()
    taken = []
    with torch.no_grad():
        for _ in range(3 + count):
            wall, host = time.perf_counter(), time.process_time()
            forward()
            host = time.process_time() - host
            torch.cuda.synchronize()
            taken.append((host * 1e3, (time.perf_counter() - wall) * 1e3))
    return taken


def start():
    import torch
    import transformers
    for name in ("BertModel", "SegformerModel", "LevitModel", "Qwen2ForCausalLM"):
        getattr(transformers, name)  # imported when it is asked for

    def handle(request):
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reader)
            with os.fdopen(writer, "w") as file:
                try:
                    json.dump({"pid": os.getpid(), "taken": measure(torch, transformers, request["name"],
                                                                    request["count"])}, file)
                except Exception as error:
                    json.dump({"error": repr(error)[:300]}, file)
            sys.exit(0)  # in order: the shim writes its summary then
        os.close(writer)
        with os.fdopen(reader) as file:
            text = file.read()
        os.waitpid(pid, 0)
        return json.loads(text) if text else {"error": "the child died"}
    return handle


# ---- the table ---------------------------------------------------------------------------------------


class Mode:
    def __init__(self, name, arguments):
        self.name, self.out = name, arguments.out
        more = {} if name == "plain" else {"LD_PRELOAD": os.path.abspath(arguments.lib), "FASHIM": name, "FASHIM_LOG": "warn",
                                           "FASHIM_OUT": os.path.join(os.path.abspath(self.out), name + ".%p.jsonl")}
        self.server = harness.Server(harness.clean_environment(**more), os.path.join(self.out, name + ".err"),
                                     (os.path.abspath(__file__), "--serve"))

    def run(self, model, count):
        answer = self.server.ask(name=model, count=count, timeout=60)
        if "error" in answer:
            return None
        taken = answer["taken"]
        late = taken[3:]
        row = {"first": [t[1] for t in taken[:3]], "host": statistics.median(t[0] for t in late),
               "wall": statistics.median(t[1] for t in late), "all_host": sum(t[0] for t in taken)}
        for path in glob.glob(os.path.join(self.out, f"{self.name}.{answer['pid']}.jsonl")):
            row["summary"] = harness.Log(path).summary
        return row


def ratios(rows, plain, field):
    found = sorted(a[field] / b[field] for a, b in zip(rows, plain) if a and b)
    return f"{statistics.median(found):.3f} [{found[0]:.3f}, {found[-1]:.3f}]" if found else "-"


def costs(summary):
    return (summary or {}).get("costs_us", {})


def hooks(summary):
    """(µs of the hooks, calls that were looked at)"""
    return (costs(summary).get("host", {}).get("hooks", 0),
            (summary or {}).get("gemms", 0) + (summary or {}).get("launches", 0))


def tell(model, rows, short):
    for mode in MODES:
        good = [row for row in rows[mode] if row]
        if not good:
            print(f"{model:10} {mode:8} failed; see the .err files")
            continue
        middle = {field: statistics.median(row[field] for row in good) for field in ("host", "wall")}
        first = [statistics.median(row["first"][i] for row in good) for i in range(3)]
        line = (f"{model:10} {mode:8} host {middle['host']:8.3f} ms  wall {middle['wall']:8.3f} ms  first "
                + " ".join(f"{t:.1f}" for t in first))
        if mode != "plain":
            line += (f"  host x {ratios(rows[mode], rows['plain'], 'host')}  wall x {ratios(rows[mode], rows['plain'], 'wall')}")
        print(line)
        summary = good[-1].get("summary")
        if summary:
            spent = {**costs(summary).get("host", {}), **{"gpu " + k: v for k, v in costs(summary).get("gpu", {}).items()}}
            print(" " * 11 + "spent ms: " + ", ".join(f"{k} {v / 1e3:.1f}" for k, v in spent.items()))
            (us, calls), (few_us, few) = hooks(summary), hooks((short[mode] or {}).get("summary"))
            if calls > few > 0:
                print(" " * 11 + f"hooks: {few_us / 1e3:.1f} ms of the first {few} calls, then "
                      f"{(us - few_us) * 1e3 / (calls - few):.0f} ns each of {calls - few}; "
                      + ", ".join(f"{s.get('state')}{'/' + s['reason'] if s.get('reason') else ''} {s.get('replaced', 0)}"
                                  f" of {s.get('seen', 0)}" for s in summary.get("sites", [])[:6]))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--lib")
    parser.add_argument("--out")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=95, help="begins no further model after so many seconds")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return harness.serve(start)
    began = time.monotonic()
    os.makedirs(arguments.out, exist_ok=True)
    modes = {name: Mode(name, arguments) for name in MODES}
    for mode in modes.values():
        mode.server.spawn()
    for mode in modes.values():
        if "error" in (answer := mode.server.answer(120)):
            sys.exit(f"{mode.name}: {answer['error']}")
    print(f"servers ready after {time.monotonic() - began:.0f} s")
    for model in arguments.names:
        if time.monotonic() - began > arguments.deadline:
            print(f"{model}: left out, the deadline has passed")
            continue
        rows = {name: [] for name in MODES}
        short = {name: modes[name].run(model, 1) for name in MODES if name != "plain"}
        for _ in range(arguments.rounds):
            for name in MODES:
                rows[name].append(modes[name].run(model, MODELS[model][1]))
        tell(model, rows, short)
    for mode in modes.values():
        mode.server.stop(grace=5)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
