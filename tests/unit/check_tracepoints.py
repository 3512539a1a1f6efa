#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_tracepoints.py LIBRARY DOCUMENT: the tracepoints of the library (notes of type "stapsdt") are those of the
document's table, each with as many arguments, and each note points at a nop. Says what differs."""
import re
import struct
import sys


def sections(elf):
    at, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, at + i * size) for i in range(count)]
    text = rows[names][4]
    return {elf[text + r[0]:elf.index(0, text + r[0])].decode(): r for r in rows}


def tracepoints(elf):
    """(name, arguments, address) of each note"""
    _, _, _, _, at, size = sections(elf)[".note.stapsdt"]
    end = at + size
    while at < end:
        owner, length, kind = struct.unpack_from("<III", elf, at)
        at += 12
        assert (elf[at:at + owner], kind) == (b"stapsdt\0", 3)
        at += owner + 3 & ~3
        address, = struct.unpack_from("<Q", elf, at)
        provider, name, arguments = elf[at + 24:at + length].split(b"\0")[:3]
        assert provider == b"fashim"
        yield name.decode(), len(arguments.split()), address
        at += length + 3 & ~3


def main():
    elf = open(sys.argv[1], "rb").read()
    found = sorted(tracepoints(elf))
    _, _, _, base, offset, size = sections(elf)[".text"]
    bad = [name for name, _, address in found
           if not base <= address < base + size or elf[offset + address - base] != 0x90]
    for name in bad:
        print(f"{name}: no nop where the note points")
    table = re.search(r"^\| tracepoint \|.*\n\|[-|]*\n((?:\|.*\n)+)", open(sys.argv[2]).read(), re.M).group(1)
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()]
    told = sorted((name.strip("`"), len(re.sub(r"\(.*?\)|;.*", "", what).split(","))) for name, what in rows)
    here = sorted({(name, arguments) for name, arguments, _ in found})
    if told != here:
        print(f"the document has {told},\nthe library {here}")
    return 1 if bad or told != here else 0


sys.exit(main())
