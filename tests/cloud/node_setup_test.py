#!/usr/bin/env python3
"""Functions of src/cloud/node_setup.sh by themselves, on files and packages that are only printed."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "src/cloud/node_setup.sh"
STAND_INS = """
put() { while read -r line; do echo "$1: $line"; done; }
packages() { for name in "$@"; do echo "package $name"; done; }
uname() { echo "$KERNEL"; }
say() { echo "say $*"; }
warn() { echo "warn $*"; }
fail() { echo "fail $*"; exit 1; }
ldconfig() { [ -z "${LIBRARIES-}" ] || echo "$LIBRARIES"; }
"""


def function(name):
    found = re.search(rf"^{name}\(\) {{\n.*?^}}\n", SCRIPT.read_text(), re.M | re.S)
    assert found, f"no function {name} in {SCRIPT}"
    return found[0]


class NodeSetup(unittest.TestCase):
    def lines(self, name, code=0, pci="/nowhere", **settings):
        text = function(name).replace("/sys/bus/pci/devices", str(pci))
        done = subprocess.run(["sh", "-euc", STAND_INS + text + name], env={"PATH": settings.pop("PATH", "/usr/bin:/bin"), **settings}, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (code, ""))
        return done.stdout.splitlines()

    def test_registered_memory_is_not_limited_on_machines_that_were_made_for_the_cluster(self):
        file = "/etc/security/limits.d/90-trireme.conf"
        limits = [f"{file}: {user} {kind} memlock unlimited" for user in ("*", "root") for kind in ("soft", "hard")]
        self.assertEqual(self.lines("set_fabric", TRIREME_RENAME="yes", KERNEL="6.1.0-cloud-amd64"), limits)
        self.assertEqual(self.lines("set_fabric", TRIREME_RENAME="no", TRIREME_FABRIC="yes", KERNEL="6.1.0-cloud-amd64"), [])

    def test_a_fast_network_gets_its_libraries_and_the_modules_of_the_providers_kernel(self):
        for kernel, modules in (("6.8.0-azure", ["linux-modules-extra-6.8.0-azure|rdma-core"]), ("6.8.0-aws", ["linux-modules-extra-6.8.0-aws|rdma-core"]),
                                ("6.1.0-cloud-amd64", [])):
            made = self.lines("set_fabric", TRIREME_RENAME="yes", TRIREME_FABRIC="yes", KERNEL=kernel)
            names = ["rdma-core", "ibverbs-providers", "ibverbs-utils", "libfabric1|libfabric1t64", *modules]
            self.assertEqual([line for line in made if line.startswith("package")], [f"package {name}" for name in names])

    def test_a_machine_with_gpus_needs_their_driver(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for device, vendor in (("one", "0x8086"), ("two", "0x10de")):
                (folder / "pci" / device).mkdir(parents=True)
                (folder / "pci" / device / "vendor").write_text(vendor + "\n")
            self.assertEqual(self.lines("set_gpus", pci=folder / "pci"), [])  # not a cluster with GPUs
            self.assertEqual(self.lines("set_gpus", TRIREME_GPUS="yes", pci=folder / "pci/one"), [])  # its head without them
            without = self.lines("set_gpus", code=1, TRIREME_GPUS="yes", pci=folder / "pci")
            self.assertEqual(without, ["fail this machine has GPUs, but NVIDIA's driver does not answer (nvidia-smi -L); name an image with the driver in node.image"])
            driver = folder / "nvidia-smi"
            driver.write_text(f'#!/bin/sh\necho "$*" >>{folder}/calls\n')
            driver.chmod(0o755)
            path = f"{folder}:/usr/bin:/bin"
            made = self.lines("set_gpus", TRIREME_GPUS="yes", pci=folder / "pci", PATH=path, LIBRARIES="libnccl.so.2 => /usr/lib/libnccl.so.2")
            self.assertEqual([line for line in made if "NCCL" in line or line.startswith("fail")], [])
            self.assertEqual((folder / "calls").read_text(), "-L\n-pm 1\n")
            self.assertIn("warn the image has no NCCL", self.lines("set_gpus", TRIREME_GPUS="yes", pci=folder / "pci", PATH=path))

    def test_a_machine_with_gpus_without_the_programs_library_is_told_of(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name).resolve()
            (folder / "pci/one").mkdir(parents=True)
            (folder / "pci/one/vendor").write_text("0x10de\n")
            for place in ("bin", "opt"):
                (folder / place).mkdir()
            (folder / "opt/trireme").write_text("#!/bin/sh\n")
            (folder / "opt/trireme").chmod(0o755)
            (folder / "bin/trireme").symlink_to(folder / "opt/trireme")
            path = f"{folder}/bin:/usr/bin:/bin"
            self.assertEqual(self.lines("check_gpu_library", pci=folder / "pci", PATH=path), [])
            self.assertEqual(self.lines("check_gpu_library", TRIREME_GPUS="yes", PATH=path), [])
            self.assertEqual(self.lines("check_gpu_library", TRIREME_GPUS="yes", pci=folder / "pci", PATH=path),
                             [f"warn this machine has GPUs, but there is no {folder}/opt/libtrireme_cuda.so: trireme computes on its processors; `scripts/package --cuda` makes packages with it"])
            (folder / "opt/libtrireme_cuda.so").write_text("")
            self.assertEqual(self.lines("check_gpu_library", TRIREME_GPUS="yes", pci=folder / "pci", PATH=path), [])

    def test_sources_on_machines_with_gpus_are_not_built_without_cuda(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "trireme/scripts").mkdir(parents=True)
            script = folder / "trireme/scripts/package"
            script.write_text('#!/bin/sh\nmkdir -p "$2" && echo "$*" >"$2/trireme.deb"\n')
            (folder / "trireme/scripts/bootstrap").write_text("#!/bin/sh\n")
            for one in (script, folder / "trireme/scripts/bootstrap"):
                one.chmod(0o755)
            subprocess.run(["tar", "-czf", folder / "source.tar.gz", "-C", folder, "trireme"], check=True)
            text = function("build_program").replace("/var/lib/", f"{folder}/lib-").replace("/var/log/", f"{folder}/log-")

            def build(nvcc, gpus):
                done = subprocess.run(["sh", "-euc", STAND_INS + text.replace("/usr/local/cuda/bin/nvcc", nvcc, 1) + f"build_program {folder}/source.tar.gz"],
                                      env={"PATH": "/usr/bin:/bin", "TRIREME_STORAGE_PATH": f"{folder}/{len(nvcc)}{gpus}", "TRIREME_GPUS": gpus}, text=True, capture_output=True, timeout=60, check=False)
                self.assertEqual(done.stderr, "")
                return done.returncode, done.stdout.splitlines()[1:]  # after the package of dpkg-dev
            self.assertEqual(build("/nowhere/nvcc", "yes"), (1, [
                "fail the cluster has GPUs, but this image has no CUDA compiler (/usr/local/cuda/bin/nvcc), so a program built here could not use them; name an image with it in node.image, "
                "or a package of `scripts/package --cuda` in software.package"]))
            for nvcc, gpus, flag in (("/nowhere/nvcc", "", False), ("/bin/sh", "", True), ("/bin/sh", "yes", True)):
                code, lines = build(nvcc, gpus)
                self.assertEqual((code, len(lines)), (0, 1), lines)
                self.assertEqual("--cuda" in pathlib.Path(lines[0]).read_text(), flag)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
