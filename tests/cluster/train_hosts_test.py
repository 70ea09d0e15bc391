#!/usr/bin/env python3
"""Training on three hosts made of namespaces (hosts.sh) while things go wrong. Arguments: the program, a work folder."""
import json
import os
import pathlib
import re
import signal
import sys
import time
import unittest

import bed
from bed import wait_for

BED = None  # set by bed.main()
LONG = {"steps": 1_000_000, "every": 1_000_000}


def ranks(config):
    """Process ids of the ranks that train this configuration."""
    found = {}
    for pid in bed.processes(f"train\0{config}"):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        rank = re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)\0", environment)
        if words[1] == b"train" and rank:
            found[int(rank[1])] = pid
    return found


def status(run):
    try:
        return json.loads((run / "status.json").read_text())
    except (OSError, ValueError):
        return {}


def records(run, key="step"):
    try:
        return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines() if '"record":"step"' in line]
    except OSError:
        return []


def losses(run):
    return {record["step"]: record["loss"] for record in records(run)}


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (BED.work / "hosts").write_text("h1 slots=1\nh2 slots=1\nh3 slots=1\n")

    def start(self, config, *words, steps=3):
        """A job that has done some steps."""
        self.run_folder = BED.work / f"run-{config.removesuffix('.yaml')}"
        job = BED.start(1, BED.binary, "launch", "-f", "hosts", "--connect-timeout", "2", *words, "--", "train", config)
        self.addCleanup(job.end)
        wait_for(lambda: len(records(self.run_folder)) >= steps or not job.running(), 40)
        self.assertTrue(job.running() and len(records(self.run_folder)) >= steps, job.output())
        return job

    def assert_ends(self, job, code, seconds=40):
        """What it said, without its steps."""
        found, text = job.finish(seconds)
        text = "\n".join(line for line in text.splitlines() if " | loss " not in line)
        self.assertEqual(found, code, text)
        return text

    def assert_nothing_is_left(self, config):
        self.assertTrue(wait_for(lambda: not ranks(config), 5), ranks(config))

    def test_a_killed_rank_is_named_and_the_job_goes_on_without_its_host(self):
        config, run = BED.write_training("killed", steps=400, every=20)
        job = self.start(config, "--max-restarts", "1", "--drop-failed-host")
        self.assertTrue(wait_for(lambda: (run / "step-00000020/manifest.json").exists()))
        os.kill(ranks(config)[2], signal.SIGKILL)
        died = time.monotonic()
        self.assertTrue(wait_for(lambda: status(run).get("state") == "peer-lost", 10), status(run))
        self.assertLess(time.monotonic() - died, 10)
        lost = status(run)
        self.assertEqual((lost["rank"], lost["host"], lost["code"]), (2, "h3", 76))
        text = self.assert_ends(job, 0, 60)
        self.assertRegex(text, r"rank 2 on h3 was lost .* in step \d+")
        self.assertIn("restart 1 of 1", text)
        self.assertIn("restarting without h3, whose rank 2 was lost", text)
        self.assertRegex(text, r"h1\[0\] RESUMING from .*/step-000")
        self.assertEqual(status(run)["state"], "done")
        self.assert_nothing_is_left(config)

    def test_a_stop_goes_through_the_control_channel_and_the_run_goes_on_where_it_was(self):
        config, run = BED.write_training("stopped", steps=500, every=1000)
        job = self.start(config)
        job.signal(signal.SIGTERM)
        text = self.assert_ends(job, 75)
        self.assertIn("the job's control channel has the request", text)
        stopped = status(run)
        self.assertEqual((stopped["state"], stopped["code"]), ("stopped", 75))
        self.assertLess(stopped["step"], 500)
        again = BED.run(1, BED.binary, "launch", "-f", "hosts", "--", "train", config)
        self.assertEqual(again.returncode, 0, again.both)
        self.assertIn(f"RESUMING from {run}/step-{stopped['step']:08}", again.both)
        self.assertEqual([record["step"] for record in records(run)], list(range(1, 501)))

    def test_a_stop_signal_to_one_rank_stops_all_after_the_same_step(self):
        config, run = BED.write_training("one-rank", **LONG)
        job = self.start(config)
        os.kill(ranks(config)[1], signal.SIGTERM)
        text = self.assert_ends(job, 75)
        step = status(run)["step"]
        self.assertTrue((run / f"step-{step:08}/manifest.json").exists(), text)
        self.assert_nothing_is_left(config)

    def test_a_frozen_rank_is_named(self):
        config, run = BED.write_training("frozen", **LONG)
        (BED.work / config).write_text((BED.work / config).read_text().replace("run: {", "run: {hang-timeout: 2, "))
        job = self.start(config)
        pid = ranks(config)[1]
        os.kill(pid, signal.SIGSTOP)
        try:
            self.assertTrue(wait_for(lambda: status(run).get("state") == "peer-lost", 10), status(run))
            text = self.assert_ends(job, 76)
        finally:
            if pathlib.Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
        self.assertEqual((status(run)["rank"], status(run)["host"]), (1, "h2"))
        self.assertRegex(text, r"rank 1 on h2 was lost \(no heartbeat for \d")
        self.assert_nothing_is_left(config)

    def test_a_link_that_comes_back_changes_no_number(self):
        config, calm = BED.write_training("calm", steps=300, every=10_000)
        result = BED.run(1, BED.binary, "launch", "-f", "hosts", "--", "train", config)
        self.assertEqual(result.returncode, 0, result.both)
        config, run = BED.write_training("flap", steps=300, every=10_000)
        job = self.start(config)
        BED.script("link", BED.folder, 3, "down")
        before = len(records(run))
        time.sleep(2)
        self.assertLess(len(records(run)), 300, "the run was over before the link went")
        BED.script("link", BED.folder, 3, "up")
        self.assert_ends(job, 0, 60)
        self.assertGreater(len(records(run)), before)
        self.assertEqual(losses(run), losses(calm))

    def test_a_link_that_is_cut_to_10_mbit_is_slow_and_no_hang(self):
        # 1.6 million gradients over 10 Mbit/s take longer than the time after which a silent rank is given up.
        config, run = BED.write_training("slow-link", **LONG)
        text = (BED.work / config).read_text().replace("layers: 1, heads: 2, width: 16", "layers: 2, heads: 2, width: 256")
        (BED.work / config).write_text(text.replace("run: {", "run: {hang-timeout: 2, "))
        job = self.start(config)
        BED.script("limit", BED.folder, 2, "10mbit")
        try:
            before = len(records(run))
            self.assertTrue(wait_for(lambda: len(records(run)) >= before + 4, 60), job.output())
            self.assertGreater(max(record["ms_per_step"] for record in records(run)[before:]), 2000)
        finally:
            BED.script("limit", BED.folder, 2, "none")
        job.signal(signal.SIGTERM)
        self.assert_ends(job, 75)

    def test_a_link_that_stays_down_ends_the_job_everywhere(self):
        config, run = BED.write_training("cut", **LONG)
        (BED.work / config).write_text((BED.work / config).read_text().replace("run: {", "run: {hang-timeout: 2, "))
        job = self.start(config)
        BED.script("link", BED.folder, 3, "down")
        try:
            self.assertTrue(wait_for(lambda: status(run).get("state") == "peer-lost", 10), status(run))
            text = self.assert_ends(job, 76, 60)
        finally:
            BED.script("link", BED.folder, 3, "up")
        # status.json is not asked: h3 takes the others for lost, and the folder is shared.
        self.assertRegex(text, r"launch: first failure: h[12]\[\d\] .*rank 2 on h3 was lost")
        self.assert_nothing_is_left(config)

    def test_ranks_that_are_not_joined_never_train(self):
        config, run = BED.write_training("apart")
        result = BED.run(1, "sh", "-c", f"OMPI_COMM_WORLD_SIZE=3 {BED.binary} train {config}")
        self.assertEqual(result.returncode, 2, result.both)
        self.assertIn("3 processes started by mpirun of Open MPI (OMPI_COMM_WORLD_SIZE=3) each see a world of 1", result.both)
        self.assertFalse(run.exists())


if __name__ == "__main__":
    sys.exit(bed.main(3))
