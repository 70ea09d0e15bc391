#!/usr/bin/env python3
"""The hosts of a checkout that lies in the system's temporary folder, where each of them has a folder of its own. Arguments: the
program, a work folder there."""
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

import bed

BED = None  # set by bed.main()


class PlaceOfBed(unittest.TestCase):
    def test_every_host_sees_the_program_and_the_work_folder(self):
        (BED.work / "shared").write_text("seen")
        for host in (1, 2):
            self.assertEqual(BED.run(host, "cat", BED.work / "shared").stdout, "seen")
            self.assertIn("trireme ", BED.run(host, BED.binary, "--version").stdout)

    def test_ranks_start_on_every_host(self):
        result = BED.run(1, BED.binary, "launch", "--hosts", "h1,h2", "--program", "--", "hostname")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertEqual(sorted(result.stdout.splitlines()), ["h1[0] h1", "h2[1] h2"])

    def test_a_configured_place_wins(self):
        with mock.patch.dict(os.environ, TRIREME_TEST_BED="/opt"):
            self.assertEqual(bed.place_of_bed("/somewhere/launch_hosts"), pathlib.Path("/opt/trireme-test-bed-launch_hosts"))

    def test_a_configured_place_that_hosts_do_not_share_is_named(self):
        with mock.patch.dict(os.environ, TRIREME_TEST_BED="/tmp/x"), mock.patch("builtins.print") as said:
            with self.assertRaises(SystemExit) as end:
                bed.place_of_bed("/somewhere/launch_hosts")
        self.assertEqual(end.exception.code, 77)
        self.assertIn("no folder for the hosts: /tmp/x ", said.call_args[0][0])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        # The program, too, lies where the hosts do not see it.
        sys.argv[1] = shutil.copy2(sys.argv[1], folder)
        sys.exit(bed.main(2))
