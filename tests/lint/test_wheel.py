# SPDX-License-Identifier: Apache-2.0
"""wheel.py: the same installation gives the same bits, whenever and from whatever order and rights of files it is packed."""
import os
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

PACK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/packaging/wheel.py")
FILES = {"bin/fashim": 0o755, "lib/fashim/libfashim.so": 0o644, "share/man/man1/fashim.1": 0o644, "share/a": 0o644}


class Wheel(unittest.TestCase):
    def pack(self, folder, names, umask, when):
        """The bytes of a wheel of an installation made in this order, with these rights and times."""
        root, out = os.path.join(folder, "root"), os.path.join(folder, "out")
        before = os.umask(umask)
        self.addCleanup(os.umask, before)
        os.makedirs(out)
        for name in names:
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(name)
            os.chmod(path, FILES[name] & ~umask)
            os.utime(path, (when, when))
        subprocess.run([sys.executable, PACK, root, "1.2.3", "2.28", "1700000000", out], check=True)
        (wheel,) = os.listdir(out)
        os.umask(before)
        return wheel, os.path.join(out, wheel)

    def test_same_bits(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            first, a = self.pack(one, list(FILES), 0o022, 1e9)
            second, b = self.pack(two, list(reversed(FILES)), 0o027, time.time())
            self.assertEqual(first, second)
            with open(a, "rb") as file_a, open(b, "rb") as file_b:
                self.assertEqual(file_a.read(), file_b.read())
            with zipfile.ZipFile(a) as wheel:
                rights = {i.filename: i.external_attr >> 16 & 0o777 for i in wheel.infolist()}
            names = list(rights)
            self.assertEqual(names, sorted(names, key=lambda name: (".dist-info/" in name, name)))
            self.assertEqual(rights["fashim-1.2.3.data/scripts/fashim"], 0o755)
            self.assertEqual(rights["fashim-1.2.3.data/data/share/a"], 0o644)


if __name__ == "__main__":
    unittest.main()
