#!/usr/bin/env python3
"""The scripts of a first start on a machine where scripts/bootstrap has yet to install what they call.

Each test copies the scripts into a folder of their own, beside a bootstrap that "installs" (makes a program of that name), a build
that makes a trireme of shell, and programs that say how they were called. PATH has the standard tools and nothing else.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of a bare Debian 12 (Priority: required), as far as the scripts call them.
BARE = ("awk bash sh cat cp cut date dirname env grep head ln ls mkdir mktemp nproc printf readlink rm sed sleep sort split tail tee tr wc").split()


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)


class FirstStart(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.tools, self.calls = self.folder / "tools", self.folder / "calls"
        self.tools.mkdir()
        for name in BARE:
            os.symlink(shutil.which(name), self.tools / name)
        for name in ("demo", "environment", "test"):
            (self.folder / "scripts").mkdir(exist_ok=True)
            shutil.copy(ROOT / "scripts" / name, self.folder / "scripts" / name)
        shutil.copytree(ROOT / "configs", self.folder / "configs")
        (self.folder / "CMakeLists.txt").touch()
        write_program(self.folder / "scripts/build", f"mkdir -p build/release; cp {self.folder}/trireme build/release/\n")
        write_program(self.folder / "trireme", "exit 0\n")

    def installs(self, **programs):
        """What scripts/bootstrap installs: a program of each name with this text. Each call of one is kept."""
        lines = []
        for name, text in programs.items():
            write_program(self.folder / "packages" / name, f'echo "{name} $*" >>{self.calls}\n{text}\n')
            lines.append(f"cp {self.folder}/packages/{name} {self.tools}/{name}\n")
        write_program(self.folder / "scripts/bootstrap", "".join(lines))

    def start(self, *command, folder=None):
        return subprocess.run(command, cwd=folder or self.folder, env={"PATH": str(self.tools), "HOME": str(self.folder)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)

    def called(self):
        return self.calls.read_text() if self.calls.exists() else ""

    def test_the_demo_finds_the_mpirun_that_bootstrap_has_just_installed(self):
        bible = "for i in 1 2 3; do echo \"Genesis1:$i In the beginning $i\"; done"
        for mpirun in ("mpirun.openmpi", "mpirun"):
            with self.subTest(mpirun):
                self.calls.unlink(missing_ok=True)
                self.installs(**{"bible": bible, mpirun: "exit 75"})
                # Enough to reach training: what is asked to stop halfway leaves with 75, and is then started again.
                done = self.start("scripts/demo", "--output", f"out-{mpirun}", "--steps", "20")
                self.assertIn("exit code 75: stopped on request", done.stdout)
                self.assertIn(f"{mpirun} -n 2 build/release/trireme train configs/demo.yaml", self.called())
                self.assertNotIn("command not found", done.stdout)
                (self.tools / mpirun).unlink()

    def test_without_any_mpirun_the_demo_names_what_installs_it(self):
        self.installs(bible="exit 0")
        done = self.start("scripts/demo")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("no mpirun here; scripts/bootstrap installs it (from a package: apt-get install openmpi-bin, or pip install mpich)", done.stdout)
        self.assertFalse((self.folder / "demo-run").exists())

    def unpack_package(self):
        """Where a package has its files, and a folder of the user's own."""
        share, home = self.folder / "usr/share/trireme", self.folder / "home"
        share.mkdir(parents=True)
        home.mkdir()
        for name in ("scripts", "configs"):
            shutil.move(self.folder / name, share / name)
        write_program(self.folder / "usr/bin/trireme", "exit 0\n")
        (self.folder / "usr/bin/trireme-demo").symlink_to("../share/trireme/scripts/demo")
        return home

    def test_the_demo_of_a_package_builds_nothing_and_writes_where_the_user_is(self):
        write_program(self.tools / "bible", "for i in 1 2 3; do echo \"Genesis1:$i In the beginning $i\"; done")
        write_program(self.tools / "mpirun", f'echo "mpirun $*" >>{self.calls}; exit 75')
        home = self.unpack_package()
        done = self.start("../usr/bin/trireme-demo", "--output", "out", "--steps", "20", folder=home)
        self.assertIn("exit code 75: stopped on request", done.stdout)
        usr = (self.folder / "usr").resolve()
        self.assertIn(f"mpirun -n 2 {usr}/bin/trireme train {usr}/share/trireme/configs/demo.yaml", self.called())
        self.assertIn("In the beginning 1", (home / "out/text.txt").read_text())

    def test_the_demo_of_a_package_names_the_packages_that_it_misses(self):
        home = self.unpack_package()
        done = self.start("../usr/bin/trireme-demo", folder=home)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("its text is Debian's package bible-kjv (apt-get install bible-kjv); or give one with --text FILE", done.stdout)
        write_program(self.tools / "bible", "")
        done = self.start("../usr/bin/trireme-demo", folder=home)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("no mpirun here, so one rank trains; apt-get install openmpi-bin or pip install mpich brings one", done.stdout)

    def test_the_tests_run_with_the_ctest_that_bootstrap_has_just_installed(self):
        self.installs(ctest="exit 0")
        done = self.start("scripts/test", "-R", "text")
        self.assertEqual(done.returncode, 0, done.stdout)
        lanes = len(os.sched_getaffinity(0)) + 1
        self.assertEqual(self.called(), f"ctest --preset release --parallel {lanes} -R text\n")

    def test_all_tests_say_first_how_long_they_take(self):
        self.installs(ctest="exit 0")
        self.assertRegex(self.start("scripts/test").stdout, r"^test: installs packages, builds \(about \d+ min on \d+ cores.*runs every test \(about 20 min\)")

    def test_ci_asks_git_for_nothing_before_it_is_installed(self):
        shutil.copytree(ROOT / ".ci", self.folder / ".ci")
        self.installs(git="exit 1")
        for name in ("check_format", "check_layers"):
            write_program(self.folder / "scripts" / name, "exit 1\n")
        done = self.start(".ci/run")
        self.assertNotIn("command not found", done.stdout)
        self.assertIn(f"git config --global --add safe.directory {self.folder}", self.called())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
