#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program in PyTorch on a machine without a GPU, for what the shim makes of its calls.

    offline.py [--build BUILD] [--without-shim] PROGRAM.py [ARGUMENT...]

PyTorch is one for CUDA (pip install --no-deps torch, and what importing it wants), of the Python that runs this. Below
it stand the simulated GPU, which does nothing (SIMGPU_RUN=none), the runtime of cudart.c, and for each other library
of NVIDIA's but the toolkit's NVRTC one in which every function fails: numbers mean nothing, cuDNN is off. The driver is one of 12.2, so the
shim reads the layout of kernels' parameters from PyTorch's own images. FASHIM_* are those of the caller: with
FASHIM=audit a log says what is recognised, with FASHIM_RECORD=FILE `fashim replay FILE` says what would be replaced.
"""
import argparse
import collections
import glob
import hashlib
import importlib.util
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RUNTIME = "libcudart.so."
# Where a symbol that names no version of a library goes: any will do.
ANY = "libcupti.so."
PLAYED = ("libcuda.so.", "libcublas")
NVIDIAS = r"lib(?:cu|nccl|nvshmem|nvJit)[^\]]*"
NAMES = r"_*(?:cu[A-Za-z]*[A-Z]|cu(?:blas|sparse|fft|rand|dnn|solver|pti)|nccl|nvshmem|nvJit)"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run(*arguments):
    subprocess.run(["gcc", *arguments], check=True)


def defined(path):
    return {line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", path).splitlines()}


def wanted(folder):
    """What PyTorch's libraries want of others: {library: {version: names}}, and names of no version."""
    files, names = collections.defaultdict(set), collections.defaultdict(set)
    for path in glob.glob(folder + "/*.so"):
        for line in output("readelf", "-W", "-d", path).splitlines():
            if found := re.search(r"NEEDED.*\[(" + NVIDIAS + ")", line):
                files[found[1]].add("")
        library = ""
        for line in output("readelf", "-W", "-V", path).splitlines():
            if found := re.search(r"File: (\S+)", line):
                library = found[1]
            elif (found := re.search(r"Name: (\S+)", line)) and re.fullmatch(NVIDIAS, library):
                files[library].add(found[1])
        for line in output("nm", "-D", "--undefined-only", path).splitlines():
            name, _, version = line.split()[-1].partition("@")
            names[version.lstrip("@")].add(name)
    return files, names


def make_library(folder, library, versions, source="", link=()):
    """versions: {version: names}; each function that `source` does not define fails."""
    path = os.path.join(folder, library)
    own = set()
    if source:
        run("-fPIC", "-O1", "-isystem", toolkit() + "/include", "-c", "-o", path + ".o", source)
        own = set(re.findall(r" T (\w+)", output("nm", path + ".o")))
    with open(path + ".c", "w", encoding="utf-8") as file:
        file.write("int fashim_nothing;\n")
        for name in sorted(set().union(*versions.values()) - own):
            file.write(f"int {name}(void);\nint {name}(void) {{ return 1; }}\n")
    with open(path + ".map", "w", encoding="utf-8") as file:
        for version, names in versions.items():
            file.write(f"{version} {{ global: {' '.join(n + ';' for n in sorted(names | own)) or 'fashim_nothing;'} }};\n")
    run("-w", "-shared", "-fPIC", "-Wl,-soname," + library, "-Wl,--version-script=" + path + ".map", "-o", path, path + ".c",
        *([path + ".o"] if source else []), *link)


def toolkit():
    for folder in (os.environ.get("CUDA", ""), "/usr/local/cuda", os.path.join(HERE, "../../build/toolkit/cuda")):
        if folder and os.path.exists(folder + "/include/cuda_runtime_api.h"):
            return folder
    sys.exit("offline.py: no CUDA toolkit; set CUDA to its folder")


def make_libraries(torch, simgpu, folder):
    files, names = wanted(torch)
    played = set().union(*(defined(path) for path in glob.glob(simgpu + "/lib*.so.*")))
    libraries = collections.defaultdict(dict)
    for library, versions in files.items():
        for version in versions - {""}:
            where = next((f for f in files if f.startswith(ANY)), library) if library.startswith(PLAYED) else library
            libraries[where][version] = names[version] - (played if library.startswith(PLAYED) else set())
        libraries[library].update({} if versions - {""} or library.startswith(PLAYED) else {library: set()})
    loose = next(f for f in files if f.startswith(ANY))
    libraries[loose].setdefault(loose, set()).update(
        {name for name in names[""] if re.match(NAMES, name)} - played)
    for library, versions in libraries.items():
        if library.startswith(PLAYED):
            continue
        own = library.startswith(RUNTIME)
        make_library(folder, library, versions, os.path.join(HERE, "cudart.c") if own else "",
                     [os.path.join(simgpu, "libcuda.so.1")] if own else ())


def run_here(program, arguments):
    """In the process that has all libraries: runs the program with cuDNN off."""
    import runpy
    import torch
    torch.backends.cudnn.enabled = False
    sys.argv = [program, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    runpy.run_path(program, run_name="__main__")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="where simgpu/ and sim/libfashim.so are (make demo makes them)")
    parser.add_argument("--without-shim", action="store_true")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    build = os.path.abspath(asked.build)
    shim = build + "/sim/libfashim.so"
    found = importlib.util.find_spec("torch")
    if not found:
        sys.exit("offline.py: this Python has no torch; pip install --no-deps torch")
    torch = os.path.join(os.path.dirname(found.origin), "lib")
    if not glob.glob(torch + "/libtorch_cuda.so"):
        sys.exit(f"offline.py: the torch in {os.path.dirname(found.origin)} is not one for CUDA")
    if not os.path.exists(shim):
        sys.exit(f"offline.py: no {shim}; run make demo")
    key = hashlib.sha1((torch + open(__file__).read() + open(HERE + "/cudart.c").read()).encode()).hexdigest()[:12]
    folder = f"{build}/torch/{key}"
    if not os.path.exists(folder + "/made"):
        os.makedirs(folder, exist_ok=True)
        make_libraries(torch, build + "/simgpu", folder)
        open(folder + "/made", "w").close()
    env = dict(os.environ, SIMGPU_RUN="none", SIMGPU_DRIVER=os.environ.get("SIMGPU_DRIVER", "12.2"),
               LD_LIBRARY_PATH=f"{folder}:{build}/simgpu:{toolkit()}/lib64:{os.environ.get('LD_LIBRARY_PATH', '')}")
    if not asked.without_shim:
        env["LD_PRELOAD"] = shim
    code = f"import sys; sys.path.insert(0, {HERE!r}); import offline; offline.run_here(sys.argv[1], sys.argv[2:])"
    os.execve(sys.executable, [sys.executable, "-c", code, asked.program, *asked.arguments], env)


if __name__ == "__main__":
    main()
