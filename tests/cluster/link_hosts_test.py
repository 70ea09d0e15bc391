#!/usr/bin/env python3
"""Jobs on three hosts made of namespaces (hosts.sh) of which two lose each other while all others reach them. Arguments: the
program, a work folder. TRIREME_TEST_ALL_LINKS=1: every link, both and one way, in every phase; else one link each."""
import contextlib
import os
import re
import sys

import bed
from bed import FOREVER, has_snapshot, records, status, wait_for

BED = None  # set by bed.main()

ALL = os.environ.get("TRIREME_TEST_ALL_LINKS") == "1"
LINKS = [(1, 2), (1, 3), (2, 3)]
WAYS = ["both", "there", "back"]
# The phase, and how a job comes there: it spends most of its time in evaluations and snapshots.
PHASES = {"step": [], "evaluation": ["--evaluation.every", "1", "--evaluation.batches", "100"],
          "snapshot": ["--checkpoint.every", "1"]}
# What is tested if not all: each link, each way and each phase once.
SOME = [((2, 3), "both", "step"), ((1, 3), "there", "evaluation"), ((1, 2), "back", "snapshot")]


class Links(bed.TrainingCase):
    @contextlib.contextmanager
    def cut(self, link, way):
        """Silently: nothing says that the other host is not there."""
        one, other = link
        pairs = {"both": [(one, other), (other, one)], "there": [(one, other)], "back": [(other, one)]}[way]
        for pair in pairs:
            BED.script("deaf", BED.folder, *pair, "yes")
        try:
            yield
        finally:
            for pair in pairs:
                BED.script("deaf", BED.folder, *pair, "no")

    def assert_named(self, text, link):
        one, other = link
        self.assertRegex(text, rf"rank {other - 1} on h{other} and rank {one - 1} on h{one} cannot reach each other \(")
        for host in {1, 2, 3} - set(link):
            self.assertNotIn(f"rank {host - 1} on h{host} was lost", text)
            self.assertNotIn(f"rank {host - 1} on h{host} and", text)

    def lose(self, link, way, phase):
        name = f"{phase}-{link[0]}{link[1]}-{way}"
        config, run = BED.write_training(name, **FOREVER)
        job = self.launch(config, flags=["--run.hang-timeout", "2", *PHASES[phase]])
        self.assertTrue(wait_for(lambda: records(run) or not job.running()) and job.running(), job.output())
        if phase == "snapshot":
            self.assertTrue(wait_for(lambda: has_snapshot(run)))
        with self.cut(link, way):
            text = self.assert_ends(job, 76, 60)
        self.assert_named(text, link)
        self.assertIn(status(run)["state"], ("peer-lost",), text)
        self.assert_nothing_is_left(config)

    def test_two_hosts_that_lose_each_other_are_named_in_every_phase(self):
        cases = [(link, way, phase) for phase in PHASES for link in LINKS for way in WAYS] if ALL else SOME
        for link, way, phase in cases:
            with self.subTest(link=link, way=way, phase=phase):
                self.lose(link, way, phase)

    def test_a_link_that_is_cut_before_the_start_is_found_by_the_preflight(self):
        for link in LINKS[2:]:  # the launch reaches no host over the others
            for way in WAYS if ALL else ["there"]:
                with self.subTest(link=link, way=way), self.cut(link, way):
                    result = BED.run(1, BED.binary, "launch", "-f", "hosts", "--program", "--", "echo", "RAN")
                    self.assertEqual(result.returncode, 2, result.both)
                    for one, other in (link, link[::-1]):
                        self.assertIn(f"preflight: h{one}: cannot reach h{other} over 10.77.0.0/24: no answer: a firewall", result.both)
                    dropped = BED.run(1, BED.binary, "launch", "-f", "hosts", "--drop-bad-hosts", "--program", "--", "hostname")
                    self.assertEqual(dropped.returncode, 0, dropped.both)
                    self.assertEqual(sorted(dropped.stdout.split()), ["h1", "h1[0]", "h2", "h2[1]"], "one of the two is enough")

    def test_of_two_hosts_that_lose_each_other_one_is_dropped_and_the_job_continues(self):
        config, run = BED.write_training("dropped", **{**FOREVER, "every": 20})
        job = self.start(config, "--max-restarts", "1", "--drop-failed-host", flags=["--run.hang-timeout", "2"])
        self.assertTrue(wait_for(lambda: has_snapshot(run)))
        with self.cut((2, 3), "both"):
            self.assertTrue(wait_for(lambda: "RESUMING" in job.output() or not job.running(), 60), job.output())
            resumed = records(run)[-1]["step"]
            self.assertTrue(wait_for(lambda: records(run)[-1]["step"] > resumed + 20 or not job.running()), job.output())
            job.signal(15)
            text = self.assert_ends(job, 75)
        self.assert_named(text, (2, 3))
        self.assertIn("restarting without h3: h3 and h2 cannot reach each other", text)
        self.assertIn("launch: 2 ranks: h[1-2] 1 each", text)

    def test_a_link_that_is_cut_while_the_ranks_start_is_named_or_found_before_the_restart(self):
        if not ALL:
            self.skipTest("only with TRIREME_TEST_ALL_LINKS=1: it waits for the limit of a start")
        config, run = BED.write_training("starting", **FOREVER)
        with self.cut((2, 3), "both"):
            job = self.launch(config, "--skip-preflight", flags=["--run.hang-timeout", "2", "--run.start-timeout", "20"])
            code, text = job.finish(200)
        self.assertEqual(code, 76, text)
        self.assertTrue(re.search(r"cannot reach each other|have reached MPI_Init but have not connected|so ranks of another host have not, or a connection to them fails", text), text)
        self.assertNotRegex(text, r"rank 0 on h1 was lost")


if __name__ == "__main__":
    sys.exit(bed.main(3))
