"""`trireme cluster` on a stand-in for Azure: whatever call fails, the next create goes on, nothing is made twice, and delete
leaves nothing of the cluster and everything of others.

azure_test.py TRIREME WORK-FOLDER"""
import json
import pathlib
import shutil
import subprocess
import socket
import sys
import tempfile
import unittest

from support import at_each_point, environment

HERE = pathlib.Path(__file__).resolve().parent
TRIREME, WORK, MODELS = None, None, None
PYTHON = HERE.parent.parent / ".venv-clouds/bin/python"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJustAKeyForTheTestsOfTriremeXXXXXXXXXXXX you@here\n"


def setUpModule():
    """The SDK's models, where `scripts/bootstrap --clouds` has brought them; without them answers are the stand-in's own."""
    global MODELS
    WORK.mkdir(parents=True, exist_ok=True)
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import azure.mgmt.compute, azure.mgmt.resource"], capture_output=True).returncode:
        print(f"answers do not pass through the SDK's models: no azure-mgmt packages in {PYTHON.parent.parent}; scripts/bootstrap --clouds brings them", flush=True)
        return
    folder = pathlib.Path(tempfile.mkdtemp())  # the name of a socket has to be short
    MODELS = subprocess.Popen([PYTHON, HERE / "standin/sdk_answers.py", folder / "models"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    MODELS.path = str(folder / "models")
    if MODELS.stdout.readline() != "ready\n":
        raise RuntimeError("sdk_answers.py does not start")


def tearDownModule():
    if MODELS:
        MODELS.communicate()
        shutil.rmtree(pathlib.Path(MODELS.path).parent, ignore_errors=True)


class Account:
    """A subscription of its own, and a cluster's file."""

    def __init__(self, name, *lines, nodes=2, groups=(), addresses=""):
        self.folder = WORK / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "key.pub").write_text(KEY)
        self.file = self.folder / "cluster.yaml"
        self.addresses = f", public-addresses: {addresses}" if addresses else ""
        self.write(*lines, nodes=nodes)
        self.state_file = self.folder / "azure.json"
        self.environment = environment(AZ_STATE=str(self.state_file), SSH_LOG=str(self.folder / "ssh.log"), SSH_DEAD="", SSH_CHANGED="",
                                       AZ_MODELS=MODELS.path if MODELS else "")
        for group in groups:
            self.az("group", "create", "--name", group, "--location", "eastus", "--tags", "owner=them")

    def write(self, *lines, nodes=2):
        self.file.write_text(f"cluster: {{name: sea, provider: azure, nodes: {nodes}}}\nnetwork: {{region: eastus{self.addresses}}}\nnode: {{wait-minutes: 0.01, image: 'Canonical:ubuntu-24_04-lts:server:latest'}}\n"
                             f"access: {{from: 198.51.100.7/32, key: {self.folder}/key.pub}}\n" + "".join(f"{line}\n" for line in lines))

    def az(self, *words):
        subprocess.run([HERE / "standin/az", *words], env=self.environment, check=True, capture_output=True)

    def run(self, *words, answer="", **variables):
        words = [TRIREME, "cluster", words[0], self.file, *words[1:]]
        done = subprocess.run(words, env=self.environment | variables, capture_output=True, text=True, timeout=120, input=answer)
        done.both = done.stdout + done.stderr
        return done

    def state(self):
        return json.loads(self.state_file.read_text())

    def resources(self):
        return sorted(resource["name"] for resource in self.state()["resources"])

    def calls(self):
        return self.state()["calls"] if self.state_file.exists() else 0


EVERYWHERE = sorted(["sea-nsg", "sea-vnet", "sea-near", "sea-1", "sea-1-ip", "sea-1-nic", "sea-1-os", "sea-2", "sea-2-ip", "sea-2-nic", "sea-2-os"])  # public-addresses: all
WHOLE = sorted([name for name in EVERYWHERE if name != "sea-2-ip"] + ["sea-nat", "sea-nat-ip"])


class Azure(unittest.TestCase):
    def assert_whole(self, account, names=WHOLE):
        self.assertEqual(account.resources(), list(names))
        twice = {name: count for name, count in account.state()["made"].items() if count > 1}
        self.assertEqual(twice, {}, "made twice")

    def test_from_nothing_to_a_cluster_and_back(self):
        account = Account("whole")
        done = account.run("create", "--yes")
        self.assertEqual(done.returncode, 0, done.both)
        self.assertIn("2 machines, Standard_D32s_v5: 3.07 USD per hour", done.stdout)
        self.assertIn("2 of 2 nodes are up", done.stdout)
        self.assert_whole(account)
        self.assertEqual(account.state()["rules"], {"ssh": ["198.51.100.7/32"]})
        calls = account.calls()
        again = account.run("create", "--yes")
        self.assertEqual(again.returncode, 0, again.both)
        self.assert_whole(account)
        shown = account.run("status")
        self.assertEqual(shown.returncode, 0, shown.both)
        self.assertRegex(shown.stdout, r"sea-2 +10\.60\.0\.5 +VM running +node \| Healthy")
        self.assertGreater(account.calls(), calls)
        gone = account.run("delete", "--yes")
        self.assertEqual(gone.returncode, 0, gone.both)
        self.assertEqual((account.resources(), account.state()["groups"]), ([], {}))
        self.assertEqual(account.run("status").returncode, 2)

    def test_create_continues_after_the_failure_of_any_call(self):
        for mode in ("after", "before"):  # its effect
            def one(at):
                account = Account(f"failing-{mode}-{at}")
                first = account.run("create", "--yes", AZ_FAIL_AT=str(at), AZ_FAIL_MODE=mode)
                if account.calls() < at:
                    return False
                if first.returncode == 0:
                    # The failed query was repeated: a node's host key or address while it starts.
                    self.assertRegex((account.folder / "azure.json.log").read_text().splitlines()[at - 1], "vm (list|run-command)")
                second = account.run("create", "--yes")
                self.assertEqual(second.returncode, 0, f"call {at} {mode}: {first.both}\n{second.both}")
                self.assert_whole(account)
                gone = account.run("delete", "--yes")
                self.assertEqual(gone.returncode, 0, gone.both)
                self.assertEqual((account.resources(), account.state()["groups"]), ([], {}), f"call {at} {mode}")
                return True
            self.assertGreater(at_each_point(1, one), 20)

    def test_delete_after_half_a_create(self):
        def one(at):
            account = Account(f"half-{at}", "azure: {resource-group: theirs}", groups=["theirs"])
            account.az("network", "public-ip", "create", "--resource-group", "theirs", "--name", "their-ip", "--tags", "owner=them")
            account.run("create", "--yes", AZ_FAIL_AT=str(at + 2), AZ_FAIL_MODE="after")
            gone = account.run("delete", "--yes")
            self.assertEqual(gone.returncode, 0, gone.both)
            self.assertEqual((account.resources(), list(account.state()["groups"])), (["their-ip"], ["theirs"]), f"call {at}")
            return at < 29
        at_each_point(1, one)

    def test_a_delete_that_failed_continues_with_the_next_one(self):
        def one(at):
            account = Account(f"end-{at}", "azure: {resource-group: theirs}", groups=["theirs"])
            self.assertEqual(account.run("create", "--yes").returncode, 0)
            failing = account.calls() + at
            first = account.run("delete", "--yes", AZ_FAIL_AT=str(failing), AZ_FAIL_MODE="after" if at % 2 else "before")
            if account.calls() < failing:
                return False
            if first.returncode == 0:  # a request to delete resources already deleted with the machine
                self.assertIn("Interfaces/sea-", (account.folder / "azure.json.log").read_text().splitlines()[failing - 1])
            second = account.run("delete", "--yes")
            self.assertEqual(second.returncode, 0, second.both)
            self.assertEqual((account.resources(), list(account.state()["groups"])), ([], ["theirs"]))
            return at < 19
        self.assertGreater(at_each_point(1, one), 8)

    def test_two_clusters_in_one_group_do_not_interfere(self):
        account = Account("shared", "azure: {resource-group: theirs}", groups=["theirs"])
        self.assertEqual(account.run("create", "--yes").returncode, 0)
        mine = account.resources()
        # The same name with another key is another user's cluster.
        (account.folder / "key.pub").write_text(KEY.replace("JustAKey", "Somebody"))
        shutil.rmtree(account.folder / "cluster.state")
        other = account.run("create", "--yes")
        self.assertEqual(other.returncode, 2, other.both)
        self.assertIn("sea-1 exists but does not belong to this cluster; choose another cluster.name", other.stderr)
        self.assertEqual(account.run("delete", "--yes").returncode, 0)
        self.assertEqual(account.resources(), mine)

    def test_a_resource_group_with_other_resources_stays(self):
        account = Account("more")
        self.assertEqual(account.run("create", "--yes").returncode, 0)
        account.az("network", "public-ip", "create", "--resource-group", "trireme-sea", "--name", "their-ip", "--tags", "owner=them")
        gone = account.run("delete", "--yes")
        self.assertIn("trireme-sea, because it also contains other resources: their-ip", gone.stderr)
        self.assertEqual(account.resources(), ["their-ip"])

    def test_what_can_be_checked_is_checked_first(self):
        for variables, message in (({"AZ_LOGGED_OUT": "1"}, "az is not logged in: ERROR: Please run 'az login' to setup account.; run `az login`"),
                                   ({"AZ_NO_SIZE": "1"}, "eastus has no size Standard_D32s_v5; choose another network.region or node.type"),
                                   ({"AZ_RESTRICTED": "1"}, "Standard_D32s_v5 of eastus is not available to this subscription (NotAvailableForSubscription)"),
                                   ({"AZ_QUOTA": "64"}, "quota of Standard DSv5 Family vCPUs in eastus: 64 processors are needed, but 54 of 64 are free"),
                                   ({"AZ_SPOT_QUOTA": "16"}, "quota of Total Regional Low-priority vCPUs in eastus: 32 processors are needed, but 16 of 16 are free")):
            account = Account("checks")
            if "AZ_SPOT_QUOTA" in variables:
                account.file.write_text(account.file.read_text().replace("node: {", "node: {spot: true, "))
            done = account.run("create", "--yes", **variables)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn(message, done.stderr)
            self.assertEqual((account.resources(), account.state()["groups"]), ([], {}))
        account = Account("checks", "azure: {resource-group: nobodys}")
        self.assertIn("azure.resource-group: nobodys does not exist", account.run("create", "--yes").stderr)

    def test_a_file_is_checked_before_any_question(self):
        for lines, message in ((["software: {package: /nowhere/trireme.deb}"], "software.package: the file /nowhere/trireme.deb does not exist; create it with scripts/package"),
                               (["software: {package: /etc/passwd}"], "software.package is /etc/passwd, expected a .deb or .tar.gz of scripts/package"),
                               (["software: {source: /nowhere}"], "software.source: /nowhere is neither a checkout of Trireme nor a .tar.gz of one"),
                               ([f"software: {{source: {HERE.parent.parent}, package: a.deb}}"], "software.package and software.source are both set")):
            account = Account("before", *lines)
            for words in (["plan", "--output", account.folder / "plan"], ["create", "--yes"]):
                done = account.run(*words)
                self.assertEqual(done.returncode, 2, done.both)
                self.assertIn(message, done.stderr)
            self.assertEqual(account.calls(), 0)
        account = Account("before", "hosts: {list: h1}")
        full = account.folder / "full"
        full.mkdir()
        (full / "mine").write_text("")
        for folder, message in ((full, "full exists and is not empty; name a new folder"), (account.file, "cluster.yaml exists and is not empty"), ("", "--output is empty; name a new folder")):
            done = account.run("plan", "--output", folder)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn(message, done.stderr)
            self.assertIn("cluster.yaml:5: hosts.list has no effect: provider is azure", done.stderr)
        self.assertEqual([file.name for file in full.iterdir()], ["mine"])
        for words, message in ((["--provider", "gcp"], "gcp not in {azure,aws,hosts}"), (["--nodes", "500"], "cluster.nodes is 500, expected a whole number from 1 to 200")):
            done = subprocess.run([TRIREME, "cluster", "init", *words, "--output", account.folder / "new.yaml"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)
            self.assertFalse((account.folder / "new.yaml").exists())

    def test_a_name_that_is_taken(self):
        account = Account("taken", groups=["trireme-sea"])
        done = account.run("create", "--yes")
        self.assertEqual(done.returncode, 2, done.both)
        self.assertIn("the resource group trireme-sea exists but does not belong to this cluster; choose another cluster.name", done.stderr)

    def test_machines_that_would_lack_trireme_are_not_created(self):
        account = Account("without")
        account.file.write_text(account.file.read_text().replace(", image: 'Canonical:ubuntu-24_04-lts:server:latest'", ""))
        done = account.run("create", "--yes")
        self.assertEqual(done.returncode, 2, done.both)
        self.assertIn("software.package and software.source are both empty, but new machines of azure do not have Trireme; name the .deb or .tar.gz of scripts/package, a checkout, or in node.image an image with it", done.stderr)
        self.assertFalse(account.state_file.exists() and account.resources())
        begun = subprocess.run([TRIREME, "cluster", "init", "--provider", "azure", "--package", "t.tar.gz"], capture_output=True, text=True, timeout=60)
        self.assertIn('package: "t.tar.gz"', begun.stdout)
        plan = account.run("plan", "--output", account.folder / "plan")  # shows what would be made in any case
        self.assertEqual(plan.returncode, 0, plan.both)

    def test_without_a_yes_nothing_is_created(self):
        account = Account("asks")
        for answer in ("", "n\n", "maybe\n"):
            done = account.run("create", answer=answer)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn("nothing was done; --yes skips the question", done.stderr)
            self.assertEqual(account.resources(), [])
        confirmed = account.run("create", answer="y\n")
        self.assertEqual(confirmed.returncode, 0, confirmed.both)
        kept = account.run("delete", answer="no\n")
        self.assertEqual(kept.returncode, 2)
        self.assertIn("delete the cluster sea and its disks? [y/N]", kept.stdout)
        self.assert_whole(account)

    def test_a_machine_that_never_comes_up_is_named(self):
        account = Account("lost", nodes=3)
        done = account.run("create", "--yes", SSH_DEAD="10.60.0.5")
        self.assertEqual(done.returncode, 1, done.both)
        self.assertIn("sea-2 is not part of the cluster: sea-2: it does not answer", done.stderr)
        self.assertIn("2 of 3 nodes are up", done.stdout)
        done = account.run("create", "--yes", SSH_DEAD="203.0.113.11")
        self.assertEqual(done.returncode, 1, done.both)
        self.assertIn("cannot reach the head: sea-1: it does not answer", done.stderr)
        self.assertEqual(account.run("create", "--yes").returncode, 0)

    def test_a_machine_that_could_not_be_created_is_named_and_created_again(self):
        account = Account("failed")
        done = account.run("create", "--yes", AZ_MACHINES_FAIL="sea-2")
        self.assertEqual(done.returncode, 1, done.both)
        self.assertIn("sea-2 is not part of the cluster: InternalExecutionError: An internal execution error occurred.", done.stderr)
        self.assertIn("1 of 2 nodes are up", done.stdout)
        again = account.run("create", "--yes")
        self.assertEqual(again.returncode, 0, again.both)
        self.assertEqual(account.resources(), list(WHOLE))

    def test_a_machine_without_capacity_on_azure_is_named_and_the_others_are_created(self):
        for variables, reason in (({"AZ_NO_CAPACITY": "sea-2"}, r"ERROR: \(SkuNotAvailable\) The requested VM size Standard_D32s_v5 is currently not available"),
                                  ({"AZ_MACHINES_FAIL": "sea-2", "AZ_REASON": "OverconstrainedAllocationRequest Allocation failed."}, "OverconstrainedAllocationRequest: Allocation failed")):
            for spot, words in (("false", "Azure currently has no free Standard_D32s_v5 in eastus; run the same command later, or choose another region or size "),
                                ("true", "Azure currently has no free spot Standard_D32s_v5 in eastus; run the same command later, or choose another region or size, or node.spot off ")):
                account = Account("room", nodes=3)
                account.file.write_text(account.file.read_text().replace("node: {", f"node: {{spot: {spot}, "))
                done = account.run("create", "--yes", **variables)
                self.assertEqual(done.returncode, 1, done.both)
                self.assertRegex(done.stderr, f"sea-2 is not part of the cluster: {words}\\({reason}")
                self.assertIn("2 of 3 nodes are up", done.stdout)
                again = account.run("create", "--yes")
                self.assertEqual(again.returncode, 0, again.both)
                self.assertEqual(account.run("delete", "--yes").returncode, 0)
                self.assertEqual(account.resources(), [])

    def test_a_head_without_capacity_on_azure_ends_the_create(self):
        account = Account("headless")
        done = account.run("create", "--yes", AZ_NO_CAPACITY="sea-1")
        self.assertEqual(done.returncode, 1, done.both)
        self.assertIn("machine sea-1: `az vm create` failed: ERROR: (SkuNotAvailable) The requested VM size", done.stderr)
        self.assertIn("run `create` again to continue, or `delete` to remove what exists", done.stderr)

    def test_a_reclaimed_spot_machine_is_created_again(self):
        account = Account("evicted")
        account.file.write_text(account.file.read_text().replace("node: {", "node: {spot: true, "))
        self.assertEqual(account.run("create", "--yes").returncode, 0)
        machine = next(one["id"] for one in account.state()["resources"] if one["name"] == "sea-2")
        account.az("resource", "delete", "--ids", machine)
        shown = account.run("status")
        self.assertEqual(shown.returncode, 1, shown.both)
        self.assertRegex(shown.stdout, r"sea-2 +- +missing +ERROR: its machine does not exist; the provider reclaims spot machines when it needs them")
        config = account.run("hosts", "--ssh-config")
        self.assertEqual(config.returncode, 0, config.both)
        self.assertIn("Host sea-1\n  HostName 203.0.113.11\n", config.stdout)
        self.assertNotIn("sea-2", config.stdout)
        self.assertIn("skipped sea-2, which has no address", config.stderr)
        known = account.folder / "cluster.state/known_hosts"
        before = dict(line.split(" ", 1) for line in known.read_text().splitlines())
        again = account.run("create", "--yes")
        self.assertEqual(again.returncode, 0, again.both)
        self.assertEqual(account.resources(), list(WHOLE))
        # Another machine at the same address: its own keys, from Azure, replace the old ones.
        after = dict(line.split(" ", 1) for line in known.read_text().splitlines())
        self.assertEqual(after["203.0.113.11"], before["203.0.113.11"])
        self.assertNotEqual(after["10.60.0.5"].split()[1], before["10.60.0.5"].split()[1])

    def images(self, account):
        return {one["name"]: one["image"] for one in account.state()["resources"] if "image" in one}

    def test_the_version_of_the_image_is_kept(self):
        account = Account("image")
        self.assertEqual(account.run("create", "--yes", AZ_IMAGE_VERSION="24.04.7").returncode, 0)
        added = account.run("add", "--yes", AZ_IMAGE_VERSION="24.04.8")
        self.assertEqual(added.returncode, 0, added.both)
        self.assertEqual(set(self.images(account).values()), {"Canonical:ubuntu-24_04-lts:server:24.04.7"})
        self.assertEqual(len(self.images(account)), 3)

    def test_an_image_may_have_every_form_of_name_that_az_has(self):
        gallery = "/subscriptions/1/resourceGroups/g/providers/Microsoft.Compute/galleries/s/images/i"
        for name, kept in (("Debian12", "Debian:debian-12:12-gen2:24.04.1"), ("A:b:c:1.2", "A:b:c:1.2"), (gallery, gallery)):
            account = Account("form", nodes=1)
            account.file.write_text(account.file.read_text().replace("Canonical:ubuntu-24_04-lts:server:latest", name))
            self.assertEqual(account.run("create", "--yes").returncode, 0)
            self.assertEqual(self.images(account), {"sea-1": kept})
        account.file.write_text(account.file.read_text().replace(gallery, "Debian99"))
        account.run("delete", "--yes")
        refused = account.run("create", "--yes")
        self.assertEqual(refused.returncode, 2, refused.both)
        self.assertIn("node.image: Debian99 is neither PUBLISHER:OFFER:SKU:VERSION, an identity (/subscriptions/...) nor a name of `az vm image list`", refused.stderr)

    def test_the_nodes_get_the_host_keys_that_the_provider_reports(self):
        account = Account("trust")
        self.assertEqual(account.run("create", "--yes").returncode, 0)
        known = dict(line.split(" ", 1) for line in (account.folder / "cluster.state/known_hosts").read_text().splitlines())
        logins = ("203.0.113.11", "10.60.0.5")
        keys = [" ".join(known[login].split()[:2]) for login in logins]
        self.assertNotEqual(*keys)
        for login in logins:
            given = (account.folder / f"ssh.log.{login}").read_text().splitlines()
            self.assertEqual(given, ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHeadsOwnKey trireme", f"sea-1,10.60.0.4 {keys[0]}", f"sea-2,10.60.0.5 {keys[1]}"])

    def test_only_the_head_has_a_public_address(self):
        for lines, groups, addresses in (((), (), ""), (("azure: {resource-group: theirs}",), ("theirs",), "head")):
            account = Account("behind", *lines, groups=groups, addresses=addresses)
            for _ in range(2):
                done = account.run("create", "--yes")
                self.assertEqual(done.returncode, 0, done.both)
                self.assert_whole(account)
            log = (account.folder / "ssh.log").read_text()
            self.assertIn("10.60.0.5 through 203.0.113.11\n", log)
            self.assertNotIn("203.0.113.12", log)
            shown = account.run("status")
            self.assertRegex(shown.stdout, r"sea-1 +203\.0\.113\.11 +VM running +node \| Healthy.*\nsea-2 +10\.60\.0\.5 +VM running +node \| Healthy")
            configured = account.run("hosts", "--ssh-config").stdout
            self.assertRegex(configured, r"Host sea-2\n  HostName 10\.60\.0\.5\n  User trireme\n  StrictHostKeyChecking yes\n  ProxyJump sea-1\n")
            self.assertEqual(configured.count("ProxyJump"), 1)
            # The head's key is as fixed as the others'.
            self.assertEqual(account.run("status", SSH_CHANGED="10.60.0.5").returncode, 1)
            account.addresses = ", public-addresses: all"
            account.write(*lines)
            refused = account.run("create", "--yes")
            self.assertEqual(refused.returncode, 2, refused.both)
            self.assertIn("network.public-addresses is all, but was head when the cluster was created; set it to head in the cluster's file, or delete the cluster first", refused.stderr)
            self.assert_whole(account)
            gone = account.run("delete", "--yes")
            self.assertEqual(gone.returncode, 0, gone.both)
            self.assertEqual((account.resources(), list(account.state()["groups"])), ([], list(groups)))

    def test_every_machine_may_have_a_public_address(self):
        account = Account("everywhere", addresses="all")
        for _ in range(2):
            done = account.run("create", "--yes")
            self.assertEqual(done.returncode, 0, done.both)
            self.assert_whole(account, EVERYWHERE)
        log = (account.folder / "ssh.log").read_text()
        self.assertIn("203.0.113.12 ", log)
        self.assertNotIn("through", log)
        self.assertRegex(account.run("status").stdout, r"sea-2 +203\.0\.113\.12 +VM running +node \| Healthy")
        configured = account.run("hosts", "--ssh-config").stdout
        self.assertIn("Host sea-2\n  HostName 203.0.113.12\n", configured)
        self.assertNotIn("ProxyJump", configured)
        # One of before there was a choice, too.
        file = account.folder / "cluster.state/state.json"
        state = json.loads(file.read_text())
        account.addresses = ""
        account.write()
        for pins in (state["pins"], {name: value for name, value in state["pins"].items() if name != "public-addresses"}):
            file.write_text(json.dumps(state | {"pins": pins}))
            refused = account.run("add", "--yes")
            self.assertEqual(refused.returncode, 2, refused.both)
            self.assertIn("network.public-addresses is head, but was all when the cluster was created; set it to all in the cluster's file, or delete the cluster first", refused.stderr)
            self.assertRegex(account.run("status").stdout, r"sea-2 +203\.0\.113\.12 +VM running +node \| Healthy")
        file.write_text(json.dumps(state))
        account.addresses = ", public-addresses: all"
        account.write()
        self.assertEqual(account.run("add", "--yes").returncode, 0)
        self.assert_whole(account, sorted(EVERYWHERE + ["sea-3", "sea-3-ip", "sea-3-nic", "sea-3-os"]))
        self.assertEqual(account.run("delete", "--yes").returncode, 0)
        self.assertEqual(account.resources(), [])

    def test_a_head_alone_has_no_nat_gateway_until_a_node_is_added(self):
        account = Account("alone", nodes=1)
        self.assertEqual(account.run("create", "--yes").returncode, 0)
        self.assert_whole(account, [name for name in EVERYWHERE if not name.startswith("sea-2")])
        added = account.run("add", "--yes")
        self.assertEqual(added.returncode, 0, added.both)
        self.assertIn("2 of 2 nodes are up", added.stdout)
        self.assert_whole(account)
        self.assertEqual(account.run("delete", "--yes").returncode, 0)
        self.assertEqual(account.resources(), [])

    def test_answers_that_are_not_what_az_answers_are_told(self):
        for told, message in (("vm list-usage=Name  CurrentValue  Limit", "the quota: `az vm list-usage ... --output json` did not return JSON but \"Name  CurrentValue  Limit "),
                              ("vm list-usage=", "the quota: `az vm list-usage` returned nothing, expected a list"),
                              ("vm list-usage={\"value\": 3}", "the quota: `az vm list-usage` returned \"{\"value\":3}\", expected a list"),
                              ("vm list-skus=<html>", "sizes of the region: `az vm list-skus ... --output json` did not return JSON but \"<html>"),
                              ("resource list=oops", "the existing resources: `az resource list ... --output json` did not return JSON")):
            account = Account("text", "azure: {resource-group: theirs}", groups=["theirs"])
            done = account.run("create", "--yes", AZ_ANSWERS=told)
            self.assertEqual(done.returncode, 1, done.both)
            self.assertIn(message, done.stderr)
            self.assertEqual(account.resources(), [])

    def test_a_host_key_that_changed_is_refused(self):
        account = Account("keys")
        self.assertEqual(account.run("create", "--yes").returncode, 0)
        known = account.folder / "cluster.state/known_hosts"
        pinned = known.read_text()
        self.assertEqual(len(pinned.splitlines()), 2)
        # Another machine answers at the worker's address: the pinned key remains for every command.
        for words, code in ((["status"], 1), (["create", "--yes"], 1), (["add", "--yes"], 1)):
            done = account.run(*words, SSH_CHANGED="10.60.0.5")
            self.assertEqual(done.returncode, code, done.both)
            self.assertRegex(done.both, "sea-2.*: its host key differs from the one in known_hosts; it was pinned in .*cluster.state/known_hosts when the machine was created: find out why it changed")
            self.assertEqual(known.read_text().splitlines()[:2], pinned.splitlines())
        self.assertIn("2 of 3 nodes are up", done.stdout)
        # The head's: every command stops.
        done = account.run("create", "--yes", SSH_CHANGED="203.0.113.11")
        self.assertEqual(done.returncode, 1, done.both)
        self.assertIn("cannot reach the head: sea-1: its host key differs from the one in known_hosts", done.stderr)
        # One that is not pinned any more is not learned from the machine either.
        known.write_text(pinned.replace("203.0.113.11 ", "203.0.113.99 ").replace("10.60.0.5 ", "10.60.0.98 "))
        shown = account.run("status")
        self.assertEqual(shown.returncode, 1, shown.both)
        self.assertIn("its host key is unknown", shown.stdout)
        words = (account.folder / "ssh.log").read_text()
        self.assertNotIn("StrictHostKeyChecking=no", words)

    def test_nodes_come_and_go(self):
        account = Account("changes")
        self.assertEqual(account.run("create", "--yes").returncode, 0)
        done = account.run("add", "--nodes", "1", "--yes")
        self.assertEqual(done.returncode, 0, done.both)
        self.assertIn("3 of 3 nodes are up", done.stdout)
        self.assert_whole(account, sorted(WHOLE + ["sea-3", "sea-3-nic", "sea-3-os"]))
        done = account.run("remove", "sea-2", "--yes")
        self.assertEqual(done.returncode, 0, done.both)
        self.assertEqual(account.run("hosts").stdout, "sea-1\nsea-3\n")
        self.assertEqual([name for name in account.resources() if name.startswith("sea-2")], [])
        self.assertIn("Host sea-3\n  HostName 10.60.0.6\n  User trireme\n  StrictHostKeyChecking yes\n  ProxyJump sea-1\n", account.run("hosts", "--ssh-config").stdout)
        for words, message in ((["remove", "sea-1", "--yes"], "sea-1 is the head, which has the shared folder"),
                               (["remove", "sea-9", "--yes"], "the cluster has no node sea-9; it has sea-1 to sea-3"),
                               (["ssh", "sea-9"], "the cluster has no node sea-9")):
            done = account.run(*words)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn(message, done.stderr)
        self.assertEqual(account.run("delete", "--yes").returncode, 0)
        self.assertEqual(account.resources(), [])

    def test_one_command_at_a_time(self):
        account = Account("lock")
        state = account.folder / "cluster.state"
        state.mkdir()
        holder = ("import fcntl, struct, sys\nfile = open(sys.argv[1], 'w')\nfile.write('process 7 on there')\nfile.flush()\n"
                  "fcntl.fcntl(file, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))\nprint('locked', flush=True)\nsys.stdin.read()\n")
        with subprocess.Popen([sys.executable, "-c", holder, state / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "locked\n")
            done = account.run("create", "--yes")
            process.stdin.close()
        self.assertEqual(done.returncode, 1, done.both)
        self.assertIn("another `trireme cluster` is working on this cluster (process 7 on there", done.stderr)
        self.assertEqual(account.calls(), 0)

    def test_machines_that_end_themselves_have_rights_on_their_own_group_only(self):
        account = Account("ends", nodes=2)
        account.write("storage: {kind: provider}", nodes=2)
        account.file.write_text(account.file.read_text().replace("nodes: 2}", "nodes: 2, lifetime-hours: 8}"))
        done = account.run("create", "--yes")
        self.assertEqual(done.returncode, 0, done.both)
        log = (account.folder / "azure.json.log").read_text().splitlines()
        machines = [line for line in log if line.startswith("vm create")]
        group = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/trireme-sea"
        self.assertIn(f"--assign-identity [system] --role Contributor --scope {group} ", machines[0] + " ")
        self.assertNotIn("--assign-identity", machines[1])
        self.assertEqual(account.run("delete", "--yes").returncode, 0)
        self.assertEqual(account.resources(), [])

    def test_a_cluster_that_has_ended_by_itself(self):
        account = Account("over")
        account.file.write_text(account.file.read_text().replace("nodes: 2}", "nodes: 2, lifetime-hours: 8}"))
        self.assertEqual(account.run("create", "--yes").returncode, 0)
        account.az("group", "delete", "--name", "trireme-sea")
        shown = account.run("status")
        self.assertEqual(shown.returncode, 1, shown.both)
        for node in (1, 2):
            self.assertRegex(shown.stdout, f"sea-{node} +- +missing +ERROR: its machine does not exist; cluster.lifetime-hours may have ended it")
        self.assertIn("sea-1 has no address; check it with `trireme cluster status", account.run("ssh").stderr)
        again = account.run("create", "--yes")
        self.assertEqual(again.returncode, 0, again.both)
        self.assertEqual(account.resources(), list(WHOLE))
        account.az("group", "delete", "--name", "trireme-sea")
        gone = account.run("delete", "--yes")
        self.assertEqual(gone.returncode, 0, gone.both)
        self.assertEqual(account.resources(), [])

    def test_a_field_that_the_sdk_does_not_have_fails(self):
        if not MODELS:
            self.skipTest("no azure-mgmt packages; scripts/bootstrap --clouds brings them")
        for action, answer, message in (("vm list", [{"name": "sea-1", "powerstate": "VM running"}], "vm list.powerstate is no field of VirtualMachine of the SDK"),
                                        ("resource list", [{"name": "sea-1", "publicIps": "1.2.3.4"}], "resource list.publicIps is no field of GenericResourceExpanded"),
                                        ("vm list-usage", [{"limit": "64"}], "vm list-usage.limit is '64', the SDK has int"),
                                        ("vm list-skus", [{"capabilities": [{"key": "vCPUs"}]}], "capabilities[].key is no field of ResourceSkuCapabilities")):
            with socket.socket(socket.AF_UNIX) as server:
                server.connect(MODELS.path)
                server.sendall(json.dumps([action, answer]).encode() + b"\n")
                self.assertIn(message, json.loads(server.makefile().readline())["problem"])

    def test_no_secret_is_printed(self):
        account = Account("secret")
        done = account.run("create", "--yes", AZURE_CLIENT_SECRET="hunter2-hunter2", AWS_SECRET_ACCESS_KEY="hunter3-hunter3")
        self.assertEqual(done.returncode, 0, done.both)
        for file in account.folder.rglob("*"):
            if file.is_file():
                self.assertNotRegex(file.read_text(), "hunter|PRIVATE KEY", file)


if __name__ == "__main__":
    TRIREME, WORK = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
