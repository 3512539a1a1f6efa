#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs an installed fashim as a wheel, the same bits each time.

    wheel.py ROOT VERSION GLIBC TIME FOLDER

ROOT holds bin/, lib/fashim/ and share/ as `make install PREFIX=` leaves them; pip puts them below the environment's
own bin, lib and share, where the command finds its library. `python -m fashim` runs that command, and a script given
to `run` by this very Python.
"""
import base64
import hashlib
import os
import platform
import sys
import time
import zipfile

MAIN = '''# SPDX-License-Identifier: Apache-2.0
"""`python -m fashim ...` is the command that pip installed beside this package; a script that `run` is given without
an interpreter is run by this one."""
import importlib.metadata
import os
import sys


def main():
    files = importlib.metadata.files("fashim") or []
    command = next((str(f.locate()) for f in files if f.parts[-2:] == ("bin", "fashim")), None)
    if not command:
        sys.exit("fashim: its command is not where pip put it; install it anew")
    words = sys.argv[1:]
    if words[:1] == ["run"]:
        for i, word in enumerate(words[1:], 1):
            if word.endswith(".py") and os.path.isfile(word):
                words.insert(i, sys.executable)
                break
            if word == "--" or os.path.basename(word).startswith("python"):
                break
    os.execv(command, [command, *words])


if __name__ == "__main__":
    main()
'''


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    root, version, glibc, stamp, folder = sys.argv[1:]
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{platform.machine()}"
    info, data = f"fashim-{version}.dist-info", f"fashim-{version}.data"
    date = time.gmtime(max(int(stamp), 315532800))[:6]  # zip begins in 1980
    content = {
        "fashim/__init__.py": (f'__version__ = "{version}"\n'.encode(), 0o644),
        "fashim/__main__.py": (MAIN.encode(), 0o644),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: fashim\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644),
        f"{info}/METADATA": (f"Metadata-Version: 2.1\nName: fashim\nVersion: {version}\n"
                             "Summary: run unmodified CUDA programs with their attention fused\nLicense: Apache-2.0\n"
                             "Requires-Python: >=3.8\n".encode(), 0o644),
    }
    for base, _, names in os.walk(root):
        for name in names:
            path = os.path.join(base, name)
            place = os.path.relpath(path, root)
            place = f"{data}/scripts/{name}" if place.startswith("bin/") else f"{data}/data/{place}"
            with open(path, "rb") as file:
                content[place] = (file.read(), 0o755 if os.access(path, os.X_OK) else 0o644)
    record = "".join(f"{name},{digest(text)},{len(text)}\n" for name, (text, _) in sorted(content.items()))
    content[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)
    path = os.path.join(folder, f"fashim-{version}-{tag}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, (text, mode) in sorted(content.items(), key=lambda item: (item[0].startswith(info), item[0])):
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, text)


if __name__ == "__main__":
    main()
