# SPDX-License-Identifier: Apache-2.0
"""kernels/attention.h as bench/abi.py has it for ctypes: each member at the compiler's own place."""
import ctypes
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "bench"))
import abi  # noqa: E402

STRUCTS = {"attn_tensor": abi.Tensor, "attn_spec": abi.Spec, "attn_args": abi.Args}


def compilers_view():
    """{struct: {member: offset}}, the whole struct's size under ""."""
    lines = ['#include <stddef.h>', '#include <stdio.h>', '#include "kernels/attention.h"', "int main(void) {"]
    for name, mirror in STRUCTS.items():
        lines += [f'printf("{name} {member} %zu\\n", offsetof(struct {name}, {member}));' for member, _ in mirror._fields_]
        lines.append(f'printf("{name} - %zu\\n", sizeof(struct {name}));')
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "abi.c"), os.path.join(folder, "abi")
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(lines + ["}"]) + "\n")
        subprocess.run(["cc", "-I", ROOT, "-o", program, source], check=True)
        printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    view = {}
    for line in printed.splitlines():
        name, member, number = line.split()
        view.setdefault(name, {})[member.strip("-")] = int(number)
    return view


class Abi(unittest.TestCase):
    def test_members_lie_where_the_compiler_has_them(self):
        view = compilers_view()
        for name, mirror in STRUCTS.items():
            ours = {member: getattr(mirror, member).offset for member, _ in mirror._fields_}
            self.assertEqual(view[name], ours | {"": ctypes.sizeof(mirror)}, name)


if __name__ == "__main__":
    unittest.main()
