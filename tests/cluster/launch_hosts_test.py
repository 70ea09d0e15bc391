#!/usr/bin/env python3
"""trireme launch on three hosts made of namespaces (hosts.sh). Arguments: the binary, a work folder outside /tmp."""
import os
import pathlib
import shutil
import signal
import sys
import unittest

import bed
from bed import sleepers, wait_for

BED = None  # set by bed.main()


def launch(*words, timeout=240):
    return BED.run(1, BED.binary, "launch", *words, timeout=timeout)


def start(*words):
    return BED.start(1, BED.binary, "launch", *words)


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (BED.work / "hosts").write_text("h1 slots=1\nh2 slots=1\nh3 slots=1\n")

    def test_ranks_run_on_every_host_and_every_line_names_host_and_rank(self):
        result = launch("-f", "hosts", "--env", "WORD=two words", "--env", "B=b", "-genv", "C", "c", "--program", "--", "sh", "-c",
                        'echo "$(hostname) $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $WORD $B$C"')
        self.assertEqual(result.returncode, 0, result.both)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         [f"h{i + 1}[{i}] h{i + 1} {i}/3 two words bc" for i in range(3)])
        self.assertIn("network 10.77.0.0/24, TCP", result.stderr)
        self.assertIn("launch: 3 ranks: h[1-3] 1 each\n", result.stderr)

    def test_each_rank_has_a_file_of_its_own_lines(self):
        result = launch("-f", "hosts", "--log-dir", "logs", "--program", "--", "sh", "-c", "hostname; echo oops >&2")
        self.assertEqual(result.returncode, 0, result.both)
        for rank in range(3):
            lines = (BED.work / f"logs/rank-{rank:04}.log").read_text().splitlines()
            self.assertEqual(sorted(lines), [f"h{rank + 1}", "oops"])

    def test_intel_spellings_and_filters(self):
        result = launch("-hostfile", "hosts", "-n", "4", "-ppn", "2", "-genv", "A", "b", "--exclude", "h2", "--program",
                        "--", "sh", "-c", "echo $(hostname) $A")
        # one slot per host: asking for more is an error that says where the slot count stands
        self.assertEqual(result.returncode, 2)
        self.assertIn('--ppn 2: host "h1" has 1 slot (hosts:1)', result.both)
        result = launch("--hosts", "h1:2,h[2-3]:2", "--exclude", "h2", "-genv", "A=b", "--program", "--", "sh", "-c",
                        "echo $(hostname) $A")
        self.assertEqual(sorted(result.stdout.splitlines()), ["h1[0] h1 b", "h1[1] h1 b", "h3[2] h3 b", "h3[3] h3 b"])

    def test_a_host_without_a_count_gets_a_rank_per_socket(self):
        result = BED.run(1, "env", "HWLOC_SYNTHETIC=package:2 core:1 pu:1", BED.binary, "launch", "--hosts", "localhost", "--",
                         "bench", "comm", "all_reduce", "-b", "1K", "-e", "1K", "-n", "2")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("preflight: 2 ranks, one per socket; change this with --ppn", result.stderr)
        self.assertIn("# ranks 2 ", result.stdout)

    def test_dry_run_prints_the_command_and_starts_nothing(self):
        result = launch("-f", "hosts", "--dry-run", "--program", "--", "echo", "RAN")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("h2 slots=1\n", result.stdout)
        self.assertRegex(result.stdout, r"--(mca plm_rsh|prtemca plm_ssh)_agent '")
        self.assertIn(f"_agent '{BED.binary} remote-shell --host-key yes", result.stdout)
        self.assertTrue(result.stdout.splitlines()[-1].endswith("echo RAN"))

    def test_dry_run_after_detection_has_the_network_and_can_be_pasted(self):
        blind = launch("-f", "hosts", "--dry-run", "--program", "--", "hostname")
        self.assertIn("# A start checks the hosts first and adds their common network", blind.stdout)
        self.assertNotIn("btl_tcp_if_include", blind.stdout)
        named = launch("-f", "hosts", "--dry-run", "--interface", "eth0", "--program", "--", "hostname")
        self.assertIn("--mca btl_tcp_if_include eth0", named.stdout)
        result = launch("-f", "hosts", "--dry-run", "--preflight-only", "--program", "--", "hostname")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("--mca btl self,vader,tcp --mca btl_tcp_if_include 10.77.0.0/24", result.stdout)
        pasted = BED.run(1, "sh", "-c", result.stdout)
        self.assertEqual(pasted.returncode, 0, pasted.both)
        self.assertEqual(sorted(line.rpartition(":")[2].strip() for line in pasted.stdout.splitlines()), ["h1", "h2", "h3"])

    def test_the_first_failure_is_the_last_line(self):
        result = launch("-f", "hosts", "--program", "--", "sh", "-c",
                        '[ $OMPI_COMM_WORLD_RANK = 1 ] && { echo "error: disk on fire" >&2; exit 3; }; sleep 30')
        self.assertEqual(result.returncode, 3, result.both)
        last = result.stderr.strip().splitlines()[-2:]
        self.assertEqual(last, ["error: launch: first failure: h2[1] error: disk on fire",
                                "error: launch: the job ended with code 3"])

    def test_a_rank_that_never_starts_is_named_with_its_host(self):
        config, run = BED.write_training("absent")
        result = launch("-f", "hosts", "--program", "--", "sh", "-c",
                        f"[ $OMPI_COMM_WORLD_RANK = 2 ] && exec sleep 100; exec {BED.binary} train {config} --run.start-timeout 3")
        self.assertEqual(result.returncode, 76, result.both)
        self.assertIn("waiting in MPI_Init for 3 s: 1 of this host's 1 rank has reached it, so ranks of another host have not",
                      result.both)
        self.assertIn("error: launch: 2 of 3 ranks reached MPI_Init; rank 2 on h3 did not: check the process and its log", result.both)
        self.assertNotIn("trireme-record", result.both)
        self.assertFalse(run.exists())

    def fake_daemon(self, host):
        """A program in place of mpirun's daemon on this host, which runs and never calls back."""
        fake, orted = BED.work / "fake-orted", pathlib.Path(shutil.which("orted") or shutil.which("prted")).resolve()
        fake.write_text("#!/bin/sh\nsleep 16180.3398\n")
        fake.chmod(0o755)
        BED.script("run", BED.folder, host, "mount", "--bind", fake, orted)
        self.addCleanup(BED.script, "run", BED.folder, host, "umount", orted)

    def test_a_start_whose_daemon_never_answers_ends_and_names_the_host(self):
        self.fake_daemon(3)
        config, run = BED.write_training("no-daemon")
        for words in (("--start-timeout", "4", "--program", "--", "hostname"),
                      ("--max-restarts", "1", "--", "train", config, "--run.start-timeout", "4")):
            result = launch("-f", "hosts", "--skip-preflight", *words)
            self.assertEqual(result.returncode, 76, result.both)
            self.assertIn("launch: no rank has started within 4 s", result.both)
            self.assertIn(
                "error: launch: no rank has started: h3: mpirun's daemon is running there but has not connected back",
                result.both)
            self.assertNotIn("begun: h2", result.both)
            self.assertEqual("restart 1 of 1" in result.both, "--max-restarts" in words, result.both)
            self.assertTrue(wait_for(lambda: not bed.processes("16180.3398") and not bed.processes("ess_base_jobid"), 10))
        self.assertFalse(run.exists())

    def test_a_foreign_daemon_does_not_pass_preflight(self):
        self.fake_daemon(2)
        result = launch("-f", "hosts", "--program", "--", "echo", "RAN")
        self.assertEqual(result.returncode, 2, result.both)
        self.assertRegex(result.both, "h2: its /usr/bin/(orted|prted) is another program: its --help does not mention \\1")
        self.assertNotIn("RAN", result.stdout)

    def test_a_silent_program_counts_as_started(self):
        result = launch("-f", "hosts", "--start-timeout", "2", "--program", "--", "sleep", "6")
        self.assertEqual(result.returncode, 0, result.both)

    def name_hosts(self, lines):
        """More names for the hosts, which ssh knows."""
        hosts = BED.folder / "etc-hosts"
        before = hosts.read_text()
        hosts.write_text(before + lines)  # in place: every host has it mounted
        known = BED.folder / "h1.home/.ssh/known_hosts"
        keys = known.read_text()
        names = [(int(line.split()[0].rpartition(".")[2].rpartition(":")[2]), name) for line in lines.splitlines() for name in line.split()]
        with open(known, "a") as file:
            for host, name in names:
                key = (BED.folder / f"h{host}.hostkey.pub").read_text().split()
                file.write(f"{name} {key[0]} {key[1]}\n")
        self.addCleanup(hosts.write_text, before)
        self.addCleanup(known.write_text, keys)

    def test_host_names_that_mpirun_refuses_can_be_launched(self):
        for host in (1, 2, 3):
            BED.run(host, "ip", "-6", "addr", "add", f"fd88::{host}/64", "dev", "eth0", "nodad")
        self.name_hosts("10.77.0.1 mpi_1 w.1.example.net\n10.77.0.2 mpi_2 w.2.example.net\n10.77.0.3 mpi_3 w.3.example.net\n"
                        "fd88::1\nfd88::2\nfd88::3\n")
        for names in ("fd88::{}", "mpi_{}", "w.{}.example.net", "root@fd88:0::{}"):
            hosts = [names.format(i) for i in (1, 2, 3)]
            (BED.work / "odd").write_text("".join(f"{host}\n" for host in hosts))
            result = launch("-f", "odd", "--start-timeout", "60", "--program", "--", "hostname")
            self.assertEqual(result.returncode, 0, result.both)
            self.assertEqual(sorted(result.stdout.splitlines()), [f"{host}[{i}] h{i + 1}" for i, host in enumerate(hosts)])
        config, run = BED.write_training("ipv6")
        (BED.work / "odd").write_text("[fd88::1]:1\nfd88::2 slots=1\nfd88::3\n")
        result = launch("-f", "odd", "--", "train", config)
        self.assertEqual(result.returncode, 0, result.both)
        self.assertEqual(len(bed.losses(run)), 20)

    def test_a_port_of_the_hostfile_is_taken(self):
        pid = BED.work / "sshd-2222"
        BED.run(2, "/usr/sbin/sshd", "-f", "/dev/null", "-h", BED.folder / "h2.hostkey", "-o", f"PidFile={pid}", "-o", "UsePAM=no", "-o",
                "StrictModes=no", "-p", "2222")
        self.name_hosts("")
        known = BED.folder / "h1.home/.ssh/known_hosts"
        key = (BED.folder / "h2.hostkey.pub").read_text().split()
        known.write_text(known.read_text() + f"[h2]:2222 {key[0]} {key[1]}\n")
        (BED.work / "ports").write_text("h1 slots=1\nh2 slots=1 port=2222\n")
        try:
            result = launch("-f", "ports", "--program", "--", "sh", "-c", 'echo "$SSH_CONNECTION"; sleep 1')
        finally:
            os.kill(int(pid.read_text()), signal.SIGTERM)
        self.assertEqual(result.returncode, 0, result.both)
        self.assertRegex(result.stdout, r"h2\[1\] 10\.77\.0\.1 \d+ 10\.77\.0\.2 2222")

    def test_what_mpirun_refuses_of_its_hostfile_is_an_error_at_once(self):
        fake = BED.work / "mpirun-that-refuses"
        fake.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit 0; }\nedge=$(printf "%074d" 0 | tr 0 -)\n'
                        'echo "$edge\nOpen RTE detected a parse error in the hostfile:\n    hosts\n$edge" >&2\nexec sleep 14142.1356\n')
        fake.chmod(0o755)
        result = launch("--hosts", "h1", "--mpirun", fake, "--program", "--", "hostname", timeout=60)
        self.assertEqual(result.returncode, 2, result.both)
        self.assertIn(f"error: launch: {fake} refuses its hostfile: it cannot read its hostfile", result.both)
        self.assertFalse(bed.processes("14142.1356"))

    def test_a_forced_stop_blames_no_rank(self):
        job = start("-f", "hosts", "--stop-timeout", "1", "--program", "--", "sh", "-c",
                    "trap '' USR1 TERM; echo ready; for i in $(seq 600); do sleep 0.1; done")
        self.assertTrue(wait_for(lambda: job.output().count("ready") == 3 or not job.running()), job.output())
        job.signal(signal.SIGTERM)
        code, text = job.finish()
        self.assertNotIn(code, (0, 75), text)
        self.assertIn("error: launch: the job was killed before it had stopped", text)
        self.assertNotRegex(text, "rank 0|first failure")

    def test_a_log_folder_that_cannot_be_created_is_refused_before_the_start(self):
        result = launch("--hosts", "h1", "--log-dir", "/proc/x", "--program", "--", "echo", "RAN")
        self.assertEqual(result.returncode, 2, result.both)
        self.assertIn("error: --log-dir /proc/x: cannot write to this folder: ", result.both)
        self.assertNotIn("RAN", result.stdout)

    def test_lines_have_a_time_stamp_where_asked_for(self):
        result = launch("--hosts", "h1", "--timestamps", "--log-dir", "timed", "--program", "--", "echo", "hello")
        self.assertRegex(result.stdout, r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} h1\[0\] hello\n$")
        self.assertRegex((BED.work / "timed/rank-0000.log").read_text(), r"^20\d\d-\d\d-\d\d \S+ hello\n$")

    def test_without_a_hostfile_the_deepspeed_location_is_read(self):
        result = BED.run(1, "env", "DLTS_HOSTFILE=hosts", BED.binary, "launch", "--program", "--", "hostname")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("launch: hostfile hosts from DLTS_HOSTFILE, 3 hosts; ", result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 3)
        result = launch("--program", "--", "hostname")
        self.assertIn("launch: only this host (no -f, no job of Slurm, PBS or LSF, no DLTS_HOSTFILE and no /job/hostfile)", result.stderr)

    def test_a_stop_signal_asks_the_ranks_and_waits_for_them(self):
        job = start("-f", "hosts", "--program", "--", "sh", "-c",
                    "trap 'echo asked; exit 75' USR1; echo ready; for i in $(seq 600); do sleep 0.1; done")
        self.assertTrue(wait_for(lambda: job.output().count("ready") == 3 or not job.running()), job.output())
        job.signal(signal.SIGTERM)
        code, text = job.finish()
        self.assertEqual(code, 75, text)
        self.assertIn("asking all ranks to stop", text)
        self.assertIn("asked", text)
        self.assertNotIn("non-zero", text, "a stop that went well is no fault of mpirun's")

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
        self.assertTrue(wait_for(lambda: len(sleepers(mark)) == 3), job.output())
        os.kill(sleepers(mark)[0], signal.SIGKILL)
        code, text = job.finish()
        self.assertNotEqual(code, 0, text)
        self.assertTrue(wait_for(lambda: not bed.processes(mark), 30), bed.processes(mark))

    def test_a_launch_that_is_killed_leaves_nothing_running(self):
        mark = "27182.8182"
        job = start("-f", "hosts", "--program", "--", "sleep", mark)
        self.assertTrue(wait_for(lambda: len(sleepers(mark)) == 3), job.output())
        job.end()
        self.assertTrue(wait_for(lambda: not bed.processes(mark), 30), bed.processes(mark))

    def test_collectives_are_measured_between_hosts(self):
        for host in (1, 2, 3):
            BED.script("limit", BED.folder, host, "200mbit")
        try:
            result = launch("-f", "hosts", "--", "bench", "comm", "all_reduce", "gradient", "-b", "256K", "-e", "1M", "-f", "2", "-n", "3")
        finally:
            for host in (1, 2, 3):
                BED.script("limit", BED.folder, host, "none")
        self.assertEqual(result.returncode, 0, result.both)
        # 200 Mbit/s are 0.025 GB/s, of which a busy machine may reach less.
        self.assertRegex(result.stdout, r"# Link: eth0, 0\.0[0-2]\d GB/s measured with plain messages")
        self.assertIn("# Out of bounds values : 0 OK", result.stdout)
        self.assertIn("# Transport: TCP over eth0 between hosts\n", result.stdout)
        self.assertRegex(result.stdout, r"# all_reduce +: 0\.0\d+ of 0\.0[0-2]\d+ GB/s at 1048576 bytes, \d+ %: ")
        self.assertRegex(result.stdout, r"# gradient +: 0\.0\d+ of 0\.0[12]\d+ GB/s on the wire at 1048576 bytes, \d+ %: ")

    def test_the_host_that_sends_slowly_is_found_among_six_pairs(self):
        for host in (1, 2, 3):
            BED.script("limit", BED.folder, host, "100mbit" if host == 2 else "500mbit")
        try:
            result = launch("-f", "hosts", "--", "bench", "comm", "pairs", "-e", "2M")
            BED.script("limit", BED.folder, 2, "500mbit")
            even = launch("-f", "hosts", "--", "bench", "comm", "pairs", "-e", "2M")
        finally:
            for host in (1, 2, 3):
                BED.script("limit", BED.folder, host, "none")
        self.assertEqual(result.returncode, 1, result.both)
        slow = [line for line in result.stdout.splitlines() if "slow" in line]
        self.assertEqual(len(slow), 1, result.both)
        self.assertRegex(slow[0], r"# h2 sends slowly: 0\.0(?:09|1)\d* to 0\.0(?:09|1)\d* GB/s; the median of all pairs is 0\.0[3-6]")
        self.assertEqual(even.returncode, 0, even.both)
        self.assertIn("# The network is uniform", even.stdout)

    def test_every_host_gets_the_model_cache_folder(self):
        result = BED.run(1, "env", "HF_HOME=/models/of all", "HF_HUB_OFFLINE=1", "HF_TOKEN=secret", BED.binary, "launch", "-f", "hosts", "--env",
                         "HF_HUB_OFFLINE=0", "--program", "--", "sh", "-c", 'echo "$(hostname): $HF_HOME, $HF_HUB_OFFLINE, $HF_TOKEN"')
        self.assertEqual(result.returncode, 0, result.both)
        for host in ("h1", "h2", "h3"):
            self.assertIn(f"{host}: /models/of all, 0, secret", result.both)

    def test_mpirun_itself_may_start_the_ranks(self):
        # A name on an address that is every host's own misleads no one who tells mpirun the network.
        words = ["mpirun", "--allow-run-as-root", "--hostfile", "hosts", "-np", "3", "--bind-to", "none", "--mca", "btl",
                 "self,vader,tcp", "--mca", "pml", "ob1", "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]
        config, run = BED.write_training("by-mpirun")
        result = BED.run(1, *words, BED.binary, "train", config)
        self.assertEqual(result.returncode, 0, result.both)
        self.assertEqual(len(bed.losses(run)), 20)
        config, run = BED.write_training("by-mpirun-and-launch")
        result = BED.run(1, *words, BED.binary, "launch", "--", "train", config)
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("mpirun of Open MPI started 3 ranks", result.both)
        self.assertEqual(len(bed.losses(run)), 20)

    def test_training_runs_on_three_hosts_over_a_slow_link(self):
        config, run = BED.write_training()
        BED.script("limit", BED.folder, 2, "10mbit")
        try:
            result = launch("-f", "hosts", "--", "train", config)
        finally:
            BED.script("limit", BED.folder, 2, "none")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertTrue((run / "step-00000020/manifest.json").exists(), result.both)
        self.assertIn("3 ranks x 2 micro-batches", result.both)


if __name__ == "__main__":
    sys.exit(bed.main(3))
