#!/usr/bin/env python3
"""Hosts that die, streams that are reset, memory that runs out, slow hosts and stops in every phase, on three hosts made of
namespaces (hosts.sh). Arguments: the program, a work folder, the library that makes calls of the program fail."""
import os
import re
import signal
import sys

import bed
from bed import FOREVER, has_snapshot, losses, ranks, records, status, wait_for

BED = None  # set by bed.main()


def streams_between_ranks(config, run, host):
    """(local port, remote address, remote port) of the TCP streams over which MPI's data of the rank on this host goes."""
    pid = ranks(config)[host - 1]
    control = {address.rpartition(":")[2] for address in status(run)["control"].split(",")}
    listed = BED.run(host, "ss", "-Htnp", "state", "established").stdout
    found = []
    for line in listed.splitlines():
        ends = re.search(r"\S+:(\d+)\s+\[?([^\s\]]+)\]?:(\d+)\s+users:.*pid=(\d+),", line)
        if ends and int(ends[4]) == pid and not control & {ends[1], ends[3]}:
            found.append((ends[1], ends[2], ends[3]))
    return found


class Faults(bed.TrainingCase):
    def shim(self, call, match, *more):
        """Flags of launch with which a call of some rank waits; the file that holds it and the one that says so."""
        self.assertIsNotNone(BED.shim)
        hold, seen = BED.work / "hold", BED.work / "seen"
        seen.unlink(missing_ok=True)
        hold.touch()
        values = {"LD_PRELOAD": BED.shim, "FAULT_CALL": call, "FAULT_MATCH": match, "FAULT_ERRNO": 0, "FAULT_WHILE": hold,
                  "FAULT_SEEN": seen}
        words = [f"{name}={value}" for name, value in values.items()] + list(more)
        return [word for setting in words for word in ("--env", setting)], hold, seen

    def test_a_host_that_dies_is_named_and_the_job_continues_without_it(self):
        config, run = BED.write_training("dies", **{**FOREVER, "every": 20})
        job = self.start(config, "--max-restarts", "1", "--drop-failed-host")
        self.assertTrue(wait_for(lambda: has_snapshot(run)))
        self.addCleanup(BED.script, "boot", BED.folder, 3)
        BED.script("crash", BED.folder, 3)
        self.assertTrue(wait_for(lambda: "RESUMING" in job.output() or not job.running()), job.output())
        resumed = records(run)[-1]["step"]
        self.assertTrue(wait_for(lambda: records(run)[-1]["step"] > resumed + 20 or not job.running()), job.output())
        job.signal(signal.SIGTERM)
        text = self.assert_ends(job, 75)
        # Steps are short here: a rank's last report may be from before them. Open MPI 5 may end the ranks before they print it.
        self.assertRegex(text, r"rank 2 on h3 was lost \(its connection closed [0-9.]+ s after its last heartbeat\) in \w|Remote daemon: .* on node h3")
        self.assertIn("restarting without h3, whose rank 2 was lost", text)
        self.assert_nothing_is_left(config)

    def crash(self, host, *words, name):
        """A job of which a host dies after its first snapshot."""
        config, run = BED.write_training(name, **{**FOREVER, "every": 20})
        job = self.start(config, *words)
        self.assertTrue(wait_for(lambda: has_snapshot(run)))
        self.addCleanup(BED.script, "boot", BED.folder, host)
        BED.script("crash", BED.folder, host)
        return job, run

    def assert_goes_on(self, job, run):
        self.assertTrue(wait_for(lambda: "RESUMING" in job.output() or not job.running()), job.output())
        resumed = records(run)[-1]["step"]
        self.assertTrue(wait_for(lambda: records(run)[-1]["step"] > resumed + 20 or not job.running()), job.output())
        job.signal(signal.SIGTERM)
        return self.assert_ends(job, 75)

    def test_a_restart_waits_for_a_host_that_is_booting(self):
        job, run = self.crash(3, "--max-restarts", "1", name="reboots")
        self.assertTrue(wait_for(lambda: "launch: waiting up to 10 min until this is solved: h3: " in job.output() or not job.running()), job.output())
        BED.script("boot", BED.folder, 3)
        text = self.assert_goes_on(job, run)
        self.assertIn("launch: 3 ranks: h[1-3] 1 each", text)
        self.assertIn("restart 1 of 1", text)

    def test_a_job_that_waits_for_a_host_is_stopped_from_another_terminal(self):
        job, run = self.crash(3, "--max-restarts", "5", name="stopped-while-it-waits")
        self.assertTrue(wait_for(lambda: "launch: waiting up to 10 min until this is solved: h3: " in job.output() or not job.running()), job.output())
        shown = BED.run(2, BED.binary, "status", run)
        self.assertRegex(shown.stdout, r"state +no rank answers\n")
        self.assertRegex(shown.stdout,
                         r"launch +process \d+ on h1, no rank is running: restart 1 of 5 waits for its hosts\n")
        stopped = BED.run(2, BED.binary, "stop", run)
        self.assertEqual(stopped.returncode, 0, stopped.both)
        self.assertIn("the job ended with code 76 (peer-lost)", stopped.stdout)
        text = self.assert_ends(job, 76)
        self.assertIn("launch: asked to stop before the restart; no rank is running", text)
        self.assertFalse((run / "control.json").exists())

    def test_a_host_that_stays_away_ends_the_job_with_its_own_code(self):
        job, run = self.crash(3, "--max-restarts", "5", "--wait-for-hosts", "0", name="stays-away")
        text = self.assert_ends(job, 76)
        self.assertIn("launch: the hosts did not come back within 0 min (--wait-for-hosts)", text)

    def test_a_spare_host_replaces_a_lost_one(self):
        job, run = self.crash(2, "--max-restarts", "1", "--spares", "1", name="spare")
        text = self.assert_goes_on(job, run)
        self.assertIn("launch: 2 ranks: h[1-2] 1 each; 1 spare host", text)
        self.assertIn("launch: using spare host h3", text)
        self.assertIn("launch: 2 ranks: h[1,3] 1 each", text)

    def test_a_stream_that_is_reset_gives_no_wrong_sum(self):
        config, run = BED.write_training("reset", **{**FOREVER, "every": 10})
        job = self.start(config, steps=30)
        streams = streams_between_ranks(config, run, 2)
        self.assertTrue(streams, job.output())
        local, address, remote = streams[0]
        closed = BED.run(2, "ss", "-K", "dst", address, "sport", "=", f":{local}", "dport", "=", f":{remote}")
        if not closed.stdout.count(local):
            self.skipTest("this kernel closes no streams of others")
        before = len(records(run))
        wait_for(lambda: len(records(run)) > before + 50 or not job.running())
        if job.running():
            job.signal(signal.SIGTERM)
        code, text = job.finish()
        self.assertIn(code, (1, 75, 76), text)
        self.assert_same_losses_undisturbed(run, "no-reset")

    def test_a_slow_host_is_named(self):
        config, run = BED.write_training("slow", steps=150, every=1000, batch=12)
        slow, hold, _ = self.shim("slow", "2000", "FAULT_RANK=1")
        hold.unlink()
        job = self.launch(config, *slow, flags=["--log.every", "50"])
        text = self.assert_ends(job, 0)
        self.assertRegex(text, r"warning: rank 1 on h2 is slow: [0-9.]+ ms of work per step, the others need")

    def test_out_of_memory_is_distinguished_from_a_kill(self):
        group = BED.script("limit-memory", BED.folder, 3, "400M", check=False)
        if group.returncode == 77:
            self.skipTest(group.stderr.strip())
        self.addCleanup(BED.script, "limit-memory", BED.folder, 3, "none")
        greedy = '[ $OMPI_COMM_WORLD_RANK = 2 ] && exec python3 -c "x = bytearray(10 ** 9)"; exec sleep 60'
        result = BED.run(1, BED.binary, "launch", "-f", "hosts", "--program", "--", "sh", "-c", greedy)
        self.assertNotEqual(result.returncode, 0, result.both)
        self.assertRegex(result.both, r"launch: h3: out of memory: the kernel killed \d process(es)? of a control group with a limit of "
                                      r"0.39 GiB; lower batch.micro or the ranks on this host, or raise that limit")

    def test_a_stop_before_the_first_step_saves_nothing(self):
        config, run = BED.write_training("step-0", **FOREVER)
        # The evaluation before the first step takes longer than any test.
        job = self.launch(config, flags=["--evaluation.every", "1000", "--evaluation.batches", "1000000"])
        self.assertTrue(wait_for(lambda: (run / "metrics.jsonl").exists() or not job.running()), job.output())
        os.kill(ranks(config)[2], signal.SIGTERM)
        self.assertIn("stopped before the first step: nothing to save", self.assert_ends(job, 75))
        self.assertFalse(list(run.glob("step-*")))

    def test_a_stop_in_an_evaluation(self):
        config, run = BED.write_training("evaluating", steps=2)
        self.assert_ends(self.launch(config), 0)
        job = self.launch(config, flags=["--run.steps", "100", "--evaluation.every", "3", "--evaluation.batches", "1000000"])
        self.assertTrue(wait_for(lambda: re.search(r"step +3/100", job.output()) or not job.running()), job.output())
        os.kill(ranks(config)[2], signal.SIGTERM)
        self.assert_ends(job, 75)
        self.assertEqual((status(run)["state"], status(run)["step"]), ("stopped", 3))

    def test_a_stop_while_a_snapshot_is_written_publishes_it(self):
        config, run = BED.write_training("saving", **{**FOREVER, "every": 4})
        held, hold, seen = self.shim("fsync", "/rank-00001-of-", "FAULT_TIMES=1")
        job = self.launch(config, *held, flags=["--checkpoint.keep", "0"])
        self.assertTrue(wait_for(lambda: seen.exists() or not job.running()) and seen.exists(), job.output())
        os.kill(ranks(config)[2], signal.SIGTERM)
        hold.unlink()
        text = self.assert_ends(job, 75)
        self.assertTrue((run / "step-00000004/manifest.json").exists(), text)
        self.assertTrue((run / f"step-{status(run)['step']:08}/manifest.json").exists(), text)

    def test_a_stop_while_the_data_is_read(self):
        config, run = BED.write_training("reading", **FOREVER)
        held, hold, seen = self.shim("fsync", "run-reading/lock")
        job = self.launch(config, *held)
        self.assertTrue(wait_for(lambda: seen.exists() or not job.running()), job.output())
        self.assertTrue(wait_for(lambda: len(ranks(config)) == 3), job.output())
        os.kill(ranks(config)[2], signal.SIGTERM)
        hold.unlink()
        self.assertIn("nothing to save", self.assert_ends(job, 75))


if __name__ == "__main__":
    sys.exit(bed.main(3))
