"""What the tests on several hosts share: the hosts of hosts.sh, the program run on them, and what its runs leave.

Limits are there to end a test that hangs: nothing waits for one to pass.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent
BED = None  # set by main()
FOREVER = {"steps": 1_000_000, "every": 1_000_000}


class Job:
    """A running command. Its output goes to a file: a pipe that nobody reads would stop it."""

    def __init__(self, words, folder, environment):
        file, log = tempfile.mkstemp(dir=folder)
        self.log = pathlib.Path(log)
        self.process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                        env=environment)
        os.close(file)

    def output(self):
        return self.log.read_text()

    def running(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self, seconds=240):
        """Its exit code, and what it said; killed (-9) after the limit."""
        try:
            return self.process.wait(seconds), self.output()
        except subprocess.TimeoutExpired:
            return self.end(), self.output()

    def end(self):
        if self.running():
            self.process.kill()
        return self.process.wait()


# Where each host of hosts.sh has a folder of its own: what lies there no host sees.
PRIVATE = [pathlib.Path(name) for name in ("/tmp", "/run", "/root", "/dev/shm")]


def is_private(path):
    return any(path.is_relative_to(folder) for folder in PRIVATE)


def place_of_bed(work):
    """A folder that every host sees: the wanted one where that is so, else one beside others in $TRIREME_TEST_BED, /var/lib
    or /opt."""
    work = pathlib.Path(work).resolve()
    told = os.environ.get("TRIREME_TEST_BED")
    if not told and not is_private(work):
        return work
    places = [pathlib.Path(told).resolve()] if told else [pathlib.Path("/var/lib"), pathlib.Path("/opt")]
    for place in places:
        if not is_private(place) and os.access(place, os.W_OK):
            return place / f"trireme-test-bed-{work.name}"
    print(f"skipped: no folder for the hosts: {' and '.join(map(str, places))} cannot be written or lie where each host has a "
          "folder of its own; set TRIREME_TEST_BED")
    sys.exit(77)


class Bed:
    """Hosts h1..hN, a work folder that they share, and the program in a place where they see it."""

    def __init__(self, binary, work, shim=None):
        self.work = place_of_bed(work)
        self.folder = self.work / "bed"
        self.environment = dict(os.environ)
        self.originals = binary, shim

    def make(self):
        """An empty work folder; hosts of a run that was cut off are ended."""
        if self.folder.exists():
            self.script("down", self.folder)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.binary, self.shim = (path and self.visible(pathlib.Path(path).resolve()) for path in self.originals)

    def visible(self, file):
        """This file, or a copy where the hosts see it."""
        if not is_private(file):
            return file
        (self.work / "bin").mkdir(exist_ok=True)
        return pathlib.Path(shutil.copy2(file, self.work / "bin"))

    def script(self, *words, check=True, timeout=240, name="hosts.sh"):
        return subprocess.run([str(SCRIPTS / name), *map(str, words)], check=check, timeout=timeout, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)

    def on(self, host, *words):
        return [str(SCRIPTS / "hosts.sh"), "run", str(self.folder), str(host), *map(str, words)]

    def run(self, host, *words, timeout=240):
        result = subprocess.run(self.on(host, *words), cwd=self.work, timeout=timeout, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, env=self.environment)
        result.both = result.stdout + result.stderr
        return result

    def start(self, host, *words):
        return Job(self.on(host, *words), self.work, self.environment)

    def job_state(self, job):
        """What Slurm says of a job, by the names that it uses."""
        return dict(re.findall(r"(\w+)=(\S+)", self.run(1, "scontrol", "show", "job", job).stdout))

    def node_state(self, node):
        """Slurm's state of a node, and the reason that is given for it."""
        state, _, reason = self.run(1, "sinfo", "-h", "-n", node, "-o", "%t|%E").stdout.strip().partition("|")
        return state.rstrip("*"), reason

    def is_requeued(self, job):
        """For the first time."""
        state = self.job_state(job)
        return (state.get("Restarts"), state.get("JobState")) == ("1", "PENDING")

    def start_again(self, job, nodes):
        """Of a requeued job. Slurm itself waits two minutes for what this waits for: that so many nodes have done with the first run."""
        def idle():  # "-t idle" would also count those that are drained
            return set(re.findall(r"(\w+) idle\n", self.run(1, "sinfo", "-h", "-r", "-N", "-o", "%n %t").stdout))

        ready = wait_for(lambda: not processes(f"slurmstepd: [{job}.")) and wait_for(lambda: len(idle()) == nodes)
        # A node refuses a job ("Job credential revoked") that was sent in the second in which it ended the first run, or before.
        ended = int(time.time())
        if not ready or not wait_for(lambda: int(time.time()) > ended):
            raise AssertionError(f"job {job} cannot start again: {self.job_state(job)}")
        self.run(1, "scontrol", "update", f"JobId={job}", "StartTime=now")

    def write_training(self, name="tiny", steps=20, every=5, batch=6, hang_timeout=10):
        """A configuration of a tiny model whose data every host sees, and its run folder."""
        if not (self.work / "data").exists():
            (self.work / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 2000)
            subprocess.run([self.binary, "prepare", "--input", self.work / "text.txt", "--tokenizer", "char", "--output",
                            self.work / "data"], check=True, capture_output=True, timeout=60)
        run = self.work / f"run-{name}"
        file = self.work / f"{name}.yaml"
        file.write_text("model: {layers: 1, heads: 2, width: 16, context: 16}\n"
                        f"data: {{dir: {self.work}/data}}\nbatch: {{global: {batch}, micro: 1}}\n"
                        f"run: {{dir: {run}, steps: {steps}, hang_timeout: {hang_timeout}}}\noptim: {{decay_steps: 1000}}\ncheckpoint: {{every: {every}}}\nevaluation: {{every: 0}}\n"
                        "log: {every: 1, peak_tflops: 1}\nlaunch: {threads: 1}\n")
        return file.name, run

    def write_bert(self, width=8, words=32):
        """A Hugging Face folder of a BERT of one layer, its weights drawn from a generator of fixed seed."""
        folder = self.work / "bert"
        folder.mkdir(exist_ok=True)
        (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(words - 5)]) + "\n")
        (folder / "config.json").write_text(json.dumps({
            "architectures": ["BertModel"], "model_type": "bert", "vocab_size": words, "hidden_size": width, "num_hidden_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 2 * width, "max_position_embeddings": 32, "type_vocab_size": 2,
            "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "layer_norm_eps": 1e-12, "pad_token_id": 0}))
        layer = "encoder.layer.0."
        shapes = {f"embeddings.{name}_embeddings.weight": [rows, width] for name, rows in (("word", words), ("position", 32), ("token_type", 2))}
        for name, outputs, inputs in (("attention.self.query", width, width), ("attention.self.key", width, width),
                                      ("attention.self.value", width, width), ("attention.output.dense", width, width),
                                      ("intermediate.dense", 2 * width, width), ("output.dense", width, 2 * width)):
            shapes |= {f"{layer}{name}.weight": [outputs, inputs], f"{layer}{name}.bias": [outputs]}
        shapes |= {"pooler.dense.weight": [width, width], "pooler.dense.bias": [width]}
        for name in ("embeddings", f"{layer}attention.output", f"{layer}output"):
            shapes |= {f"{name}.LayerNorm.weight": [width], f"{name}.LayerNorm.bias": [width]}
        header, data, draws = {}, b"", random.Random(1)
        for name, shape in shapes.items():
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            values = [1.0 if name.endswith("LayerNorm.weight") else draws.gauss(0, 0.02) for _ in range(count)]
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
            data += struct.pack(f"<{count}f", *values)
        text = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        return folder


def wait_for(condition, seconds=180):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def processes(mark):
    """Numbers of the processes whose command line has the mark."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            pass
    return found


def sleepers(mark):
    """Processes of sleep with this argument."""
    found = []
    for pid in processes(mark):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                found.append(pid)
        except OSError:
            pass  # it ended meanwhile
    return found


def ranks(config):
    """Process ids of the ranks that train this configuration."""
    found = {}
    for pid in processes(f"train\0{config}"):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        rank = re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)\0", environment)
        if words[1] == b"train" and rank:
            found[int(rank[1])] = pid
    return found


def status(run):
    try:
        return json.loads((run / "status.json").read_text())
    except (OSError, ValueError):
        return {}


def has_snapshot(run):
    """Whether there is one: the first of them is soon deleted again, for steps of a tiny model take no time."""
    return any(run.glob("step-????????/manifest.json"))


def records(run):
    """Of every step, in the order in which they were done."""
    try:
        lines = (run / "metrics.jsonl").read_text().splitlines()
    except OSError:
        return []
    return [json.loads(line) for line in lines if '"record":"step"' in line and line.endswith("}")]


def losses(run):
    return {record["step"]: record["loss"] for record in records(run)}


class TrainingCase(unittest.TestCase):
    """Jobs of three ranks, one on each host."""

    @classmethod
    def setUpClass(cls):
        (BED.work / "hosts").write_text("h1 slots=1\nh2 slots=1\nh3 slots=1\n")

    def launch(self, config, *words, flags=()):
        job = BED.start(1, BED.binary, "launch", "-f", "hosts", "--connect-timeout", "3", *words, "--", "train", config, *flags)
        self.addCleanup(job.end)
        return job

    def start(self, config, *words, steps=3, flags=()):
        """A job that has done some steps."""
        run = BED.work / f"run-{config.removesuffix('.yaml')}"
        job = self.launch(config, *words, flags=flags)
        wait_for(lambda: len(records(run)) >= steps or not job.running())
        self.assertTrue(job.running() and len(records(run)) >= steps, job.output())
        return job

    def assert_ends(self, job, code, seconds=240):
        """What it said, without its steps."""
        found, text = job.finish(seconds)
        text = "\n".join(line for line in text.splitlines() if " | loss " not in line)
        self.assertEqual(found, code, text)
        return text

    def assert_nothing_is_left(self, config):
        self.assertTrue(wait_for(lambda: not ranks(config), 30), ranks(config))

    def assert_same_losses_undisturbed(self, run, name):
        """The same steps once more while nothing happens."""
        disturbed = losses(run)
        config, calm = BED.write_training(name, **FOREVER)
        job = self.start(config, steps=max(disturbed))
        job.signal(signal.SIGTERM)
        self.assert_ends(job, 75)
        undisturbed = losses(calm)
        self.assertEqual(disturbed, {step: undisturbed[step] for step in disturbed})


def main(hosts, prepare=lambda bed: None):
    """Runs the tests of the calling module; arguments: the program, the work folder, a library that makes calls of the program
    fail. 77: skipped, with the reason."""
    global BED
    arguments, sys.argv[1:] = sys.argv[1:4], sys.argv[4:]
    bed = BED = Bed(*arguments)
    bed.make()
    try:
        made = bed.script("up", bed.folder, hosts, check=False)
        if made.returncode == 0:
            made = prepare(bed) or made
        if made.returncode != 0:
            print((made.stdout + made.stderr).strip())
            return made.returncode if made.returncode == 77 else 1
        sys.modules["__main__"].BED = bed
        return 0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1
    finally:
        bed.script("down", bed.folder)
        shutil.rmtree(bed.work, ignore_errors=True)
