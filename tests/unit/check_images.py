#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the kernels' images ask of a driver.

    check_images.py FOLDER [DRIVER]

FOLDER: build/kernels, with a folder of fat binaries for each image. Prints for each image the form of its cubins,
the version of its PTX, how it is packed, and the oldest driver that loads it; status 1 where that is newer than
DRIVER (550, 580), and than what the image's GPU needs anyway.
"""
import glob
import os
import re
import struct
import sys

# Of the CUDA Toolkit's release notes (the driver and the PTX of each release), and of what its ptxas writes (the
# ABI byte). A driver loads what was there when it was made; cubins of a release load on every driver of the same
# major release, 525 being the first of CUDA 12.
DRIVERS = (  # driver, newest ELF ABI, newest PTX, Zstandard
    (525, 7, (8, 0), False),
    (530, 7, (8, 1), False),
    (535, 7, (8, 2), False),
    (545, 7, (8, 3), False),
    (550, 7, (8, 4), True),
    (555, 7, (8, 5), True),
    (570, 7, (8, 7), True),
    (580, 8, (9, 0), True),
)
# The driver that first knew a GPU, where that is none of the above, and the ABI in which the toolkit of that driver
# wrote such cubins: CUDA 12.8's ptxas writes 8 for Blackwell, 7 for all others.
FIRST = {100: (570, 8), 103: (570, 8), 120: (570, 8)}
FATBIN, PTX, CUBIN = 0xBA55ED50, 1, 2
LZ4, ZSTD = 0x2000, 0x8000


def unpack_lz4(data, size):
    """One block of LZ4, as fatbinary writes it."""
    out, at = bytearray(), 0
    while at < len(data) and len(out) < size:
        token = data[at]
        at += 1
        lengths = []
        for length in (token >> 4, token & 15):
            lengths.append(length)
            if len(lengths) == 1:
                while length == 15 and data[at] == 255:
                    lengths[0] += 255
                    at += 1
                if length == 15:
                    lengths[0] += data[at]
                    at += 1
                out += data[at:at + lengths[0]]
                at += lengths[0]
                if len(out) >= size or at >= len(data):
                    return bytes(out[:size])
                back = data[at] | data[at + 1] << 8
                at += 2
            elif length == 15:
                while data[at] == 255:
                    lengths[1] += 255
                    at += 1
                lengths[1] += data[at]
                at += 1
        for _ in range(lengths[1] + 4):
            out.append(out[-back])
    return bytes(out[:size])


def entries(path):
    """(kind, architecture, packing, content or None where it is not unpacked here) of a fat binary."""
    with open(path, "rb") as file:
        data = file.read()
    magic, _version, head, size = struct.unpack_from("<IHHQ", data)
    if magic != FATBIN:
        sys.exit(f"{path}: no fat binary")
    at, end = head, head + size
    while at < end:
        kind, _, header, padded, packed, _, _, _, sm, _, _, flags, _, unpacked = struct.unpack_from("<HHIQIIHHIIIQQQ", data, at)
        content = data[at + header:at + header + (packed or padded)]
        if flags & LZ4:
            yield kind, sm, "lz4", unpack_lz4(content, unpacked)
        elif flags & ZSTD:
            yield kind, sm, "zstd", None
        else:
            yield kind, sm, "none", content
        at += header + padded


def needs(path):
    """(ABI of cubins, version of PTX, packings); None: not said."""
    abi, ptx, packings = None, None, set()
    for kind, _sm, packing, content in entries(path):
        packings.add(packing)
        if content is None:
            continue
        if kind == CUBIN:
            abi = max(abi or 0, content[8])
        elif kind == PTX:
            version = re.search(rb"^\.version (\d+)\.(\d+)", content, re.M)
            ptx = max(ptx or (0, 0), (int(version[1]), int(version[2])))
    return abi, ptx, packings


def oldest(abi, ptx, packings, arch):
    first, first_abi = FIRST.get(arch, (0, 0))
    for driver, newest_abi, newest_ptx, zstd in DRIVERS:
        if (abi or 0) <= max(newest_abi, first_abi) and (ptx or (0, 0)) <= newest_ptx and \
                ("zstd" not in packings or zstd) and driver >= first:
            return driver
    return None


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    limit = int(sys.argv[2]) if len(sys.argv) == 3 else None
    images = {}
    for path in sorted(glob.glob(os.path.join(sys.argv[1], "*", "*.fatbin"))):
        abi, ptx, packings = needs(path)
        one = images.setdefault(os.path.basename(os.path.dirname(path)), [None, None, set()])
        one[0] = max((x for x in (one[0], abi) if x is not None), default=None)
        one[1] = max((x for x in (one[1], ptx) if x is not None), default=None)
        one[2] |= packings
    if not images:
        sys.exit(f"{sys.argv[1]}: no images")
    late = False
    print(f"{'image':12} {'ELF ABI':>8} {'PTX':>5} {'packed':8} from driver")
    for name, (abi, ptx, packings) in images.items():
        arch = int(re.search(r"_(\d+)", name)[1])
        driver = oldest(abi, ptx, packings, arch)
        # What is packed by Zstandard is not opened here: CUDA 13's compiler made it.
        shown = "580 (not opened)" if "zstd" in packings else driver or "?"
        late |= limit is not None and ("zstd" in packings or driver is None or driver > max(limit, FIRST.get(arch, (0, 0))[0]))
        print(f"{name:12} {abi if abi is not None else '-':>8} {'%d.%d' % ptx if ptx else '-':>5} {','.join(sorted(packings)):8} {shown}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
