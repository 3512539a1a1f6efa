# SPDX-License-Identifier: Apache-2.0
"""rooms.py on a house of two floors."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rooms  # noqa: E402

TABLE = """/* ROOM(comment, "is no row", "") */
ROOM(up, "stands above", "{up}")
ROOM(down, "stands below", "{down}")
"""


class House(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder.name)

    def complaints(self, up, down, up_c, down_c, extra=None):
        os.makedirs("house", exist_ok=True)
        with open("house/rooms.def", "w", encoding="utf-8") as file:
            file.write(TABLE.format(up=up, down=down))
        for room, text in (("up", up_c), ("down", down_c), *([extra] if extra else [])):
            os.makedirs(f"house/{room}", exist_ok=True)
            os.makedirs(f"build/house/{room}", exist_ok=True)
            with open(f"house/{room}/{room}.c", "w", encoding="utf-8") as file:
                file.write(text)
            with open(f"house/{room}/{room}.h", "w", encoding="utf-8") as file:
                file.write("")
            subprocess.run(["cc", "-I.", "-c", "-o", f"build/house/{room}/{room}.o", f"house/{room}/{room}.c"], check=True)
        table = rooms.read_table("house/rooms.def")
        return rooms.check("house/rooms.def", table, rooms.arrows("house", "build", table))

    def test_downwards_and_named_is_right(self):
        self.assertEqual(self.complaints("down", "", "int low(void); int high(void) { return low(); }",
                                         "int low(void) { return 1; }"), [])

    def test_a_call_upwards_is_named(self):
        found = self.complaints("", "", "int high(void) { return 1; }", "int high(void); int low(void) { return high(); }")
        self.assertEqual(found, ["house/rooms.def: down uses up (down calls high)"])

    def test_an_include_counts_without_a_call(self):
        found = self.complaints("", "", "int high;", '#include "house/up/up.h"\nint low;')
        self.assertEqual(found, ["house/rooms.def: down uses up (down.c includes)"])

    def test_a_row_may_not_allow_an_arrow_upwards(self):
        found = self.complaints("", "up", "int high(void) { return 1; }", "int high(void); int low(void) { return high(); }")
        self.assertEqual(found, ["house/rooms.def: down may not use up: it is not a room below"])

    def test_a_row_names_only_what_is_used(self):
        found = self.complaints("down", "", "int high;", "int low;")
        self.assertEqual(found, ["house/rooms.def: up does not use down; take it from the row"])

    def test_a_folder_without_a_row(self):
        found = self.complaints("", "", "int high;", "int low;", ("attic", "int top;"))
        self.assertEqual(found, ["house/rooms.def: house/attic/ has no row"])

    def test_glibc_s_own_loader_is_nobody_s(self):
        self.assertEqual(self.complaints("", "", "void *dlsym(void *h, const char *n) { return h ? h : (void *)n; }",
                                         "void *dlsym(void *, const char *); void *low(void) { return dlsym(0, 0); }"), [])

    def test_what_nobody_else_uses_is_static(self):
        low = "int low(void) { return 1; } int own(void) { return low(); } int kept(void) { return own(); }"
        self.complaints("down", "", "int low(void); int high(void) { return low(); }", low)
        with open("house/down/down.h", "w", encoding="utf-8") as file:
            file.write("int low(void); /* own is named here, too */\nint own(void);\nint kept(void);\n#define KEPT kept()\n")
        table = rooms.read_table("house/rooms.def")
        self.assertEqual(rooms.lonely("house", "build", table), ["house/down/down.c: nobody else uses own: make it static"])

    def test_a_broken_row_ends_it(self):
        os.makedirs("house")
        with open("house/rooms.def", "w", encoding="utf-8") as file:
            file.write('ROOM(up, "no list of rooms")\n')
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            rooms.read_table("house/rooms.def")


if __name__ == "__main__":
    unittest.main()
