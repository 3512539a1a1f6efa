#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs with CUDA graphs, plain and under the shim as it is by default, side by side.

    graphs_replayed.py --lib build/libfashim.so --out DIR [--deadline 110] [--rounds 5] [--replaced] [CASE …]

Each case has two processes, one of them under the shim. All prepare at once; then each makes 1000
replays with other inputs every time and keeps what comes out of some of them, and the P of its first
layer as it is read after the 500th; then one at a time has the GPU and is timed, plain and shim in
turns. A line for each case tells what became of its chains, or why they were left, how far outputs are
from plain's, whether P has the same bits, and the time that the shim takes of plain's. Of a graph without
attention it is launching it, on the host and in all, and capturing it. FASHIM_BUDGET is 0 as in other
tests here, unless --budget says otherwise. Exit status 1: a wrong output, or a case that failed;
with --replaced also one in which nothing was replaced in a graph.
"""
import argparse
import collections
import ctypes
import json
import math
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402

REPLAYS, LOOKED_AT, P_AT = 1000, 24, 500
INPUTS = 8  # sets, in turn
ROUND_MS = 40.0


# ---- the programs: each gives replay(i), the tensors to look at, and P or None ----------------------


def layers(torch):
    """a captured network of six layers, P of the first is kept"""
    import graphs
    from common import draw
    net = graphs.network(6)
    inputs = [draw((4, 512, 768), torch.float16, i) for i in range(INPUTS)]
    x = inputs[0].clone()

    def run():
        kept = []
        y = net[0](x, kept)
        return net[1:](y), kept[0]

    replay, kept = graphs.captured(run)

    def step(i):
        x.copy_(inputs[i * 5 % INPUTS])
        replay()

    return step, lambda: kept[0][0], lambda: kept[0][1]


def decode(torch):
    """a captured decoding step of GPT-2's size with a static cache, P of the first layer is kept"""
    import graphs
    from common import DEVICE, draw
    B, H, D, S, L = 8, 16, 64, 1024, 12
    columns = torch.arange(S, device=DEVICE)
    keys = [draw((B, H, S, D), torch.float16, 100 + n) for n in range(L)]
    values = [draw((B, H, S, D), torch.float16, 200 + n) for n in range(L)]
    weight = draw((D, D), torch.float16, 5, 0.1)
    news = [draw((B, H, 1, D), torch.float16, 1000 + n) for n in range(INPUTS)]
    x, position = news[0].clone(), torch.full((1,), S // 2, dtype=torch.long, device=DEVICE)

    def run():
        h, first = x, None
        bias = torch.where(columns <= position, 0.0, float("-inf")).to(torch.float16)
        for k, v in zip(keys, values):
            q = torch.nn.functional.layer_norm(h, (D,))  # else numbers grow until they are none
            k.index_copy_(2, position, q @ weight)
            v.index_copy_(2, position, q)
            p = torch.softmax(q @ k.transpose(-1, -2) * 0.125 + bias, dim=-1)
            first = p if first is None else first
            h = h + p @ v
        return h, first

    replay, kept = graphs.captured(run)

    def step(i):
        position.fill_(S // 2 + i % (S // 2))
        x.copy_(news[i * 5 % INPUTS])
        replay()

    return step, lambda: kept[0][0], lambda: kept[0][1]


def compiled(torch):
    """torch.compile(mode="reduce-overhead"), four layers of BERT's kind"""
    import torch._inductor.config as inductor
    import graphs
    from common import draw
    inductor.pattern_matcher = False  # attention spelt out is what is asked for
    run = torch.compile(graphs.network(4), mode="reduce-overhead")
    inputs = [draw((4, 512, 768), torch.float16, i) for i in range(INPUTS)]
    kept = [None]

    def step(i):
        torch.compiler.cudagraph_mark_step_begin()
        kept[0] = run(inputs[i * 5 % INPUTS])

    for i in range(6):
        step(i)
    return step, lambda: kept[0], None


def compiled_masked(torch):
    """transformers' BERT, compiled in the same way, with a mask, and graphs from the second forward on"""
    import transformers
    config = transformers.BertConfig(num_hidden_layers=2, intermediate_size=1024, vocab_size=1000)
    torch.manual_seed(0)
    model = transformers.BertModel._from_config(config, attn_implementation="eager", dtype=torch.bfloat16)
    model = model.to("cuda").eval().requires_grad_(False)
    run = torch.compile(model, mode="reduce-overhead")
    draws = torch.Generator().manual_seed(1)
    inputs = [torch.randint(5, 990, (4, 384), generator=draws).cuda() for _ in range(INPUTS)]
    keys = torch.arange(384)
    masks = [(keys < torch.tensor([[384], [300 - 9 * i], [250 + 3 * i], [192 + i]])).long().cuda() for i in range(INPUTS)]
    kept = [None]

    def step(i):
        torch.compiler.cudagraph_mark_step_begin()
        kept[0] = run(input_ids=inputs[i * 5 % INPUTS], attention_mask=masks[i * 3 % INPUTS]).last_hidden_state

    for i in range(3):
        step(i)
    return step, lambda: kept[0], None


def jax(torch):
    """JAX, jitted, with its default flags: command buffers"""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax as library
    import jax.numpy as jnp
    import numpy

    def attend(x, w):
        for _ in range(4):
            q, k, v = (jnp.einsum("bsd,de->bse", x, w[n]).reshape(4, 512, 8, 64).swapaxes(1, 2)
                       for n in range(3))
            scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.125
            p = library.nn.softmax(scores, axis=-1)
            x = x + jnp.einsum("bhqk,bhkd->bhqd", p, v).swapaxes(1, 2).reshape(4, 512, 512)
        return x

    random = numpy.random.default_rng(0)
    run, kept = library.jit(attend), [None]
    w = jnp.asarray(random.standard_normal((3, 512, 512)) / 23, dtype=jnp.float16)
    inputs = [jnp.asarray(random.standard_normal((4, 512, 512)), dtype=jnp.float16)
              for _ in range(INPUTS)]

    def step(i):
        kept[0] = run(inputs[i * 5 % INPUTS], w)

    for i in range(8):
        step(i)
    return step, lambda: kept[0], None


def jax_cublas(torch):
    """the same, and cuBLAS multiplies"""
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_enable_triton_gemm=false"
    return jax(torch)


class Driver:
    """Calls of the driver's that PyTorch has none for."""

    def __init__(self, torch):
        self.library, self.stream = ctypes.CDLL("libcuda.so.1"), torch.cuda.current_stream().cuda_stream

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} gives {status}")

    def capture(self, work):
        graph = ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", ctypes.c_void_p(self.stream), 2)
        work()
        self.call("cuStreamEndCapture", ctypes.c_void_p(self.stream), ctypes.byref(graph))
        return graph

    def instantiate(self, graph):
        execution = ctypes.c_void_p()
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(execution), graph, ctypes.c_ulonglong(0))
        return execution

    def launch(self, execution):
        self.call("cuGraphLaunch", execution, ctypes.c_void_p(self.stream))


def chain(torch):
    """One layer's attention into tensors that are there: its ops, what they read, O, P."""
    from common import DEVICE, draw
    q, k, v = (draw((64, 512, 64), torch.float16, n, 0.35) for n in range(3))
    s, p = (torch.empty((64, 512, 512), dtype=torch.float16, device=DEVICE) for _ in range(2))
    o = torch.empty_like(q)
    ops = (lambda: torch.bmm(q, k.transpose(1, 2), out=s), lambda: torch.softmax(s, -1, out=p),
           lambda: torch.bmm(p, v, out=o))
    return ops, (q, k, v), o, p


def driver_case(torch, build, outside=8):
    """outside: times that the ops run before there is a graph of them"""
    from common import draw
    ops, operands, o, p = chain(torch)
    sets = [[draw(x.shape, torch.float16, 10 * i + n, 0.35) for n, x in enumerate(operands)]
            for i in range(INPUTS)]
    torch.cuda.synchronize()  # what was drawn is there for another stream, too
    with torch.cuda.stream(torch.cuda.Stream()):
        driver = Driver(torch)
        for _ in range(outside):
            for op in ops:
                op()
        torch.softmax(operands[0][:8] @ operands[1][:8].transpose(1, 2), -1)  # libraries are loaded
        torch.cuda.synchronize()
        execution = driver.instantiate(build(driver, ops))
        stream = torch.cuda.current_stream()

    def step(i):
        with torch.cuda.stream(stream):
            for to, new in zip(operands, sets[i * 5 % INPUTS]):
                to.copy_(new)
            driver.launch(execution)

    def read(x):
        stream.synchronize()
        return x

    return step, lambda: read(o), lambda: read(p)


def put_together(driver, ops):
    graph, before = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuGraphCreate", ctypes.byref(graph), 0)
    for n, op in enumerate(ops):
        node = ctypes.c_void_p()
        driver.call("cuGraphAddChildGraphNode", ctypes.byref(node), graph, ctypes.byref(before),
                    ctypes.c_size_t(n > 0), driver.capture(op))
        before = node
    return graph


def by_hand(torch):
    """the driver's calls: each op captured by itself, then added to a graph (cuGraphAdd…)"""
    return driver_case(torch, put_together)


def alone(torch):
    """the same, and attention never runs outside"""
    return driver_case(torch, put_together, outside=0)


def by_capture(torch):
    """the driver's calls: all captured, instantiated, launched"""
    return driver_case(torch, lambda driver, ops: driver.capture(lambda: [op() for op in ops]))


def without(torch):
    """a graph of 24 kernels without attention, in a process that has run attention before"""
    from common import DEVICE, draw
    ops = chain(torch)[0]
    x = torch.zeros(4096, device=DEVICE)
    new = [draw((4096,), torch.float32, i) for i in range(INPUTS)]
    for _ in range(8):
        for op in ops:
            op()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(24):
            x.mul_(0.5)

    def step(i):
        x.copy_(new[i * 5 % INPUTS])
        graph.replay()

    step.bare = graph.replay

    def capture():
        other = torch.cuda.CUDAGraph()
        with torch.cuda.graph(other):
            for _ in range(200):
                x.mul_(0.5)

    step.capture = capture
    return step, lambda: x, None


CASES = {  # how far outputs may be from plain's, of their largest
    "layers": (layers, 4e-3), "decode": (decode, 6e-3), "compiled": (compiled, 4e-3),
    "compiled_masked": (compiled_masked, 3e-2),
    "jax": (jax, 1e-2), "jax_cublas": (jax_cublas, 1e-2),
    "by_hand": (by_hand, 4e-3), "alone": (alone, 4e-3), "by_capture": (by_capture, 4e-3),
    "without": (without, 0),
}


# ---- a process --------------------------------------------------------------------------------------


def start(name):
    import numpy
    import torch
    import common
    common.setup()
    torch.set_grad_enabled(False)
    wait = torch.cuda.synchronize
    step, outputs, probabilities = CASES[name][0](torch)
    if name.startswith("jax"):
        def wait():
            outputs().block_until_ready()

    def host(x):
        array = numpy.asarray(x) if name.startswith("jax") else x.float().cpu().numpy()
        return array.astype(numpy.float32).ravel()[::7]

    def check(request):
        kept = {}
        for i in range(REPLAYS):
            step(i)
            if i < LOOKED_AT:
                wait()
            if i % 40 == 7 or i == P_AT:
                kept[f"y{i:04d}"] = host(outputs())
            if i == P_AT and probabilities:
                kept["P"] = host(probabilities())
        numpy.savez(request["path"], **kept)
        return {}

    def timed(request):
        """Milliseconds a replay: until the host was through with it, until all was done."""
        what = getattr(step, request["what"], step)
        wait()
        begin = time.perf_counter()
        for i in range(request["count"]):
            what(i) if what is step else what()
        through = time.perf_counter() - begin
        wait()
        done = time.perf_counter() - begin
        return {"host": through * 1e3 / request["count"], "wall": done * 1e3 / request["count"]}

    def handle(request):
        return {"check": check, "timed": timed}[request.pop("do")](request)

    return handle


# ---- both of a case ---------------------------------------------------------------------------------


class Contestant:
    def __init__(self, name, label, arguments):
        self.label, out = label, os.path.abspath(arguments.out)
        self.log = os.path.join(out, f"{name}.%p.jsonl")
        self.kept = os.path.join(out, f"{name}.{label}.npz")
        more = {"TORCHINDUCTOR_CACHE_DIR": os.path.join(out, f"inductor.{name}.{label}")}
        environment = harness.clean_environment(**more)
        if label == "shim":
            environment = harness.shim_environment(arguments.lib, "replace", self.log,
                                                   FASHIM_BUDGET=arguments.budget, **more)
        self.server = harness.Server(environment, os.path.join(out, f"{name}.{label}.stderr"),
                                     [os.path.abspath(__file__), "--serve", name])


class Case:
    def __init__(self, name, arguments):
        self.name, self.end, self.rounds = name, arguments.end, arguments.rounds
        self.both = [Contestant(name, label, arguments) for label in ("plain", "shim")]
        self.error, self.said = None, []
        for one in self.both:
            one.server.spawn()
            one.log = one.log.replace("%p", str(one.server.process.pid))

    def take(self, one, answer):
        if "error" in answer and not self.error:
            self.error = f"{one.label}: {answer['error']}"
        return answer

    def left(self, most):
        return max(0.5, min(most, self.end - time.monotonic()))

    def opened(self):
        for one in self.both:
            self.take(one, one.server.answer(self.left(180)))

    def begin_check(self):
        for one in self.both:
            if not self.error:
                one.server.send(do="check", path=one.kept)

    def end_check(self):
        for one in self.both:
            if not self.error:
                self.take(one, one.server.answer(self.left(100)))

    def judge(self):
        """True: outputs are right."""
        import numpy
        plain, shim = (numpy.load(one.kept) for one in self.both)
        worst = 0.0
        if not all(numpy.isfinite(plain[key]).all() for key in plain.files):
            self.error = "plain gives what is no number"
            return False
        for key in plain.files:
            if key == "P":
                continue
            a, b = plain[key].astype(float), shim[key].astype(float)
            scale = max(abs(a).max(), 1e-30)
            error = abs(a - b).max() / scale
            worst = max(worst, error if not math.isnan(error) else math.inf)
        self.said.append(f"outputs {worst:.1e} of the largest from plain's")
        same = "P" not in plain.files or numpy.array_equal(plain["P"], shim["P"])
        if "P" in plain.files:
            self.said.append("P bit-identical" if same else
                             f"P WRONG by {abs(plain['P'] - shim['P']).max():.1e}")
        right = worst <= CASES[self.name][1] and same
        if not right:
            self.said.insert(0, "WRONG")
        return right

    def time(self, what="step", which="wall", about="time"):
        first = self.take(self.both[0], self.both[0].server.ask(self.left(20), do="timed", what=what, count=4))
        if self.error:
            return
        count = max(2, min(400, round(ROUND_MS / max(first["wall"], 1e-3))))
        taken = collections.defaultdict(list)
        for n in range(self.rounds):
            for one in self.both if n % 2 == 0 else self.both[::-1]:
                answer = self.take(one, one.server.ask(self.left(20), do="timed", what=what, count=count))
                if self.error:
                    return
                taken[one.label].append(answer[which])
        ratios = sorted(b / a for a, b in zip(taken["plain"], taken["shim"]))
        self.said.append(f"{about} {statistics.median(taken['plain']) * 1e3:.1f} us, shim/plain "
                         f"{statistics.median(ratios):.3f} [{ratios[0]:.3f}, {ratios[-1]:.3f}]")

    def times(self):
        if self.error:
            return
        if self.name != "without":
            self.time()
            return
        self.time("bare", "host", "launch on the host")
        self.time("bare", "wall", "launch in all")
        self.time("capture", "wall", "capture of 200 kernels")

    def close(self):
        for one in self.both:
            one.server.stop(self.left(10))

    def outcome(self):
        """What the log says of the graphs."""
        self.replays, records = 0, []
        try:
            with open(self.both[1].log, errors="replace") as file:
                for line in file:
                    try:
                        records.append(json.loads(line))
                    except ValueError:
                        pass
        except OSError:
            return "no log"
        states = collections.Counter(
            record["state"] + (": " + record["detail"] if "detail" in record else
                               f" ({record.get('scores')})")
            for record in records if record.get("type") == "graph")
        summary = next((r for r in records if r.get("type") == "summary"), {})
        replays = sum(site.get("replays", 0) for site in summary.get("sites", []))
        sites = collections.Counter(site.get("state", "?") + ("" if site.get("state") != "declined" else
                                                              f" {site.get('reason')}")
                                    for site in summary.get("sites", []))
        declined = collections.Counter(f"{r.get('reason')} {r.get('detail', '')}".strip()
                                       for r in records if r.get("type") == "decline")
        violations = [r.get("what") for r in records if r.get("type") == "violation"]
        self.replays = replays
        text = f"chains in graphs {dict(states)}, replayed and replaced {replays}; sites {dict(sites)}"
        if declined:
            text += f"; left {dict(declined.most_common(6))}; reasons {summary.get('reasons')}"
        return text + (f"; VIOLATIONS {violations}" if violations else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", default="build/libfashim.so")
    parser.add_argument("--out", required=True)
    parser.add_argument("--deadline", type=float, default=110)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", default="0")
    parser.add_argument("--replaced", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    arguments = parser.parse_args()
    begin = time.monotonic()
    arguments.end = begin + arguments.deadline
    os.makedirs(arguments.out, exist_ok=True)
    cases = [Case(name, arguments) for name in arguments.cases or CASES]
    good = True
    for phase in ("opened", "begin_check", "end_check"):
        for case in cases:
            getattr(case, phase)()
        print(f"# {phase}: {time.monotonic() - begin:.0f} s", flush=True)
    for case in cases:
        if not case.error:
            good &= case.judge()
        case.times()  # not of one that has failed
        case.close()
        outcome = case.outcome()
        if arguments.replaced and not case.replays and not case.error:
            case.error = "nothing was replaced in a graph"
        good &= not case.error
        print(f"{case.name:10} {'FAILED ' + case.error if case.error else ', '.join(case.said)}\n"
              f"           {outcome}", flush=True)
    print(f"{'ok' if good else 'FAIL'}: {len(cases)} cases, {time.monotonic() - begin:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        sys.exit(harness.serve(lambda: start(sys.argv[2])))
    sys.exit(main())
