#!/usr/bin/env python3
"""trireme launch and health through agents, on three hosts without sshd made of namespaces (hosts.sh). Arguments: the binary, a
work folder outside /tmp."""
import os
import shutil
import signal
import sys
import time
import unittest

import bed
from bed import sleepers, wait_for

BED = None  # set by bed.main()


def launch(*words, timeout=240):
    return BED.run(1, BED.binary, "launch", "--agents", "--secret-file", "secret", *words, timeout=timeout)


def agent(host, *words, secret="secret"):
    """An agent that listens."""
    job = BED.start(host, BED.binary, "agent", "--secret-file", secret, *words)
    wait_for(lambda: "waits for" in job.output() or not job.running())
    if not job.running():
        raise AssertionError(job.output())
    return job


def stop_sshd(hosts):
    """A run over ssh to compare with; then no host has an sshd any more. The result of what fails, if anything does."""
    (hosts.work / "two").write_text("h1 slots=2\nh2 slots=2\n")
    config, _ = hosts.write_training("ssh", batch=8)
    result = hosts.run(1, hosts.binary, "launch", "-f", "two", "--", "train", config)
    if result.returncode != 0:
        return result
    for host in (1, 2, 3):
        os.kill(int((hosts.folder / f"h{host}.sshd").read_text()), signal.SIGTERM)
    made = hosts.run(1, hosts.binary, "agent", "--new-secret", "secret")
    return made if made.returncode != 0 else None


class Agents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (BED.work / "hosts").write_text("h1 slots=1\nh2 slots=1\nh3 slots=1\n")
        cls.agents = [agent(2), agent(3)]

    @classmethod
    def tearDownClass(cls):
        for job in cls.agents:
            job.end()

    def assert_fails_before_start(self, result, *texts):
        self.assertEqual(result.returncode, 2, result.both)
        for text in texts:
            self.assertIn(text, result.both)
        self.assertNotIn("RAN", result.stdout)

    def other_agent(self, *words, **more):
        job = agent(*words, **more)
        self.addCleanup(job.end)
        return job

    def test_training_gives_the_losses_of_ssh(self):
        config, run = BED.write_training("agents", batch=8)
        result = launch("-f", "two", "--", "train", config)
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("preflight: 2 hosts agree; network 10.77.0.0/24, TCP", result.both)
        self.assertEqual(len(bed.losses(run)), 20)
        self.assertEqual(bed.losses(run), bed.losses(BED.work / "run-ssh"))

    def test_output_environment_and_folder_are_the_same_as_with_ssh(self):
        result = launch("-f", "hosts", "--env", "WORD=two words", "--program", "--", "sh", "-c",
                        'echo "$(hostname) $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $PWD $WORD ${TRIREME_AGENT_SECRET-none}"')
        self.assertEqual(result.returncode, 0, result.both)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         [f"h{i + 1}[{i}] h{i + 1} {i}/3 {BED.work} two words none" for i in range(3)])

    def test_the_secret_may_come_from_the_environment(self):
        secret = (BED.work / "secret").read_text().strip()
        result = BED.run(1, "env", f"TRIREME_AGENT_SECRET={secret}", BED.binary, "launch", "--agents", "--hosts", "h2,h3",
                         "--program", "--", "hostname")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertEqual(sorted(result.stdout.splitlines()), ["h2[0] h2", "h3[1] h3"])

    def test_the_job_ends_with_the_first_failure_and_its_code(self):
        result = launch("-f", "hosts", "--program", "--", "sh", "-c",
                        '[ $OMPI_COMM_WORLD_RANK = 1 ] && { echo "error: disk on fire" >&2; exit 3; }; sleep 30')
        self.assertEqual(result.returncode, 3, result.both)
        self.assertIn("error: launch: first failure: h2[1] error: disk on fire", result.both)

    def test_a_stop_gives_a_snapshot_and_code_75(self):
        config, run = BED.write_training("stop", **bed.FOREVER)
        job = BED.start(1, BED.binary, "launch", "--agents", "--secret-file", "secret", "-f", "hosts", "--", "train", config)
        self.addCleanup(job.end)
        self.assertTrue(wait_for(lambda: len(bed.records(run)) > 2 or not job.running()), job.output())
        job.signal(signal.SIGTERM)
        code, text = job.finish()
        self.assertEqual(code, 75, text)
        self.assertTrue(bed.has_snapshot(run))
        self.assertTrue(wait_for(lambda: not bed.ranks(config), 30))

    def test_a_killed_launch_leaves_nothing_running(self):
        mark = "22360.6797"
        job = BED.start(1, BED.binary, "launch", "--agents", "--secret-file", "secret", "-f", "hosts", "--program", "--", "sleep", mark)
        self.assertTrue(wait_for(lambda: len(sleepers(mark)) == 3 or not job.running()) and job.running(), job.output())
        job.end()
        self.assertTrue(wait_for(lambda: not bed.processes(mark), 30), bed.processes(mark))

    def test_a_killed_agent_is_named_with_its_host(self):
        doomed = self.other_agent(2, "--port", "7500")
        (BED.work / "doomed").write_text("h1 slots=1\nh2 slots=1 port=7500\nh3 slots=1\n")
        config, run = BED.write_training("killed", **bed.FOREVER)
        job = BED.start(1, BED.binary, "launch", "--agents", "--secret-file", "secret", "-f", "doomed", "--", "train", config)
        self.addCleanup(job.end)
        self.assertTrue(wait_for(lambda: len(bed.records(run)) > 2 or not job.running()), job.output())
        begin = time.monotonic()
        doomed.end()
        code, text = job.finish(60)
        self.assertEqual(code, 76, text)
        self.assertLess(time.monotonic() - begin, 40)
        self.assertRegex(text, r"rank 1 on h2 was lost|rank 1 \(.*\) on h2 was lost")
        self.assertIn("launch: cannot check whether processes are left: h2: no agent listens on its port 7500; start `trireme agent`",
                      text)
        self.assertTrue(wait_for(lambda: not bed.ranks(config), 30), bed.ranks(config))

    def test_an_agent_that_is_asked_to_exit_ends_what_it_runs(self):
        job = self.other_agent(2, "--port", "7501")
        mark = "24494.8974"
        shell = BED.start(1, BED.binary, "remote-shell", "--agents", "--secret-file", "secret", "--agent-port", "7501", "--", "h2", f"sleep {mark}")
        self.addCleanup(shell.end)
        self.assertTrue(wait_for(lambda: sleepers(mark) or not shell.running()) and shell.running(), shell.output())
        job.signal(signal.SIGTERM)
        code, text = job.finish(20)
        self.assertEqual(code, 0, text)
        self.assertIn("agent: asked to end; ending 1 command", text)
        self.assertFalse(sleepers(mark))
        code, text = shell.finish(20)
        self.assertEqual(code, 255)
        self.assertIn("error: host h2: the connection to its agent was lost", text)

    def test_streams_and_exit_code_are_passed(self):
        data = os.urandom(5_000_000)
        (BED.work / "bytes").write_bytes(data)
        result = BED.run(1, "sh", "-c", f"{BED.binary} remote-shell --agents --secret-file secret -- h2 'cat; echo done >&2; exit 7' "
                                        "<bytes >bytes.back")
        self.assertEqual((result.returncode, result.stderr), (7, "done\n"))
        self.assertEqual((BED.work / "bytes.back").read_bytes(), data)

    def test_missing_agents_and_another_secret_are_named_before_the_start(self):
        BED.run(1, BED.binary, "agent", "--new-secret", "other")
        stranger = self.other_agent(3, "--port", "7502", secret="other")
        (BED.work / "wrong").write_text("h1\nh2 port=7999\nh3 port=7502\n")
        result = launch("-f", "wrong", "--program", "--", "echo", "RAN")
        self.assert_fails_before_start(
            result, "preflight: h2: no agent listens on its port 7999; start `trireme agent` there",
            "preflight: h3: its agent has another secret; give the same secret to every agent and to launch",
            "2 problems on 3 hosts; nothing was started")
        self.assertTrue(wait_for(lambda: "agent: refused 10.77.0.1: it has another secret" in stranger.output(), 10), stranger.output())
        result = launch("--hosts", "h1,h9", "--program", "--", "echo", "RAN")
        self.assert_fails_before_start(result, "preflight: h9: its name cannot be resolved on this host; correct the hostfile, or add h9 to DNS")

    def test_a_host_that_is_down_is_named_within_the_limit(self):
        BED.script("link", BED.folder, 3, "down")
        try:
            begin = time.monotonic()
            result = launch("-f", "hosts", "--connect-timeout", "3", "--program", "--", "echo", "RAN")
        finally:
            BED.script("link", BED.folder, 3, "up")
        self.assert_fails_before_start(result, "preflight: h3: its agent's port 7422 ")
        self.assertLess(time.monotonic() - begin, 30)

    def test_agents_that_start_later_are_waited_for(self):
        job = BED.start(1, BED.binary, "launch", "--agents", "--secret-file", "secret", "--hosts", "h1,h2,h3", "--agent-port", "7503",
                        "--wait-for-agents", "120", "--program", "--", "hostname")
        self.addCleanup(job.end)
        self.other_agent(2, "--port", "7503")
        self.assertTrue(wait_for(lambda: "waiting for" in job.output()), job.output())
        self.other_agent(3, "--port", "7503", "--listen", "10.77.0.3")
        code, text = job.finish(60)
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"waiting for 1 of 3 agents: h3; up to 1\d\d s more")
        self.assertIn("h3[2] h3\n", text)

    def test_wrong_flags_and_secrets_are_refused_at_once(self):
        (BED.work / "open").write_text("x" * 40)
        (BED.work / "open").chmod(0o644)
        for words, text in ((("--agents",), "agents: the secret is missing: set --secret-file or TRIREME_AGENT_SECRET"),
                            (("--agents", "--secret-file", "open"), "secret file open: its mode is 0644, so others may read it"),
                            (("--secret-file", "secret"), "--secret-file needs --agents"),
                            (("--agents", "--secret-file", "secret", "--host-key", "yes"), "--host-key is for ssh; remove it, or remove --agents")):
            for command in (("launch", "--hosts", "h1,h2", *words, "--program", "--", "true"), ("health", "--hosts", "h1,h2", *words)):
                result = BED.run(1, BED.binary, *command)
                self.assertEqual(result.returncode, 2, result.both)
                self.assertIn(text, result.both)
        result = BED.run(1, BED.binary, "health", "--agents", "--secret-file", "secret")
        self.assertIn("--agents is for other hosts; name them with -f, --hosts, --sinfo or --slurm", result.both)

    def test_preflight_and_health_look_through_agents(self):
        result = launch("-f", "hosts", "--preflight-only")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("preflight: 3 hosts agree", result.both)
        (BED.work / "nhc.conf").write_text("h3 || check_file_test -f /etc/no-such-file\n")
        result = BED.run(1, BED.binary, "health", "--agents", "--secret-file", "secret", "-f", "hosts", "-c", "nhc.conf")
        self.assertEqual(result.returncode, 1, result.both)
        self.assertRegex(result.both, r"h3 \| ERROR: .*no-such-file")
        self.assertNotIn("h2 | ERROR", result.both)

    def test_the_dry_run_can_be_pasted(self):
        result = launch("-f", "hosts", "--dry-run", "--preflight-only", "--program", "--", "hostname")
        self.assertIn(f"{BED.binary} remote-shell --agents --secret-file {BED.work}/secret --agent-port 7422 ", result.stdout)
        pasted = BED.run(1, "sh", "-c", result.stdout)
        self.assertEqual(pasted.returncode, 0, pasted.both)
        self.assertEqual(sorted(line.rpartition(":")[2].strip() for line in pasted.stdout.splitlines()), ["h1", "h2", "h3"])

    @unittest.skipUnless(shutil.which("mpiexec.hydra"), "no Hydra")
    def test_hydra_starts_its_daemons_through_agents(self):
        script = BED.work / "hydra-shell"
        script.write_text(f'#!/bin/sh\nexec {BED.binary} remote-shell --agents --secret-file {BED.work}/secret --daemon-mark x -- "$@"\n')
        script.chmod(0o755)
        result = BED.run(1, "mpiexec.hydra", "-hosts", "h1,h2,h3", "-n", "3", "-ppn", "1", "-launcher", "ssh", "-launcher-exec", script,
                         "-genv", "WORD", "two words", "sh", "-c", 'echo "$(hostname) $WORD"')
        self.assertEqual(result.returncode, 0, result.both)
        self.assertEqual(sorted(result.stdout.splitlines()), [f"h{i} two words" for i in (1, 2, 3)])

    def test_the_help_teaches(self):
        result = BED.run(1, BED.binary, "agent", "--help")
        self.assertEqual(result.returncode, 0)
        for text in ("trireme agent --new-secret secret", "trireme agent --secret-file secret",
                     "trireme launch --agents --secret-file secret -f hosts -- train config.yaml", "TRIREME_AGENT_SECRET", "TLS 1.3"):
            self.assertIn(text, result.stdout)
        again = BED.run(1, BED.binary, "agent", "--new-secret", "secret")
        self.assertEqual(again.returncode, 1)
        self.assertIn("secret file secret: it exists already; use it or remove it first", again.both)


if __name__ == "__main__":
    sys.exit(bed.main(3, stop_sshd))
