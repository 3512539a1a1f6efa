#!/usr/bin/env python3
"""Runs a zoo of other people's models, plain and under the shim in several settings, by forking.

    strangers.py --zoo FOLDER --lib build/libfashim.so --out DIR [--only GLOB,…] [--jobs 12] [--deadline SECONDS]
            [--separate] [--settings 'replace;poison=FASHIM_POISON=1;sample=FASHIM_SAMPLE=3'] [--time REPEATS]

FOLDER holds a `wild.py` (cases, differences, what a log says) and `wildcases/*.py`. Importing PyTorch and transformers
costs 10 to 20 s of CPU a process, so one server a setting imports once, before CUDA is initialised, and forks a child for
each case: 280 cases in one setting took 321 s of a machine with 16 cores and one H100. The shim is
loaded into the servers and wakes up in the children. Cases run in the order of --only, the first patterns first. A
setting is NAME or NAME=VARIABLE=VALUE,…; `plain` is there always. One line a case and setting, the zoo's own flags;
DIR/wild.json keeps every figure, DIR/SETTING/NAME.jsonl the logs. The status is 1 where a case is WRONG or crashed.

--time: how long instead. The processes of a case, plain and one for each setting, take turns of 16 iterations, so that
both meet the same machine, and the same processor: 128 iterations or as many as the case has, if more, all of it REPEATS
times. Who gets the processor finds its caches and branch predictors filled by another, so a turn is worth the median of
its last ten iterations: with turns of one, the 2 to 6 % that a profile finds in the shim came out as 13. A ratio is
the median of those of neighbouring turns, in the later half; behind it the quarters of these. `first3` is the same of
the first three iterations. SLOWER: more than 3 % above plain, and so in three quarters; DIR/time.json keeps all.
Nothing else should run on the GPU.
"""
import argparse
import contextlib
import fnmatch
import itertools
import json
import os
import resource
import select
import signal
import statistics
import subprocess
import sys
import time
import traceback


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--zoo", required=True)
    parser.add_argument("--lib", default="build/libfashim.so")
    parser.add_argument("--out", default="build/wild")
    parser.add_argument("--only", default="*")
    parser.add_argument("--skip", default="")
    parser.add_argument("--settings", default="replace")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--timeout", type=int, default=120)
    parser.add_argument("--deadline", type=float, default=1e9)
    parser.add_argument("--separate", action="store_true", help="the second plain run in a process of its own")
    parser.add_argument("--time", type=int, default=0, metavar="REPEATS")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--server", help=argparse.SUPPRESS)
    return parser.parse_args()


def in_order(cases, only, skip):
    """The names that the patterns choose, those of earlier patterns first."""
    chosen = {}
    for pattern in only.split(","):
        for name in cases:
            if fnmatch.fnmatch(name, pattern) and not any(fnmatch.fnmatch(name, s) for s in skip.split(",") if s):
                chosen.setdefault(name)
    return list(chosen)


# ---- a server: imports once, forks for each case ---------------------------------------------------


def serve(arguments, wild):
    """Reads lines `NAME VARIANTS ITERATIONS STEM NEXT`, forks for each, answers `STEM STATUS SECONDS CPU` when it has ended."""
    for name in ("torch", "torchvision", "transformers", "timm", "einops"):
        try:
            __import__(name)
        except Exception as error:
            print(f"{name}: {error!r}", file=sys.stderr)
    try:
        from transformers import BertModel, LlamaModel, ViTModel, GenerationConfig  # noqa: F401
    except Exception as error:
        print(repr(error), file=sys.stderr)
    wild.load_cases()
    print("ready", flush=True)
    running, text, open_input = {}, "", True
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while open_input or running:
        ready, _, _ = select.select([reader] + ([0] if open_input else []), [], [], 1.0)
        if reader in ready:
            os.read(reader, 4096)
        if 0 in ready:
            data = os.read(0, 65536).decode()
            open_input = bool(data)
            *lines, text = (text + data).split("\n")
            for line in lines:
                name, variants, iterations, stem, following = line.split("\t")
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    if following:
                        take_turns(wild, stem + TURN, following + TURN)
                    child(wild, name, variants, int(iterations) or None, stem, arguments)
                running[pid] = (stem, time.monotonic())
        while running:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            if pid in running:
                stem, start = running.pop(pid)
                print(f"{stem}\t{os.waitstatus_to_exitcode(status)}\t{time.monotonic() - start:.2f}\t"
                      f"{usage.ru_utime + usage.ru_stime:.2f}", flush=True)


TURN = ".turn"  # a pipe: whose turn it is finds something in its own
ITERATIONS, WARM = 16, 6  # of a turn, and how many of them are for its caches


def take_turns(wild, own, following):
    """From now on a turn of the zoo's loop waits until the one before, of the other process, has ended. All have one
    processor: on a machine shared with others two of them differed by a quarter, in either direction."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    mine, yours = (os.open(path, os.O_RDWR) for path in (own, following))
    flat, done = wild.flat, itertools.count(1)

    @contextlib.contextmanager
    def begin():
        os.read(mine, 1)
        yield

    def ended(value, prefix="o"):
        """Where the loop looks at what came out, not timed."""
        if prefix == "o" and next(done) % ITERATIONS == 0:
            os.write(yours, b".")
            os.read(mine, 1)
        return flat(value, prefix)

    wild.gpu_turn, wild.flat = begin, ended


def child(wild, name, variants, iterations, stem, arguments):
    """One case in a process of its own; never returns."""
    with open(stem + ".pid", "w") as file:
        file.write(str(os.getpid()))
    for fd, end in ((1, ".stdout"), (2, ".stderr")):
        file = os.open(stem + end, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, fd)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(arguments.timeout)
    status = 1
    try:
        status = wild.run_one(argparse.Namespace(name=name, device=arguments.device, iters=iterations, variants=variants,
                                                 verbose=False, out=stem + ".npz"))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    if status == 0:
        sys.exit(0)  # an orderly end, since the shim writes its summary then
    os._exit(status)


# ---- the table --------------------------------------------------------------------------------------


class Server:
    def __init__(self, arguments, wild, name, extra):
        self.name, self.waiting, self.text = name, {}, ""
        self.folder = os.path.join(os.path.abspath(arguments.out), name)
        os.makedirs(self.folder, exist_ok=True)
        entry = argparse.Namespace(env={})
        lib = None if name.startswith("plain") else os.path.abspath(arguments.lib)
        env = wild.environment(entry, lib, os.path.join(self.folder, "%p.jsonl"), extra)
        command = [sys.executable, os.path.abspath(__file__), "--server", name, "--zoo", arguments.zoo, "--timeout",
                   str(arguments.timeout), "--device", arguments.device]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        os.set_blocking(self.process.stdout.fileno(), False)

    def stem(self, case):
        return os.path.join(self.folder, case)

    def ask(self, case, variants, iterations=0, following=""):
        self.waiting[case] = True
        self.process.stdin.write(f"{case}\t{variants}\t{iterations}\t{self.stem(case)}\t{following}\n".encode())
        self.process.stdin.flush()

    def answers(self):
        """(case, status, seconds, CPU seconds) of the children that have ended."""
        data = self.process.stdout.read()
        if data == b"" and self.process.poll() is not None:
            for case in list(self.waiting):
                self.waiting.pop(case)
                yield case, "server died", 0.0, 0.0
            return
        *lines, self.text = (self.text + (data or b"").decode()).split("\n")
        for line in lines:
            fields = line.split("\t")
            if len(fields) == 4:
                case = os.path.basename(fields[0])
                self.waiting.pop(case, None)
                yield case, int(fields[1]), float(fields[2]), float(fields[3])


def judge(wild, entry, server, plain, again, status, seconds, cpu):
    """One row: the differences to the plain run and the flags, as the zoo's own runner has them."""
    row = {"name": entry.name, "setting": server.name, "dtype": entry.dtype, "expect": entry.expect, "flags": [],
           "shim_status": status, "shim_seconds": seconds, "shim_cpu": cpu}
    shim = wild.load_npz(server.stem(entry.name) + ".npz")
    log_path = server.stem(entry.name) + ".jsonl"
    try:
        with open(server.stem(entry.name) + ".pid") as file:
            os.rename(os.path.join(server.folder, file.read() + ".jsonl"), log_path)
    except OSError:
        pass
    row["log"] = log = wild.read_log(log_path)
    if status != 0:
        row["flags"].append("TIMEOUT" if status == -signal.SIGALRM else "CRASH")
        row["error"] = wild.tail(server.stem(entry.name) + ".stderr")
    noise, _ = wild.differences(plain, "a", again, "b")
    natural, row["natural_complaint"] = wild.differences(plain, "a", plain, "d")
    diff, row["complaint"] = wild.differences(plain, "a", shim, "c")
    row["noise"], row["natural"], row["diff"] = wild.largest(noise), wild.largest(natural), wild.largest(diff)
    row["by_output"] = {k: [(d or {}).get(k) for d in (noise, natural, diff)] for k in sorted(diff or {})}
    row["ops"] = json.loads(str(plain["#ops"])) if "#ops" in plain else None
    row["plain"], row["shim"] = wild.medians(plain, "a"), wild.medians(shim, "c")
    unfused = wild.All.unfused(entry, row["ops"])
    if status == 0:
        row["beyond"] = beyond = [
            k for k, (n, nat, d) in row["by_output"].items()
            if d is not None and d > max(0 if k.endswith("_padrows") else 3 * (nat or 0), 3 * (n or 0),
                                         wild.TOL[entry.dtype])]
        if row["complaint"] or any(not k.endswith("_padrows") for k in beyond):
            row["flags"].append("WRONG")
        elif beyond:
            row["flags"].append("PADROWS")
        elif not log["replaced"] and row["diff"] and row["diff"] > 3 * (row["noise"] or 0):
            row["flags"].append("MOVED")
        if unfused and not log["replaced"]:
            row["flags"].append("NOT_REPLACED" if entry.expect != "hard" else "not_replaced(hard)")
        if not log["found"]:
            row["flags"].append("NO_LOG")
    if log["violations"]:
        row["flags"].append("VIOLATION")
    return row


def in_turns(servers, case, variants, iterations):
    """Runs a case in all servers, an iteration each; their exit statuses by name."""
    pipes, statuses = [], {}
    for server in servers:
        path = server.stem(case) + TURN
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        os.mkfifo(path)
        pipes.append(os.open(path, os.O_RDWR))
    for n, server in enumerate(servers):
        server.ask(case, variants[n], iterations, servers[(n + 1) % len(servers)].stem(case))
    os.write(pipes[0], b".")
    while len(statuses) < len(servers):
        select.select([server.process.stdout for server in servers], [], [], 1.0)
        for n, server in enumerate(servers):
            for _, status, _, _ in server.answers():
                statuses[server.name] = status
                os.write(pipes[(n + 1) % len(servers)], b"." * 4096)  # who has ended holds nobody up
    for n, server in enumerate(servers):
        os.close(pipes[n])
        os.remove(server.stem(case) + TURN)
    return statuses


def turns(run):
    """What each turn of a run is worth, in ms."""
    return [statistics.median(run[first + WARM:first + ITERATIONS]) for first in range(0, len(run) - WARM, ITERATIONS)]


def timing(wild, entry, servers, repeats):
    """One row: what each run took, in pairs with plain's."""
    runs = {server.name: [] for server in servers}
    row = {"name": entry.name, "dtype": entry.dtype, "flags": [], "runs": runs}
    variants = ["a" if server.name == "plain" else "c" for server in servers]
    for _ in range(repeats):
        statuses = in_turns(servers, entry.name, variants, max(128, entry.iters or 0))
        row["flags"] += [f"{name}:{status}" for name, status in statuses.items() if status != 0]
        if row["flags"]:
            return row
        for server, variant in zip(servers, variants):
            path = server.stem(entry.name)
            runs[server.name].append(wild.load_npz(path + ".npz")[variant + "#wall"].tolist())
            with open(path + ".pid") as file:
                log = os.path.join(server.folder, file.read() + ".jsonl")
            if os.path.exists(log):
                os.replace(log, path + ".jsonl")
            os.remove(path + ".npz")
    row["ratio"], row["first3"] = {}, {}
    for server in servers[1:]:
        pairs = list(zip(runs["plain"], runs[server.name]))
        row["first3"][server.name] = statistics.median(sum(ours[:3]) / sum(plain[:3]) for plain, ours in pairs)
        ratios = [b / a for plain, ours in pairs
                  for a, b in list(zip(turns(plain), turns(ours)))[len(plain) // ITERATIONS // 2:]]
        row["ratio"][server.name] = lower, middle, upper = statistics.quantiles(ratios, n=4)
        if middle > 1.03:
            row["flags"].append(f"{server.name}:" + ("SLOWER" if lower > 1.03 else "SLOWER(noisy)"))
    return row


def later(row, server):
    """Milliseconds of an iteration, the median of the later half."""
    return statistics.median(ms for run in row["runs"][server] for ms in run[len(run) // 2:])


def time_all(wild, names, servers, arguments):
    """Prints and keeps a row for each case that is begun before the deadline."""
    start, rows = time.monotonic(), []
    for name in names:
        if time.monotonic() - start > arguments.deadline:
            break
        row = timing(wild, wild.CASES[name], servers, arguments.time)
        rows.append(row)
        log = wild.read_log(servers[-1].stem(name) + ".jsonl")
        text = " ".join(f"{server}: {later(row, 'plain'):.2f} -> {later(row, server):.2f} ms x{middle:.3f} [{lower:.3f}, "
                        f"{upper:.3f}] first3 x{row['first3'][server]:.2f}"
                        for server, (lower, middle, upper) in row.get("ratio", {}).items())
        row["replaced"], row["seen"] = log["replaced"], log["seen"]
        print(f"{name:28} {row['dtype']} {text} repl {log['replaced']}/{log['seen']} [{' '.join(row['flags']) or 'ok'}]",
              flush=True)
        with open(os.path.join(arguments.out, "time.json"), "w") as file:
            json.dump(rows, file, indent=1, default=str)
    for server in servers[1:]:
        ratios = sorted(row["ratio"][server.name][1] for row in rows if row.get("ratio"))
        if ratios:
            over = sum(ratio > 1.03 for ratio in ratios)
            plain, ours = (sum(later(row, s) for row in rows if row.get("ratio")) for s in ("plain", server.name))
            print(f"{server.name}: {len(ratios)} cases, ratio median {statistics.median(ratios):.3f}, {ratios[0]:.3f} to "
                  f"{ratios[-1]:.3f}, {over} above 1.03, sum {ours / plain:.3f}")
    return 0


def main():
    arguments = parse()
    sys.path.insert(0, arguments.zoo)
    sys.argv = sys.argv[:1]
    import wild
    if os.path.dirname(os.path.abspath(wild.__file__)) != os.path.abspath(arguments.zoo):
        sys.exit(f"{arguments.zoo} holds no wild.py")
    if arguments.server:
        return serve(arguments, wild)
    start = time.monotonic()
    wild.load_cases()
    names = in_order(wild.CASES, arguments.only, arguments.skip)
    plain = Server(arguments, wild, "plain", ())
    again = Server(arguments, wild, "plain_again", ()) if arguments.separate else None
    settings = []
    for text in arguments.settings.split(";"):
        name, _, variables = text.partition("=")
        settings.append(Server(arguments, wild, name, [v for v in variables.split(",") if v]))
    servers = [plain] + ([again] if again else []) + settings
    if arguments.time:
        return time_all(wild, names, servers, arguments)
    todo, ended, rows = names, {}, []
    judged, cut = set(), 0

    def complete(name):
        return all(s.name in ended.get(name, {}) for s in servers)

    def report(name):
        entry, results = wild.CASES[name], ended[name]
        data = wild.load_npz(plain.stem(name) + ".npz")
        other = wild.load_npz(again.stem(name) + ".npz") if again else data
        if results["plain"][0] != 0:
            flag = "SKIP" if results["plain"][0] == 77 else "PLAIN_FAILED"
            rows.append({"name": name, "setting": "plain", "dtype": entry.dtype, "flags": [flag],
                         "error": wild.tail(plain.stem(name) + (".stdout" if flag == "SKIP" else ".stderr"), 1)})
            print(wild.All.line(rows[-1]), flush=True)
        else:
            for server in settings:
                rows.append(judge(wild, entry, server, data, other, *results[server.name]))
                print(f"{server.name:8} " + wild.All.line(rows[-1]), flush=True)
        for server in servers:
            if os.path.exists(server.stem(name) + ".npz"):
                os.remove(server.stem(name) + ".npz")

    at, queue = 0, []
    while True:
        while sum(len(s.waiting) for s in servers) < arguments.jobs:
            if not queue and at < len(todo):
                if time.monotonic() - start > arguments.deadline:
                    cut, at = len(todo) - at, len(todo)
                    continue
                name = todo[at]
                at += 1
                queue = [(plain, name, "a,d" if again else "a,b,d")] + ([(again, name, "b")] if again else []) + \
                    [(s, name, "c") for s in settings]
            if not queue:
                break
            server, name, variants = queue.pop(0)
            server.ask(name, variants)
        busy = [s.process.stdout for s in servers if s.waiting]
        if not busy:
            break
        select.select(busy, [], [], 1.0)
        for server in servers:
            for name, status, seconds, cpu in server.answers():
                ended.setdefault(name, {})[server.name] = (status, seconds, cpu)
                if complete(name) and name not in judged:
                    judged.add(name)
                    report(name)
    for server in servers:
        server.process.stdin.close()
    with open(os.path.join(arguments.out, "wild.json"), "w") as file:
        json.dump(rows, file, indent=1, default=str)
    print(f"\n{len(judged)} cases in {time.monotonic() - start:.0f} s, {cut} left at the deadline")
    by = {}
    for row in rows:
        for flag in row["flags"]:
            by.setdefault((row["setting"], flag), []).append(row["name"])
    for (setting, flag), found in sorted(by.items()):
        print(f"{setting} {flag} {len(found)}: {' '.join(sorted(found))}")
    for server in servers:
        server.process.wait()
    return any(flag in ("WRONG", "CRASH", "TIMEOUT", "VIOLATION") for _, flag in by)


if __name__ == "__main__":
    sys.exit(main())
