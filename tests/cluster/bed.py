"""What the tests on several hosts share: the hosts of hosts.sh and the program run on them."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent


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

    def finish(self, seconds=40):
        """Its exit code, and what it said; killed (-9) after the limit."""
        try:
            return self.process.wait(seconds), self.output()
        except subprocess.TimeoutExpired:
            return self.end(), self.output()

    def end(self):
        if self.running():
            self.process.kill()
        return self.process.wait()


class Bed:
    """Hosts h1..hN under a work folder outside /tmp, where each host has a folder of its own."""

    def __init__(self, binary, work):
        self.binary, self.work = pathlib.Path(binary).resolve(), pathlib.Path(work).resolve()
        self.folder = self.work / "bed"
        self.environment = dict(os.environ)

    def script(self, *words, check=True, timeout=60, name="hosts.sh"):
        return subprocess.run([str(SCRIPTS / name), *map(str, words)], check=check, timeout=timeout, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)

    def on(self, host, *words):
        return [str(SCRIPTS / "hosts.sh"), "run", str(self.folder), str(host), *map(str, words)]

    def run(self, host, *words, timeout=60):
        result = subprocess.run(self.on(host, *words), cwd=self.work, timeout=timeout, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, env=self.environment)
        result.both = result.stdout + result.stderr
        return result

    def start(self, host, *words):
        return Job(self.on(host, *words), self.work, self.environment)

    def write_training(self, name="tiny", steps=20, every=5, batch=6):
        """A configuration of a tiny model whose data every host sees, and its run folder."""
        if not (self.work / "data").exists():
            (self.work / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 2000)
            subprocess.run([self.binary, "prepare", "--input", self.work / "text.txt", "--tokenizer", "char", "--output",
                            self.work / "data"], check=True, capture_output=True, timeout=60)
        run = self.work / f"run-{name}"
        file = self.work / f"{name}.yaml"
        file.write_text("model: {layers: 1, heads: 2, width: 16, context: 16}\n"
                        f"data: {{dir: {self.work}/data}}\nbatch: {{global: {batch}, micro: 1}}\n"
                        f"run: {{dir: {run}, steps: {steps}}}\ncheckpoint: {{every: {every}}}\nevaluation: {{every: 0}}\n"
                        "log: {every: 1}\nlaunch: {threads: 1}\n")
        return file.name, run


def wait_for(condition, seconds=20):
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


def main(hosts, prepare=lambda bed: None):
    """Runs the tests of the calling module; arguments: the program, the work folder. 77: skipped, with the reason."""
    bed = Bed(sys.argv.pop(1), sys.argv.pop(1))
    if bed.folder.exists():
        bed.script("down", bed.folder)
    shutil.rmtree(bed.work, ignore_errors=True)
    bed.work.mkdir(parents=True)
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
