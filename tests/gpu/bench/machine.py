# SPDX-License-Identifier: Apache-2.0
"""The machine: what it is, how its clocks ran meanwhile (read, never set), how fast it copies, and
which kernels a call launches."""
import importlib.metadata
import statistics
import subprocess
import threading
import time

import torch

FIELDS = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
COPY_BYTES = 2 << 30
INTERVAL_MS = 100


class Clocks:
    """nvidia-smi in the background from enter to exit; between(t0, t1) sums up."""

    def __init__(self):
        self.samples, self.process = [], None

    def __enter__(self):
        command = ["nvidia-smi", "--query-gpu=" + ",".join(FIELDS), "--format=csv,noheader,nounits", "-i", "0",
                   "-lms", str(INTERVAL_MS)]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self.read, daemon=True).start()
        except OSError:
            pass
        return self

    def read(self):
        for line in self.process.stdout:
            try:
                self.samples.append((time.monotonic(), [float(x) for x in line.split(",")]))
            except ValueError:
                continue

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()

    def between(self, begin, end):
        """{field: [least, median, most]}, or {} without samples."""
        taken = [values for when, values in self.samples if begin <= when <= end]
        return {field: [min(column), statistics.median(column), max(column)]
                for field, column in zip(FIELDS, zip(*taken))}


def describe():
    p = torch.cuda.get_device_properties(0)
    asked = subprocess.run(["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader",
                            "-i", "0"], capture_output=True, text=True, check=False).stdout.strip()
    driver, _, clock = asked.partition(", ")
    return {"gpu": p.name, "sm": f"{p.major}{p.minor}", "multiprocessors": p.multi_processor_count,
            "driver": driver, "max_sm_clock": clock, "torch": torch.__version__,
            "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "flash4": version("flash-attn-4")}


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def copy_bandwidth():
    """Bytes per second of a large copy within the device, read and written ones counted."""
    source = torch.randint(0, 255, (COPY_BYTES,), dtype=torch.uint8, device="cuda")
    target, speeds = torch.empty_like(source), []
    for n in range(7):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(4):
            target.copy_(source)
        end.record()
        end.synchronize()
        speeds.append(8 * COPY_BYTES / start.elapsed_time(end) * 1e3)
    return statistics.median(speeds[2:])


def kernels_of(contestant, x):
    """Names of the kernels one call launches, the longest-running first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        with contestant.open():
            contestant.call(x)
        torch.cuda.synchronize()
    events = [e for e in profile.key_averages() if e.self_device_time_total > 0]
    return [e.key for e in sorted(events, key=lambda e: -e.self_device_time_total)]
