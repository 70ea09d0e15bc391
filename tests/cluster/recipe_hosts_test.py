#!/usr/bin/env python3
"""The recipe of docs/gpt-neox.md on three hosts made of namespaces (hosts.sh): runs every command that stands behind "hN$ " in its
section, in the page's order, in a shell of that host, and finds what the page prints under it. Arguments: the program, a work folder."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

import bed
from bed import records, status, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
import pages
from pages import missing_line

BED = None  # set by bed.main()
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, SECTION = ROOT / "docs/gpt-neox.md", "## 6. The whole recipe on three hosts"
PEERS = ROOT / ".venv/bin/python"
NEEDS_PEERS = "make_parity_case.py", "case.safetensors"


def commands_of(page, section):
    """The commands in the fenced blocks of a section, in order."""
    begin = page.index(section + "\n")
    end = page.find("\n## ", begin)
    first = page.count("\n", 0, begin)
    return [command for block in pages.blocks_of(page[begin:end if end >= 0 else None])
            for command in pages.commands_in(block.lines, first + block.line)]


class Shell:
    """One shell of a host, in which commands run one after the other."""

    def __init__(self, host):
        self.marks = 0
        self.log = BED.work / f"shell-{host}.log"
        self.file = open(self.log, "w")
        self.process = subprocess.Popen(BED.on(host, "bash"), cwd=BED.work, stdin=subprocess.PIPE, stdout=self.file,
                                        stderr=subprocess.STDOUT, text=True, env=BED.environment)

    def run(self, text, seconds=120):
        """Exit code and output."""
        self.marks += 1
        begin, mark = self.log.stat().st_size, f"END-OF-COMMAND-{self.marks}"
        self.process.stdin.write(f"{{\n{text}\n}} </dev/null\nprintf '\\n{mark} %s\\n' $?\n")
        self.process.stdin.flush()

        def said():
            with open(self.log, encoding="utf-8") as file:
                file.seek(begin)
                return re.match(rf"(.*)\n{mark} (\d+)\n", file.read(), re.DOTALL)
        if not wait_for(said, seconds):
            raise AssertionError(f"no end of: {text}\n{self.log.read_text()[begin:]}")
        found = said()
        return int(found[2]), found[1]

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            self.file.close()


def run_here(text):
    """Outside of the hosts, which do not see .venv in a checkout under /tmp or /root."""
    done = subprocess.run(["bash", "-c", text], cwd=BED.work, env=BED.environment, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, check=False)
    return done.returncode, done.stdout


def write_pile(file):
    """Documents in the form of the Pile: paragraphs of this project's pages."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts = [text for page in pages for text in page.read_text().split("\n\n") if len(text) > 200]
    file.write_text("".join(json.dumps({"text": text, "meta": {"pile_set_name": "Github"}}) + "\n" for text in texts))


class Recipe(unittest.TestCase):
    def start_shells(self):
        shells = {host: Shell(host) for host in (1, 2, 3)}
        for shell in shells.values():
            self.addCleanup(shell.close)
        return shells

    def check(self, command, output):
        line = missing_line(command.prints, output)
        self.assertIsNone(line, f"{command}\nthe page shows a line that was not printed:\n{line}\nprinted was:\n{output}")

    def number(self, pattern, output):
        found = re.search(pattern, output)
        self.assertIsNotNone(found, output)
        return float(found[1])

    def check_numbers(self, outputs):
        """What numbers have to do with each other, which the page's lines do not tell."""
        stopped, resumed, evaluated = (next(text for command, text in outputs if command.startswith(start)) for start in
                                       ("cat train.log", "trireme launch -f hostfile --ppn 1", "trireme train"))
        self.assertEqual(self.number(r"stopped at step (\d+)", stopped), self.number(r"RESUMING .*: (\d+) steps", resumed))
        losses = [self.number(rf"{kind} at step {step}: .*?loss (\d+\.\d+)", text) for kind, step, text in
                  (("evaluation", 0, stopped), ("evaluation", 120, resumed), ("test", 120, resumed))]
        self.assertGreater(losses[0] - 1, losses[1], "it learns")
        again = [self.number(rf"{kind} at step 120: .*?loss (\d+\.\d+)", evaluated) for kind in ("evaluation", "test")]
        for before, after in zip(losses[1:], again):
            self.assertAlmostEqual(before, after, delta=0.002)

    def test_every_command_of_the_page_prints_what_the_page_says(self):
        write_pile(BED.work / "pile.jsonl")
        os.symlink(ROOT, BED.work / "trireme")
        (BED.work / "path").mkdir()
        os.symlink(BED.binary, BED.work / "path/trireme")
        BED.environment["PATH"] = f"{BED.work}/path:{BED.environment['PATH']}"
        commands = commands_of(PAGE.read_text(), SECTION)
        self.assertGreater(len(commands), 15, "the section or its commands are gone")
        shells, outputs, without_peers = self.start_shells(), [], []
        for command in commands:
            with_peers = any(word in command.text for word in NEEDS_PEERS)
            if with_peers and not PEERS.exists():
                without_peers.append(command)
                continue
            before = time.monotonic()
            code, output = run_here(command.text) if with_peers else shells[command.host].run(command.text)
            print(f"{time.monotonic() - before:6.1f} s  {command}", flush=True)
            if os.environ.get("RECIPE_PRINT"):
                print(output, flush=True)
            self.assertEqual(code, 75 if command.text.startswith("wait") else 0, f"{command}\n{output}")
            self.check(command, output)
            outputs.append((command.text, output))
            if command.text.endswith("&"):  # who reads the page takes longer to type
                run, log = BED.work / "checkpoints", BED.work / "train.log"
                wait_for(lambda: status(run).get("state", "running") != "running" or len(records(run)) > 2)
                self.assertTrue(status(run).get("state") == "running" and len(records(run)) > 2, log.read_text())
        self.check_numbers(outputs)
        if without_peers:
            self.skipTest(f"{len(without_peers)} commands need transformers: no {PEERS}; scripts/bootstrap --peers makes it")


class TheTestItself(unittest.TestCase):
    """That it can fail."""

    def test_commands_and_their_output_are_read_from_the_section_only(self):
        page = f"{SECTION}\n```\nh1$ one\nprinted 1\n\nh2$ cat >f <<'END'\nh1$ no command\nEND\n```\nh1$ text\n## 7. Other\n```\nh1$ other\n```\n"
        found = commands_of(page, SECTION)
        self.assertEqual([(c.host, c.text, c.prints) for c in found],
                         [(1, "one", ["printed 1"]), (2, "cat >f <<'END'\nh1$ no command\nEND", [])])

    def test_lines_may_differ_in_numbers_only(self):
        self.assertIsNone(missing_line(["loss 1.25 | 3.2 GB"], "head\nloss  7.5e-05 | 12.25 MB\n"))
        self.assertIsNone(missing_line(["loss 1.25 | ..."], "loss  2.5 | more\n"))
        self.assertIsNone(missing_line(["loss 1.25 (0.1 s)"], "loss  2.5 (0.2 s, best so far)\n"))
        self.assertEqual(missing_line(["loss 1.25"], "loss 1.25 more\n"), "loss 1.25")
        self.assertEqual(missing_line(["b", "a"], "a\nb\n"), "a")
        self.assertEqual(missing_line(["parameters 0123456789abcdef of 2"], "parameters none of 2\n"), "parameters 0123456789abcdef of 2")


if __name__ == "__main__":
    sys.exit(bed.main(3))
