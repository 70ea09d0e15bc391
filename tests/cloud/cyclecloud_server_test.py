#!/usr/bin/env python3
"""src/cloud/cyclecloud_server.sh as a CycleCloud server runs it, with its folders elsewhere and with curl, cyclecloud and cycle_server that
write down how they are called."""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "src/cloud/cyclecloud_server.sh"
FILES = ("project.ini", "templates/trireme.txt", "parameters.json", "specs/default/cluster-init/scripts/010-trireme.sh",
         "specs/default/cluster-init/files/trireme_1_amd64.deb")
CURL = """#!/bin/bash
echo "curl $*" >>LOG
for word; do [ "$word" != -K ] || grep -q '^header = "Authorization: Bearer secret-token"$' token || exit 22; done
out= last=
while (($#)); do [ "$1" != -o ] || out=$2; last=$1; shift; done
case $last in
  *169.254.169.254*) echo '{"access_token": "secret-token"}' ;;
  *) [ -e FOLDER/ready ] || { touch FOLDER/ready; exit 22; }; echo "content of $last" >"$out" ;;
esac
"""
CYCLECLOUD = """#!/bin/bash
echo "cyclecloud $*" >>LOG
case "$1 $2" in
  "account show") exit 1 ;;
  "account create") cp "$4" FOLDER/created.json ;;
esac
"""
SERVER = """#!/bin/bash
echo "cycle_server $*" >>LOG
"""


class Server(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)
        self.folder = pathlib.Path(self.holder.name)
        for name in ("opt/config/data", "etc", "bin", "root"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "opt/config/cycle_server.properties").write_text("webServerPort=8080\nwebServerSslPort=443\nwebServerEnableHttps=false\n")
        for path, text in (("bin/curl", CURL), ("bin/cyclecloud", CYCLECLOUD), ("opt/cycle_server", SERVER)):
            file = self.folder / path
            file.write_text(text.replace("LOG", f"{self.folder}/log").replace("FOLDER", str(self.folder)))
            file.chmod(0o755)
        # Users of a real server do not exist here; waits are shorter.
        self.script = SCRIPT.read_text().replace("/opt/cycle_server", f"{self.folder}/opt").replace("/root/trireme", f"{self.folder}/root/trireme")
        self.script = self.script.replace("/etc/trireme", f"{self.folder}/etc").replace("install -o cycle_server -g cycle_server", "install").replace("sleep 15", "sleep 0.1")

    def run_script(self, start="false"):
        settings = {"CLUSTER": "sea", "ADMIN": "ann", "KEY": "'ssh-ed25519 AAAA ann@home'", "SUBSCRIPTION": "sub", "TENANT": "ten", "CLIENT_ID": "client",
                    "LOCKER_IDENTITY": "/subscriptions/sub/nodes", "ACCOUNT": "triremeabc", "CONTAINER": "cyclecloud", "GROUP": "trireme-sea", "LOCATION": "eastus",
                    "SUBNET": "trireme-sea/sea-vnet/nodes", "START": start}
        (self.folder / "etc/cyclecloud.env").write_text("".join(f"TRIREME_{name}={value}\n" for name, value in settings.items()))
        (self.folder / "etc/cyclecloud.files").write_text("".join(f"{name}\n" for name in FILES))
        done = subprocess.run(["bash", "-c", self.script], capture_output=True, text=True, timeout=60, cwd=self.folder,
                              env={"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def log(self):
        return (self.folder / "log").read_text().splitlines()

    def test_from_nothing_to_an_imported_cluster(self):
        self.assertIn("the cluster sea is ready on https://localhost:8443", self.run_script())
        calls = self.log()
        cyclecloud = [call for call in calls if call.startswith("cyclecloud")]
        self.assertEqual([" ".join(call.split()[1:3]) for call in cyclecloud],
                         ["initialize --batch", "account show", "account create", "project upload", "import_cluster sea"])
        self.assertTrue(cyclecloud[-1].endswith("--parameter-override Credentials=azure --parameter-override SubnetId=trireme-sea/sea-vnet/nodes"))
        self.assertLess(calls.index("cycle_server await_startup"), calls.index(cyclecloud[0]))
        self.assertEqual((self.folder / "opt/config/cycle_server.properties").read_text(), "webServerPort=8080\nwebServerSslPort=8443\nwebServerEnableHttps=true\n")
        for name in FILES:
            self.assertEqual((self.folder / "root/trireme/cyclecloud" / name).read_text(), f"content of https://triremeabc.blob.core.windows.net/cyclecloud/trireme/{name}\n")
        self.assertTrue(os.access(self.folder / "root/trireme/cyclecloud" / FILES[3], os.X_OK))
        created = json.loads((self.folder / "created.json").read_text())
        self.assertEqual((created["LockerAuthMode"], created["LockerIdentity"], created["AzureRMClientId"]), ("ManagedIdentity", "/subscriptions/sub/nodes", "client"))

    def test_the_password_is_new_and_only_root_reads_it(self):
        self.run_script()
        path = self.folder / "root/trireme/password"
        password = path.read_text()
        self.assertGreaterEqual(len(password), 24)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        account = self.folder / "opt/config/data/account.json"
        self.assertEqual(stat.S_IMODE(account.stat().st_mode), 0o600)
        user = next(record for record in json.loads(account.read_text()) if record["AdType"] == "AuthenticatedUser")
        self.assertEqual((user["Name"], user["RawPassword"]), ("ann", password))
        self.assertNotIn("secret-token", "".join(self.log()), "a token in a list of processes")
        self.assertFalse((self.folder / "root/trireme/token").exists())
        self.run_script()  # again: it stays
        self.assertEqual(path.read_text(), password)

    def test_the_cluster_starts_only_if_that_was_asked(self):
        self.run_script()
        self.assertNotIn("cyclecloud start_cluster sea", self.log())
        self.run_script(start="true")
        self.assertEqual(self.log()[-1], "cyclecloud start_cluster sea")

    def test_a_project_that_cannot_be_read_yet_is_asked_for_again(self):
        self.run_script()
        tokens = [call for call in self.log() if "169.254.169.254" in call]
        self.assertEqual(len(tokens), 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
