"""`trireme cluster` on a stand-in for CloudFormation: whatever call or resource fails, the next create goes on, nothing is there twice,
and delete leaves nothing of the cluster and everything of others.

aws_failures_test.py TRIREME WORK-FOLDER"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from support import at_each_point, environment

HERE = pathlib.Path(__file__).resolve().parent
TRIREME, WORK = None, None
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJustAKeyForTheTestsOfTriremeXXXXXXXXXXXX you@here\n"
UBUNTU = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
FULL = "We currently do not have sufficient c7i.16xlarge capacity in the Availability Zone you requested"


class Account:
    """An account with somebody else's stack in it, and a cluster's file."""

    def __init__(self, name, nodes=2, theirs=True):
        self.folder = WORK / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.state_file = self.folder / "aws.json"
        self.environment = environment(AWS_STATE=str(self.state_file), SSH_LOG=str(self.folder / "ssh.log"), SSH_DEAD="")
        self.write(nodes=nodes)
        if theirs:
            (self.folder / "theirs").write_text("\nResources:\n  Node1:\n    Type: AWS::EC2::Instance\n    Tags:\n      - {Key: Name, Value: \"sea-1\"}\n")
            subprocess.run([HERE / "standin/aws", "cloudformation", "create-stack", "--stack-name", "theirs", "--on-failure", "DO_NOTHING", "--template-body",
                            f"file://{self.folder}/theirs", "--tags", "Key=trireme-run,Value=another"], env=self.environment, check=True)

    def write(self, nodes=2, more="", key=KEY, cluster=""):
        (self.folder / "key.pub").write_text(key)
        (self.folder / "cluster.yaml").write_text(
            f"cluster: {{name: sea, provider: aws, nodes: {nodes}{cluster}}}\nnetwork: {{region: us-east-1}}\n"
            f"access: {{from: 198.51.100.7/32, key: {self.folder}/key.pub}}\nstorage: {{kind: provider}}\n{more or 'node: {wait-minutes: 0.01, image: /aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id}'}\n")

    def run(self, *words, **variables):
        done = subprocess.run([TRIREME, "cluster", words[0], "cluster.yaml", *words[1:]], cwd=self.folder, env=self.environment | variables, capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL)
        done.both = done.stdout + done.stderr
        return done

    def state(self):
        return json.loads(self.state_file.read_text())

    def calls(self):
        return self.state()["calls"]

    def last_call(self, at):
        return (self.folder / "aws.json.log").read_text().splitlines()[at - 1]

    def resources(self):
        """Logical names of the cluster's, with their kinds left out; None: there is no stack."""
        stack = self.state()["stacks"].get("trireme-sea")
        return stack and sorted(stack["resources"])


WAY_OUT = ["RangeOfNat", "SubnetOfNat", "RoutesOfNat", "RouteOutOfNat", "RoutesOfSubnetOfNat", "AddressOfNat", "Nat", "RouteToCaller1"]


def whole(*nodes, addresses="head"):
    return sorted(["Network", "Gateway", "GatewayOfNetwork", "Routes", "RouteOut", "Subnet", "RoutesOfSubnet", "Firewall", "FromEachOther", "ToEachOther", "Placement", "Storage",
                   "StorageTarget"] + [f"Node{node}{part}" for node in nodes for part in ("", "Launch")] +
                  (WAY_OUT if addresses == "head" and len(nodes) > 1 else []))


class Failures(unittest.TestCase):
    def done(self, account, *words, **variables):
        done = account.run(*words, **variables)
        self.assertEqual(done.returncode, 0, done.both)
        return done

    def assert_gone(self, account, why=""):
        self.done(account, "delete", "--yes")
        self.assertEqual(list(account.state()["stacks"]), ["theirs"], why)

    def test_create_continues_after_the_failure_of_any_call(self):
        for mode in ("after", "before"):  # its effect
            def one(at):
                account = Account(f"failing-{mode}-{at}")
                first = account.run("create", "--yes", AWS_FAIL_AT=str(at), AWS_FAIL_MODE=mode)
                if account.calls() < at:
                    return False
                if first.returncode == 0:
                    # The failed query was repeated, or its result is reported as unknown.
                    self.assertRegex(account.last_call(at), "describe-(instances|images)|get-console-output|get-service-quota")
                second = self.done(account, "create", "--yes")
                self.assertIn("2 of 2 nodes are up", second.stdout, f"call {at} {mode}: {first.both}")
                self.assertEqual(account.resources(), whole(1, 2))
                self.assert_gone(account, f"call {at} {mode}")
                return True
            self.assertGreater(at_each_point(2, one), 10)

    def test_create_continues_after_the_failure_of_any_resource(self):
        names = whole(1, 2)

        def one(at):
            name = names[at]
            account = Account(f"resource-{name}")
            first = account.run("create", "--yes", AWS_RESOURCE_FAILS=name, AWS_REASON=FULL)
            self.assertEqual(first.returncode, 1, first.both)
            self.assertIn(f"the stack trireme-sea ended as CREATE_FAILED: {name}: {FULL}; run `create` again to continue, or `delete` to remove what exists", first.stderr)
            self.assertNotEqual(account.resources(), whole(1, 2))
            if name.endswith("2"):  # delete after half a create
                self.assert_gone(account)
            self.done(account, "create", "--yes")
            self.assertEqual(account.resources(), whole(1, 2))
            self.assert_gone(account, name)
            return True
        at_each_point(0, lambda at: at < len(names) and one(at))

    def test_delete_continues_after_the_failure_of_any_call(self):
        for mode in ("after", "before"):
            whole_account = Account("whole")
            self.done(whole_account, "create", "--yes")

            def one(at):
                account = Account(f"end-{mode}-{at}")
                shutil.copytree(whole_account.folder, account.folder, dirs_exist_ok=True)
                failing = account.calls() + at
                first = account.run("delete", "--yes", AWS_FAIL_AT=str(failing), AWS_FAIL_MODE=mode)
                if account.calls() < failing:
                    return False
                self.assertEqual(first.returncode, 1, f"call {at} {mode}: {first.both}")
                self.assert_gone(account, f"call {at} {mode}")
                return True
            self.assertGreater(at_each_point(1, one), 3)

    def test_what_cannot_be_deleted_is_named(self):
        account = Account("stuck")
        self.done(account, "create", "--yes")
        stuck = account.run("delete", "--yes", AWS_RESOURCE_FAILS="Network", AWS_REASON="The vpc has dependencies and cannot be deleted.")
        self.assertEqual(stuck.returncode, 1, stuck.both)
        self.assertIn("cannot delete the stack trireme-sea (DELETE_FAILED): Network: The vpc has dependencies and cannot be deleted.; run the same command to continue", stuck.stderr)
        self.done(account, "create", "--yes")  # begins anew
        self.assertEqual(account.resources(), whole(1, 2))
        self.assert_gone(account)

    def test_add_and_remove_survive_the_failure_of_any_call(self):
        for words, after in ((["add", "--nodes", "1", "--yes"], (1, 2, 3)), (["remove", "sea-2", "--yes"], (1,))):
            whole_account = Account("whole")
            self.done(whole_account, "create", "--yes")

            def one(at):
                account = Account(f"changes-{words[0]}-{at}")
                shutil.copytree(whole_account.folder, account.folder, dirs_exist_ok=True)
                before = account.state()["stacks"]["trireme-sea"]["resources"]
                failing = account.calls() + at
                first = account.run(*words, AWS_FAIL_AT=str(failing), AWS_FAIL_MODE="after" if at % 2 else "before")
                if account.calls() < failing:
                    self.assert_gone(account)
                    return False
                # Where the file of what there shall be was not changed yet, the change is asked for again.
                self.done(account, "create", "--yes")
                if account.resources() != whole(*after):
                    self.assertEqual(account.resources(), whole(1, 2), first.both)
                    self.done(account, *words)
                there = account.state()["stacks"]["trireme-sea"]["resources"]
                self.assertEqual(sorted(there), whole(*after))
                self.assertEqual(there["Node1"], before["Node1"], "a node that stays was made anew")
                return True
            self.assertGreater(at_each_point(1, one), 5)

    def test_a_machine_reclaimed_by_aws_is_named_and_replaced(self):
        account = Account("spot")
        account.write(more="node: {spot: true, wait-minutes: 0.01, image: /aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id}")
        self.done(account, "create", "--yes")
        state = account.state()
        del state["stacks"]["trireme-sea"]["resources"]["Node2"]["tags"]["Name"]  # it is found by no question then
        state["stacks"]["trireme-sea"]["resources"]["Node2"]["type"] = "ended"
        account.state_file.write_text(json.dumps(state))
        self.assertIn("its machine does not exist; the provider reclaims spot machines when it needs them", account.run("status").stdout)
        again = account.run("create", "--yes")
        self.assertEqual(again.returncode, 1, again.both)
        self.assertIn("sea-2 is not part of the cluster: its machine has ended, as spot machines do when AWS reclaims them; replace it with `trireme cluster remove` and `add`", again.stderr)
        self.assertIn("1 of 2 nodes are up", again.stdout)
        self.done(account, "remove", "sea-2", "--yes")
        self.assertIn("2 of 2 nodes are up", self.done(account, "add", "--yes").stdout)
        self.assert_gone(account)

    def test_only_the_head_or_every_machine_has_a_public_address(self):
        for asked, addresses in (("", "head"), ("head", "head"), ("all", "all")):
            account = Account("behind")
            file = account.folder / "cluster.yaml"
            text = file.read_text()
            write = lambda wanted: file.write_text(text.replace("region: us-east-1", f"region: us-east-1, public-addresses: {wanted}") if wanted else text)
            write(asked)
            self.done(account, "create", "--yes")
            self.assertEqual(account.resources(), whole(1, 2, addresses=addresses))
            log = (account.folder / "ssh.log").read_text()
            login = {"head": "10.60.0.5", "all": "203.0.113.12"}[addresses]
            self.assertEqual("10.60.0.5 through 203.0.113.11\n" in log, addresses == "head")
            self.assertEqual("203.0.113.12" in log, addresses == "all")
            self.assertRegex(self.done(account, "status").stdout, rf"sea-2 +{re.escape(login)} +running +node \| Healthy")
            self.done(account, "add", "--yes")
            self.assertEqual(account.resources(), whole(1, 2, 3, addresses=addresses))
            other = {"head": "all", "all": "head"}[addresses]
            write(other if other == "all" else "")
            refused = account.run("create", "--yes")
            self.assertEqual(refused.returncode, 2, refused.both)
            self.assertIn(f"network.public-addresses is {other}, but was {addresses} when the cluster was created; set it to {addresses} in the cluster's file", refused.stderr)
            self.assert_gone(account)

    def test_a_cluster_that_has_ended_by_itself(self):
        account = Account("over")
        account.write(cluster=", lifetime-hours: 8")
        self.done(account, "create", "--yes")
        state = account.state()
        for one in state["stacks"]["trireme-sea"]["resources"].values():
            one["type"] = one["type"].replace("AWS::EC2::Instance", "ended")
        account.state_file.write_text(json.dumps(state))
        self.assertRegex(account.run("status").stdout, "sea-1 +- +missing +ERROR: its machine does not exist; cluster.lifetime-hours may have ended it")
        again = account.run("create", "--yes")
        self.assertEqual(again.returncode, 1, again.both)
        self.assertIn("the head's machine has ended, after cluster.lifetime-hours or by hand; run `trireme cluster delete` to remove the rest", again.stderr)
        self.done(account, "delete", "--yes")
        self.done(account, "create", "--yes")
        self.assertEqual(account.resources(), whole(1, 2))
        self.assert_gone(account)

    def test_a_node_that_cannot_be_added_is_named_and_the_others_stay(self):
        account = Account("full")
        self.done(account, "create", "--yes")
        full = account.run("add", "--nodes", "1", "--yes", AWS_RESOURCE_FAILS="Node3", AWS_REASON=FULL)
        self.assertEqual(full.returncode, 1, full.both)
        self.assertIn(f"the stack trireme-sea ended as UPDATE_ROLLBACK_COMPLETE: Node3: {FULL}", full.stderr)
        self.assertEqual(account.resources(), whole(1, 2))
        other = account.run("create", "--yes", AWS_RESOURCE_FAILS="Node3Launch", AWS_REASON="another reason")
        self.assertIn("the stack trireme-sea ended as UPDATE_ROLLBACK_COMPLETE: Node3Launch: another reason;", other.stderr)
        self.assertIn("3 of 3 nodes are up", self.done(account, "create", "--yes").stdout)
        self.assert_gone(account)

    def test_a_new_image_does_not_replace_machines(self):
        account = Account("image")
        self.done(account, "create", "--yes", AWS_IMAGE="ami-00000000000000001", AWS_ROOT="/dev/xvda")
        before = account.state()["stacks"]["trireme-sea"]
        self.assertIn("    Default: ami-00000000000000001\n", before["text"])
        self.assertIn("DeviceName: /dev/xvda", before["text"])
        for words in (["create", "--yes"], ["add", "--nodes", "1", "--yes"], ["remove", "sea-2", "--yes"]):
            self.done(account, *words, AWS_IMAGE="ami-00000000000000002")
            after = account.state()["stacks"]["trireme-sea"]["resources"]
            self.assertEqual(after["Node1"], before["resources"]["Node1"], words)
        self.assertIn("ImageId: ami-00000000000000001", account.state()["stacks"]["trireme-sea"]["resources"]["Node3"]["text"])
        account.write(more="node: {wait-minutes: 0.01, image: ami-99}")
        self.assertIn('node.image is "ami-99" now, but was "/aws/service/', self.done(account, "create", "--yes").stderr)
        self.assert_gone(account)
        account.write()
        self.done(account, "create", "--yes", AWS_IMAGE="ami-00000000000000002")
        self.assertIn("    Default: ami-00000000000000002\n", account.state()["stacks"]["trireme-sea"]["text"], "a new cluster has today's")

    def test_a_stack_of_a_version_without_pins_keeps_its_machines(self):
        account = Account("older")
        self.done(account, "create", "--yes", AWS_IMAGE="ami-00000000000000001")
        file = account.folder / "cluster.state/state.json"
        state = json.loads(file.read_text())
        del state["pins"]
        file.write_text(json.dumps(state))
        before = account.state()["stacks"]["trireme-sea"]["resources"]
        # It had no zone in its template either.
        all_of_it = account.state()
        for one in all_of_it["stacks"]["trireme-sea"]["resources"].values():
            one["text"] = one["text"].replace("      AvailabilityZone: us-east-1a\n", "")
        account.state_file.write_text(json.dumps(all_of_it))
        self.done(account, "create", "--yes", AWS_IMAGE="ami-00000000000000002")
        after = account.state()["stacks"]["trireme-sea"]["resources"]
        self.assertEqual({name: one["id"] for name, one in after.items()}, {name: one["id"] for name, one in before.items()})

    def test_the_zone_has_all_sizes(self):
        sizes = "c7i.large=us-east-1a,us-east-1d c7i.16xlarge=us-east-1b,us-east-1d,us-east-1f"
        mixed = f"node: {{wait-minutes: 0.01, head-type: c7i.large, image: {UBUNTU}}}"
        account = Account("zone")
        account.write(more=mixed)
        self.done(account, "create", "--yes", AWS_ZONES=sizes)
        self.assertIn("AvailabilityZone: us-east-1d", account.state()["stacks"]["trireme-sea"]["resources"]["Subnet"]["text"])
        before = account.state()["stacks"]["trireme-sea"]["resources"]["Subnet"]
        self.done(account, "add", "--yes", AWS_ZONES=sizes.replace("us-east-1d", "us-east-1b"))
        self.assertEqual(account.state()["stacks"]["trireme-sea"]["resources"]["Subnet"], before, "it is kept")
        self.assert_gone(account)
        for zones, more, message in (
                ("c7i.large=us-east-1a c7i.16xlarge=us-east-1b", mixed, "no zone of us-east-1 has both c7i.16xlarge and c7i.large; choose another network.region"),
                ("c7i.16xlarge=us-east-1b", mixed, "us-east-1 has no size c7i.large; choose another network.region or node.type")):
            account.write(more=more)
            done = account.run("create", "--yes", AWS_ZONES=zones)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn(f"nothing was created: {message}", done.stderr)
        file = account.folder / "cluster.yaml"
        account.write()
        file.write_text(file.read_text().replace("region: us-east-1", "region: us-east-1, zone: us-east-1f"))
        self.done(account, "create", "--yes", AWS_ZONES=sizes)
        self.assertIn("AvailabilityZone: us-east-1f", account.state()["stacks"]["trireme-sea"]["resources"]["Subnet"]["text"])
        self.assert_gone(account)
        done = account.run("create", "--yes", AWS_ZONES="c7i.16xlarge=us-east-1b")
        self.assertIn("nothing was created: network.zone us-east-1f does not have c7i.16xlarge; choose one of us-east-1b", done.stderr)

    def test_machines_with_two_network_cards_need_addresses(self):
        for addresses, quota, needed in (("all", 5, 6), ("head", 1, 2)):  # the head's and the gateway's
            account = Account("cards", nodes=6)
            account.write(nodes=6, more=f"node: {{type: hpc7a.96xlarge, image: {UBUNTU}}}")
            file = account.folder / "cluster.yaml"
            file.write_text(file.read_text().replace("region: us-east-1", f"region: us-east-1, public-addresses: {addresses}"))
            done = account.run("create", "--yes", AWS_QUOTA=str(quota))
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn(f"quota of us-east-1: {needed} elastic addresses are needed, because machines with several network cards get no other public address, but {quota} are allowed",
                          done.stderr)

    def test_a_key_that_is_refused_is_named_and_not_waited_for_long(self):
        account = Account("refused")
        account.write(more=f"node: {{wait-minutes: 0.2, image: {UBUNTU}}}")
        done = account.run("create", "--yes", SSH_DENIED="203.0.113.11")
        self.assertEqual(done.returncode, 1, done.both)
        self.assertIn(f"cannot reach the head: sea-1: it asks for a password or refuses our key (user trireme; found no private key beside {account.folder}/key.pub, so the keys",
                      done.stderr)
        self.assertRegex(done.stderr, r"sea-1: not reached yet after \d+ of at most 12 s: it asks for a password")

    def test_status_says_when_the_node_was_looked_at(self):
        account = Account("looked")
        self.done(account, "create", "--yes")
        self.assertRegex(account.run("status").stdout, r"sea-2 .*node \| Healthy \(at its last boot or setup, 2025-11-24 16:00 UTC, 12 min ago\)\n")

    def test_a_plan_needs_no_network(self):
        account = Account("offline")
        file = account.folder / "cluster.yaml"
        file.write_text(file.read_text().replace("from: 198.51.100.7/32", "from: caller"))
        bare = account.folder / "bin"
        bare.mkdir()
        (bare / "curl").write_text("#!/bin/sh\nexit 6\n")
        (bare / "curl").chmod(0o755)
        path = f"{bare}:{account.environment['PATH']}"
        done = account.run("plan", "--output", "plan", PATH=path)
        self.assertEqual(done.returncode, 0, done.both)
        self.assertIn("access.from is caller: cannot find this machine's public address", done.stderr)
        self.assertIn("the plan has ADDRESS-OF-CALLER/32 instead, and create will determine it again", done.stderr)
        self.assertIn('CidrIp: "ADDRESS-OF-CALLER/32"', (account.folder / "plan/stack.yaml").read_text())
        self.assertIn("nothing was created", done.stdout)
        refused = account.run("create", "--yes", PATH=path)
        self.assertEqual(refused.returncode, 1, refused.both)
        self.assertIn("write it into access.from", refused.stderr)
        self.assertEqual(list(account.state()["stacks"]), ["theirs"])

    def test_sizes_with_gpus_get_their_image_and_a_line(self):
        gpus, other = "has GPUs: a job trains on one of them per rank", "has accelerators that are not used: trireme trains on processors and NVIDIA GPUs"
        images = {"aws": "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id", "azure": "microsoft-dsvm:ubuntu-hpc:2404:latest"}
        for provider, kind, told in (("aws", "p4d.24xlarge", gpus), ("aws", "g5.xlarge", gpus), ("aws", "g4ad.xlarge", other), ("aws", "trn1.32xlarge", other), ("aws", "c7i.16xlarge", ""),
                                     ("azure", "Standard_ND96isr_H100_v5", gpus), ("azure", "Standard_ND96isr_MI300X_v5", other), ("azure", "Standard_D32s_v5", "")):
            account = Account("gpus", theirs=False)
            file = account.folder / "cluster.yaml"
            file.write_text(file.read_text().replace("provider: aws", f"provider: {provider}").replace("node: {", f"node: {{type: {kind}, disk-gb: 256, ")
                            .replace("image: /aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id", ""))
            done = self.done(account, "plan", "--output", "plan")
            for line in (gpus, other):
                self.assertEqual(f"{kind} {line}" in done.stdout, line == told, done.both)
            script = "".join(path.read_text() for path in (account.folder / "plan").iterdir() if path.is_file())
            self.assertEqual(images[provider] in script, told == gpus, kind)
            self.assertEqual("TRIREME_GPUS=yes" in (account.folder / "plan/cloud-init/node.yaml").read_text(), told == gpus, kind)
        file.write_text(file.read_text().replace("Standard_D32s_v5", "Standard_ND96isr_H100_v5").replace("disk-gb: 256, ", ""))
        refused = account.run("plan", "--output", "small")
        self.assertEqual(refused.returncode, 2, refused.both)
        self.assertIn("node.disk-gb is 64, but the image with NVIDIA's driver fills most of that; set it to at least 128", refused.stderr)

    def test_a_package_without_the_library_for_gpus_is_told_of(self):
        account = Account("gpu-package", theirs=False)
        inside = account.folder / "in"
        (inside / "DEBIAN").mkdir(parents=True)
        (inside / "DEBIAN/control").write_text("Package: trireme\nVersion: 1\nArchitecture: all\nMaintainer: x <x@y>\nDescription: x\n")
        (inside / "usr/bin").mkdir(parents=True)
        for library in (False, True):
            if library:
                (inside / "usr/bin/libtrireme_cuda.so").write_text("")
            deb, tar = account.folder / f"t {library}.deb", account.folder / f"t{library}.tar.gz"
            subprocess.run(["dpkg-deb", "--root-owner-group", "--build", inside, deb], check=True, capture_output=True)
            subprocess.run(["tar", "-czf", tar, "-C", inside, "usr"], check=True)
            for package in (deb, tar):
                for kind, has_gpus in (("p5.48xlarge", True), ("c7i.16xlarge", False)):
                    account.write(more=f"node: {{type: {kind}, disk-gb: 256}}\nsoftware: {{package: '{package}'}}")
                    shutil.rmtree(account.folder / "plan", ignore_errors=True)
                    done = self.done(account, "plan", "--output", "plan")
                    told = f"software.package: {package} has no libtrireme_cuda.so, so the program would compute on the processors of machines with GPUs; make it with `scripts/package --cuda`"
                    self.assertEqual(told in done.stderr, has_gpus and not library, done.both)

    def test_what_a_node_warns_of_is_shown(self):
        account = Account("warns")
        done = self.done(account, "create", "--yes", SSH_WARNS="10.60.0.5")
        self.assertIn("sea-2: this machine has GPUs, but", done.stderr)
        self.assertNotIn("sea-1: this machine has GPUs", done.stderr)

    def test_machines_that_terraform_created_are_set_up_and_left_to_it(self):
        account = Account("terraform")
        self.done(account, "create", "--yes")
        state = account.state()
        state["stacks"]["not-a-stack"] = state["stacks"].pop("trireme-sea")  # machines with the cluster's tags, but without its stack
        account.state_file.write_text(json.dumps(state))
        shutil.rmtree(account.folder / "cluster.state")
        made = self.done(account, "create", "--yes")
        self.assertIn("the machines were created by Terraform: setting them up as they are", made.both)
        self.assertIn("2 of 2 nodes are up", made.stdout)
        self.assertRegex(account.run("status").stdout, r"sea-2 .*node \| Healthy")
        removed = account.run("remove", "sea-2", "--yes")
        self.assertEqual(removed.returncode, 2, removed.both)
        self.assertIn("sea-2 was created by Terraform; lower cluster.nodes, plan again with --format terraform and run `terraform apply`, which deletes the last nodes", removed.stderr)
        deleted = account.run("delete", "--yes")
        self.assertEqual(deleted.returncode, 2, deleted.both)
        self.assertIn("nothing was deleted: the machines were created by Terraform; delete them with `terraform destroy`", deleted.stderr)
        added = account.run("add", "--nodes", "1", "--yes")
        self.assertEqual(added.returncode, 1, added.both)
        self.assertIn("sea-3 is not part of the cluster: its machine does not exist; create it with `terraform apply`", added.both)
        self.assertEqual(sorted(account.state()["stacks"]), ["not-a-stack", "theirs"])

    def test_a_plan_of_terraform_says_how_to_go_on(self):
        account = Account("terraform-plan", nodes=40)  # more than a stack may have
        done = self.done(account, "plan", "--output", "plan", "--format", "terraform")
        self.assertIn("nothing was created; create the machines with `terraform init` and `terraform apply` there, then set them up with `trireme cluster create`", done.stdout)
        self.assertEqual(sorted(path.name for path in (account.folder / "plan").iterdir()), ["cloud-init", "network.tf", "nodes.tf", "outputs.tf", "variables.tf", "versions.tf"])
        self.assertIn('default     = ["198.51.100.7/32"]', (account.folder / "plan/variables.tf").read_text())
        file = account.folder / "cluster.yaml"
        file.write_text(file.read_text().replace("from: 198.51.100.7/32", "from: caller"))
        bare = account.folder / "bin"
        bare.mkdir()
        (bare / "curl").write_text("#!/bin/sh\nexit 6\n")
        (bare / "curl").chmod(0o755)
        done = self.done(account, "plan", "--output", "asks", "--format", "terraform", PATH=f"{bare}:{account.environment['PATH']}")
        self.assertIn("access.from is caller: cannot find this machine's public address", done.stderr)
        self.assertIn("terraform will ask for allowed_sources", done.stderr)
        self.assertNotIn("default", (account.folder / "asks/variables.tf").read_text())
        file.write_text("cluster: {nodes: 1}\nhosts: {list: 127.0.0.1}\naccess: {key: " + f"{account.folder}/key.pub" + "}\n")
        refused = account.run("plan", "--output", "none", "--format", "terraform")
        self.assertEqual(refused.returncode, 2, refused.both)
        self.assertIn("--format terraform: the machines of provider hosts exist already, so Terraform has nothing to create", refused.stderr)
        self.assertFalse((account.folder / "none").exists())

    def test_a_stack_in_progress_is_waited_for(self):
        account = Account("slow")
        self.done(account, "create", "--yes", AWS_SLOW="1")
        self.assertEqual(account.resources(), whole(1, 2))
        log = (account.folder / "aws.json.log").read_text().splitlines()
        made = next(at for at, line in enumerate(log) if "create-stack" in line and "trireme-sea" in line)
        self.assertEqual([line.split()[1] for line in log[made + 1:made + 4]], ["describe-stacks", "describe-stacks", "describe-instances"])

    def test_the_quota_is_asked_for_nodes_that_are_added(self):
        account = Account("quota")
        self.done(account, "create", "--yes")
        done = account.run("add", "--nodes", "2", "--yes", AWS_QUOTA="200")
        self.assertEqual(done.returncode, 2, done.both)
        self.assertIn("nothing was created: quota of us-east-1: 256 hardware threads are needed, but 200 are allowed", done.stderr)
        self.assertEqual(account.run("hosts").stdout, "sea-1\nsea-2\n")
        self.assertIn("2 of 2 nodes are up", self.done(account, "create", "--yes").stdout)

    def test_a_stack_that_cloudformation_would_refuse_is_refused_first(self):
        account = Account("large", nodes=40)
        for words in (["plan", "--output", "plan"], ["create", "--yes"]):
            done = account.run(*words)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertRegex(done.stderr, r"40 machines need a stack of \d+ bytes, but CloudFormation accepts 51200, enough for (2\d|3\d); lower cluster.nodes")
        self.assertEqual(list(account.state()["stacks"]), ["theirs"])


if __name__ == "__main__":
    TRIREME, WORK = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
