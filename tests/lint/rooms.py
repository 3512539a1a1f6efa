#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rooms of a folder, and who uses whom, by the symbols of their objects and by what they include.

    rooms.py TABLE BUILD            check; one line for each arrow that the table does not allow; status 1
    rooms.py TABLE BUILD --print    the rooms with their arrows, files and lines, as text
    rooms.py TABLE BUILD --dot      the same as a graph for dot(1)

TABLE (shim/rooms.def, tools/rooms.def) has a row for each room, from the top to the bottom:

    ROOM(name, "what it is for, in one sentence", "rooms that it may use")

A room may only name rooms below it, so nothing runs up, and every room that it names must be used, so the
table stays true. What a header declares, somebody else must use: else it is static. Rooms are the folders
beside the table; BUILD has their objects in folders of the same name.
"""
import collections
import glob
import os
import re
import subprocess
import sys

# glibc's, that the shim exports as well: who calls them means glibc's.
LOADER = {"dlopen", "dlmopen", "dlsym", "dlvsym"}

Room = collections.namedtuple("Room", "name purpose uses")


def read_table(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    rows = re.findall(r'^ROOM\((\w+),\s*((?:"[^"]*"\s*)+),\s*"([^"]*)"\)', text, re.M)
    if len(rows) != text.count("ROOM("):
        sys.exit(f"{path}: a row is not ROOM(name, \"purpose\", \"rooms\")")
    return [Room(name, "".join(re.findall(r'"([^"]*)"', purpose)), uses.split()) for name, purpose, uses in rows]


def symbols_of(paths):
    """({symbol: object that defines it}, {object: symbols that it wants})"""
    defined, wanted, current = {}, collections.defaultdict(set), None
    for line in subprocess.run(["nm", "-g", "-o", "-P", *paths], capture_output=True, text=True, check=True).stdout.splitlines():
        current, symbol, kind = line.split()[:3]
        current = current.rstrip(":")
        if kind in "Uwv":
            wanted[current].add(symbol)
        else:
            defined.setdefault(symbol, current)
    return defined, wanted


def arrows(folder, build, rooms):
    """{(from, to): {why}}: each use of one room by another."""
    found = collections.defaultdict(set)
    names = {room.name for room in rooms}
    objects = {path: room.name for room in rooms for path in glob.glob(f"{build}/{folder}/{room.name}/*.o")}
    for room in rooms:
        if not any(owner == room.name for owner in objects.values()):
            sys.exit(f"{build}/{folder}/{room.name}: no objects; make them first")
    defined, wanted = symbols_of(sorted(objects))
    for path, symbols in wanted.items():
        for symbol in symbols:
            other = objects.get(defined.get(symbol))
            if other and other != objects[path] and symbol not in LOADER:
                found[objects[path], other].add(f"{os.path.basename(path)[:-2]} calls {symbol}")
    for room in rooms:
        for path in glob.glob(f"{folder}/{room.name}/*.[chS]"):
            with open(path, encoding="utf-8") as file:
                for other in re.findall(rf'^\s*#\s*include "{folder}/(\w+)/', file.read(), re.M):
                    if other in names and other != room.name:
                        found[room.name, other].add(f"{os.path.basename(path)} includes")
    return found


def check(table, rooms, found):
    complaints = []
    below = {room.name: {other.name for other in rooms[i + 1:]} for i, room in enumerate(rooms)}
    for room in rooms:
        for other in room.uses:
            if other not in below[room.name]:
                complaints.append(f"{table}: {room.name} may not use {other}: it is not a room below")
            elif (room.name, other) not in found:
                complaints.append(f"{table}: {room.name} does not use {other}; take it from the row")
    allowed = {room.name: set(room.uses) for room in rooms}
    for (user, used), why in sorted(found.items()):
        if used not in allowed[user]:
            some = ", ".join(sorted(why)[:6]) + (f" and {len(why) - 6} more" if len(why) > 6 else "")
            complaints.append(f"{table}: {user} uses {used} ({some})")
    folder = os.path.dirname(table)
    inside = {name for name in os.listdir(folder) if glob.glob(f"{folder}/{name}/*.c")}
    complaints += [f"{table}: {folder}/{name}/ has no row" for name in sorted(inside - set(allowed))]
    return complaints


def words_of(pattern):
    """{path: how often each word stands there} of files below this folder."""
    counts = {}
    for path in glob.glob(pattern, recursive=True):
        with open(path, encoding="utf-8") as file:
            counts[path] = collections.Counter(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)))
    return counts


def lonely(folder, build, rooms):
    """Complaints of functions that a header of the folder declares, once, and no file but their own has a word of."""
    headers = words_of(f"{folder}/**/*.h")
    others = {path: words for ending in ("c", "cu", "cuh", "h", "def", "S") for path, words in words_of(f"**/*.{ending}").items()
              if path not in headers and not path.startswith(os.path.relpath(build) + os.sep)}
    objects = {path: room.name for room in rooms for path in glob.glob(f"{build}/{folder}/{room.name}/*.o")}
    complaints = []
    for symbol, path in sorted(symbols_of(sorted(objects))[0].items()):
        own = f"{folder}/{objects[path]}/{os.path.basename(path)[:-2]}.c"
        if os.path.exists(own) and sum(words[symbol] for words in headers.values()) == 1 and \
                not any(words[symbol] for other, words in others.items() if other != own):
            complaints.append(f"{own}: nobody else uses {symbol}: make it static")
    return complaints


def size(folder, name):
    files = [path for path in glob.glob(f"{folder}/{name}/*") if os.path.isfile(path)]
    lines = 0
    for path in files:
        with open(path, encoding="utf-8") as file:
            lines += sum(1 for _ in file)
    return len(files), lines


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["--print"], ["--dot"]):
        sys.exit(__doc__)
    table, build = sys.argv[1:3]
    folder = os.path.dirname(table)
    rooms = read_table(table)
    found = arrows(folder, build, rooms)
    if sys.argv[3:] == ["--print"]:
        for room in rooms:
            files, lines = size(folder, room.name)
            uses = " ".join(other.name for other in rooms if (room.name, other.name) in found)
            print(f"{room.name:10} {files:3} files {lines:6} lines  -> {uses or '-'}")
        print(f"{len(rooms)} rooms, {len(found)} arrows, {sum(size(folder, room.name)[1] for room in rooms)} lines")
        return 0
    if sys.argv[3:] == ["--dot"]:
        print("digraph rooms {\n\tnode [shape=box];")
        for user, used in sorted(found):
            print(f"\t{user} -> {used};")
        print("}")
        return 0
    complaints = check(table, rooms, found) + lonely(folder, build, rooms)
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
