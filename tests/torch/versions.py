#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which kernels of which PyTorch the shim's rules are for.

    versions.py TORCH_KERNELS FOLDER [VERSION...]

Prints a table in Markdown: for each row of shim/rules/kernel_rules.def and each version, how many kernels of
libtorch_cuda.so have the row's name, by the sizes of their parameters. Wheels that FOLDER/VERSION lacks are fetched
from PyPI, one at a time (700 MB each); only libtorch_cuda.so is kept. Nothing of them runs. The last version is the
one that the rules were made for.
"""
import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

VERSIONS = ["2.1.2", "2.4.1", "2.6.0", "2.8.0", "2.10.0", "2.11.0"]
ARCH = "80"
CASTS = "18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implI"


def fetch(folder, version):
    """libtorch_cuda.so of that version."""
    library = os.path.join(folder, version, "libtorch_cuda.so")
    if os.path.exists(library):
        return library
    python = "311" if version < "2.2" else "312"
    platforms = ("manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64")
    with tempfile.TemporaryDirectory(dir=folder) as wheels:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--implementation", "cp",
                        "--python-version", python, *(f"--platform={p}" for p in platforms), "-d", wheels, f"torch=={version}"], check=True)
        os.makedirs(os.path.dirname(library), exist_ok=True)
        with zipfile.ZipFile(glob.glob(os.path.join(wheels, "*.whl"))[0]) as wheel, \
                wheel.open("torch/lib/libtorch_cuda.so") as packed, open(library + ".part", "wb") as out:
            shutil.copyfileobj(packed, out, 1 << 20)
    os.rename(library + ".part", library)
    return library


def kernels(tool, library):
    """(name, sizes) of each kernel; sizes None: its image does not say."""
    done = subprocess.run([tool, library, ARCH], check=True, capture_output=True, text=True)
    if done.stderr:
        sys.exit(f"{library}: {done.stderr.splitlines()[0]}")
    for line in done.stdout.splitlines():
        name, places = line.split("\t")
        yield name, None if places == "?" else tuple(int(p.split(":")[1]) for p in places.split())


def rules(path):
    """(reader, needle) in the order of the table: a kernel belongs to the first whose needle it has."""
    with open(path, encoding="utf-8") as table:
        return re.findall(r'^LAYOUT\((\w+), "([^"]+)"\)', table.read(), re.M)


def family(rows, name):
    return next((row for row in rows if row[1] in name), None)


def cell(found, sizes, row):
    """Kernels whose sizes the newest version has for this reader, and the others."""
    if not found:
        return "–"
    other = sum(1 for s in found if s not in sizes[row[0]])
    return f"{len(found)}" if not other else f"{len(found) - other} + {other} other" if other < len(found) else f"{other} other"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tool, folder, versions = sys.argv[1], sys.argv[2], sys.argv[3:] or VERSIONS
    rows = rules(os.path.join(os.path.dirname(__file__), "../../shim/rules/kernel_rules.def"))
    found, total, unread, twins = {}, {}, {}, {}
    for version in versions:
        of_row, names = collections.defaultdict(list), set()
        total[version] = unread[version] = 0
        for name, sizes in kernels(tool, fetch(folder, version)):
            total[version] += 1
            unread[version] += sizes is None
            names.add(name)
            row = family(rows, name)
            if row:
                of_row[row].append(sizes)
        found[version] = of_row
        twins[version] = sum(1 for n in names if CASTS in n and "EUliE_EEvi" in n and n.replace("EUliE_EEvi", "EUliE0_EEvi") in names)
    newest = collections.defaultdict(set)
    for row in rows:
        newest[row[0]].update(found[versions[-1]][row])
    print("| rule, and the piece of the name | " + " | ".join(versions) + " |")
    print("|---|" + "---|" * len(versions))
    for row in rows:
        if any(found[v][row] for v in versions):
            print(f"| {row[0]} `{row[1]}` | " + " | ".join(cell(found[v][row], newest, row) for v in versions) + " |")
    print("| of these without casts, told by what lies beside them (`rules_versions.c`) | " + " | ".join(str(twins[v]) for v in versions) + " |")
    print("| kernels in all (sm_80) | " + " | ".join(str(total[v]) for v in versions) + " |")
    print("| … with a row | " + " | ".join(str(sum(map(len, found[v].values()))) for v in versions) + " |")
    print("| … whose parameters the image does not tell | " + " | ".join(str(unread[v]) for v in versions) + " |")


if __name__ == "__main__":
    main()
