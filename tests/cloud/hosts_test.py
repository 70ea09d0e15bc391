"""`trireme cluster` with machines that exist: h1 asks, h2 to h4 become a cluster, over ssh and under a Slurm of their own, and
are as they were when it is deleted. What a node would write outside of its own folders goes to an overlay."""
import io
import pathlib
import shutil
import sys
import tarfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))
import bed  # noqa: E402

BED = None
NODES = (2, 3, 4)
OWN = ("/etc", "/opt", "/usr/local", "/var/lib", "/var/log", "/var/spool")
OVERLAYS = "".join(f"mkdir -p /tmp/o{i}/up /tmp/o{i}/work && mount -t overlay overlay -o lowerdir={path},upperdir=/tmp/o{i}/up,workdir=/tmp/o{i}/work {path}\n"
                   for i, path in enumerate(OWN))
TOUCHED = ("cat /etc/hosts; ls /etc/ssh/ssh_known_hosts /etc/trireme /usr/local/sbin/trireme-node /usr/local/bin/trireme /opt/trireme /etc/slurm/slurm.conf "
           "/root/.ssh/config 2>/dev/null; cat /root/.ssh/authorized_keys")


def prepare(made):
    """Machines with folders of their own, and with no key but the one that lets h1 in."""
    for node in NODES:
        done = made.run(node, "sh", "-ec", OVERLAYS + f"cat {made.folder}/etc-hosts >/etc/hosts\nrm -f /root/.ssh/id_ed25519 /root/.ssh/known_hosts")
        if done.returncode != 0:
            print(f"skipped: no overlays in this kernel: {done.both.strip()}")
            done.returncode = 77
            return done
    with tarfile.open(made.work / "trireme-0-linux.tar.gz", "w:gz", compresslevel=1) as tar:
        tar.add(made.binary, "trireme-0-linux/bin/trireme")
    return None


class Hosts(unittest.TestCase):
    def setUp(self):
        self.addCleanup(self.leave_nothing)

    def leave_nothing(self):
        """What a test that failed has left of its cluster would make the next one fail, too."""
        state = BED.work / "lab.state"
        if not (state / "state.json").exists():
            return
        left = self.cluster("delete", "--yes")
        if left.returncode != 0:  # its file, too, may be what was wrong
            for node in NODES:
                BED.run(node, "sh", "-c", "[ ! -x /usr/local/sbin/trireme-node ] || /usr/local/sbin/trireme-node leave")
            shutil.rmtree(state)

    def write(self, scheduler="none", name="lab", hosts="10.77.0.[2-4]", nodes=3, more=""):
        (BED.work / "shared").mkdir(exist_ok=True)
        (BED.work / "lab.yaml").write_text(
            f"cluster: {{name: {name}, nodes: {nodes}, scheduler: {scheduler}}}\nhosts: {{list: '{hosts}'}}\n"
            f"access: {{user: root, key: {BED.folder}/key.pub}}\nstorage: {{kind: existing, path: {BED.work}/shared}}\n"
            f"software: {{package: {BED.work}/trireme-0-linux.tar.gz}}\nnode: {{wait-minutes: 0.1}}\n{more}")

    def cluster(self, action, *words, timeout=300):
        return BED.run(1, BED.binary, "cluster", action, "lab.yaml", *words, timeout=timeout)

    def done(self, action, *words):
        done = self.cluster(action, *words)
        self.assertEqual(done.returncode, 0, done.both)
        return done

    def touched(self):
        return [BED.run(node, "sh", "-c", TOUCHED).stdout for node in NODES]

    def train(self, *words):
        config, run = BED.write_training(name="-".join(["cloud", *words[:1]]).replace("/", ""), steps=6)
        done = self.cluster("ssh", "--", "cd", str(BED.work), "&&", *words, "train", config)
        return done, run

    def test_from_nothing_to_training_over_ssh(self):
        before = self.touched()
        self.write()
        made = self.done("create", "--yes")
        self.assertIn("3 of 3 nodes are up", made.stdout)
        self.assertRegex(made.stdout, r"lab-3 +1 ")  # trireme hosts
        self.assertIn("lab-2 | Healthy", made.stdout)
        self.assertIn("# Out of bounds values : 0 OK", made.stdout)

        hosts = BED.run(3, "cat", "/etc/hosts").stdout
        self.assertIn("# trireme cluster lab: begin\n10.77.0.2 lab-1\n10.77.0.3 lab-2\n10.77.0.4 lab-3\n# trireme cluster lab: end\n", hosts)
        trained, run = self.train("trireme", "launch", "-f", f"{BED.work}/shared/hosts", "--ppn", "1", "--")
        self.assertEqual(trained.returncode, 0, trained.both)
        self.assertEqual(len(bed.records(run)), 6)
        self.assertIn("3 ranks: lab-[1-3] 1 each", trained.both)

        shown = self.done("status")
        self.assertRegex(shown.stdout, r"lab-3 +10\.77\.0\.4 +own machine +h4 \| Healthy \(at its last boot or setup, \d+-\d+-\d+ \d+:\d+ UTC, \d+ min ago\)")
        self.assertEqual(self.done("hosts").stdout, "lab-1\nlab-2\nlab-3\n")
        self.done("remove", "lab-3", "--yes")
        self.assertEqual((BED.work / "shared/hosts").read_text(), "lab-1\nlab-2\n")
        self.assertEqual(self.touched()[2], before[2])
        self.done("add", "--nodes", "1", "--yes")
        self.assertEqual((BED.work / "shared/hosts").read_text(), "lab-1\nlab-2\nlab-3\n")
        again = self.done("create", "--yes")
        self.assertIn("3 of 3 nodes are up", again.stdout)
        self.assertEqual(BED.run(3, "grep", "-c", "lab-3", "/etc/hosts").stdout, "1\n")
        self.assertIn("remove the cluster lab from its machines, which stay? yes", self.done("delete", "--yes").stdout)
        self.assertEqual(self.touched(), before)

    def test_an_own_slurm(self):
        before = self.touched()
        self.write(scheduler="slurm", name="batch")
        made = self.done("create", "--yes")
        self.assertIn("$ srun -N 3", made.stdout)
        conf = BED.run(3, "cat", "/etc/slurm/slurm.conf").stdout
        self.assertRegex(conf, r"NodeName=batch-3 NodeHostname=h4 NodeAddr=10\.77\.0\.4 CPUs=\d+")
        self.assertIn("\nSlurmUser=slurm\n", conf)
        self.assertIn("\nSelectType=select/cons_tres\n", conf)
        self.assertRegex(conf, r"\nDefMemPerCPU=\d+\n")
        self.assertEqual(self.done("ssh", "--", "ps -o user= -p $(cat /run/trireme-slurmctld.pid)").stdout, "slurm\n")
        self.assertEqual(self.done("ssh", "--all", "--", "echo same").stdout, "---- batch-[1-3] (3) ----\nsame\n")
        confined = "ProctrackType=proctrack/cgroup" in conf
        self.assertEqual(confined, "cannot confine jobs" not in made.both)
        if confined:
            self.check_confinement()
        self.check_sharing()
        config, run = BED.write_training(name="queued", steps=6)
        done = self.cluster("ssh", "--", "cd", str(BED.work), "&&", "trireme", "slurm", "--nodes", "3", "--time", "10", "--output", "job.log", "--submit", "--",
                            "train", config)
        self.assertEqual(done.returncode, 0, done.both)
        self.assertTrue(bed.wait_for(lambda: bed.status(run).get("state") not in (None, "running") and len(bed.records(run)) == 6, 120),
                        (BED.work / "job.log").read_text() if (BED.work / "job.log").exists() else self.cluster("ssh", "--", "sinfo; squeue").both)
        self.done("delete", "--yes")
        self.assertEqual(self.touched(), before)
        self.assertEqual(list(pathlib.Path("/sys/fs/cgroup").glob("*/slurm_batch-*")), [])
        self.assertEqual(BED.run(3, "sh", "-c", "pgrep -x slurmd -a --ns $$ --nslist net || true").stdout, "")

    def srun(self, words):
        done = self.cluster("ssh", "--", "srun -t 2 " + words)
        self.assertEqual(done.returncode, 0, done.both)
        return done.stdout

    def check_confinement(self):
        """A job has its core and its memory only, and nothing of it outlives it."""
        shown = self.srun("-w batch-2 -n 1 -c 1 --mem=100 sh -c 'nproc; cat /sys/fs/cgroup/memory/slurm*/uid_0/job_*/memory.limit_in_bytes'").splitlines()
        self.assertEqual(shown, ["1", str(100 << 20)])
        self.srun("-w batch-2 -n 1 --mem=100 sh -c 'setsid sleep 1234 >/dev/null 2>&1 & sleep 0.2'")
        self.assertTrue(bed.wait_for(lambda: BED.run(3, "pgrep", "-f", "^sleep 1234").stdout == "", 30), "a process of the job is left")

    def check_sharing(self):
        """Two jobs fit on one node, which has at least two cores."""
        if int(BED.run(3, "nproc").stdout) < 2:
            return
        shown = self.done("ssh", "--", "srun -t 2 -w batch-2 -n 1 -c 1 --mem=100 sleep 20 & sleep 3; srun -t 2 -w batch-2 -n 1 -c 1 --mem=100 squeue -h -t running -o %N; scancel -u root; wait").stdout
        self.assertEqual(shown, "batch-2\nbatch-2\n")

    def test_accounts_of_jobs(self):
        if not all(shutil.which(tool) for tool in ("slurmdbd", "mariadbd", "sacctmgr")):
            self.skipTest("no slurmdbd and MariaDB here; apt-get install slurmdbd mariadb-server")
        before = self.touched()
        self.write(scheduler="slurm, accounting: true", name="books", nodes=2)
        self.done("create", "--yes")
        self.assertEqual(BED.run(2, "stat", "-c", "%U %a", "/etc/slurm/slurmdbd.conf").stdout, "slurm 600\n")
        self.assertNotIn("StoragePass", BED.run(2, "cat", "/etc/slurm/slurmdbd.conf").stdout)
        self.srun("-N 2 -J counted sleep 2")
        told = lambda: self.done("ssh", "--", "sacct -X -n -P -o JobName,NNodes,State").stdout
        self.assertTrue(bed.wait_for(lambda: "counted|2|COMPLETED\n" in told(), 60), told())
        self.assertIn("2 of 2 nodes are up", self.done("create", "--yes").stdout)  # again: the accounts stay
        self.assertIn("counted|2|COMPLETED\n", told())
        self.done("delete", "--yes")
        self.assertEqual(self.touched(), before)
        self.assertEqual(BED.run(2, "sh", "-c", "ls /etc/slurm/slurmdbd.conf /run/trireme-mariadb.pid 2>/dev/null").stdout, "")

    def test_a_missing_machine_is_named_and_the_others_form_a_cluster(self):
        self.write(name="part")
        BED.script("link", BED.folder, 4, "down")
        try:
            made = self.cluster("create", "--yes")
        finally:
            BED.script("link", BED.folder, 4, "up")
        self.assertEqual(made.returncode, 1, made.both)
        self.assertIn("part-3 is not part of the cluster: part-3: ", made.both)
        self.assertIn("2 of 3 nodes are up", made.stdout)
        self.assertEqual((BED.work / "shared/hosts").read_text(), "part-1\npart-2\n")
        self.assertIn("3 of 3 nodes are up", self.done("create", "--yes").stdout)
        self.done("delete", "--yes")

    def write_source(self, package, name="trireme/scripts/package"):
        """Sources whose scripts note that they ran; what they build is this program."""
        path = BED.work / "source.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            for file, text in ((name, package), ("trireme/scripts/bootstrap", "#!/bin/sh\nexit 0\n")):
                info = tarfile.TarInfo(file)
                info.size, info.mode = len(text), 0o755
                tar.addfile(info, io.BytesIO(text.encode()))
        text = (BED.work / "lab.yaml").read_text()
        (BED.work / "lab.yaml").write_text(text.replace(f"software: {{package: {BED.work}/trireme-0-linux.tar.gz}}", f"software: {{source: {path}}}"))

    def test_the_head_builds_once_for_all(self):
        before = self.touched()
        ran = BED.work / "built.log"
        ran.unlink(missing_ok=True)
        self.write(name="make", nodes=2)
        self.write_source(f"#!/bin/sh\nhostname >>{ran}\nmkdir -p $2 && cp {BED.work}/trireme-0-linux.tar.gz $2/\n")
        for _ in range(2):  # the second time it exists
            made = self.done("create", "--yes")
            self.assertIn("make-1: building Trireme from its sources", made.both)
            self.assertEqual(ran.read_text(), "h2\n")
            for node in (2, 3):
                self.assertIn("trireme", BED.run(node, "/opt/trireme/bin/trireme", "--version").stdout)
        self.write(name="make", nodes=2)
        self.write_source("#!/bin/sh\necho it does not compile\nexit 3\n")
        for message in ("trireme-node: cannot build Trireme here, the full log is /var/log/trireme-build.log: it does not compile",
                        "source.tar.gz has no sources of Trireme: scripts/package is missing"):
            failed = self.cluster("create", "--yes")
            self.assertEqual(failed.returncode, 1, failed.both)
            self.assertIn(message, failed.both)
            self.write(name="make", nodes=2)
            self.write_source("", name="another/file")
        self.done("delete", "--yes")
        self.assertEqual(self.touched(), before)

    def own_files(self, node):
        """A machine with a Slurm, a munge key and an /opt/trireme of its owner's."""
        BED.run(node, "sh", "-ec", "mkdir -p /opt/trireme/bin /etc/slurm /etc/munge && echo theirs >/opt/trireme/bin/tool && echo ClusterName=theirs >/etc/slurm/slurm.conf && "
                "echo their-key >/etc/munge/munge.key && mkdir -p /var/spool/slurmctld && echo theirs >/var/spool/slurmctld/clustername && echo mine >/usr/local/bin/trireme && chmod 755 /usr/local/bin/trireme")

    OWN_FILES = "cat /opt/trireme/bin/tool /etc/slurm/slurm.conf /etc/munge/munge.key /usr/local/bin/trireme /var/spool/slurmctld/clustername; ls /opt/trireme /etc/slurm | grep -v plugstack"
    THEIRS = "theirs\nClusterName=theirs\ntheir-key\nmine\ntheirs\n"

    def forget_own_files(self, node):
        BED.run(node, "sh", "-c", "rm -rf /opt/trireme /etc/slurm/slurm.conf /etc/munge/munge.key /var/spool/slurmctld/clustername /usr/local/bin/trireme")

    def test_files_of_the_owner_of_a_machine_are_refused_and_stay(self):
        for node in NODES:
            self.own_files(node)
        try:
            before = self.touched()
            self.write(scheduler="slurm", name="ours")
            (BED.work / "shared/hosts").write_text("their\nhosts\n")
            refused = self.cluster("create", "--yes")
            self.assertEqual(refused.returncode, 1, refused.both)
            self.assertIn(f"h2 already has files in the place of the cluster's files: /opt/trireme /usr/local/bin/trireme {BED.work}/shared/hosts /etc/slurm/slurm.conf /etc/munge/munge.key; move them away, or use `trireme cluster create --take-over` to move them aside until `delete` restores them", refused.both)
            for node in NODES:
                self.assertTrue(BED.run(node, "sh", "-c", self.OWN_FILES).stdout.startswith(self.THEIRS))
            self.done("delete", "--yes")
            self.assertEqual(self.touched(), before)
            self.assertEqual((BED.work / "shared/hosts").read_text(), "their\nhosts\n")

            taken = self.cluster("create", "--yes", "--take-over")
            self.assertEqual(taken.returncode, 0, taken.both)
            self.assertIn("3 of 3 nodes are up", taken.stdout)
            self.assertIn("ClusterName=theirs", BED.run(2, "cat", "/etc/slurm/slurm.conf.before-trireme").stdout)
            for file, theirs in (("/opt/trireme/bin/tool", "theirs"), ("/etc/munge/munge.key", "their-key"), ("/etc/slurm/slurm.conf", "theirs")):
                self.assertEqual(BED.run(2, "grep", "-c", theirs, file).stdout.strip() or "0", "0", file)
            self.done("delete", "--yes")
            self.assertEqual(self.touched(), before)
            self.assertEqual((BED.work / "shared/hosts").read_text(), "their\nhosts\n")
            for node in NODES:
                self.assertEqual(BED.run(node, "sh", "-c", self.OWN_FILES).stdout, self.THEIRS + "/etc/slurm:\nslurm.conf\n\n/opt/trireme:\nbin\n")
        finally:
            self.leave_nothing()  # while the files that it restores are still wanted
            for node in NODES:
                self.forget_own_files(node)
            (BED.work / "shared/hosts").unlink(missing_ok=True)

    def test_delete_keeps_resources_of_others(self):
        self.write(name="alone")
        BED.run(2, "sh", "-c", "mkdir -p /etc/trireme && echo '* || check_hw_eth lo' >/etc/trireme/nhc.conf && echo ClusterName=theirs >/etc/slurm/slurm.conf")
        try:
            self.done("create", "--yes")
            self.assertEqual(BED.run(2, "cat", "/etc/trireme/nhc.conf").stdout, "* || check_hw_eth lo\n")
            self.done("delete", "--yes")
            self.assertEqual(BED.run(2, "cat", "/etc/trireme/nhc.conf", "/etc/slurm/slurm.conf").stdout, "* || check_hw_eth lo\nClusterName=theirs\n")
            self.assertEqual(BED.run(2, "ls", "/etc/trireme").stdout, "nhc.conf\n")
        finally:
            BED.run(2, "sh", "-c", "rm -rf /etc/trireme /etc/slurm/slurm.conf")

    def test_a_key_that_ssh_refuses_is_named_at_once(self):
        self.write(name="denied", more="")
        BED.run(1, "sh", "-c", f"rm -f {BED.folder}/other {BED.folder}/other.pub; ssh-keygen -q -t ed25519 -N '' -f {BED.folder}/other")
        text = (BED.work / "lab.yaml").read_text()
        for change in (("user: root", "user: nobody"),):
            (BED.work / "lab.yaml").write_text(text.replace(*change).replace("wait-minutes: 0.1", "wait-minutes: 5"))
            began = time.monotonic()
            made = self.cluster("create", "--yes")
            self.assertEqual(made.returncode, 1, made.both)
            self.assertLess(time.monotonic() - began, 60)
            self.assertIn("cannot reach the head: denied-1: it asks for a password or refuses our key (user nobody", made.both)
        (BED.work / "lab.yaml").write_text(text)
        self.cluster("delete", "--yes")

    def test_a_machine_that_does_not_answer_is_waited_for_with_a_line(self):
        self.write(name="wait")
        (BED.work / "lab.yaml").write_text((BED.work / "lab.yaml").read_text().replace("wait-minutes: 0.1", "wait-minutes: 0.5"))
        BED.script("link", BED.folder, 4, "down")
        try:
            made = self.cluster("create", "--yes")
        finally:
            BED.script("link", BED.folder, 4, "up")
        self.assertRegex(made.both, r"wait-3: not reached yet after \d+ of at most 30 s: ")
        self.done("delete", "--yes")

    def test_another_host_key_is_refused(self):
        self.write(name="keys", hosts="10.77.0.2,10.77.0.3", nodes=2)
        known = BED.folder / "h1.home/.ssh/known_hosts"
        text = known.read_text()
        lines = text.splitlines()
        keys = {line.split()[0]: line for line in lines}
        changed = keys["h2,10.77.0.2"].split(" ", 1)[1]
        known.write_text(text.replace(keys["h3,10.77.0.3"].split(" ", 1)[1], changed))
        try:
            made = self.cluster("create", "--yes")
        finally:
            known.write_text(text)
        self.assertEqual(made.returncode, 1, made.both)
        self.assertIn("keys-2: its host key differs from the one in known_hosts", made.both)
        self.done("delete", "--yes")

    def test_a_folder_that_is_not_there(self):
        self.write(name="bare", more="")
        text = (BED.work / "lab.yaml").read_text().replace(f"{BED.work}/shared", "/nowhere")
        (BED.work / "lab.yaml").write_text(text)
        made = self.cluster("create", "--yes")
        self.assertEqual(made.returncode, 1, made.both)
        self.assertIn("/nowhere does not exist, but storage.kind is existing: mount it on every node", made.both)
        self.done("delete", "--yes")


if __name__ == "__main__":
    sys.exit(bed.main(4, prepare))
