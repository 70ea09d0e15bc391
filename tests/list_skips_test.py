"""What list_skips.py says of a log of ctest."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import list_skips


def entry(number, name, output, result="Test Passed."):
    return (f"{number}/4 Testing: {name}\n{number}/4 Test: {name}\nCommand: \"x\"\nDirectory: /x\n\"{name}\" start time: now\nOutput:\n"
            f"{'-' * 58}\n{output}\n<end of output>\nTest time =   0.02 sec\n{'-' * 58}\n{result}\n\"{name}\" end time: now\n\n")


NO_DATA = ("[ RUN      ] Gpt2.Text\n/x/golden_test.cc:119: Skipped\nneeds /x/data (set TRIREME_TEST_DATA)\n\n"
           "[  SKIPPED ] Gpt2.Text (0 ms)\n")
MOUNT = ("[ RUN      ] Disk.Full\n/x/disk_test.cc:156: Skipped\nmounting needs rights that this user has not\n\n"
         "[  SKIPPED ] Disk.Full (0 ms)\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] Disk.Full\n")


class ListSkips(unittest.TestCase):
    def said(self, *entries, strict="1"):
        with tempfile.TemporaryDirectory() as build, contextlib.redirect_stdout(io.StringIO()) as out, \
                mock.patch.dict(os.environ, TRIREME_FAIL_ON_SKIP=strict):
            folder = pathlib.Path(build) / "Testing/Temporary"
            folder.mkdir(parents=True)
            (folder / "LastTest.log.tmp").write_text("Start testing: now\n" + "".join(entries))
            return list_skips.main(build), out.getvalue()

    def test_nothing_is_said_of_a_run_that_skips_nothing(self):
        self.assertEqual(self.said(entry(1, "base", "[       OK ] A.B (0 ms)")), (0, ""))

    def test_a_skipped_program_is_named_with_the_last_thing_it_said_and_fails_a_strict_run(self):
        slurm = entry(1, "cluster_slurm", "up\nskipped: slurmctld is not installed", "Test Skipped.")
        code, text = self.said(slurm)
        self.assertEqual(code, 1)
        self.assertIn("  cluster_slurm: slurmctld is not installed\n1 of these are not expected", text)
        self.assertEqual(self.said(slurm, strict="0")[0], 0)

    def test_tests_skipped_in_a_program_that_passed_are_named(self):
        code, text = self.said(entry(1, "text", NO_DATA), entry(2, "faults", MOUNT))
        self.assertEqual(code, 1)
        self.assertIn("  text: Gpt2.Text: needs /x/data (set TRIREME_TEST_DATA)\n", text)
        self.assertTrue(text.endswith("not tested\n  faults: Disk.Full: mounting needs rights that this user has not\n"), text)

    def test_colours_of_a_terminal_hide_nothing(self):
        coloured = NO_DATA.replace("[  SKIPPED ] ", "\x1b[0;32m[  SKIPPED ] \x1b[m").replace("\n", "\r\n")
        self.assertIn("  parallel_3: Gpt2.Text: needs /x/data", self.said(entry(1, "parallel_3", coloured))[1])

    def test_expected_reasons_pass(self):
        peers = entry(2, "peers_glue", "not run: no /x/.venv/bin/python; scripts/bootstrap --peers makes it", "Test Skipped.")
        code, text = self.said(entry(1, "text", NO_DATA), peers)
        self.assertEqual(code, 0, text)
        self.assertIn("  peers_glue: no /x/.venv/bin/python", text)

    def test_tests_of_unittest_are_named(self):
        output = "test_a (__main__.Faults.test_a) ... ok\ntest_b (__main__.Faults.test_b) ... skipped 'no luck'\n"
        code, text = self.said(entry(1, "cluster_fault_hosts", output))
        self.assertEqual(code, 1)
        self.assertIn("  cluster_fault_hosts: test_b: no luck\n", text)

    def test_a_skip_without_a_reason_is_not_expected(self):
        code, text = self.said(entry(1, "odd", "", "Test Skipped."))
        self.assertEqual(code, 1)
        self.assertIn("odd: no reason was told", text)


if __name__ == "__main__":
    unittest.main()
