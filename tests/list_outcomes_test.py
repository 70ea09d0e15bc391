"""What list_outcomes.py says of a log of ctest."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import list_outcomes


def entry(number, name, output, result="Test Passed."):
    return (f"{number}/4 Testing: {name}\n{number}/4 Test: {name}\nCommand: \"x\"\nDirectory: /x\n\"{name}\" start time: now\nOutput:\n"
            f"{'-' * 58}\n{output}\n<end of output>\nTest time =   0.02 sec\n{'-' * 58}\n{result}\n\"{name}\" end time: now\n\n")


NO_DATA = ("[ RUN      ] Gpt2.Text\n/x/golden_test.cc:119: Skipped\nneeds /x/data (set TRIREME_TEST_DATA)\n\n"
           "[  SKIPPED ] Gpt2.Text (0 ms)\n")
MOUNT = ("[ RUN      ] Disk.Full\n/x/disk_test.cc:156: Skipped\nmounting needs rights that this user has not\n\n"
         "[  SKIPPED ] Disk.Full (0 ms)\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] Disk.Full\n")


class ListOutcomes(unittest.TestCase):
    def said(self, *entries, strict="1"):
        with tempfile.TemporaryDirectory() as build, contextlib.redirect_stdout(io.StringIO()) as out, \
                mock.patch.dict(os.environ, TRIREME_FAIL_ON_SKIP=strict):
            folder = pathlib.Path(build) / "Testing/Temporary"
            folder.mkdir(parents=True)
            (folder / "LastTest.log.tmp").write_text("Start testing: now\n" + "".join(entries))
            return list_outcomes.main(build), out.getvalue()

    def test_a_run_without_skips_reports_none(self):
        self.assertEqual(self.said(entry(1, "base", "[       OK ] A.B (0 ms)")), (0, ""))

    def test_a_skipped_program_is_named_with_its_last_line_and_fails_a_strict_run(self):
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

    def test_failed_tests_are_named_with_the_first_lines_of_their_message(self):
        output = ("[ RUN      ] Disk.Fits\n[       OK ] Disk.Fits (1 ms)\n[ RUN      ] Disk.Full\nnoise\n/x/disk_test.cc:12: Failure\n"
                  + "".join(f"line {i}\n" for i in range(40))
                  + "[  FAILED  ] Disk.Full (416 ms)\n[ RUN      ] Disk.Last\n[       OK ] Disk.Last (1 ms)\n"
                  "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Disk.Full\n")
        code, text = self.said(entry(1, "faults", output, "Test Failed."))
        self.assertEqual(code, 0)  # ctest counts it
        self.assertTrue(text.startswith("\nFailed:\n  faults: Disk.Full\n    /x/disk_test.cc:12: Failure\n    line 0\n"), text)
        self.assertTrue(text.endswith("    line 10\n"), text)

    def test_failures_of_a_program_that_counts_as_skipped_are_not_counted(self):
        output = "[ RUN      ] A.T\nx.cc:1: Failure\n[  FAILED  ] A.T (1 ms)\nnot run: this CPU has no AVX-512"
        self.assertNotIn("Failed", self.said(entry(1, "ops_avx512", output, "Test Skipped."))[1])

    def test_many_failures_are_counted(self):
        output = "".join(f"[ RUN      ] A.T{i}\n[  FAILED  ] A.T{i} (1 ms)\n" for i in range(13))
        self.assertTrue(self.said(entry(1, "a", output, "Test Failed."))[1].endswith("  a: A.T9\n  and 3 more\n"))

    def test_a_failed_test_with_a_parameter_is_named_once(self):
        output = "[ RUN      ] A.T/bf16\nx.cc:1: Failure\n[  FAILED  ] A.T/bf16, where GetParam() = 2 (5 ms)\n"
        self.assertEqual(self.said(entry(1, "a", output, "Test Failed."))[1], "\nFailed:\n  a: A.T/bf16\n    x.cc:1: Failure\n")

    def test_failures_of_unittest_are_named(self):
        output = ("test_a (__main__.T.test_a) ... FAIL\n\n" + "=" * 70 + "\nFAIL: test_a (__main__.T.test_a)\n" + "-" * 70 +
                  "\nTraceback (most recent call last):\n  File \"x\", line 1\nAssertionError: 1 != 2\n\n" + "-" * 70 + "\nRan 1 test\n")
        text = self.said(entry(1, "cluster", output, "Test Failed."))[1]
        self.assertIn("  cluster: test_a (__main__.T.test_a)\n", text)
        self.assertTrue(text.endswith("    AssertionError: 1 != 2\n"), text)

    def test_a_skip_without_a_reason_is_not_expected(self):
        code, text = self.said(entry(1, "odd", "", "Test Skipped."))
        self.assertEqual(code, 1)
        self.assertIn("odd: no reason was told", text)


if __name__ == "__main__":
    unittest.main()
