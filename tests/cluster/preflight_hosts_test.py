#!/usr/bin/env python3
"""What trireme launch sees of three hosts made of namespaces (hosts.sh) before it starts anything. Arguments: the program, a work
folder."""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import bed

BED = None  # set by bed.main()


def launch(*words, timeout=240):
    return BED.run(1, BED.binary, "launch", *words, timeout=timeout)


class Preflight(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (BED.work / "hosts").write_text("h1 slots=1\nh2 slots=1\nh3 slots=1\n")

    def assert_fails_before_start(self, result, *texts):
        self.assertEqual(result.returncode, 2, result.both)
        for text in texts:
            self.assertIn(text, result.both)
        self.assertIn("nothing was started", result.both)
        self.assertNotIn("RAN", result.stdout)

    def test_missing_hostfile_is_an_error(self):
        result = launch("-f", "nowhere", "--program", "--", "echo", "RAN")
        self.assertEqual(result.returncode, 2)
        self.assertIn("hostfile nowhere does not exist; nothing was started", result.both)

    def test_duplicate_host_is_named_with_its_line(self):
        (BED.work / "twice").write_text("h1\r\nh2\r\n# note\r\nh1")
        result = launch("-f", "twice", "--program", "--", "echo", "RAN")
        self.assertEqual(result.returncode, 2)
        self.assertIn('twice:4: host "h1" is listed again, first in twice:1', result.both)

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
                                       "h9: its name cannot be resolved on this host", "3 problems on 4 hosts")

    def test_changed_host_keys_are_reported_and_unknown_ones_can_be_accepted(self):
        known = BED.folder / "h1.home/.ssh/known_hosts"
        before = known.read_text()
        lines = before.splitlines(True)
        try:
            swapped = lines[1].split(" ", 1)[0] + " " + lines[2].split(" ", 1)[1]
            known.write_text(lines[0] + swapped + lines[2])
            result = launch("--hosts", "h1,h2", "--program", "--", "echo", "RAN")
            self.assert_fails_before_start(result, "h2: its host key differs from the one in known_hosts")
            known.write_text(lines[0])
            result = launch("--hosts", "h1,h2", "--host-key", "accept-new", "--program", "--", "echo", "RAN")
            self.assertEqual(result.returncode, 0, result.both)
        finally:
            known.write_text(before)
        result = launch("--hosts", "h1,h2", "--host-key", "no", "--program", "--", "echo", "RAN")
        self.assertEqual(result.returncode, 2)
        self.assertIn("expected yes or accept-new; host keys are always checked", result.both)

    def test_login_output_is_ignored(self):
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
            self.assertRegex(result.both, "h3: (it does not answer|there is no route to it)")
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
        self.assert_fails_before_start(result, "h2: the trireme binary differs", "copy the same build to the same path")

    def with_on(self, host, file, place, words=("--program", "--", "echo", "RAN")):
        """What launch says while `file` lies over `place` on this host."""
        BED.script("run", BED.folder, host, "mount", "--bind", file, place)
        try:
            return launch("-f", "hosts", *words)
        finally:
            BED.script("run", BED.folder, host, "umount", place)

    def make(self, name, text="", mode=0o644):
        file = BED.work / name
        file.write_text(text)
        file.chmod(mode)
        return file

    def test_a_library_that_is_missing_on_a_host_is_named(self):
        listed = subprocess.run(["ldd", BED.binary], capture_output=True, text=True, check=True).stdout
        library = pathlib.Path(re.search(r"libdnnl\S+ => (\S+)", listed)[1]).resolve()
        result = self.with_on(2, self.make("no-library"), library)
        self.assert_fails_before_start(result, f"h2: {BED.binary} does not start there: ", "error while loading shared libraries: ", "libdnnl",
                                       "run scripts/bootstrap there, or install the package of that library")

    def test_a_program_without_execute_permission_is_reported_as_such(self):
        copy = BED.work / "not-executable"
        shutil.copyfile(BED.binary, copy)
        result = self.with_on(2, copy, BED.binary)
        self.assert_fails_before_start(result, f"h2: {BED.binary} is not executable there; chmod +x {BED.binary}")

    def test_another_program_of_that_name_is_distinguished_from_login_output(self):
        result = self.with_on(3, "/bin/echo", BED.binary)
        self.assert_fails_before_start(result, f'h3: its {BED.binary} is another program: it prints "node-agent"')

    def test_a_missing_daemon_of_mpirun_is_found_before_mpirun_blames_another_host(self):
        name = "prted" if shutil.which("prted") else "orted"  # of Open MPI 5, and before
        result = self.with_on(2, self.make("no-daemon"), pathlib.Path(shutil.which(name)).resolve())
        self.assert_fails_before_start(result, f"h2: {name} is missing there, which /usr/bin/mpirun", "needs; install the MPI of this host there")

    def test_another_version_of_mpirun_is_found(self):
        mpirun = pathlib.Path(shutil.which("mpirun")).resolve()
        other = self.make("other-mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 3.1.0'\n", 0o755)
        result = self.with_on(3, other, mpirun)
        self.assert_fails_before_start(result, ' is "mpirun (Open MPI) 3.1.0", here it is "mpirun', "install the same version on every host")

    def test_data_missing_on_a_host_is_reported_with_the_host(self):
        config, run = BED.write_training("no-data")
        (BED.work / "empty").mkdir()
        result = self.with_on(2, BED.work / "empty", BED.work / "data", ("--", "train", config))
        self.assert_fails_before_start(result, f"h2: that host cannot read {BED.work}/data/train.bin, 2 other hosts can: cannot open")
        self.assertFalse(run.exists())

    def test_equal_problems_of_several_hosts_share_one_line(self):
        other = BED.work / "other"
        shutil.copy(BED.binary, other)
        with open(other, "ab") as file:
            file.write(b"x")
        for host in (2, 3):
            BED.script("run", BED.folder, host, "mount", "--bind", "/bin/echo", BED.binary)
        try:
            result = launch("-f", "hosts", "--program", "--", "echo", "RAN")
        finally:
            for host in (2, 3):
                BED.script("run", BED.folder, host, "umount", BED.binary)
            other.unlink()
        self.assert_fails_before_start(result, "preflight: h[2-3] (2 hosts): its ", "2 problems on 3 hosts")

    def test_this_host_is_recognized_by_its_address_and_in_upper_or_lower_case(self):
        known = BED.folder / "h1.home/.ssh/known_hosts"
        before = known.read_text()
        known.write_text("".join(line for line in before.splitlines(True) if not line.startswith("h1,")))
        try:
            for name in ("10.77.0.1", "H1"):
                result = launch("--hosts", f"{name},h2", "--program", "--", "hostname")
                self.assertEqual(result.returncode, 0, result.both)
                self.assertEqual(sorted(line.split()[-1] for line in result.stdout.splitlines()), ["h1", "h2"])
        finally:
            known.write_text(before)

    def test_hostfiles_take_host_list_expressions_and_the_files_of_schedulers(self):
        (BED.work / "ranges").write_text("h[1-3] slots=1\n")
        result = launch("-f", "ranges", "--program", "--", "hostname")
        self.assertEqual(sorted(result.stdout.split()), ["h1", "h1[0]", "h2", "h2[1]", "h3", "h3[2]"], result.both)
        (BED.work / "nodes.pbs").write_text("h1\nh2\nh2\n")
        for words in (["-f", "nodes.pbs"], []):
            result = BED.run(1, "env", "PBS_NODEFILE=nodes.pbs", BED.binary, "hosts", "--to", "openmpi", *words)
            self.assertEqual(result.stdout, "h1 slots=1\nh2 slots=2\n", result.both)
        result = BED.run(1, "env", "LSB_MCPU_HOSTS=h1 2 h3 1", BED.binary, "hosts", "--to", "openmpi")
        self.assertEqual(result.stdout, "h1 slots=2\nh3 slots=1\n", result.both)
        result = BED.run(1, "env", "SLURM_NODELIST=h[1-2]", BED.binary, "hosts", "--to", "list")
        self.assertEqual(result.stdout, "h1\nh2\n", result.both)

    def test_a_misspelt_command_is_refused_before_anything_is_checked(self):
        result = launch("-f", "hosts", "--", "trian", "x.yaml")
        self.assertEqual(result.returncode, 2)
        self.assertIn('"trian" is not a command of trireme; nearest is "train"', result.both)

    def test_a_thread_count_without_effect_is_reported(self):
        result = launch("-f", "hosts", "--env", "OMP_NUM_THREADS=1", "--preflight-only", "--", "--version")
        self.assertIn("--env OMP_NUM_THREADS has no effect", result.both)

    def test_another_configuration_on_a_host_is_found(self):
        config, run = BED.write_training("same-everywhere")
        other = BED.work / "other.yaml"
        other.write_text((BED.work / config).read_text().replace("width: 16", "width: 32"))
        BED.script("run", BED.folder, 2, "mount", "--bind", other, BED.work / config)
        try:
            result = launch("-f", "hosts", "--", "train", config)
        finally:
            BED.script("run", BED.folder, 2, "umount", BED.work / config)
        self.assert_fails_before_start(result, f"h2: {BED.work / config} differs", "copy it, or put it on a shared file system")
        self.assertFalse(run.exists())

    def test_an_indexed_dataset_that_differs_on_a_host_is_found(self):
        for host, text in ((1, "same"), (2, "other"), (3, "same")):
            BED.run(host, "sh", "-c", f"printf {text} >/tmp/x_text_document.bin; printf index >/tmp/x_text_document.idx")
        result = launch("-f", "hosts", "--", "train", "--data.dir", "/tmp", "--data.train", "1 x_text_document")
        self.assert_fails_before_start(result, "h2: /tmp/x_text_document.bin differs", "copy it, or put it on a shared file system")
        self.assertNotIn("x_text_document.idx", result.both)

    def test_a_run_folder_that_is_not_shared_is_detected_and_not_changed(self):
        config, run = BED.write_training("not-shared")
        result = launch("-f", "hosts", "--", "train", config, "--run.dir", "/tmp/own/run")
        self.assert_fails_before_start(result, "h[2-3] (2 hosts): it does not see in the run folder /tmp/own/run what h1 wrote "
                                               "there; put it on a file system that all hosts share and name it with --run.dir")
        for host in (1, 2, 3):
            self.assertEqual(BED.run(host, "ls", "/tmp/own").returncode, 2)
        result = launch("-f", "hosts", "--preflight-only", "--", "train", config)
        self.assertEqual(result.returncode, 0, result.both)
        self.assertFalse(run.exists())
        # Without a look the ranks find it themselves.
        result = launch("-f", "hosts", "--skip-preflight", "--", "train", config, "--run.dir", "/tmp/own/run")
        self.assertEqual(result.returncode, 2, result.both)
        self.assertIn("the run folder is not the same on every host: rank 1 on h2, rank 2 on h3 do not see in /tmp/own/run what "
                      "rank 0 on h1 wrote there", result.both)

    def test_the_disk_must_hold_exactly_what_the_run_needs(self):
        config, run = BED.write_training("small-disk")
        BED.run(1, "sh", "-c", "mkdir -p /tmp/small && mount -t tmpfs -o size=8m tmpfs /tmp/small")
        self.addCleanup(BED.run, 1, "umount", "/tmp/small")
        words = ("--hosts", "h1", "--preflight-only", "--", "train", config, "--run.dir", "/tmp/small/run")
        result = launch(*words)
        self.assertEqual(result.returncode, 0, result.both)
        result = launch(*words, "--model.width", "512")
        self.assert_fails_before_start(result, "h1: only 0.01 GiB are free for the run folder: 8.4 MB, but the run needs ", " MB for a snapshot; free disk space")

    def test_a_clock_that_is_ahead_is_reported(self):
        real, wrapper = BED.work / "real", BED.work / "ahead"
        shutil.copy(BED.binary, real)
        wrapper.write_text(f'#!/usr/bin/env python3\nimport re, subprocess, sys\n'
                           f'agent = subprocess.Popen(["{real}", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)\n'
                           'for line in agent.stdout:\n'
                           '    print(re.sub(r\'("time":)([0-9.]+)\', lambda m: m[1] + str(float(m[2]) + 60), line), end="", flush=True)\n')
        wrapper.chmod(0o755)
        BED.script("run", BED.folder, 2, "mount", "--bind", wrapper, BED.binary)
        try:
            result = launch("-f", "hosts", "--preflight-only")
        finally:
            BED.script("run", BED.folder, 2, "umount", BED.binary)
            real.unlink()
        self.assertEqual(result.returncode, 0, result.both)
        self.assertRegex(result.both, r"h2: its clock is (59|60)\.\d s ahead; set it with chrony or ntp")

    def test_two_hosts_that_cannot_reach_each_other_are_named(self):
        BED.script("apart", BED.folder, 2, 3, "yes")
        try:
            result = launch("-f", "hosts", "--program", "--", "echo", "RAN")
        finally:
            BED.script("apart", BED.folder, 2, 3, "no")
        for one, other in (("h2", "h3"), ("h3", "h2")):
            self.assertRegex(result.both, f"{one}: cannot reach {other} over 10.77.0.0/24: (No route to host|no answer: a firewall)")
        self.assert_fails_before_start(result, "open the network between them", "2 problems on 3 hosts")

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

    def test_health_is_checked_before_the_start(self):
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
        self.assertIn("h9 | ERROR: No results reported (its name cannot be resolved on this host", result.stdout)


if __name__ == "__main__":
    sys.exit(bed.main(3))
