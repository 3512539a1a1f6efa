# SPDX-License-Identifier: Apache-2.0
"""Starting programs with and without the shim, and reading the log that it leaves.

Nothing here knows what a program computes. A run that crashes, hangs or writes half a log gives a
Run or a Log that says so; it never raises.
"""
import contextlib
import contextlib
import ctypes
import glob
import importlib.util
import io
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS_PY = os.path.join(HERE, "programs.py")


def device_count():
    """Devices of the CUDA driver; 0 without one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


def have_gpu():
    return device_count() > 0


def library_path():
    """Where libcublas is at run time: the toolkit's folder, then the folders of Python wheels."""
    folders = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64")]
    found = importlib.util.find_spec("nvidia")
    for root in (found.submodule_search_locations or []) if found else []:
        folders += sorted(glob.glob(os.path.join(root, "*", "lib")))
    folders = [folder for folder in folders if glob.glob(os.path.join(folder, "libcublas.so.*"))]
    return ":".join(folders + [x for x in [os.environ.get("LD_LIBRARY_PATH")] if x])


def clean_environment(**more):
    """The caller's environment without the shim and its options; `more` on top."""
    kept = {name: value for name, value in os.environ.items()
            if name != "LD_PRELOAD" and not name.startswith("FASHIM")}
    if "FASHIM_TEST_DEVICE" in os.environ:
        kept["FASHIM_TEST_DEVICE"] = os.environ["FASHIM_TEST_DEVICE"]
    kept.update(PYTHONDONTWRITEBYTECODE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
                OMP_NUM_THREADS="2")
    kept.update({name: str(value) for name, value in more.items()})
    return kept


def shim_environment(library, mode, log, **more):
    """`more`: further FASHIM_* options."""
    return clean_environment(LD_PRELOAD=os.path.abspath(library), FASHIM=mode, FASHIM_OUT=log,
                             FASHIM_LOG="warn", **{"FASHIM_BUDGET": "0", **more})


def printed(show, path):
    """What show() returns; what it prints is kept in a file, too."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        result = show()
    print(text.getvalue(), end="")
    with open(path, "w") as file:
        file.write(text.getvalue())
    return result


class Run:
    """One finished process: rc (negative: signal), seconds, stdout, stderr, hung."""

    def __init__(self, rc, seconds, stdout, stderr, hung):
        self.rc, self.seconds, self.hung = rc, seconds, hung
        self.stdout, self.stderr = stdout, stderr

    def complaint(self):
        """One line on why the run is no good, or None."""
        if self.hung:
            return f"hung, killed after {self.seconds:.0f} s"
        if self.rc < 0:
            return f"killed by {signal.Signals(-self.rc).name}"
        return f"exit status {self.rc}" if self.rc else None

    def tail(self, lines=6):
        return "\n".join(self.stderr.strip().splitlines()[-lines:])


def descendants(pid):
    """The process and all that it has started, as far as they live."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                number, _, rest = file.read().partition(" (")
            parents[int(number)] = int(rest.rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            pass  # it has ended
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def write_stacks(pid, path):
    """Where all threads of a process that hangs are, and of those below it: by a debugger, and, of
    Python's, by its own handler of SIGABRT (clean_environment)."""
    debugger = shutil.which("gdb") or shutil.which("cuda-gdb")
    everybody = descendants(pid)
    with open(path, "w") as out:
        for one in everybody if debugger else ():
            out.write(f"== process {one}\n")
            out.flush()
            try:
                subprocess.run([debugger, "-p", str(one), "-batch", "-ex", "thread apply all bt 40"],
                               stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=30,
                               check=False)
            except subprocess.TimeoutExpired:
                out.write("the debugger did not come to an end\n")
    for one in everybody:
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGABRT)
    time.sleep(2)


def launch(command, environment, timeout, base, stacks=False):
    """Runs a command to its end; its output goes to BASE.stdout and BASE.stderr, and, with `stacks`,
    where its threads are when the time is over to BASE.stacks."""
    start, hung = time.monotonic(), False
    with open(base + ".stdout", "w+", errors="replace") as out, \
            open(base + ".stderr", "w+", errors="replace") as err:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=err, start_new_session=True)
        try:
            rc = process.wait(timeout)
        except subprocess.TimeoutExpired:
            hung = True
            everybody = descendants(process.pid)
            if stacks:
                write_stacks(process.pid, base + ".stacks")
            for one in everybody:
                with contextlib.suppress(OSError):
                    os.kill(one, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            rc = process.wait()
        out.seek(0)
        err.seek(0)
        return Run(rc, time.monotonic() - start, out.read(), err.read(), hung)


class Log:
    """What a run of the shim wrote (format: shim/log/log_format.h)."""

    def __init__(self, path):
        self.header, self.summary, self.site, self.state = None, None, {}, {}
        self.sample, self.decline, self.materialise, self.violation = [], [], [], []
        self.bad_lines = 0
        try:
            with open(path, errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            lines = []
        for line in lines:
            try:
                self.take(json.loads(line))
            except (ValueError, KeyError, AttributeError):
                self.bad_lines += 1

    def take(self, record):
        kind = record["type"]
        if kind in ("header", "summary"):
            setattr(self, kind, record)
        elif kind in ("site", "state"):
            getattr(self, kind)[record["site"]] = record
        elif kind in ("sample", "decline", "materialise", "violation"):
            getattr(self, kind).append(record)

    def sites(self):
        """The summary's site rows."""
        return (self.summary or {}).get("sites", [])

    def total(self, field):
        return sum(row.get(field, 0) for row in self.sites())

    def reasons(self):
        """Every reason that was given for leaving something alone, with its count."""
        given = dict((self.summary or {}).get("reasons", {}))
        for row in self.sites():
            if row.get("state") == "declined":
                given.setdefault(row.get("reason"), row.get("passed", 0))
        for record in self.decline:
            given.setdefault(record.get("reason"), 1)
        for plain in ("none", "learning", None):
            given.pop(plain, None)
        return given

    def complaints(self, mode):
        """What is wrong with the log itself, whatever the program."""
        if not self.header:
            return ["no log (or no header in it)"]
        said = [f"violation: {record.get('what')}" for record in self.violation[:3]]
        if self.header.get("mode") != mode:
            said.append(f"mode in the log is {self.header.get('mode')}")
        if self.bad_lines:
            said.append(f"{self.bad_lines} lines of the log are not JSON records")
        if not self.summary:
            said.append("no summary in the log")
        elif self.summary.get("end") != "exit":
            said.append(f"summary says end {self.summary.get('end')}")
        return said


def serve(start):
    """The other end of a Server's pipes: answers one JSON request a line on stdin by
    handle(request), a dict, and by {"error": …} where that raises. start() gives handle."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print do not disturb the protocol
    handle = start()
    print(json.dumps({"ok": True}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = handle(json.loads(line))
        except Exception as error:  # the next request may still work
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


class Server:
    """A process that answers requests (serve): `programs.py --serve`, or another command. A request
    that fails or times out gives {"error": …}; a process that is gone is started anew for the next
    one."""

    def __init__(self, environment, errors, command=(PROGRAMS_PY, "--serve")):
        self.environment, self.errors, self.process = environment, errors, None
        self.command = [sys.executable, *command]

    def spawn(self):
        """First half of start()."""
        with open(self.errors, "a") as err:
            self.process = subprocess.Popen(
                self.command, env=self.environment, text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=err, start_new_session=True)

    def start(self):
        self.spawn()
        return self.answer(120)

    def answer(self, timeout):
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            why = "no answer in time" if not ready else f"ended, status {self.status()}"
            self.stop()
            return {"error": why}
        return json.loads(line)

    def status(self):
        """The exit status of a process that has closed its end; None while it is not gone."""
        try:
            return self.process.wait(2)
        except subprocess.TimeoutExpired:
            return None

    def send(self, **request):
        """First half of a request; False when the process cannot be reached."""
        if not self.process and "error" in self.start():
            return False
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return True
        except OSError:
            self.stop()
            return False

    def ask(self, timeout=90, **request):
        return self.answer(timeout) if self.send(**request) else {"error": "not running"}

    def stop(self, grace=0):
        """Ends the process: kindly (the log gets its summary) when grace > 0 seconds."""
        if not self.process:
            return
        try:
            self.process.stdin.close()
            self.process.wait(grace or 0.1)
        except (OSError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None


def race(contestants, count=None, rounds=5, target_ms=40.0):
    """Times [(label, server, request)] in turn, round by round: A B C A B C …

    Returns {label: {"ms": median, "low": …, "high": …, "rounds": […]} or {"error": …}}."""
    results, alive = {}, []
    for label, server, request in contestants:
        answer = server.ask(prepare=label, **request)
        if "error" in answer:
            results[label] = answer
        else:
            alive.append((label, server))
    if alive and not count:
        guess = alive[0][1].ask(round=alive[0][0], count=4).get("ms", 1.0)
        count = max(3, min(1000, int(target_ms / max(guess, 1e-3))))
    taken = {label: [] for label, _ in alive}
    for _ in range(rounds):
        for label, server in alive:
            answer = server.ask(round=label, count=count)
            if "error" in answer:
                results[label] = answer
            else:
                taken[label].append(answer["ms"])
    for label, server in alive:
        server.ask(drop=label)
        row = sorted(taken[label])
        if label not in results and row:
            results[label] = {"ms": row[len(row) // 2], "low": row[0], "high": row[-1],
                              "rounds": taken[label], "count": count}
    return results
