#!/usr/bin/env python3
"""trireme health on three hosts made of namespaces (hosts.sh), none of them in a Slurm. Arguments: the program, a work folder."""
import json
import sys
import unittest

import bed

BED = None  # set by bed.main()


def health(*words, host=1):
    return BED.run(host, BED.binary, "health", *words)


def sleepers(argument):
    return [pid for pid in bed.processes(f"sleep\0{argument}\0")]


class Health(unittest.TestCase):
    def config(self, name, *lines):
        (BED.work / name).write_text("".join(line + "\n" for line in lines))
        return name

    def test_a_sick_node_stays_sick_when_slurm_does_not_answer(self):
        result = BED.work / "sick.json"
        words = ("-e", "check_hw_eth nope", "--drain", "--detached", "--result-file", result)
        first = health(*words)
        self.assertEqual(first.returncode, 0, first.both)
        self.assertIn("no result since boot", first.both)
        self.assertTrue(bed.wait_for(result.exists, 60))
        second = health(*words)
        self.assertEqual(second.returncode, 1, second.both)
        self.assertIn("h1 | ERROR: nhc: Health check failed: check_hw_eth: no network interface nope", second.stdout)
        self.assertIn("h1 in Slurm: not marked: sinfo ", second.stderr)

    def test_a_healthy_node_stays_healthy_when_slurm_does_not_answer(self):
        result = health("-e", "check_hw_eth eth0", "--drain")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertEqual(result.stdout, "h1 | Healthy\n")
        self.assertIn("warning: h1 in Slurm: not marked: sinfo ", result.stderr)

    def test_a_generated_file_is_for_other_nodes_too(self):
        (BED.work / "g.conf").write_text(health("gen").stdout)
        for host in (1, 2):
            result = health("-c", "g.conf", "-a", host=host)
            self.assertEqual((result.returncode, result.stdout), (0, f"h{host} | Healthy\n"), result.both)
        report = json.loads(health("-c", "g.conf", "--json", host=2).stdout)
        self.assertGreater(report["checked"], 5)
        self.assertEqual(report["not_checked"], 0)

    def test_a_file_of_several_nodes_names_what_only_some_have(self):
        BED.run(2, "mount", "-t", "tmpfs", "-o", "size=1m", "scratch", "/media")
        try:
            result = health("gen", "--hosts", "h[1-3]")
            self.assertEqual(result.returncode, 0, result.both)
            self.assertIn("from 3 live nodes", result.stdout)
            self.assertIn("\n* || check_hw_eth eth0\n", result.stdout)
            self.assertIn('\nh2 || check_fs_mount_rw -t "tmpfs" -s "scratch" -f "/media"\n', result.stdout)
            (BED.work / "three.conf").write_text(result.stdout)
            checked = health("--hosts", "h[1-3]", "-c", "three.conf", "-a")
        finally:
            BED.run(2, "umount", "/media")
        self.assertEqual(checked.stdout, "h1 | Healthy\nh2 | Healthy\nh3 | Healthy\n", checked.both)

    def test_gen_refuses_what_it_would_ignore(self):
        result = health("gen", "-c", "x.conf")
        self.assertEqual(result.returncode, 2)
        self.assertIn("gen prints a configuration file and does not read one: use `trireme health gen > FILE`", result.both)
        self.assertFalse((BED.work / "x.conf").exists())

    def test_a_node_with_stacked_mounts_passes_its_own_file(self):
        BED.run(3, "mount", "-t", "tmpfs", "-o", "ro,size=1m", "upper", "/dev/shm")
        try:
            (BED.work / "stacked.conf").write_text(health("gen", host=3).stdout)
            result = health("-c", "stacked.conf", "-a", host=3)
        finally:
            BED.run(3, "umount", "/dev/shm")
        self.assertEqual(result.stdout, "h3 | Healthy\n", result.both)
        self.assertIn("check_fs_mount_ro -t \"tmpfs\" -s \"upper\" -f \"/dev/shm\"", (BED.work / "stacked.conf").read_text())

    def test_a_report_of_no_checks_says_so_and_is_refused_where_asked(self):
        for lines in ((), ("node9 || check_hw_eth eth0",)):
            config = self.config("none.conf", *lines)
            result = health("-c", config)
            self.assertEqual(result.returncode, 0, result.both)
            self.assertEqual(result.stdout, "h1 | Not checked: no line applies to this host\n")
            self.assertIn("warning: h1: nothing was checked: no line of the configuration applies to it", result.stderr)
            strict = health("-c", config, "--require-all")
            self.assertEqual(strict.returncode, 1)
            self.assertIn("--require-all: no line applies to this host", strict.stdout)

    def test_checks_of_the_azure_files_that_do_not_exist_here_fail_no_node(self):
        config = self.config("azure.conf", "* || check_hw_eth eth0", "* || check_hw_topology /opt/topo.xml",
                             "* || check_nccl_allreduce 228.0 1 /opt/topo.xml 1G", "* || check_ib_bw_gdr 180")
        result = health("-c", config, "--skip-gpu")
        self.assertEqual(result.returncode, 0, result.both)
        self.assertIn("h1 | Healthy (3 of 4 not checked: check_hw_topology, ", result.stdout)
        self.assertEqual(health("-c", config, "--skip-gpu", "--require-all").returncode, 1)
        for words in ((), ("--hosts", "h1,h2")):
            broken = health("-c", config, *words)
            self.assertEqual(broken.returncode, 1, broken.both)
            self.assertIn("h1 | ERROR: nhc: Health check failed: check_nccl_allreduce: no GPU on this node; ", broken.stdout)
        self.assertEqual(health("-c", config, "--skip-gpu", "--hosts", "h1,h2").returncode, 0)

    def test_a_file_that_others_can_write_is_refused(self):
        config = self.config("open.conf", "* || check_hw_eth eth0")
        (BED.work / config).chmod(0o666)
        for words in ((), ("--hosts", "h1")):
            done = health("-c", config, *words)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn("is not used, because its lines run in bash: it is world-writable; chmod o-w", done.both)

    def test_detached_mode_without_a_result_passes_unless_told_otherwise(self):
        words = ("-e", "check_hw_eth eth0", "--detached", "--result-file", BED.work / "fresh.json")
        asked = health(*words, "DETACHED_MODE_FAIL_NODATA=1")
        self.assertEqual(asked.returncode, 1, asked.both)
        self.assertIn("h1 | ERROR: nhc: Health check failed: Detached mode -- pending checks (no data found)", asked.stdout)
        self.assertTrue(bed.wait_for((BED.work / "fresh.json").exists, 60))
        self.assertEqual(health(*words, "DETACHED_MODE_FAIL_NODATA=1").returncode, 0)

    def test_a_node_without_a_gpu_fails_the_count_of_gpus(self):
        result = health("-e", "check_gpu_count 8")
        self.assertEqual(result.returncode, 1)
        self.assertIn("check_gpu_count: no GPU on this node, expected 8", result.stdout)

    def test_a_hung_check_leaves_no_process(self):
        config = self.config("hung.conf", "* || sleep 271.25", )
        twice = self.config("forked.conf", "* || (setsid sleep 271.5 >/dev/null 2>&1 &); sleep 271.75")
        for name in (config, twice):
            result = health("-c", name, "-t", "1")
            self.assertEqual(result.returncode, 142, result.both)
        self.assertEqual(sleepers("271.25") + sleepers("271.5") + sleepers("271.75"), [])

    def test_all_over_hosts_ends_with_the_number_of_failures(self):
        config = self.config("two.conf", "h[23] || check_hw_eth nope", "h2 || check_hw_eth neither", "* || check_hw_eth eth0")
        result = health("--hosts", "h[1-3]", "-c", config, "-a")
        self.assertEqual(result.returncode, 3, result.both)
        self.assertEqual(result.stdout.splitlines()[0], "h1 | Healthy")
        self.assertEqual(health("--hosts", "h[1-3]", "-c", config).returncode, 1)

    def test_functions_of_a_site_run_on_every_node(self):
        scripts = BED.work / "scripts"
        scripts.mkdir(exist_ok=True)
        (scripts / "site.nhc").write_text("check_site_name() { [[ $HOSTNAME == $1 ]] || { die 1 \"$FUNCNAME:  this is $HOSTNAME\"; return 1; }; }\n")
        self.config("site.conf", "* || check_site_name h*", "h2 || check_site_name h9", "* || check_ps_loadavg $((1000*HW_CORES))", "* || check_nowhere",
                    "* || if [ -d / ]; then check_hw_eth lo; fi")
        for words, code in ((("--hosts", "h[1-3]"), 1), (("--hosts", "h1,h3"), 0)):
            done = health("-c", "site.conf", f"INCDIR={scripts}", *words)
            self.assertEqual(done.returncode, code, done.both)
            self.assertIn("h3 | Healthy (1 of 4 not checked: check_nowhere (line 4: unknown check \"check_nowhere\": neither Trireme nor the site's scripts have it; nearest is ", done.stdout)
        self.assertIn("h2 | ERROR: nhc: Health check failed: check_site_name:  this is h2\n", health("-c", "site.conf", f"INCDIR={scripts}", "--hosts", "h[1-3]").stdout)
        told = health("-c", "site.conf", f"INCDIR={scripts}", "--hosts", "h1,h3", "-v")
        self.assertIn("h3 | line 1: check_site_name h*: ok\n", told.stdout)
        self.assertIn("h3 | line 4: check_nowhere: not checked: line 4: unknown check", told.stdout)
        self.assertEqual(health("-c", "site.conf", f"INCDIR={scripts}", "--hosts", "h1,h3", "--require-all").returncode, 1)

    def test_errors_common_to_all_hosts_end_the_same_way_here_and_over_hosts(self):
        self.config("bad.conf", "* || TIMEOUT=soon", "* || check_hw_eth lo")
        for words in ((), ("--hosts", "h[1-2]")):
            done = health("-c", "bad.conf", *words)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn('TIMEOUT: expected a number, found "soon"', done.stderr)

    def test_one_check_that_cannot_be_used_is_an_error(self):
        for check, message in (("check_hw_cpuinfo two", 'check: check_hw_cpuinfo: count: expected a number, found "two"'),
                               ("check_hw_eht lo", 'unknown check "check_hw_eht": neither Trireme nor the site\'s scripts have it; nearest is check_hw_eth'),
                               ("if true; then", "bash cannot parse it: syntax error")):
            done = health("-e", check)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn(message, done.both)
        self.assertEqual(health("-e", "check_hw_gm a", "--hosts", "h[1-2]").returncode, 0)
        self.assertEqual(health("-e", "check_hw_cpuinfo two", "--hosts", "h[1-2]").returncode, 2)

    def test_dry_run_without_drain_is_refused(self):
        result = health("-e", "check_hw_eth eth0", "--dry-run")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--dry-run needs --drain", result.both)


if __name__ == "__main__":
    sys.exit(bed.main(3))
