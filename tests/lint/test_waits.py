# SPDX-License-Identifier: Apache-2.0
"""waits.py on a room of two files."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import waits  # noqa: E402

TABLE = """/* QUICK(comment) is no row */
QUICK(cuEventRecord)
QUICK(cublasGemmEx)
WAITS(cuMemFree_v2, "room/a.c", 2)
WAITS(await, "room/b.c", 1)
"""
A = """static void f(void)
{
	driver.cuMemFree_v2(1); /* driver.cuStreamSynchronize(2) */
	driver.cuEventRecord(1);
	driver.cuMemFree_v2(2);
}
"""
B = """int await(int x)
{
	return x;
}

void g(void)
{
	if (await(1))
		run = blas_symbol(library, "cublasGemmEx");
}
"""


class Room(unittest.TestCase):
    def complaints(self, a=A, b=B, table=TABLE):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(f"{folder}/shim/room")
            for name, text in (("shim/room/a.c", a), ("shim/room/b.c", b), ("table", table)):
                with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                    file.write(text)
            found = waits.check(f"{folder}/table", f"{folder}/shim")
            return [line[len(folder) + 1:].split(" by ")[0] for line in found]

    def test_as_written(self):
        self.assertEqual(self.complaints(), [])

    def test_new_call(self):
        new = A.replace("driver.cuEventRecord(1)", "x = driver.cuCtxSynchronize")
        self.assertEqual(self.complaints(a=new), ["shim/room/a.c: cuCtxSynchronize is called 1 times, 0"])

    def test_once_more(self):
        self.assertEqual(self.complaints(a=A.replace("cuEventRecord", "cuMemFree_v2")),
                         ["shim/room/a.c: cuMemFree_v2 is called 3 times, 2"])

    def test_elsewhere(self):
        self.assertEqual(self.complaints(a=A.replace("driver.cuEventRecord", "await")),
                         ["shim/room/a.c: await is called 1 times, 0"])
        self.assertEqual(self.complaints(b=B.replace("GemmEx", "Create_v2")),
                         ["shim/room/b.c: cublasCreate_v2 is called 1 times, 0"])

    def test_gone(self):
        self.assertEqual(self.complaints(b=B.replace("await(1)", "1")), ["shim/room/b.c: await is called 0 times, 1"])

    def test_no_row(self):
        with self.assertRaises(SystemExit):
            self.complaints(table=TABLE + "WAITS(cuMemAlloc)\n")


if __name__ == "__main__":
    unittest.main()
