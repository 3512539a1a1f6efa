# SPDX-License-Identifier: Apache-2.0
"""What sanitize.sh makes of what compute-sanitizer says, which a script plays here."""
import os
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = """#!/bin/sh
[ -z "$LD_PRELOAD" ] || echo '{"type":"summary","sites":[{"site":0,"replaced":REPLACED}]}' >"$FASHIM_OUT"
"""
SANITIZER = """#!/bin/sh
report() {
    echo "========= Error: Race reported between Write access at $1(float *, int)+0x130"
    echo "=========     and Read access at $1(float *, int)+0x150 [4 hazards]"
    echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
    "$program"
    exit 9
}
for program; do case $program in */hazards) break ;; esac; done
[ -z "$SAYS" ] || [ -n "$LD_PRELOAD" ] || [ "$SAYS" != always ] || report theirs
[ -z "$SAYS" ] || [ -z "$LD_PRELOAD" ] || { [ "$SAYS" = always ] && report theirs; report ours; }
echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
"$program"
"""


class Sanitize(unittest.TestCase):
    def run_with(self, says, replaced=3):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("bin/compute-sanitizer", SANITIZER), ("build/libfashim.so", ""),
                               ("build/apps/gpu/hazards", PROGRAM.replace("REPLACED", str(replaced)))):
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    file.write(text)
                os.chmod(path, 0o755)
            environment = dict(os.environ, PATH=folder + "/bin:" + os.environ["PATH"], SAYS=says,
                               SANITIZE_TOOLS="racecheck")
            done = subprocess.run(["sh", os.path.join(HERE, "sanitize.sh"), folder + "/build/libfashim.so",
                                   folder + "/out", "hazards:bert"], env=environment, text=True,
                                  stdout=subprocess.PIPE)
            return done.returncode, done.stdout

    def test_nothing_found(self):
        self.assertEqual(self.run_with(""), (0, "racecheck hazards:bert: ok, 3 chains replaced\n"))

    def test_nothing_replaced(self):
        status, said = self.run_with("", replaced=0)
        self.assertEqual(status, 1)
        self.assertIn("FAILED", said)

    def test_kernel_that_is_reported_under_the_shim_alone(self):
        status, said = self.run_with("shim")
        self.assertEqual(status, 1)
        self.assertIn("new: ours(float *, int)\n", said)

    def test_kernel_that_is_reported_without_the_shim(self):
        status, said = self.run_with("always")
        self.assertEqual((status, "without the shim" in said), (0, True), said)


if __name__ == "__main__":
    unittest.main()
