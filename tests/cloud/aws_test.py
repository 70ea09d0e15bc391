"""`trireme cluster` with aws itself and a server of moto's, which makes a stack's resources in its memory: create, a create that
fails on the way, two stacks side by side, nodes that come and go, delete. Every machine has a public address: moto makes no second
range of a network, in which the NAT gateway would be. Runs in .venv-clouds (`scripts/bootstrap --clouds`).

aws_test.py TRIREME WORK-FOLDER"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import boto3

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(sys.executable).parent
TRIREME, WORK, SERVER, AWS, ENVIRONMENT = None, None, None, None, None
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJustAKeyForTheTestsOfTriremeXXXXXXXXXXXX you@here\n"


def setUpModule():
    global SERVER, AWS, ENVIRONMENT
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    SERVER = subprocess.Popen([BIN / "moto_server", "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ENVIRONMENT = dict(os.environ, PATH=f"{HERE / 'standin'}:{os.environ['PATH']}", AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
                       AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="hunter2-hunter2", AWS_EC2_METADATA_DISABLED="true", AWS_FAIL_ON="", AWS_FAIL_MODE="",
                       AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null", AWS_LOG=str(WORK / "aws.log"),
                       SSH_LOG=str(WORK / "ssh.log"), SSH_DEAD="", NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    else:
        raise RuntimeError("moto_server does not answer")
    os.environ.update(ENVIRONMENT)  # for boto3
    path = pathlib.Path(tempfile.mkdtemp()) / "aws"  # the name of a socket has to be short
    AWS = subprocess.Popen([sys.executable, HERE / "standin/aws_itself.py", path], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if AWS.stdout.readline() != "ready\n":
        raise RuntimeError("aws_itself.py does not start")
    ENVIRONMENT["AWS_SOCKET"] = str(path)


def tearDownModule():
    AWS.communicate()
    shutil.rmtree(pathlib.Path(ENVIRONMENT["AWS_SOCKET"]).parent, ignore_errors=True)
    SERVER.terminate()
    SERVER.wait()


def client(service):
    return boto3.client(service, region_name="us-east-1")


class Aws(unittest.TestCase):
    def setUp(self):
        self.folder = WORK / self._testMethodName
        self.folder.mkdir()
        self.write("sea")

    def write(self, name, nodes=2, key=KEY, more=""):
        (self.folder / "key.pub").write_text(key)
        (self.folder / "cluster.yaml").write_text(
            f"cluster: {{name: {name}, provider: aws, nodes: {nodes}}}\nnetwork: {{region: us-east-1, public-addresses: all}}\nnode: {{wait-minutes: 0.01, image: ami-12c6146b}}\n"
            f"access: {{from: 198.51.100.7/32, key: {self.folder}/key.pub}}\nstorage: {{kind: provider}}\n{more}")

    def run_cluster(self, *words, **variables):
        done = subprocess.run([TRIREME, "cluster", words[0], "cluster.yaml", *words[1:]], cwd=self.folder, env=ENVIRONMENT | variables, capture_output=True,
                              text=True, timeout=300, stdin=subprocess.DEVNULL)
        done.both = done.stdout + done.stderr
        return done

    def done(self, *words):
        done = self.run_cluster(*words)
        self.assertEqual(done.returncode, 0, done.both)
        return done

    def there(self, name="sea"):
        """What bears the cluster's tag: machines, and how many of everything else."""
        only, ec2 = [{"Name": "tag:trireme-cluster", "Values": [name]}], client("ec2")
        machines = [tag["Value"] for reservation in ec2.describe_instances(Filters=[*only, {"Name": "instance-state-name", "Values": ["running"]}])["Reservations"]
                    for instance in reservation["Instances"] for tag in instance["Tags"] if tag["Key"] == "Name"]
        counts = [len(call(Filters=only)[member]) for call, member in (
            (ec2.describe_vpcs, "Vpcs"), (ec2.describe_subnets, "Subnets"), (ec2.describe_security_groups, "SecurityGroups"), (ec2.describe_internet_gateways, "InternetGateways"),
            (ec2.describe_route_tables, "RouteTables"))]
        storage = [one for one in client("efs").describe_file_systems()["FileSystems"] if {"Key": "trireme-cluster", "Value": name} in one["Tags"]]
        return sorted(machines), counts + [len(storage)]

    NOTHING = ([], [0] * 6)

    def test_from_nothing_to_a_cluster_and_back(self):
        made = self.done("create", "--yes")
        self.assertIn("2 of 2 nodes are up", made.stdout)
        self.assertEqual(self.there(), (["sea-1", "sea-2"], [1] * 6))
        group = client("ec2").describe_security_groups(Filters=[{"Name": "tag:trireme-cluster", "Values": ["sea"]}])["SecurityGroups"][0]
        ssh = [rule["IpRanges"][0]["CidrIp"] for rule in group["IpPermissions"] if rule.get("FromPort") == 22]
        self.assertEqual(ssh, ["198.51.100.7/32"])
        # moto makes no egress rules and no placement groups of a stack; cfn-lint looks at those.
        self.assertIn(group["GroupId"], [pair["GroupId"] for rule in group["IpPermissions"] for pair in rule["UserIdGroupPairs"]])
        self.assertRegex(self.done("status").stdout, r"sea-2 +[0-9.]+ +running +node \| Healthy")
        self.done("create", "--yes")
        self.assertEqual(self.there(), (["sea-1", "sea-2"], [1] * 6))
        self.done("add", "--nodes", "1", "--yes")
        self.assertEqual(self.there(), (["sea-1", "sea-2", "sea-3"], [1] * 6))
        self.done("remove", "sea-2", "--yes")
        self.assertEqual(self.there(), (["sea-1", "sea-3"], [1] * 6))
        self.done("delete", "--yes")
        self.assertEqual(self.there(), self.NOTHING)
        for file in self.folder.rglob("*"):
            if file.is_file():
                self.assertNotIn("hunter2", file.read_text())
        self.assertNotIn("hunter2", made.both)

    def test_a_create_that_failed_is_continued(self):
        """Once with aws itself; aws_failures_test.py lets every call fail."""
        first = self.run_cluster("create", "--yes", AWS_FAIL_ON="create-stack", AWS_FAIL_MODE="after")
        self.assertNotEqual(first.returncode, 0, first.both)
        self.done("create", "--yes")
        self.assertEqual(self.there(), (["sea-1", "sea-2"], [1] * 6))
        failed = self.run_cluster("delete", "--yes", AWS_FAIL_ON="delete-stack", AWS_FAIL_MODE="after")
        self.assertNotEqual(failed.returncode, 0, failed.both)
        self.done("delete", "--yes")
        self.assertEqual(self.there(), self.NOTHING)

    def test_a_stack_of_another_owner_is_not_touched(self):
        self.done("create", "--yes")
        shutil.rmtree(self.folder / "cluster.state")
        self.write("sea", key=KEY.replace("JustAKey", "Somebody"))
        for words in (["create", "--yes"], ["delete", "--yes"]):
            done = self.run_cluster(*words)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn("nothing was done: the stack trireme-sea exists but does not belong to this cluster; choose another cluster.name", done.stderr)
        self.assertEqual(self.there()[0], ["sea-1", "sea-2"])
        self.write("sea")
        self.done("delete", "--yes")
        self.assertEqual(self.there(), self.NOTHING)

    def test_what_can_be_checked_is_checked_first(self):
        self.write("sea", more="")
        for variables, message in (({"AWS_QUOTA": "100"}, "quota of us-east-1: 128 hardware threads are needed, but 100 are allowed"),
                                   ({"AWS_FAIL_ON": "get-caller-identity", "AWS_FAIL_MODE": "before"}, "aws is not logged in: Could not connect to the endpoint URL; run `aws configure` or `aws sso login`")):
            done = self.run_cluster("create", "--yes", **variables)
            self.assertEqual(done.returncode, 2, done.both)
            self.assertIn(message, done.stderr)
        text = (self.folder / "cluster.yaml").read_text()
        (self.folder / "cluster.yaml").write_text(text.replace("node: {", "node: {type: c99.large, "))
        self.assertIn("us-east-1 has no size c99.large; choose another network.region or node.type", self.run_cluster("create", "--yes").stderr)
        self.assertEqual(self.there(), self.NOTHING)


if __name__ == "__main__":
    TRIREME, WORK = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
