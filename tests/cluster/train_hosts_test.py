#!/usr/bin/env python3
"""Training on three hosts made of namespaces (hosts.sh) while things go wrong. Arguments: the program, a work folder."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sys
import time

import bed
from bed import FOREVER, has_snapshot, ranks, records, status, wait_for

BED = None  # set by bed.main()


GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/gpt2"
# A Hugging Face hub on a host's own loopback, with one model. Arguments: its folder, a log of the files that are taken.
HUB = '''
import hashlib, http.server, json, pathlib, sys
folder, log = pathlib.Path(sys.argv[1]), open(sys.argv[2], "a", buffering=1)
COMMIT = "0123456789abcdef0123456789abcdef01234567"

class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.begin()
        if not self.path.startswith("/api/"):
            log.write(self.path.rpartition("/")[2] + chr(10))
        self.wfile.write(body)

    def do_HEAD(self):
        self.begin()

    def begin(self):
        self.send_response(200)
        if self.path.startswith("/api/"):
            body = json.dumps({"sha": COMMIT, "siblings": [{"rfilename": file.name} for file in folder.iterdir()]}).encode()
            self.send_header("Content-Type", "application/json")
        else:
            body = (folder / self.path.rpartition("/")[2]).read_bytes()
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", '"' + hashlib.sha1(b"blob %d" % len(body) + bytes(1) + body).hexdigest() + '"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return body

    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", 8765), Hub).serve_forever()
'''


class Training(bed.TrainingCase):
    def test_a_killed_rank_is_named_and_the_job_continues_without_its_host(self):
        config, run = BED.write_training("killed", **{**FOREVER, "every": 20})
        job = self.start(config, "--max-restarts", "1", "--drop-failed-host")
        self.assertTrue(wait_for(lambda: has_snapshot(run)))
        os.kill(ranks(config)[2], signal.SIGKILL)
        died = time.monotonic()
        self.assertTrue(wait_for(lambda: "rank 2 on h3 was lost" in job.output()), job.output())
        self.assertLess(time.monotonic() - died, 10)
        self.assertTrue(wait_for(lambda: "RESUMING" in job.output()), job.output())
        resumed = records(run)[-1]["step"]
        self.assertTrue(wait_for(lambda: records(run)[-1]["step"] > resumed + 20), job.output())
        job.signal(signal.SIGTERM)
        text = self.assert_ends(job, 75)
        # Steps are short here: what a rank last told may be from before them.
        self.assertRegex(text, r"rank 2 on h3 was lost \(its connection closed [0-9.]+ s after its last heartbeat\) in \w")
        self.assertIn("the job ended with code 76 (status.json: peer-lost, rank 2 on h3); restart 1 of 1", text)
        self.assertIn("restarting without h3, whose rank 2 was lost", text)
        self.assertRegex(text, r"h1\[0\] RESUMING from .*/step-000")
        self.assertEqual(status(run)["state"], "stopped")
        self.assert_nothing_is_left(config)

    def test_a_stop_through_the_control_channel_leaves_a_run_that_resumes(self):
        config, run = BED.write_training("stopped", **FOREVER)
        job = self.start(config)
        job.signal(signal.SIGTERM)
        text = self.assert_ends(job, 75)
        self.assertIn("the job's control channel received the request", text)
        stopped = status(run)
        self.assertEqual((stopped["state"], stopped["code"]), ("stopped", 75))
        last = stopped["step"] + 100
        again = BED.run(1, BED.binary, "launch", "-f", "hosts", "--", "train", config, "--run.steps", last)
        self.assertEqual(again.returncode, 0, again.both)
        self.assertIn(f"RESUMING from {run}/step-{stopped['step']:08}", again.both)
        self.assertEqual([record["step"] for record in records(run)], list(range(1, last + 1)))

    def control(self, config, run, job, starter):
        """Asks for the job's state, follows it and stops it, each from a host that did not start it."""
        shown = BED.run(3, BED.binary, "status", run)
        self.assertEqual(shown.returncode, 0, shown.both)
        self.assertRegex(shown.stdout, r"state +running: .*step \d+")
        self.assertRegex(shown.stdout, r"job +3 ranks, rank 0 is process \d+ on h1, since ")
        self.assertEqual("launch  " in shown.stdout, starter == "launch", shown.stdout)
        attached = BED.start(2, BED.binary, "attach", run)
        self.addCleanup(attached.end)
        self.assertTrue(wait_for(lambda: len(attached.output().splitlines()) > 60), attached.output())
        stopped = BED.run(3, BED.binary, "stop", run)
        self.assertEqual(stopped.returncode, 0, stopped.both)
        step = status(run)["step"]
        self.assertRegex(stopped.stdout, rf"stopped after step {step}, [0-9.]+ s after the request; newest snapshot: step-{step:08}\n")
        self.assertFalse(status(run)["requeue"])
        text = self.assert_ends(job, 75)
        self.assertIn("stop requested by trireme stop (root on h3): saving after step", text)
        code, followed = attached.finish()
        self.assertEqual(code, 75, followed)
        self.assertRegex(followed, r"(h1\[0\] )?step +\d+/1000000 \| loss")
        self.assertIn(f"the job ended with code 75 (stopped) after step {step}", followed)
        self.assertFalse((run / "control.json").exists())
        after = BED.run(2, BED.binary, "status", run)
        self.assertIn(f"no job is running in {run}: it ended with code 75 (stopped) after step {step}", after.stdout)
        return text

    def test_a_launch_is_queried_followed_and_stopped_from_other_hosts(self):
        config, run = BED.write_training("asked", **FOREVER)
        text = self.control(config, run, self.start(config, "--max-restarts", "3"), "launch")
        self.assertIn("launch: trireme stop (root on h3); asking all ranks to stop after this step", text)
        self.assertEqual(text.splitlines()[-1], "launch: the job stopped as requested (code 75); start it again to resume",
                         "no restart")
        # What mpirun says about the code that the ranks ended with. On a busy machine it has warnings of other things, which are shown.
        self.assertNotRegex(text, "mpirun: (.*non-zero|.*Exit code|Primary job|.*aborted)")

    def test_ranks_of_mpirun_are_queried_followed_and_stopped_from_other_hosts(self):
        config, run = BED.write_training("asked-mpirun", **FOREVER)
        job = BED.start(1, "mpirun", "--allow-run-as-root", "--hostfile", "hosts", "-np", "3", "--bind-to", "none", "--mca", "btl",
                        "self,vader,tcp", "--mca", "pml", "ob1", "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include",
                        "eth0", BED.binary, "train", config)
        self.addCleanup(job.end)
        self.assertTrue(wait_for(lambda: len(records(run)) > 3 or not job.running()), job.output())
        self.control(config, run, job, "mpirun")

    def test_a_stop_signal_to_one_rank_stops_all_after_the_same_step(self):
        config, run = BED.write_training("one-rank", **FOREVER)
        job = self.start(config)
        os.kill(ranks(config)[1], signal.SIGTERM)
        text = self.assert_ends(job, 75)
        step = status(run)["step"]
        self.assertTrue((run / f"step-{step:08}/manifest.json").exists(), text)
        self.assert_nothing_is_left(config)

    def test_a_frozen_rank_is_named(self):
        config, run = BED.write_training("frozen", **FOREVER)
        job = self.start(config, flags=["--run.hang-timeout", "2"])
        pid = ranks(config)[1]
        os.kill(pid, signal.SIGSTOP)
        try:
            self.assertTrue(wait_for(lambda: status(run).get("state") == "peer-lost", 30), status(run))
            text = self.assert_ends(job, 76)
        finally:
            if pathlib.Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
        self.assertEqual((status(run)["rank"], status(run)["host"]), (1, "h2"))
        self.assertRegex(text, r"rank 1 on h2 was lost \(no heartbeat for \d")
        self.assert_nothing_is_left(config)

    def test_a_link_outage_of_five_seconds_changes_no_number(self):
        config, run = BED.write_training("flap", **FOREVER)
        job = self.start(config)
        BED.script("link", BED.folder, 3, "down")
        time.sleep(5)
        before = len(records(run))
        BED.script("link", BED.folder, 3, "up")
        self.assertTrue(wait_for(lambda: len(records(run)) > before + 20), job.output())
        job.signal(signal.SIGTERM)
        self.assert_ends(job, 75)
        self.assertGreater(max(record["ms_per_step"] for record in records(run)), 4000)
        self.assert_same_losses_undisturbed(run, "calm")

    def test_a_link_limited_to_10_mbit_is_slow_but_not_a_hang(self):
        # 1.6 million gradients over 10 Mbit/s take longer than the time after which a silent rank is given up.
        config, run = BED.write_training("slow-link", **FOREVER)
        job = self.start(config, flags=["--model.layers", "2", "--model.width", "256", "--run.hang-timeout", "2"])
        BED.script("limit", BED.folder, 2, "10mbit")
        try:
            before = len(records(run))
            self.assertTrue(wait_for(lambda: len(records(run)) >= before + 3), job.output())
            self.assertGreater(max(record["ms_per_step"] for record in records(run)[before:]), 2000)
        finally:
            BED.script("limit", BED.folder, 2, "none")
        job.signal(signal.SIGTERM)
        self.assert_ends(job, 75)

    def test_a_link_that_stays_down_ends_the_job_everywhere(self):
        config, run = BED.write_training("cut", **FOREVER)
        job = self.start(config, flags=["--run.hang-timeout", "2"])
        BED.script("link", BED.folder, 3, "down")
        try:
            self.assertTrue(wait_for(lambda: status(run).get("state") == "peer-lost", 30), status(run))
            text = self.assert_ends(job, 76)
        finally:
            BED.script("link", BED.folder, 3, "up")
        # status.json is not asked: h3 takes the others for lost, and the folder is shared.
        self.assertRegex(text, r"launch: first failure: h[12]\[\d\] .*rank 2 on h3 was lost")
        self.assert_nothing_is_left(config)

    def kill_with_local_snapshots(self, config, run, flags):
        """A job of which each host has snapshots that the run folder has not, killed. The newest one's step."""
        def newest():
            try:
                return json.loads((run / "local.json").read_text())["step"]
            except OSError:
                return -1
        before = len(records(run))
        job = self.launch(config, flags=[*flags, "--checkpoint.copy-mb-per-second", "0.0001"])
        self.assertTrue(wait_for(lambda: len(records(run)) > before + 50 or not job.running()) and job.running(), job.output())
        for pid in ranks(config).values():
            with contextlib.suppress(ProcessLookupError):  # mpirun ends the others, too
                os.kill(pid, signal.SIGKILL)
        job.finish()
        self.assert_nothing_is_left(config)
        return newest()

    def test_snapshots_on_the_hosts_own_disks_and_one_that_is_lost(self):
        config, run = BED.write_training("local-disks", steps=20, every=20)
        flags = ["--checkpoint.local", "/tmp/snapshots"]
        text = self.assert_ends(self.launch(config, flags=flags), 0)
        self.assertRegex(text, r"snapshot of step 20 is on the local disks, in /tmp/snapshots/run-local-disks-[0-9a-f]{16}/step-00000020-")
        self.assertEqual(BED.run(2, "ls", "/tmp/snapshots").stdout, "", "the run folder has this snapshot")

        step = self.kill_with_local_snapshots(config, run, [*flags, "--run.steps", "1000000"])
        self.assertGreaterEqual(step, 40)
        for host, shard in ((1, 0), (2, 1), (3, 2)):
            found = BED.run(host, "sh", "-c", f"ls /tmp/snapshots/*/step-{step:08}-*")
            self.assertEqual(found.stdout.split(), ["manifest.json", f"rank-{shard:05}-of-00003.safetensors", "tokenizer.json"], found.both)
        shown = BED.run(3, BED.binary, "checkpoint", "list", run)
        self.assertIn("1 of 3 shards are on this host's disk, in /tmp/snapshots/", shown.stdout)
        text = self.assert_ends(self.launch(config, flags=[*flags, "--run.steps", step + 3]), 0)
        self.assertIn(f"the snapshot of step {step} is complete on the local disks but not in {run}: it is copied first", text)
        self.assertIn(f"RESUMING from {run}/step-{step:08}: {step} steps", text)

        lost = self.kill_with_local_snapshots(config, run, [*flags, "--run.steps", "1000000"])
        self.assertGreater(lost, step + 3)
        BED.run(2, "rm", "-r", "/tmp/snapshots")
        text = self.assert_ends(self.launch(config, flags=[*flags, "--run.steps", step + 30]), 0)
        self.assertRegex(text, rf"warning: the snapshot of step {lost} on the local disks \(.*\) is incomplete and not used: 1 of its 3 shards are on none of this job's hosts")
        self.assertIn(f"RESUMING from {run}/step-{step + 3:08}: {step + 3} steps", text)
        for host in (1, 2, 3):
            self.assertEqual(BED.run(host, "ls", "/tmp/snapshots").stdout, "")
        self.assertEqual(BED.run(1, BED.binary, "checkpoint", "verify", run).returncode, 0)

    def test_one_rank_of_each_host_fetches_into_the_hosts_own_cache(self):
        config, run = BED.write_training("by-name", steps=2, batch=4)
        for name in ("train.bin", "val.bin"):
            (BED.work / "ids").mkdir(exist_ok=True)
            (BED.work / "ids" / name).write_bytes(b"".join(bytes([i % 16, 0]) for i in range(2000)))
        (BED.work / "hub.py").write_text(HUB)
        golden = shutil.copytree(GOLDEN, BED.work / "golden")  # where every host sees it, as it may not see this checkout
        (BED.work / "two-each").write_text("h1 slots=2\nh2 slots=2\n")
        for host in (1, 2):
            hub = BED.start(host, "env", "PATH=/usr/bin:/bin", "python3", "hub.py", golden, f"hub-{host}.log")
            self.addCleanup(hub.end)
            self.assertTrue(wait_for(lambda h=host: BED.run(h, "sh", "-c", "ss -Htln sport = :8765").stdout, 20), hub.output())

        def train(*words):
            return BED.run(1, BED.binary, "launch", "-f", "two-each", "--env", "HF_HOME=/tmp/hf", "--env",
                           "HF_ENDPOINT=http://127.0.0.1:8765", *words, "--", "train", "--model.init", "tiny/gpt2", "--data.dir",
                           BED.work / "ids", "--run.dir", run, "--run.steps", 2, "--batch.global", 4, "--evaluation.every", 0,
                           "--launch.threads", 1)
        refused = train("--env", "HF_HUB_OFFLINE=1")
        self.assertEqual(refused.returncode, 2, refused.both)
        self.assertIn("preflight: h[1-2] (2 hosts): tiny/gpt2 is not in its cache /tmp/hf/hub, and HF_HUB_OFFLINE is set; run `trireme fetch tiny/gpt2` on a host with a connection", refused.both)
        self.assertIn("nothing was started", refused.both)

        result = train("--env", "HF_HUB_OFFLINE=0")
        self.assertEqual(result.returncode, 0, result.both)
        for host in (1, 2):
            self.assertIn(f"h{host}: tiny/gpt2 is not in its cache /tmp/hf/hub; its first rank fetches it", result.both)
            self.assertRegex(result.both, rf"waiting until another rank of h{host} has fetched tiny/gpt2")
            taken = (BED.work / f"hub-{host}.log").read_text().split()
            self.assertEqual(sorted(taken), ["config.json", "model.safetensors"], "each file once on each host")
        self.assertEqual(train("--env", "HF_HUB_OFFLINE=1", "--preflight-only").returncode, 0, "it is in both caches now")

    def test_hierarchical_sums_give_the_same_losses(self):
        (BED.work / "two-each").write_text("h1 slots=2\nh2 slots=2\n")
        shown = {}
        for name, flags in (("flat", []), ("first", ["--comm.reduce", "hosts"]),
                            ("shared", ["--comm.reduce", "hosts", "--optim.shard", "parameters", "--optim.shard-group", "host"])):
            config, run = BED.write_training(name, steps=8, batch=8)
            result = BED.run(1, BED.binary, "launch", "-f", "two-each", "--", "train", config, "--launch.threads", 1, "--batch.micro", 2,
                             *flags)
            self.assertEqual(result.returncode, 0, result.both)
            shown[name] = (result.both, bed.losses(run))
        self.assertRegex(shown["flat"][0], r"each host sends [0-9.]+ MB of gradients per step .*, but [0-9.]+ MB with --comm.reduce hosts")
        self.assertRegex(shown["first"][0], r"each host sends [0-9.]+ MB of gradients per step .*, instead of [0-9.]+ MB")
        for name in ("first", "shared"):
            for step, loss in shown["flat"][1].items():
                self.assertAlmostEqual(shown[name][1][step], loss, delta=2e-3 * loss, msg=f"{name}, step {step}")
        self.assertEqual(shown["first"][1], shown["shared"][1], "who shares the state changes no bit")

    def test_hierarchical_sums_need_the_same_number_of_ranks_per_host(self):
        (BED.work / "uneven").write_text("h1 slots=2\nh2 slots=1\n")
        config, run = BED.write_training("uneven")
        result = BED.run(1, BED.binary, "launch", "-f", "uneven", "--", "train", config, "--comm.reduce", "hosts")
        self.assertEqual(result.returncode, 2, result.both)
        self.assertIn("comm.reduce is hosts, which needs the same number of data ranks on every host, but 2 hosts have 2, 1 of the 3", result.both)
        self.assertFalse((run / "latest").exists())

    def test_ranks_that_are_not_connected_never_train(self):
        config, run = BED.write_training("apart")
        result = BED.run(1, "sh", "-c", f"OMPI_COMM_WORLD_SIZE=3 {BED.binary} train {config}")
        self.assertEqual(result.returncode, 2, result.both)
        self.assertIn("3 processes started by mpirun of Open MPI (OMPI_COMM_WORLD_SIZE=3) each see a world of 1", result.both)
        self.assertFalse(run.exists())


if __name__ == "__main__":
    sys.exit(bed.main(3))
