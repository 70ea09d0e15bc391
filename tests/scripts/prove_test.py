#!/usr/bin/env python3
"""The systems that scripts/prove_clean_machine makes, without making one: debootstrap is a stand-in that prints its arguments."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Prove(unittest.TestCase):
    def refused(self, *words):
        done = subprocess.run([ROOT / "scripts/prove_clean_machine", *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        return done.stdout

    def test_an_unknown_suite_or_compiler_is_named(self):
        self.assertEqual(self.refused("--suite", "sid"), 'prove_clean_machine: --suite is "sid", expected bookworm, trixie or noble\n')
        self.assertEqual(self.refused("--suite", "trixie", "--compiler", "icc"), 'prove_clean_machine: --compiler is "icc", expected gcc or clang\n')

    def test_each_suite_is_made_from_its_own_packages(self):
        for suite, sections, mirror in (("bookworm", "main", "/debian"), ("trixie", "main", "/debian"), ("noble", "main universe", "/ubuntu")):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                (folder / "debootstrap").write_text("#!/bin/sh\necho \"$@\"\n")
                (folder / "debootstrap").chmod(0o755)
                (folder / "root/etc/apt/apt.conf.d").mkdir(parents=True)
                done = subprocess.run(["bash", "-euo", "pipefail", "-c", f'PATH="{folder}:$PATH"; source {ROOT}/scripts/bare_root; choose_suite {suite}; '
                                       f'make_root {folder}/root {folder}/log; cat {folder}/log {folder}/root/etc/apt/sources.list'],
                                      text=True, capture_output=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                made, *sources = done.stdout.splitlines()
                self.assertIn(f"--components={sections.replace(' ', ',')} {suite} {folder}/root http", made)
                self.assertRegex(sources[0], rf"^deb http\S+{mirror}/? {suite} {sections}$")
                self.assertRegex(sources[1], rf"^deb http\S+{mirror}/? {suite}-updates {sections}$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
