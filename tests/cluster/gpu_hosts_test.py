#!/usr/bin/env python3
"""Three nodes with two GPUs each, under a real Slurm with generic resources and from a hostfile. A GPU is the executor of tests/gpu; in the
place of the driver's library tests/runs/fake_nvml.cc says what is wrong with a host's GPUs, by a file of that host. Arguments: the
program, a work folder."""
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import unittest

import bed
from bed import wait_for

BED = None  # set by bed.main()
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/opt-slurm.md"
FAULTS = "/run/gpu-faults"  # each host has its own /run
CUDA = ("--run.device", "cuda")


def slurm(*words, host=1):
    return BED.run(host, *words)


def output(job):
    file = next(BED.work.glob(f"*-{job}.out"), None)
    return file.read_text() if file else slurm("scontrol", "show", "job", job).stdout


def script_of_the_page(config):
    """The batch script that the page has for the recipe, for a tiny model and nodes of this size."""
    text = re.search(r"^```\n(#!/bin/bash\n.*?)^```\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    for of_page, here in (("-per-node=8", "-per-node=2"), ("--cpus-per-task=12", "--cpus-per-task=1"), ("configs/opt-125m.yaml", config),
                          ("data/opt", "data"), ("runs/opt-125m", f"run-{config.removesuffix('.yaml')}")):
        assert of_page in text, of_page
        text = text.replace(of_page, here)
    return text


def break_gpu(host, faults):
    BED.run(host, "sh", "-c", f"echo {faults} >{FAULTS}")


def mend_gpu(host):
    BED.run(host, "rm", "-f", FAULTS)


def ranks_on(host, config):
    """Process ids of the ranks that train this configuration on a host."""
    own = os.readlink(f"/proc/{(BED.folder / f'h{host}.pid').read_text().strip()}/ns/net")
    return [pid for pid in bed.ranks(config).values() if os.readlink(f"/proc/{pid}/ns/net") == own]


def write_neox(name):
    """The recipe's form of a configuration, with two tensor ranks and two stages, in fp16, and its run folder."""
    BED.write_training()
    run = BED.work / f"run-{name}"
    (BED.work / f"{name}.yml").write_text(json.dumps({
        "pipe-parallel-size": 2, "model-parallel-size": 2, "num-layers": 4, "hidden-size": 16, "num-attention-heads": 2, "seq-length": 16,
        "max-position-embeddings": 16, "norm": "layernorm", "pos-emb": "rotary", "no-weight-tying": True, "gpt_j_residual": True,
        "output_layer_parallelism": "column", "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.9, 0.95], "eps": 1e-8}},
        "zero_optimization": {"stage": 1}, "train_batch_size": 4, "train_micro_batch_size_per_gpu": 2,
        "fp16": {"enabled": True, "loss_scale": 0}, "checkpoint_activations": True, "gradient_clipping": 1.0,
        "train-iters": bed.FOREVER["steps"], "lr-decay-iters": 1000, "lr-decay-style": "cosine", "warmup": 0.01, "checkpoint-factor": 5,
        "eval-interval": 1_000_000, "eval-iters": 1, "log-interval": 1}))
    flags = ("--data.dir", BED.work / "data", "--run.dir", run, "--log.peak-tflops", "1", "--launch.threads", "1")
    return (f"{name}.yml", *map(str, flags), *CUDA), run


class Gpus(unittest.TestCase):
    def setUp(self):
        self.addCleanup(slurm, "scancel", "--user=root")
        for host in (1, 2, 3, 4):
            self.addCleanup(mend_gpu, host)

    def assert_resumes_elsewhere(self, job, run, ask):
        """A GPU of the job's last node is lost, so Slurm takes the node out of service; the job is asked to stop, and queued again."""
        nodes = slurm("scontrol", "show", "hostnames", BED.job_state(job)["NodeList"]).stdout.split()
        node = nodes[-1]
        host = int(node[1:])
        break_gpu(host, "lost")
        self.assertTrue(wait_for(lambda: BED.node_state(node)[0] in ("drng", "drain")), BED.node_state(node))
        self.assertRegex(BED.node_state(node)[1], "^NHC: check_cmd_status: .*device")
        ask()
        self.assertTrue(wait_for(lambda: BED.is_requeued(job)), output(job))
        self.assertEqual(bed.status(run)["code"], 75, output(job))
        last = bed.status(run)["step"]
        BED.start_again(job, 2)
        self.assertTrue(wait_for(lambda: bed.records(run)[-1]["step"] > last, seconds=420), output(job))
        others = slurm("scontrol", "show", "hostnames", BED.job_state(job)["NodeList"]).stdout.split()
        self.assertEqual(len(others), len(nodes))
        self.assertNotIn(node, others)
        self.assertRegex(output(job), f"RESUMING from {run}/step-{last:08}|RESUMING from {run.name}/step-{last:08}")
        mend_gpu(host)
        self.assertTrue(wait_for(lambda: BED.node_state(node)[0] == "idle"), BED.node_state(node))

    def test_a_job_leaves_a_node_that_its_gpu_drained(self):
        config, run = BED.write_training("drained", **{**bed.FOREVER, "every": 5}, batch=2, hang_timeout=60)
        made = slurm(BED.binary, "slurm", "--gres", "gpu:2", "--preflight", "--submit", "--", "train", config, *CUDA)
        self.assertEqual(made.returncode, 0, made.both)
        job = made.stdout.strip()
        self.assertTrue(wait_for(lambda: bed.has_snapshot(run)), output(job))
        for text in ("preflight: GPUs of every host: 2 x NVIDIA H100 80GB HBM3, driver 580.159.04, sockets",
                     "gpu        the executor, connected by sockets"):
            self.assertIn(text, output(job))
        self.assert_resumes_elsewhere(job, run, lambda: slurm("scancel", "--signal=USR1", job))

    def test_the_recipes_own_script_resumes_on_other_nodes(self):
        config, run = BED.write_training("recipe", **{**bed.FOREVER, "every": 5}, batch=4, hang_timeout=60)
        (BED.work / "opt.sbatch").write_text(script_of_the_page(config))
        job = slurm("sbatch", "--parsable", "opt.sbatch").stdout.strip()
        self.assertTrue(wait_for(lambda: bed.has_snapshot(run)), output(job))
        for text in ("gpu        the executor, connected by sockets",
                     "sums       of gradients first on each host (hosts), because comm.reduce is auto and GPUs of 2 hosts with 2 data ranks each"):
            self.assertIn(text, output(job))
        # What Slurm sends to the script before the end of the job's time.
        self.assert_resumes_elsewhere(job, run, lambda: slurm("scancel", "--batch", "--signal=USR1", job))

    def test_gpus_that_no_node_has_are_refused(self):
        config, _ = BED.write_training("many")
        result = slurm(BED.binary, "slurm", "--gres", "gpu:4", "--ntasks-per-node", "1", "--submit", "--", "train", config, *CUDA)
        self.assertEqual(result.returncode, 2, result.both)
        self.assertIn("--gres gpu:4: 4 GPUs needed on each of 1 node, but the default partition has only 0 nodes with that much", result.both)

    def test_hosts_of_a_hostfile_must_have_the_same_gpus(self):
        (BED.work / "hostfile").write_text("h1 slots=2\nh2 slots=2\nh3 slots=2\nh4 slots=2\n")
        command, _ = write_neox("alike")
        words = (BED.binary, "launch", "-f", "hostfile", "--preflight-only", "--", "train", *command)
        alike = BED.run(1, *words)
        self.assertEqual(alike.returncode, 0, alike.both)
        self.assertIn("preflight: GPUs of every host: 2 x NVIDIA H100 80GB HBM3, driver 580.159.04, sockets", alike.both)
        break_gpu(2, "driver-550")
        break_gpu(3, "no-nvlink")
        differ = BED.run(1, *words)
        self.assertEqual(differ.returncode, 2, differ.both)
        self.assertIn("h2: the driver differs: 550.54.14 there, 580.159.04 on 3 other hosts; install the same driver on every host", differ.both)
        self.assertIn("h3: the links between GPUs differ: - SYS/SYS - there, - NV18/NV18 - on 3 other hosts; ", differ.both)
        (BED.work / "hostfile").write_text("h1 slots=2\nh2 slots=3\n")
        more = BED.run(1, *words)
        self.assertIn("h2: 3 ranks for 2 GPUs; start one rank per GPU: the slots of the hostfile, --ppn or --gpus-per-node", more.both)

    def test_a_host_whose_gpu_is_lost_is_replaced(self):
        (BED.work / "three").write_text("h1 slots=2\nh2 slots=2\nh3 slots=2\n")
        command, _ = write_neox("replaced")
        break_gpu(2, "lost")
        result = BED.run(1, BED.binary, "launch", "-f", "three", "--spares", "1", "--preflight-only", "--", "train", *command)
        self.assertEqual(result.returncode, 0, result.both)
        for text in ("h2: GPU 1: GPU is lost (code 15); reset it", "launch: using spare host h3", "preflight: 2 hosts agree"):
            self.assertIn(text, result.both)

    def test_a_hostfiles_job_goes_on_with_a_spare_host(self):
        (BED.work / "spare").write_text("h1 slots=2\nh2 slots=2\nh3 slots=2\n")
        words, run = write_neox("moves")
        BED.environment["NCCL_DEBUG"] = "INFO"
        job = BED.start(1, BED.binary, "launch", "-f", "spare", "--spares", "1", "--max-restarts", "2", "--", "train", *words)
        self.addCleanup(job.end)
        self.assertTrue(wait_for(lambda: bed.has_snapshot(run) or not job.running()), job.output())
        self.assertTrue(job.running(), job.output())
        self.assertIn("preflight: 2 hosts agree; network 10.77.0.0/24, TCP", job.output())
        victims = ranks_on(2, words[0])
        self.assertEqual(len(victims), 2, job.output())
        environment = pathlib.Path(f"/proc/{victims[0]}/environ").read_bytes()
        for variable in (b"NCCL_DEBUG=INFO", b"NCCL_IB_DISABLE=1", b"NCCL_SOCKET_IFNAME==eth0"):
            self.assertIn(b"\0" + variable + b"\0", b"\0" + environment)
        break_gpu(2, "lost")  # what its rank dies of
        os.kill(victims[0], signal.SIGKILL)
        self.assertTrue(wait_for(lambda: "RESUMING from" in job.output() and ranks_on(3, words[0]) or not job.running()), job.output())
        self.assertIn("launch: using spare host h3", job.output())
        self.assertEqual(ranks_on(2, words[0]), [])
        done = len(bed.records(run))
        self.assertTrue(wait_for(lambda: len(bed.records(run)) > done), job.output())
        job.signal(signal.SIGTERM)
        code, said = job.finish()
        self.assertEqual(code, 75, said)


def start_slurm(hosts):
    build = pathlib.Path(hosts.originals[0]).resolve().parent
    folder = hosts.work / "gpu"
    folder.mkdir()
    hosts.binary = pathlib.Path(shutil.copy2(hosts.originals[0], folder / "trireme"))
    shutil.copy2(build / "tests/gpu/libexecutor_gpu.so", folder / "libtrireme_cuda.so")
    shutil.copy2(build / "tests/fake_nvml/libnvidia-ml.so.1", folder)
    hosts.environment |= gpu_variables(hosts.work) | {"SLURM_CONF": str(hosts.folder / "slurm.conf"), "PATH": f"{folder}:{os.environ['PATH']}"}
    check = hosts.work / "check-gpus"
    exports = " ".join(f"{name}='{value}'" for name, value in hosts.environment.items() if name in (*gpu_variables(hosts.work), "SLURM_CONF"))
    check.write_text(f"#!/bin/sh\nexport {exports} PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
                     f"exec {hosts.binary} health -e 'check_cmd_status -t 20 -r 0 {hosts.binary} device' --drain\n")
    check.chmod(0o755)
    return hosts.script("up", hosts.folder, 4, check, "/bin/true", "/bin/true", check=False, name="slurm.sh")


def gpu_variables(work):
    """Of a host with two GPUs."""
    return {"LD_LIBRARY_PATH": f"{work}/gpu:{os.environ.get('LD_LIBRARY_PATH', '')}", "FAKE_NVML_FILE": FAULTS, "TRIREME_EXECUTOR_GPUS": "2",
            "TRIREME_EXECUTOR_SOCKETS": str(work)}


if __name__ == "__main__":
    # What sshd gives to programs that it starts, and what Slurm's nodes have.
    os.environ["TRIREME_TEST_SSHD"] = "SetEnv=" + " ".join(f"{n}={v}" for n, v in gpu_variables(bed.place_of_bed(sys.argv[2])).items())
    os.environ["TRIREME_TEST_GPUS"] = "2"
    sys.exit(bed.main(4, start_slurm))
