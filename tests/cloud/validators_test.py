"""What `trireme cluster plan` writes, read by the providers' own tools: azure-cli's parser, cfn-lint, cloud-init's schema and
configobj, which reads CycleCloud's templates. Runs in .venv-clouds (`scripts/bootstrap --clouds`).

validators_test.py TRIREME WORK-FOLDER"""
import contextlib
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest

import yaml

TRIREME, WORK = None, None
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLOUD_INIT = ROOT / ".venv-clouds/cloud-init/usr/lib/python3/dist-packages"
AZURE = "cluster: {{name: sea, provider: azure, nodes: 3{}}}\nnetwork: {{region: eastus}}\n"
AWS = "cluster: {{name: sea, provider: aws, nodes: 3{}}}\nnetwork: {{region: {}}}\n"
CLUSTERS = {
    "azure": AZURE.format(""),
    "azure-infiniband": AZURE.format(", lifetime-hours: 8") + "node: {type: Standard_HB120rs_v3}\nstorage: {kind: provider}\n",
    "azure-spot": AZURE.format(", tags: 'owner=you,team=a.b'") + "node: {spot: true, head-type: Standard_D2s_v5, image: Debian12}\nazure: {resource-group: theirs}\n",
    "azure-slurm": AZURE.format(", scheduler: slurm"),
    "azure-all": AZURE.format("").replace("eastus", "eastus, public-addresses: all"),
    "aws": AWS.format("", "us-east-1"),
    "aws-head": AWS.format("", "us-east-2") + "node: {type: hpc7a.96xlarge, head-type: c7i.large}\n",
    "aws-adapter": AWS.format(", lifetime-hours: 8", "us-east-2, public-addresses: all") + "node: {type: hpc7a.96xlarge, head-type: t3.large}\nstorage: {kind: provider}\n",
    "aws-spot": AWS.format(", tags: owner=you, scheduler: slurm", "us-east-1") + "node: {type: c7i.48xlarge, spot: true, image: ami-0123456789abcdef0}\n",
    "hosts": "cluster: {name: lab, nodes: 2, scheduler: slurm}\nhosts: {list: '10.0.0.[1-2]'}\n",
    "hosts-root": "cluster: {name: lab, nodes: 2}\nhosts: {list: '10.0.0.[1-2]'}\nstorage: {kind: existing}\naccess: {user: root}\n",
}


def setUpModule():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    (WORK / "key.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfTheTests you@here\n")
    (WORK / "trireme_1_amd64.deb").write_text("a package")
    for name, text in CLUSTERS.items():
        plan(name, text)


def plan(name, text):
    access = f"from: '198.51.100.7/32, 203.0.113.0/24', key: {WORK}/key.pub"
    text = text.replace("access: {", "access: {" + access + ", ") if "access:" in text else text + f"access: {{{access}}}\n"
    (WORK / f"{name}.yaml").write_text(text)
    subprocess.run([TRIREME, "cluster", "plan", f"{name}.yaml", "--output", name], cwd=WORK, check=True, capture_output=True)
    return WORK / name


class Parser:
    """azure-cli's own parser, which finds what it does not know before anything is asked of Azure."""

    def __init__(self):
        os.environ["AZURE_CONFIG_DIR"] = str(WORK / "az")
        os.environ["AZURE_CORE_COLLECT_TELEMETRY"] = "0"
        from azure.cli.core import get_default_cli
        self.cli = get_default_cli()

    def refuses(self, words):
        """What it says against the call; nothing: it takes it."""
        cli = self.cli
        call = cli.invocation = cli.invocation_cls(cli_ctx=cli, parser_cls=cli.parser_cls, commands_loader_cls=cli.commands_loader_cls, help_cls=cli.help_cls)
        call.commands_loader.load_command_table(words)
        command = call._rudimentary_get_command(words)
        if command not in call.commands_loader.command_table:
            return f"no command {command}"
        call.data["command_string"] = call.data["command"] = command
        call.commands_loader.command_name = command
        call.commands_loader.load_arguments(command)
        call.parser.cli_ctx = cli
        call.parser.load_command_table(call.commands_loader)
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                call.parser.parse_args(words)
        except SystemExit as end:
            return f"{end.code}: {said.getvalue()}"
        return ""


class Azure(unittest.TestCase):
    def calls(self):
        for name in CLUSTERS:
            if name.startswith("azure"):
                for line in (WORK / name / "commands.sh").read_text().splitlines():
                    line = re.sub(r"^\w+=\$\((.*)\)$", r"\1", line)
                    if line.startswith("az "):
                        yield shlex.split(line)[1:]

    def source_calls(self):
        """What the program asks az beside its plan: the words of its sources, values left out."""
        for file in sorted((ROOT / "src/cloud").glob("azure*.cc")):
            for found in re.finditer(r'\{\s*"az",(.*?)\}', re.sub(r"\s+", " ", file.read_text())):
                words = [word.strip() for word in found[1].split(",")]
                if words[0].startswith('"'):
                    yield [word.strip('"') if word.startswith('"') else "value" for word in words if word]

    def test_every_call_passes_the_parser(self):
        parser, calls = Parser(), list(self.calls())
        self.assertGreater(len(calls), 60)
        for words in calls:
            self.assertEqual(parser.refuses(words), "", " ".join(words))

    def test_every_question_passes_the_parser(self):
        parser, calls = Parser(), list(self.source_calls())
        self.assertGreaterEqual(len(calls), 9, calls)
        for words in calls:
            self.assertEqual(parser.refuses(words), "", " ".join(words))

    def test_the_parser_finds_mistakes(self):
        parser = Parser()
        right = next(words for words in self.calls() if words[:2] == ["vm", "create"])
        for wrong in (right + ["--nodes", "3"], [word for word in right if word != "--name"], right + ["--priority", "Cheap"], ["vm", "make"]):
            self.assertNotEqual(parser.refuses(wrong), "", " ".join(wrong))


class Aws(unittest.TestCase):
    def lint(self, path, region):
        done = subprocess.run([pathlib.Path(sys.executable).parent / "cfn-lint", "--regions", region, "--include-checks", "I", "--", path], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_stacks_pass_cfn_lint_without_a_word(self):
        for name, region in (("aws", "us-east-1"), ("aws-head", "us-east-2"), ("aws-adapter", "us-east-2"), ("aws-spot", "us-east-1")):
            self.assertEqual(self.lint(WORK / name / "stack.yaml", region), (0, ""), name)

    def test_cfn_lint_finds_mistakes(self):
        text = (WORK / "aws/stack.yaml").read_text()
        for at, (right, wrong) in enumerate((("InstanceType: c7i", "InstanceTyp: c7i"), ("!Ref Subnet", "!Ref Subnett"), ("Strategy: cluster", "Strategy: near"))):
            path = WORK / f"wrong-{at}.yaml"
            path.write_text(text.replace(right, wrong, 1))
            self.assertNotEqual(self.lint(path, "us-east-1")[0], 0, wrong)

    def test_the_stack_has_the_document(self):
        import base64
        import gzip
        packed = re.search(r"UserData: ([A-Za-z0-9+/=]{1000,})", (WORK / "aws/stack.yaml").read_text())[1]
        self.assertEqual(gzip.decompress(base64.b64decode(packed)).decode(), (WORK / "aws/cloud-init/node.yaml").read_text())


class CloudInit(unittest.TestCase):
    KEYS = {"preserve_hostname", "manage_etc_hosts", "users", "ssh_pwauth", "disable_root", "write_files", "runcmd"}

    def documents(self):
        found = sorted(WORK.glob("*/cloud-init/*.yaml"))
        self.assertGreaterEqual(len(found), 10)
        return found

    def valid(self, path):
        done = subprocess.run([sys.executable, "-m", "cloudinit.cmd.main", "schema", "--config-file", path], capture_output=True, text=True,
                              env=dict(os.environ, PYTHONPATH=str(CLOUD_INIT)))
        return done.returncode == 0, done.stdout + done.stderr

    def test_documents_pass_the_schema(self):
        for path in self.documents():
            valid, said = self.valid(path)
            self.assertTrue(valid, f"{path}: {said}")
            self.assertNotIn("deprecat", said)

    def test_documents_have_exactly_the_keys_of_the_schema(self):
        for path in self.documents():
            self.assertEqual(set(yaml.safe_load(path.read_text())), self.KEYS, path)
            self.assertTrue(path.read_text().startswith("#cloud-config\n"))

    def test_the_schema_finds_mistakes(self):
        path = WORK / "wrong-document.yaml"
        path.write_text(self.documents()[0].read_text().replace("runcmd:", "runcmd: 3\nx:"))
        self.assertFalse(self.valid(path)[0])

    def test_the_script_arrives_as_it_is(self):
        script = (ROOT / "src/cloud/node_setup.sh").read_text()
        for path in self.documents():
            files = {file["path"]: file for file in yaml.safe_load(path.read_text())["write_files"]}
            self.assertEqual(files["/usr/local/sbin/trireme-node"]["content"], script)
            self.assertEqual(files["/usr/local/sbin/trireme-node"]["permissions"], "0755")
            subprocess.run(["sh", "-n"], input=files["/etc/trireme/node.env"]["content"], text=True, check=True)


class CycleCloud(unittest.TestCase):
    def test_the_template_is_read_as_configobj_reads_it(self):
        import configobj
        folder = plan("cyclecloud", AZURE.format(", scheduler: cyclecloud") + f"software: {{package: {WORK}/trireme_1_amd64.deb}}\n") / "cyclecloud"
        template = configobj.ConfigObj(str(folder / "templates/trireme.txt"), list_values=False, interpolation=False)
        cluster = template["cluster sea"]
        self.assertEqual([name for name in cluster.sections], ["node defaults", "node scheduler", "nodearray hpc"])
        self.assertEqual(cluster["node scheduler"]["configuration"]["slurm.role"], "scheduler")
        self.assertEqual(cluster["nodearray hpc"]["configuration"]["slurm.role"], "execute")
        self.assertEqual(cluster["node scheduler"]["volume shared"]["Size"], "$FilesystemSize")
        images = [section["ImageName"] for section in cluster.values() if "ImageName" in section]
        self.assertEqual(images, ["$ImageName"], "one image for all roles")
        project = configobj.ConfigObj(str(folder / "project.ini"))["project"]
        self.assertIn(f"cluster-init {project['name']}:default:{project['version']}", cluster["node defaults"].sections)
        for script in (folder / "specs/default/cluster-init/scripts").iterdir():
            self.assertTrue(os.access(script, os.X_OK))
            subprocess.run(["bash", "-n", script], check=True)


if __name__ == "__main__":
    TRIREME, WORK = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
