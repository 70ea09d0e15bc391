#!/usr/bin/env python3
"""What scripts/build shows, with a cmake that plays a build: it prints what ninja would for NINJA_STATUS."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE = """#!/bin/bash
[[ $1 == --build ]] || { [[ -z $CONFIGURED ]] || echo "$*" >"$CONFIGURED"; exit 0; }
step() { # finished, elapsed, what
  status=${NINJA_STATUS//%%f/$1} status=${status//%%t/200} status=${status//%%e/$2}
  echo "$status$3"
}
%s
"""


class Build(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "scripts").mkdir()
        (self.folder / "tools").mkdir()
        for name in ("build", "environment"):
            shutil.copy(ROOT / "scripts" / name, self.folder / "scripts" / name)

    def build(self, steps, terminal=False):
        for name, text in {"cmake": CMAKE % steps, "ninja": "", "g++": ""}.items():
            (self.folder / "tools" / name).write_text(text)
            (self.folder / "tools" / name).chmod(0o755)
        command = ["scripts/build"]
        if terminal:
            command = ["script", "--quiet", "--return", "--command", "scripts/build", "/dev/null"]
        environment = {**os.environ, "PATH": f"{self.folder}/tools:{os.environ['PATH']}", "TERM": "dumb", "COLUMNS": "80"}
        done = subprocess.run(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, check=False)
        done.stdout = done.stdout.decode().replace("\r\n", "\n")  # a terminal's line ends; other carriage returns stay
        return done

    def test_each_step_comes_with_the_time_left(self):
        done = self.build("step 1 0.500 first; step 10 10.250 a.cc.o; step 150 150.900 b.cc.o; step 200 200.0 last")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "[1/200]  first\n[10/200]  3 min 10 s left  a.cc.o\n[150/200]  50 s left  b.cc.o\n[200/200]  0 s left  last\n")

    def test_compiler_output_and_the_failure_are_shown(self):
        done = self.build("step 10 10.000 a.cc.o; echo 'FAILED: b.cc.o'; echo 'b.cc:1:2: error: @1/2' >&2; exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stdout, "[10/200]  3 min 10 s left  a.cc.o\nFAILED: b.cc.o\nb.cc:1:2: error: @1/2\n")

    def test_the_choice_of_warnings_as_errors_is_kept_unless_given(self):
        told = self.folder / "told"
        for value, expected in (("", "--preset release"), ("ON", "--preset release -DTRIREME_WERROR=ON"),
                                ("OFF", "--preset release -DTRIREME_WERROR=OFF")):
            with unittest.mock.patch.dict(os.environ, {"TRIREME_WERROR": value, "CONFIGURED": str(told)}):
                self.assertEqual(self.build("").returncode, 0)
            self.assertEqual(told.read_text().strip(), expected)

    @unittest.skipUnless(shutil.which("script"), "no script(1) here, which makes a terminal")
    def test_on_a_terminal_one_line_is_overwritten(self):
        done = self.build("step 10 10.000 a.cc.o; step 20 20.000 b.cc.o; echo 'b.cc:1:2: warning: x'; step 30 30.000 c.cc.o", terminal=True)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "\r\x1b[K[10/200]  3 min 10 s left  a.cc.o\r\x1b[K[20/200]  3 min 0 s left  b.cc.o\n"
                         "b.cc:1:2: warning: x\n\r\x1b[K[30/200]  2 min 50 s left  c.cc.o\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
