#!/usr/bin/env python3
"""trireme launch on three hosts made of namespaces (hosts.sh). Arguments: the binary, a work folder outside /tmp."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import bed
from bed import wait_for

BED = None  # set by bed.main()


def launch(*words, timeout=60):
    return BED.run(1, BED.binary, "launch", *words, timeout=timeout)


def start(*words):
    return BED.start(1, BED.binary, "launch", *words)


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (BED.work / "hosts").write_text("h1 slots=1\nh2 slots=1\nh3 slots=1\n")

    def assert_fails_before_start(self, result, *texts):
        self.assertEqual(result.returncode, 2, result.both)
        for text in texts:
            self.assertIn(text, result.both)
        self.assertIn("nothing was started", result.both)
        self.assertNotIn("RAN", result.stdout)

    def test_ranks_run_on_every_host_and_every_line_names_host_and_rank(self):
        result = launch("-f", "hosts", "--env", "WORD=two words", "--program", "--", "sh", "-c",
                        'echo "$(hostname) $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $WORD"')
        self.assertEqual(result.returncode, 0, result.both)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         [f"h{i + 1}[{i}] h{i + 1} {i}/3 two words" for i in range(3)])
        self.assertIn("network 10.77.0.0/24, TCP", result.stderr)

    def test_intel_spellings_and_filters(self):
        result = launch("-hostfile", "hosts", "-n", "4", "-ppn", "2", "-genv", "A", "b", "--exclude", "h2", "--program",
                        "--", "sh", "-c", "echo $(hostname) $A")
        # one slot per host: asking for more is an error that says where the slot count stands
        self.assertEqual(result.returncode, 2)
        self.assertIn('--ppn 2: host "h1" has 1 slots (hosts:1)', result.both)
        result = launch("--hosts", "h1:2,h[2-3]:2", "--exclude", "h2", "-genv", "A", "b", "--program", "--", "sh", "-c",
                        "echo $(hostname) $A")
        self.assertEqual(sorted(result.stdout.splitlines()), ["h1[0] h1 b", "h1[1] h1 b", "h3[2] h3 b", "h3[3] h3 b"])

    def test_a_host_without_a_count_gets_a_rank_per_socket(self):
        result = BED.run(1, "env", "HWLOC_SYNTHETIC=package:2 core:1 pu:1", BED.binary, "launch", "--hosts", "localhost", "--",
                         "bench", "comm", "all_reduce", "-b", "1K", "-e", "1K", "-n", "2")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("preflight: 2 ranks, one per socket; --ppn chooses", result.stderr)
        self.assertIn("# ranks 2 ", result.stdout)

    def test_dry_run_prints_the_command_and_starts_nothing(self):
        result = launch("-f", "hosts", "--dry-run", "--program", "--", "echo", "RAN")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("h2 slots=1\n", result.stdout)
        self.assertIn(f"--mca plm_rsh_agent '{BED.binary} remote-shell --host-key yes", result.stdout)
        self.assertTrue(result.stdout.splitlines()[-1].endswith("echo RAN"))

    def test_missing_hostfile_is_an_error(self):
        result = launch("-f", "nowhere", "--program", "--", "echo", "RAN")
        self.assertEqual(result.returncode, 1)
        self.assertIn("hostfile nowhere does not exist; nothing was started", result.both)

    def test_duplicate_host_is_named_with_its_line(self):
        (BED.work / "twice").write_text("h1\r\nh2\r\n# note\r\nh1")
        result = launch("-f", "twice", "--program", "--", "echo", "RAN")
        self.assertEqual(result.returncode, 2)
        self.assertIn('twice:4: host "h1" is listed again, first by twice:1', result.both)

    def test_one_machine_under_two_names_is_found(self):
        result = launch("--hosts", "h1,h2,10.77.0.2", "--program", "--", "echo", "RAN")
        self.assert_fails_before_start(result, "10.77.0.2: it is the same machine as h2")

    def test_every_unreachable_host_is_named_at_once_with_its_fix(self):
        known = BED.folder / "h1.home/.ssh/known_hosts"
        before = known.read_text()
        keys = BED.folder / "h2.home/.ssh/authorized_keys"
        try:
            known.write_text("".join(line for line in before.splitlines(True) if not line.startswith("h3,")))
            keys.rename(keys.with_suffix(".off"))
            result = launch("--hosts", "h1,h2,h3,h9", "--program", "--", "echo", "RAN")
        finally:
            known.write_text(before)
            keys.with_suffix(".off").rename(keys)
        self.assert_fails_before_start(result, "h2: it asks for a password or refuses our key; install a key: `ssh-copy-id h2`",
                                       "h3: its host key is unknown; connect once with `ssh h3`, or pass --host-key accept-new",
                                       "h9: its name is not known here", "3 problem(s) on 4 hosts")

    def test_changed_host_key_is_told_apart_and_unknown_ones_can_be_learned(self):
        known = BED.folder / "h1.home/.ssh/known_hosts"
        before = known.read_text()
        lines = before.splitlines(True)
        try:
            swapped = lines[1].split(" ", 1)[0] + " " + lines[2].split(" ", 1)[1]
            known.write_text(lines[0] + swapped + lines[2])
            result = launch("--hosts", "h1,h2", "--program", "--", "echo", "RAN")
            self.assert_fails_before_start(result, "h2: its host key is not the one in known_hosts")
            known.write_text(lines[0])
            result = launch("--hosts", "h1,h2", "--host-key", "accept-new", "--program", "--", "echo", "RAN")
            self.assertEqual(result.returncode, 0, result.both)
        finally:
            known.write_text(before)
        result = launch("--hosts", "h1,h2", "--host-key", "no", "--program", "--", "echo", "RAN")
        self.assertEqual(result.returncode, 2)
        self.assertIn("expected yes or accept-new; host keys are always checked", result.both)

    def test_login_noise_is_told_apart(self):
        noise = BED.folder / "h2.home/.bashrc"
        noise.write_text("echo welcome to h2\n")
        try:
            result = launch("--hosts", "h1,h2", "--program", "--", "echo", "RAN")
        finally:
            noise.unlink()
        self.assert_fails_before_start(result, 'h2: its shell prints "welcome to h2" at login')

    def test_a_host_that_is_cut_off_is_named(self):
        BED.script("link", BED.folder, 3, "down")
        try:
            result = launch("-f", "hosts", "--connect-timeout", "2", "--program", "--", "echo", "RAN")
            self.assertEqual(result.returncode, 2, result.both)
            self.assertRegex(result.both, "h3: (it does not answer|no route leads to it)")
            result = launch("-f", "hosts", "--connect-timeout", "2", "--drop-bad-hosts", "--program", "--", "hostname")
            self.assertEqual(result.returncode, 0, result.both)
            self.assertEqual(sorted(result.stdout.split()), ["h1", "h1[0]", "h2", "h2[1]"])
        finally:
            BED.script("link", BED.folder, 3, "up")

    def test_another_binary_on_a_host_is_found(self):
        other = BED.work / "other"
        shutil.copy(BED.binary, other)
        with open(other, "ab") as file:
            file.write(b"x")
        BED.script("run", BED.folder, 2, "mount", "--bind", other, BED.binary)
        try:
            result = launch("-f", "hosts", "--program", "--", "echo", "RAN")
        finally:
            BED.script("run", BED.folder, 2, "umount", BED.binary)
            other.unlink()
        self.assert_fails_before_start(result, "h2: the trireme binary differs", "copy one build to the same path")

    def test_an_indexed_dataset_that_differs_on_a_host_is_found(self):
        for host, text in ((1, "same"), (2, "other"), (3, "same")):
            BED.run(host, "sh", "-c", f"printf {text} >/tmp/x_text_document.bin; printf index >/tmp/x_text_document.idx")
        result = launch("-f", "hosts", "--", "train", "--data.dir", "/tmp", "--data.train", "1 x_text_document")
        self.assert_fails_before_start(result, "h2: /tmp/x_text_document.bin differs", "copy it, or put it on a shared file system")
        self.assertNotIn("x_text_document.idx", result.both)

    def test_a_port_in_use_is_found(self):
        holder = subprocess.Popen(BED.on(2, BED.binary, "node-agent"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            holder.stdin.write('{"do": "listen", "port": 29411}\n')
            holder.stdin.flush()
            self.assertEqual([holder.stdout.readline() for _ in range(2)][1], '{"port":29411}\n')
            result = launch("-f", "hosts", "--port", "29411", "--program", "--", "echo", "RAN")
        finally:
            holder.communicate()
        self.assert_fails_before_start(result, "h2: port 29411: Address already in use")

    def test_a_network_that_is_not_everywhere_is_refused(self):
        result = launch("-f", "hosts", "--interface", "10.99.0.0/16", "--program", "--", "echo", "RAN")
        self.assert_fails_before_start(result, "10.99.0.0/16 is not on every host", "eth0 10.77.0.0/24")

    def test_the_first_failure_is_the_last_thing_said(self):
        result = launch("-f", "hosts", "--program", "--", "sh", "-c",
                        '[ $OMPI_COMM_WORLD_RANK = 1 ] && { echo "error: disk on fire" >&2; exit 3; }; sleep 30')
        self.assertEqual(result.returncode, 3, result.both)
        last = result.stderr.strip().splitlines()[-2:]
        self.assertEqual(last, ["error: launch: first failure: h2[1] error: disk on fire",
                                "error: launch: the job ended with code 3"])

    def test_a_stop_signal_asks_the_ranks_and_waits_for_them(self):
        job = start("-f", "hosts", "--program", "--", "sh", "-c",
                    "trap 'echo asked; exit 75' USR1; echo ready; for i in $(seq 600); do sleep 0.1; done")
        self.assertTrue(wait_for(lambda: job.output().count("ready") == 3 or not job.running()), job.output())
        job.signal(signal.SIGTERM)
        code, text = job.finish()
        self.assertEqual(code, 75, text)
        self.assertIn("asking all ranks to stop", text)
        self.assertIn("asked", text)

    def test_a_lost_peer_is_restarted_and_an_error_is_not(self):
        result = launch("-f", "hosts", "--max-restarts", "2", "--program", "--", "sh", "-c",
                        'echo attempt $TRIREME_ATTEMPT; [ $TRIREME_ATTEMPT = 1 ] || exit 76')
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("the job ended with code 76; restart 1 of 2", result.stderr)
        self.assertIn("h3[2] attempt 1", result.stdout)
        result = launch("-f", "hosts", "--max-restarts", "2", "--program", "--", "sh", "-c", "exit 1")
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("restart", result.stderr)

    def test_a_killed_rank_ends_the_job_and_leaves_nothing_running(self):
        mark = "31415.9265"
        job = start("-f", "hosts", "--program", "--", "sleep", mark)
        self.assertTrue(wait_for(lambda: sum(pathlib.Path(f"/proc/{p}/comm").read_text() == "sleep\n"
                                             for p in bed.processes(mark) if pathlib.Path(f"/proc/{p}/comm").exists()) == 3))
        victim = [p for p in bed.processes(mark) if pathlib.Path(f"/proc/{p}/comm").read_text() == "sleep\n"][0]
        os.kill(victim, signal.SIGKILL)
        code, text = job.finish()
        self.assertNotEqual(code, 0, text)
        self.assertTrue(wait_for(lambda: not bed.processes(mark), 5), bed.processes(mark))

    def test_health_is_asked_before_the_start(self):
        (BED.work / "nhc.conf").write_text("* || check_hw_eth eth0\nh2 || check_hw_eth ib0\n")
        result = launch("-f", "hosts", "--health", "nhc.conf", "--program", "--", "echo", "RAN")
        self.assert_fails_before_start(result, "h2: health check failed: check_hw_eth: no network interface ib0")
        result = launch("-f", "hosts", "--health", "nhc.conf", "--drop-bad-hosts", "--program", "--", "hostname")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertNotIn("h2", result.stdout)

    def test_health_of_every_host_is_one_line_each(self):
        (BED.work / "nhc.conf").write_text("* || check_hw_eth eth0\nh2 || check_hw_eth ib0\n")
        result = BED.run(1, BED.binary, "health", "-c", "nhc.conf", "--hosts", "h[1-3],h9")
        self.assertEqual(result.returncode, 1, result.both)
        self.assertEqual(result.stdout.splitlines()[:3],
                         ["h1 | Healthy", "h2 | ERROR: nhc: Health check failed: check_hw_eth: no network interface ib0",
                          "h3 | Healthy"])
        self.assertIn("h9 | ERROR: No results reported (its name is not known here", result.stdout)

    def test_training_runs_on_three_hosts_over_a_slow_link(self):
        config, run = BED.write_training()
        BED.script("limit", BED.folder, 2, "10mbit")
        try:
            result = launch("-f", "hosts", "--", "train", config, timeout=150)
        finally:
            BED.script("limit", BED.folder, 2, "none")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertTrue((run / "step-00000020/manifest.json").exists(), result.both)


if __name__ == "__main__":
    sys.exit(bed.main(3))
