#!/usr/bin/env python3
"""Batch jobs and node checks under a real Slurm (slurm.sh): two nodes, each a host of its own. Arguments: the program, a work folder."""
import json
import sys
import time
import unittest

import bed

BED = None  # set by bed.main()


def slurm(*words, host=1):
    return BED.run(host, *words)


def submit(config, *words):
    result = slurm(BED.binary, "slurm", "--nodes", "2", *words, "--submit", "--", "train", config)
    assert result.returncode == 0, result.both
    return result.stdout.strip()


def output(job):
    text = (BED.work / f"slurm-{job}.out").read_text()
    return "\n".join(line for line in text.splitlines() if " | loss " not in line and "snapshot of" not in line)


def steps(run):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [record["step"] for record in records if "loss" in record]


class Slurm(unittest.TestCase):
    def setUp(self):
        self.addCleanup(slurm, "scancel", "--user=root")
        # "plnd" is a node that a job waits for, one that an earlier test has left.
        self.assertTrue(bed.wait_for(lambda: set(slurm("sinfo", "-h", "-N", "-o", "%t").stdout.split()) == {"idle"}),
                        slurm("sinfo", "-R").both)

    def assert_ends(self, job, state, seconds=240):
        self.assertTrue(bed.wait_for(lambda: BED.job_state(job).get("JobState") == state, seconds), (BED.job_state(job).get("JobState"), output(job)))

    def test_srun_joins_ranks_of_two_nodes(self):
        config, run = BED.write_training("srun")
        result = slurm("srun", "--mpi=pmix", "--nodes=2", "--ntasks=2", BED.binary, "train", config)
        self.assertEqual(result.returncode, 0, result.both)
        self.assertTrue((run / "step-00000020/manifest.json").exists(), result.both)
        self.assertIn("2 ranks x 3 micro-batches", result.both)

    def test_srun_without_pmi_is_refused(self):
        config, run = BED.write_training("alone")
        result = slurm("srun", "--mpi=none", "--nodes=2", "--ntasks=2", BED.binary, "train", config)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("each train alone: srun gave them no PMI; start with `srun --mpi=pmix`", result.both)
        self.assertFalse(run.exists())

    def stop_and_come_back(self, name, cancel, *words):
        config, run = BED.write_training(name, **{**bed.FOREVER, "every": 50})
        job = submit(config, *words)
        self.assertTrue(bed.wait_for(lambda: bed.has_snapshot(run)), output(job))
        slurm("scancel", *cancel, "--signal=USR1", job)
        self.assertTrue(bed.wait_for(lambda: BED.is_requeued(job)), output(job))
        stopped = json.loads((run / "status.json").read_text())
        self.assertEqual((stopped["state"], stopped["code"]), ("stopped", 75), output(job))
        self.assertGreaterEqual(stopped["step"], 50)
        last = stopped["step"] + 100
        text = (BED.work / config).read_text()
        (BED.work / config).write_text(text.replace(f"steps: {bed.FOREVER['steps']}", f"steps: {last}"))
        BED.start_again(job, 2)
        self.assert_ends(job, "COMPLETED")
        self.assertEqual(json.loads((run / "status.json").read_text())["state"], "done", output(job))
        self.assertIn(f"RESUMING from {run}/step-{stopped['step']:08}", output(job))
        # The next batch is the one that the stopped run would have taken: no step twice, none left out.
        self.assertEqual(steps(run), list(range(1, last + 1)))
        return output(job)

    def test_jobs_that_could_never_train_are_refused(self):
        config, run = BED.write_training("refused")
        for words, command, said in (
                (("--time", "2"), ("train", config), "the job would be requeued again and again without training"),
                (("--nodes", "9"), ("train", config), "the default partition has only 2 nodes, so the job would wait forever"),
                ((), ("trian", config), '"trian" is not a command of trireme; nearest is "train"'),
                ((), ("train", "absent.yaml"), "absent.yaml")):
            result = slurm(BED.binary, "slurm", *words, "--submit", "--", *command)
            self.assertEqual(result.returncode, 2, result.both)
            self.assertIn(said, result.both)
        self.assertEqual(slurm("squeue", "-h").stdout, "")

    def test_limits_of_the_partition_are_asked_before_a_job_is_submitted(self):
        config, run = BED.write_training("limits")
        for words, said in ((("-p", "small", "--time", "60"), "--time 60: partition small runs jobs of at most 10 min, so the job would wait"),
                            (("-p", "small", "--nodes", "2"), "--nodes 2: partition small runs jobs of at most 1 node"),
                            (("--ntasks-per-node", "99"), "--ntasks-per-node 99: 99 CPUs needed on each of 1 node"),
                            (("--mem", "999G"), "--mem 999G: "), (("-p", "nowhere"), "partition nowhere has no nodes (others are all, small)"),
                            (("-o", "d%j/x"), "--output: the folder d%j contains %, which Slurm replaces")):
            result = slurm(BED.binary, "slurm", *words, "--submit", "--", "train", config)
            self.assertEqual(result.returncode, 2, result.both)
            self.assertIn(said, result.both)
        self.assertEqual(slurm("squeue", "-h").stdout, "")

    def test_the_folder_of_the_output_of_a_job_is_created(self):
        config, run = BED.write_training("output-folder", steps=3)
        result = slurm(BED.binary, "slurm", "-o", "made/x-%j.out", "--submit", "--", "train", config)
        self.assertEqual(result.returncode, 0, result.both)
        job = result.stdout.strip()
        self.assertTrue(bed.wait_for(lambda: BED.job_state(job).get("JobState") == "COMPLETED"), BED.job_state(job))
        self.assertIn("done at step 3", (BED.work / f"made/x-{job}.out").read_text())

    def test_idle_nodes_are_offered_and_others_on_request(self):
        job = slurm("sbatch", "--parsable", "--nodelist=h2", "--output=/dev/null", "--wrap=sleep 600").stdout.strip()
        try:
            self.assertTrue(bed.wait_for(lambda: BED.node_state("h2")[0] == "alloc"), BED.job_state(job))
            shown = slurm(BED.binary, "hosts", "--sinfo", "--to", "list")
            self.assertEqual(shown.stdout, "h3\n", shown.both)
            self.assertIn("skipped h2: allocated (use it with --states alloc)", shown.stderr)
            shown = slurm(BED.binary, "hosts", "--sinfo", "--states", "idle,alloc", "--to", "list")
            self.assertEqual(sorted(shown.stdout.split()), ["h2", "h3"], shown.both)
        finally:
            slurm("scancel", job)

    def test_launch_in_a_heterogeneous_job_is_refused(self):
        result = slurm("salloc", "-N1", "-n1", ":", "-N1", "-n1", BED.binary, "launch", "--slurm", "--program", "--", "echo", "RAN")
        self.assertNotIn("RAN", result.stdout)
        self.assertRegex(result.both, r"the Slurm job has 2 components, but ranks can start only in the first one \(h[23]\), not on h[23]")

    def test_mpirun_in_a_job_is_named_as_the_launcher_asked_for(self):
        result = slurm("salloc", "-N1", "-n1", BED.binary, "launch", "--slurm", "--starter", "openmpi", "--dry-run", "--program", "--", "true")
        self.assertIn("because Open MPI is installed here and --starter openmpi asks for it", result.both)

    def test_a_job_outlives_a_lost_node(self):
        config, run = BED.write_training("outlives", **{**bed.FOREVER, "every": 50})
        job = submit(config)
        self.assertTrue(bed.wait_for(lambda: bed.has_snapshot(run)), output(job))
        # Slurm 22.05 may count a node that returned while it ended the job there as occupied for good.
        self.addCleanup(BED.script, "restart", BED.folder, 3, name="slurm.sh")
        self.addCleanup(slurm, "scancel", job)
        BED.script("crash", BED.folder, 3)
        self.assertTrue(bed.wait_for(lambda: BED.job_state(job).get("Restarts") == "1"), output(job))
        # A node that returns while Slurm still ends the job on it stays occupied for Slurm, although it shows it as idle.
        self.assertTrue(bed.wait_for(lambda: BED.node_state("h3")[0] == "down" and BED.job_state(job).get("JobState") == "PENDING"), BED.job_state(job))
        # Slurm 24.11 may requeue the job for the lost node before the batch script does.
        self.assertRegex(output(job), "trireme: code 76: requeueing job|DUE TO NODE FAILURE")
        self.assertIn("rank 1 on h3 was lost", output(job))
        last = json.loads((run / "status.json").read_text())["step"] + 200
        text = (BED.work / config).read_text()
        (BED.work / config).write_text(text.replace(f"steps: {bed.FOREVER['steps']}", f"steps: {last}"))
        BED.script("boot", BED.folder, 3)
        BED.script("join", BED.folder, 3, name="slurm.sh")
        self.assertTrue(bed.wait_for(lambda: slurm("sinfo", "-h", "-r", "-t", "idle", "-o", "%D").stdout.strip() == "2"), slurm("sinfo", "-R").both)
        self.assertTrue(bed.wait_for(lambda: BED.job_state(job).get("JobState") == "PENDING"), BED.job_state(job))
        ended = int(time.time())
        self.assertTrue(bed.wait_for(lambda: int(time.time()) > ended))
        slurm("scontrol", "update", f"JobId={job}", "StartTime=now")
        self.assert_ends(job, "COMPLETED")
        self.assertIn("trireme: restart 1 of 3 after a lost rank or node, on h[2-3]", output(job))
        self.assertIn(f"RESUMING from {run}/step-", output(job))
        # By the batch script, or by Slurm for the lost node: whoever was first.
        self.assertIn((run / f"slurm-{job}.restarts").read_text(), ("76\n", "node\n"))
        self.assertEqual(json.loads((run / "status.json").read_text())["state"], "done")

    def test_a_job_that_checks_its_nodes_first_does_not_start_on_a_sick_one(self):
        (BED.work / "only-h2.conf").write_text("* || check_hw_eth eth0\nh3 || check_hw_eth ib0\n")
        config, run = BED.write_training("looks")
        result = slurm(BED.binary, "slurm", "--nodes", "2", "--health", "only-h2.conf", "--nodelist", "h[2-3]", "--sbatch=--comment=x",
                       "--submit", "--", "train", config)
        self.assertEqual(result.returncode, 0, result.both)
        job = result.stdout.strip()
        self.assert_ends(job, "FAILED")
        self.assertIn("h3: health check failed: check_hw_eth: no network interface ib0", output(job))
        self.assertEqual(BED.job_state(job)["Comment"], "x")
        self.assertFalse(run.exists())

    def test_a_job_is_warned_requeued_and_resumed(self):
        self.stop_and_come_back("sbatch", [])

    def test_launch_inside_a_job_receives_the_warning_of_the_batch_shell(self):
        text = self.stop_and_come_back("launch", ["--batch"], "--starter", "mpirun")
        self.assertIn("starting through /usr/bin/srun (pmix)", text)
        self.assertIn("the job's control channel received the request", text)
        self.assertRegex(text, r"launch: requeueing job \d+")

    def test_a_job_ended_by_trireme_stop_is_not_requeued(self):
        for name, words in (("asked-srun", ()), ("asked-launch", ("--starter", "mpirun"))):
            config, run = BED.write_training(name, **{**bed.FOREVER, "every": 50})
            job = submit(config, *words)
            self.assertTrue(bed.wait_for(lambda: bed.has_snapshot(run)), output(job))
            # From the login node: rank 0 and the launch are on another.
            shown = slurm(BED.binary, "status", run)
            self.assertRegex(shown.stdout, r"job +2 ranks, rank 0 is process \d+ on h2, ", shown.both)
            self.assertEqual("launch  " in shown.stdout, bool(words), shown.stdout)
            stopped = slurm(BED.binary, "stop", run)
            self.assertEqual(stopped.returncode, 0, stopped.both)
            self.assertRegex(stopped.stdout, r"^stopped after step \d+, ")
            self.assert_ends(job, "FAILED")
            state = BED.job_state(job)
            self.assertEqual((state["ExitCode"], state["Restarts"]), ("75:0", "0"), output(job))
            self.assertIn("stop requested by trireme stop (root on h1): saving after step", output(job))
            self.assertNotIn("queueing job", output(job))

    def test_fine_tuning_ended_by_trireme_stop_is_not_requeued(self):
        model, rows = BED.write_bert(), BED.work / "RTE"
        rows.mkdir(exist_ok=True)
        (rows / "train.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(
            f"{i}\tw{i % 7} w{i % 5}\tw{i % 3}\t{('entailment', 'not_entailment')[i % 2]}\n" for i in range(200)))
        out = BED.work / "asked-glue"
        result = slurm(BED.binary, "slurm", "--nodes", "2", "--submit", "--", "glue", "--model_name_or_path", model, "--task_name", "rte",
                       "--data_dir", rows, "--do_train", "--max_seq_length", "16", "--per_device_train_batch_size", "4", "--max_steps", "1000000",
                       "--save_steps", "50", "--logging_steps", "1000", "--output_dir", out, "--launch.threads", "1")
        self.assertEqual(result.returncode, 0, result.both)
        job = result.stdout.strip()
        self.assertTrue(bed.wait_for(lambda: list(out.glob("**/manifest.json"))), output(job))
        stopped = slurm(BED.binary, "stop", out)
        self.assertEqual(stopped.returncode, 0, stopped.both)
        self.assert_ends(job, "FAILED")
        state = BED.job_state(job)
        self.assertEqual((state["ExitCode"], state["Restarts"]), ("75:0", "0"), output(job))
        self.assertFalse(json.loads((out / "status.json").read_text())["requeue"])

    def test_a_sick_node_is_drained_and_resumed_by_slurm_itself(self):
        well = BED.work / "h2.well"
        well.unlink()
        try:
            self.assertTrue(bed.wait_for(lambda: BED.node_state("h2")[0] == "drain"), BED.node_state("h2"))
            self.assertEqual(BED.node_state("h2")[1], f"NHC: check_file_test: {well} should be a plain file")
            self.assertEqual(BED.node_state("h3")[0], "idle")
        finally:
            well.touch()
        self.assertTrue(bed.wait_for(lambda: BED.node_state("h2")[0] == "idle"), BED.node_state("h2"))

    def drained_by(self, hook):
        """The reason with which this hook alone took h2 out of service while a job ran there."""
        flag, reasons = BED.work / f"h2.{hook}", []

        def is_out():
            state, reason = BED.node_state("h2")
            if state in ("drain", "drng"):
                reasons.append(reason)
            return bool(reasons)

        (BED.work / "no-periodic-checks").touch()
        # One that is under way would bring the node back.
        self.assertTrue(bed.wait_for(lambda: not bed.processes("h2.well")))
        flag.unlink()
        try:
            job = slurm("sbatch", "--parsable", "--nodelist=h2", "--output=/dev/null", "--wrap=true").stdout.strip()
            self.assertTrue(bed.wait_for(is_out), (BED.node_state("h2"), BED.job_state(job)))
        finally:
            flag.touch()
            slurm("scancel", "--user=root")
            (BED.work / "no-periodic-checks").unlink()
        return reasons[0]

    def test_an_epilog_takes_a_node_out_after_a_job(self):
        self.assertEqual(self.drained_by("epilog"), f"NHC: check_file_test: {BED.work}/h2.epilog should be a plain file")
        self.assertTrue(bed.wait_for(lambda: BED.node_state("h2")[0] == "idle"), BED.node_state("h2"))

    def test_a_prolog_keeps_jobs_off_a_sick_node(self):
        self.assertEqual(self.drained_by("prolog"), f"NHC: check_file_test: {BED.work}/h2.prolog should be a plain file")
        self.assertTrue(bed.wait_for(lambda: BED.node_state("h2")[0] == "idle"), BED.node_state("h2"))

    def test_health_resumes_the_nodes_that_it_drained_through_sinfo(self):
        flag = BED.work / "h2.sinfo"
        (BED.work / "sinfo.conf").write_text(f"h2 || check_file_test -f {flag}\n* || check_hw_eth eth0\n")
        words = ("health", "--sinfo", "-c", "sinfo.conf", "--drain")
        (BED.work / "no-periodic-checks").touch()
        try:
            self.assertTrue(bed.wait_for(lambda: not bed.processes("h2.well")))
            dry = slurm(BED.binary, *words, "--dry-run")
            self.assertEqual(dry.returncode, 1, dry.both)
            self.assertIn(f"h2 in Slurm: would be drained: NHC: check_file_test: {flag}", dry.both)
            self.assertEqual(BED.node_state("h2")[0], "idle")
            sick = slurm(BED.binary, *words)
            self.assertIn("h2 in Slurm: drained: NHC: ", sick.both)
            self.assertEqual(BED.node_state("h2")[0], "drain")
            other = slurm(BED.binary, "health", "-e", "check_hw_eth eth0", "--drain", host=2)
            self.assertEqual(other.returncode, 0, other.both)
            self.assertIn("because `check_file_test` did not run", other.both)
            self.assertEqual(BED.node_state("h2")[0], "drain")
            flag.touch()
            well = slurm(BED.binary, *words)
            self.assertEqual(well.returncode, 0, well.both)
            self.assertIn("h2 in Slurm: resumed", well.both)
            self.assertTrue(bed.wait_for(lambda: BED.node_state("h2")[0] == "idle"), BED.node_state("h2"))
        finally:
            slurm("scontrol", "update", "NodeName=h2", "State=RESUME")
            (BED.work / "no-periodic-checks").unlink()

    def test_a_job_whose_prolog_fails_ends_on_healthy_nodes(self):
        """With nohold_on_prolog_fail, which docs/health.md asks for: without it the job is held for good."""
        flags = [BED.work / f"h2.{hook}" for hook in ("prolog", "epilog")]  # the epilog, too, finds the node sick
        (BED.work / "no-periodic-checks").touch()
        self.assertTrue(bed.wait_for(lambda: not bed.processes("h2.well")))
        for flag in flags:
            flag.unlink()
        try:
            job = slurm("sbatch", "--parsable", "--nodes=1", "--output=slurm-%j.out", "--wrap=hostname").stdout.strip()
            self.assertTrue(bed.wait_for(lambda: BED.node_state("h2")[0] in ("drain", "drng")), (BED.node_state("h2"), BED.job_state(job)))
            # Slurm itself waits two minutes before it starts a job again.
            self.assertTrue(bed.wait_for(lambda: BED.job_state(job).get("JobState") == "PENDING"), BED.job_state(job))
            self.assertNotEqual(BED.job_state(job).get("Reason"), "launch_failed_requeued_held")
            slurm("scontrol", "update", f"JobId={job}", "StartTime=now")
            self.assert_ends(job, "COMPLETED")
            self.assertEqual(output(job), "h3", slurm("scontrol", "show", "job", job).stdout)
        finally:
            slurm("scancel", "--user=root")
            # A hook that is still under way would drain the node again after this test.
            bed.wait_for(lambda: not slurm("squeue", "-h").stdout and not bed.processes("h2.epilog") and not bed.processes("h2.prolog"))
            for flag in flags:
                flag.touch()
            slurm("scontrol", "update", "NodeName=h2", "State=RESUME")
            (BED.work / "no-periodic-checks").unlink()

    def test_launch_in_a_job_excludes_a_sick_node(self):
        (BED.work / "nhc.conf").write_text("* || check_hw_eth eth0\nh3 || check_hw_eth ib0\n")
        config, run = BED.write_training("without-h3")
        script = f"#!/bin/sh\nexec {BED.binary} launch --health nhc.conf --drop-bad-hosts -- train {config}\n"
        (BED.work / "job.sh").write_text(script)
        job = slurm("sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=1", "job.sh").stdout.strip()
        self.assert_ends(job, "COMPLETED")
        self.assertIn("h3: health check failed: check_hw_eth: no network interface ib0", output(job))
        self.assertIn("continuing without 1 of 2 hosts", output(job))
        self.assertEqual(json.loads((run / "status.json").read_text())["state"], "done", output(job))

    def test_a_drain_reason_set_by_a_person_is_kept(self):
        slurm("scontrol", "update", "NodeName=h3", "State=DRAIN", "Reason=disk swap, ask Ann")
        try:
            for check in ("check_hw_eth eth0", "check_hw_eth ib9"):
                result = slurm(BED.binary, "health", "-e", check, "--drain", host=3)
                self.assertIn("not changed: the node is drain", result.both)
                self.assertEqual(BED.node_state("h3"), ("drain", "disk swap, ask Ann"))
        finally:
            slurm("scontrol", "update", "NodeName=h3", "State=RESUME")


def start_slurm(hosts):
    """Every hook of Slurm looks for a file of its own on its node, so that a test can make each of them find the node sick."""
    hooks = {}
    for hook in ("well", "prolog", "epilog"):
        for node in ("h2", "h3"):
            (hosts.work / f"{node}.{hook}").touch()
        pause = f"[ -e {hosts.work}/no-periodic-checks ] && exit 0\n" if hook == "well" else ""
        hooks[hook] = hosts.work / f"check-{hook}"
        hooks[hook].write_text(
            f"#!/bin/sh\n{pause}export SLURM_CONF={hosts.folder}/slurm.conf PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
            f"exec {hosts.binary} health -e \"check_file_test -f {hosts.work}/$(hostname).{hook}\" --drain\n")
        hooks[hook].chmod(0o755)
    hosts.environment["SLURM_CONF"] = str(hosts.folder / "slurm.conf")
    return hosts.script("up", hosts.folder, 3, hooks["well"], hooks["prolog"], hooks["epilog"], check=False, name="slurm.sh")


if __name__ == "__main__":
    sys.exit(bed.main(3, start_slurm))
