#!/usr/bin/env python3
"""Runs the commands that README.md and docs/*.md show. In the line before each fenced block with a command the page has a comment:

    <!-- run -->                    every command of the block runs, in the folder of the page
    <!-- run apart -->              the same in a folder of its own
    <!-- run /REGEX/: reason -->    the lines that REGEX finds run; why the others do not
    <!-- nightly ... -->            the same, but with --nightly only: it takes longer than five seconds
    <!-- not run: reason -->

Lines under a command behind "$ " are compared with what it prints, numbers too. Every flag of every `trireme` command of a page, in
a block or in a sentence, is a flag of that command. --nightly runs scripts/demo first, and compares its output with README.md.
Arguments: the program, a work folder, [--nightly], [PAGE.md ...]."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

import pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# The examples of these pages go on where that page's end, which is read first.
SAME_FOLDER = {"lora.md": "sft.md", "dpo.md": "sft.md"}
COMMAND = re.compile(r"(?:(?:h\d)?\$ )?(?:\w+=\S+ )*(?:trireme|mpirun|srun|scripts/\w+|tests/\S+\.py)\b")
DIRECTIVE = re.compile(r"(not run|run|nightly)( apart)?(?: /(.+)/)?(?:: (.+))?")
BINARY = WORK = ONLY = None  # set by main()
NIGHTLY = False
COMMIT = "0123456789" * 4

# What stands in for a reader's own files, in the folder in which the commands of a page run.
CORPUS = f"cat {ROOT}/README.md {ROOT}/CONTRIBUTING.md {ROOT}/docs/*.md > corpus.txt"
CHATS = """for i in 1 2 3 4 5 6 7 8; do
echo '{"messages": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "A model, number '$i'."}]}'
done > chats.jsonl; cp chats.jsonl data.jsonl
for i in 1 2 3 4 5 6 7 8; do echo '{"prompt": "Who?", "chosen": "It is '$i'.", "rejected": "That, I think, is '$i'."}'; done > pairs.jsonl"""
RUN = """trireme train --data.dir ../stand-in/data --data.tokenizer ../stand-in/tokens --model.layers 2 --model.heads 2 --model.width 32 \\
  --model.context 64 --batch.global 4 --run.steps 4 --checkpoint.every 2 --run.dir %s"""
NEOX = f"""mkdir configs; cp {ROOT}/configs/opt-30b.yaml configs
neox() {{ printf '{{"num_layers": %s, "hidden_size": %s, "num_attention_heads": %s, "seq_length": 2048, "max_position_embeddings": 2048,
"pos_emb": "rotary", "no_weight_tying": true, "checkpoint_activations": true, "zero_optimization": {{"stage": 1}}, "train_micro_batch_size_per_gpu": 4, "train_iters": 320000,
"optimizer": {{"type": "Adam", "params": {{"lr": 0.0006}}}}, "min_lr": 0.00006, "data_impl": "mmap"}}' "${{@:2}}" > configs/$1; }}
neox 125M.yml 12 768 12; neox 2-7B.yml 32 2560 32; neox 20B.yml 44 6144 64
echo '{{"data_path": "data/text_document", "save": "checkpoints"}}' > configs/local_setup.yml"""
SETUP = {
    "README.md": f"{CORPUS}\n{CHATS}",
    "chat.md": CHATS,
    "checkpoint-format.md": RUN % "RUN",
    "cluster.md": RUN % "RUN" + "\nprintf 'data: {dir: data}\\nrun: {dir: run, steps: 200}\\n' > config.yaml",
    "data.md": f"""{CORPUS}
mkdir texts DIR PATH; cp corpus.txt texts/a.txt; head -c 100000 corpus.txt > texts/b.txt; cp corpus.txt shakespeare.txt; ln -s {ROOT} PATH/TO
trireme tokenizer train --input corpus.txt --vocab-size 400 --output tok
for i in 1 2 3 4 5 6 7 8; do echo '{{"text": "Some words of document '$i', and some more of them."}}'; done > X.jsonl
for p in PREFIX a b; do trireme prepare --format megatron --input texts --tokenizer tok --append-eod --output $p; done""",
    "dpo.md": CHATS + "\ncp -r ../stand-in/chats-run .",
    "gpt-neox.md": NEOX,
    "gpu.md": NEOX,
    "lora.md": CHATS,
    "models.md": "cp -r ../stand-in/adapter my-adapter",
    "monitoring.md": RUN % "RUN",
    "nanogpt.md": f"cat {ROOT}/docs/*.md > input.txt",
    "sft.md": CHATS,
}
# Models of these names are in the cache of the Hugging Face hub: small ones without knowledge.
HUB_NAMES = "gpt2", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B-Base", "HuggingFaceTB/SmolLM2-135M", "HuggingFaceTB/SmolLM2-135M-Instruct"
STAND_IN = f"""mkdir stand-in; cd stand-in
{CORPUS}
{CHATS}
trireme tokenizer train --input corpus.txt --vocab-size 400 --output tokens
trireme prepare --input corpus.txt --tokenizer tokens --output data
trireme train --data.dir data --data.tokenizer tokens --model.layers 2 --model.heads 2 --model.width 32 --model.context 1024 --batch.global 2 \\
  --batch.sequence 64 --run.steps 2 --run.dir run
trireme export --model run --output model
cat > model/chat_template.jinja <<'END'
{{%- for m in messages %}}
{{{{- m.role ~ ':\\n' }}}}
{{%- if m.role == 'assistant' %}}{{% generation %}}{{{{ m.content ~ '<|endoftext|>' }}}}{{% endgeneration %}}{{% else %}}{{{{ m.content }}}}{{% endif %}}
{{{{- '\\n' }}}}
{{%- endfor %}}
{{%- if add_generation_prompt %}}{{{{ 'assistant:\\n' }}}}{{% endif %}}
END
trireme sft --model model --data chats.jsonl --output chats-run --epochs 1 --batch 4
trireme sft --model model --data chats.jsonl --output adapter-run --epochs 1 --batch 4 --lora-rank 2
trireme export --model adapter-run --output adapter
for name in {' '.join(name.replace('/', '--') for name in HUB_NAMES)}; do
  folder=../hub/models--$name; mkdir -p $folder/refs $folder/snapshots
  printf {COMMIT} > $folder/refs/main; cp -r model $folder/snapshots/{COMMIT}
done"""


def run(text, folder, seconds=100):
    """Exit code and output of a script of bash."""
    environment = {**os.environ, "PATH": f"{WORK}/bin:{os.environ['PATH']}", "HF_HUB_CACHE": str(WORK / "hub"), "HF_HUB_OFFLINE": "1", "HOME": str(WORK / "home"),
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    done = subprocess.run(["bash", "-e", "-c", text], cwd=folder, env=environment, stdin=subprocess.DEVNULL, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds if not NIGHTLY else 1200, check=False)
    return done.returncode, done.stdout


def has_command(block):
    return any(COMMAND.match(line) for line in block.lines)


def directive_of(block):
    """(run | nightly | not run, apart, regular expression or None); None if there is none that can be read, or its reason is missing."""
    found = DIRECTIVE.fullmatch(block.directive or "")
    if not found or ((found[1] == "not run" or found[3]) and not found[4]):
        return None
    return found[1], bool(found[2]), found[3]


def commands_to_run(block, pattern):
    """What runs of a block, as scripts with the lines that they print."""
    if any(re.match(r"(h\d)?\$ ", line) for line in block.lines):
        commands = pages.commands_in(block.lines, block.line)
        return [(command.text, command.prints) for command in commands if not pattern or re.search(pattern, command.text)]
    if not pattern:
        return [("\n".join(block.lines), [])]
    lines = re.sub(r"\\\n\s*", " ", "\n".join(block.lines)).splitlines()
    return [(line, []) for line in lines if re.search(pattern, line)]


def flag_table():
    """Flags by command ("bench step"): those that the completion of bash has, and names of other programs in docs/options.md."""
    text = run("trireme completion bash", WORK)[1]
    table = {name.strip("."): set(flags.split()) for name, flags in re.findall(r"^  \['?([^\]']+)'?\]='([^']*)'", text, re.MULTILINE)
             if "--help" in flags}
    for name, flag in re.findall(r"^\| ([a-z ]+) \| (--[\w.-]+) \|", (ROOT / "docs/options.md").read_text(), re.MULTILINE):
        table[name].add(flag)
    return table


def shown_commands(text):
    """The words after each `trireme` of a page."""
    blocks = pages.blocks_of(text)
    lines = [line for block in blocks for line in re.sub(r"\\\n\s*", " ", "\n".join(block.lines)).splitlines() if COMMAND.match(line)]
    sentences = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += [code.replace("\n", " ") for code in re.findall(r"`([^`\n]*(?:\n[^`\n]+)?)`", sentences)]
    return [re.split(r"\s#|&&|[|;]", command)[0].split() for line in lines for command in re.findall(r"\btrireme ((?:(?!\btrireme ).)*)", line)]


def unknown_flags(words, table):
    """Flags of a command line that its command has not. Names of other programs, with "_" or after --dialect, are left to the runs."""
    unknown, names = [], []
    if "--dialect" in words:
        return []
    while words:
        if words[0] == "--":
            names = []
        elif " ".join([*names, words[0]]) in table:
            names.append(words[0])
        elif names and (flag := re.match(r"--[a-z][\w.-]*", words[0])) and "_" not in flag[0]:
            known = set().union(*(flags for name, flags in table.items() if name.split()[:len(names)] == names))
            if flag[0] not in known:
                unknown.append(f"trireme {' '.join(names)} {flag[0]}")
        words = words[1:]
    return unknown


class PageCommands(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        for folder in ("bin", "home/.config/fish/completions", "home/.ssh"):
            (WORK / folder).mkdir(parents=True)
        (WORK / "home/.ssh/id_ed25519.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0v5lKkzTn3lRfuyV7jYcJpm0dRpvFEYF6ERtQBWCkF user@host\n")
        os.symlink(BINARY, WORK / "bin/trireme")
        code, output = run(STAND_IN, WORK)
        assert code == 0, output

    def folder_of(self, page, apart=""):
        """With what stands in for a reader's files."""
        folder = WORK / (SAME_FOLDER.get(page.name, page.name).removesuffix(".md") if NIGHTLY and not apart else page.stem + apart)
        if not folder.exists():
            folder.mkdir()
            (folder / "trireme-0.1.0-linux-x86_64.tar.gz").touch()
            if NIGHTLY:
                os.symlink(ROOT / "demo-run", folder / "demo-run")
            code, output = run(SETUP.get(page.name, ""), folder)
            self.assertEqual(code, 0, f"{page.name}: its files could not be made:\n{output}")
        return folder

    def check_block(self, page, block):
        state, apart, pattern = directive_of(block)
        if state != ("nightly" if NIGHTLY else "run"):
            return
        folder = self.folder_of(page, f"-{block.line}" if apart else "")
        scripts = commands_to_run(block, pattern)
        self.assertTrue(scripts, f"{page.name}:{block.line}: /{pattern}/ finds no line")
        for text, prints in scripts:
            before = time.monotonic()
            code, output = run(text, folder)
            seconds = time.monotonic() - before
            print(f"{seconds:6.1f} s  {page.name}:{block.line}: {text.splitlines()[0]}", flush=True)
            self.assertEqual(code, 0, f"{page.name}:{block.line}:\n{text}\n{output}")
            line = pages.missing_line(prints, output, pages.alike)
            self.assertIsNone(line, f"{page.name}:{block.line}: the page shows a line that was not printed:\n{line}\nprinted was:\n{output}")

    def check_page(self, page):
        blocks = [block for block in pages.blocks_of(page.read_text()) if has_command(block)]
        states = [directive_of(block) for block in blocks]
        without = [f"{page.name}:{block.line}: {block.lines[0]}" for block, state in zip(blocks, states) if not state]
        self.assertEqual(without, [], "blocks with commands need a comment in the line before; this file's head says which")
        for block in blocks:
            self.check_block(page, block)

    def test_every_command_runs_and_prints_what_the_page_says(self):
        for page in sorted(PAGES, key=lambda page: page.name in SAME_FOLDER):
            if not ONLY or page.name in ONLY:
                with self.subTest(page.name):
                    self.check_page(page)

    def test_the_demo_prints_what_the_first_screen_says(self):
        code, output = run("scripts/demo", ROOT)
        self.assertEqual(code, 0, output)
        shown = next(block for block in pages.blocks_of((ROOT / "README.md").read_text()) if block.lines[0].startswith("step "))
        line = pages.missing_line([line for line in shown.lines if line], output, pages.alike)
        self.assertIsNone(line, f"README.md shows a line that scripts/demo did not print:\n{line}\nprinted was:\n{output}")

    def test_every_flag_that_a_page_names_exists(self):
        table = flag_table()
        self.assertGreater(len(table), 50)
        checked = 0
        for page in PAGES:
            commands = shown_commands(page.read_text())
            checked += len(commands)
            self.assertEqual([flag for words in commands for flag in unknown_flags(words, table)], [], page.name)
        self.assertGreater(checked, 300)


class TheTestItself(unittest.TestCase):
    """That it can fail."""

    def test_a_flag_that_a_command_has_not_is_found(self):
        table = {"train": {"--help", "--run.dir"}, "launch": {"--hosts"}, "bench": {"--help"}, "bench step": {"--steps"}}
        text = "`trireme train --run.dir x`, `trireme bench step --run.dir 3`\n```\ntrireme launch --host h -- train --run.die y\n```\n"
        self.assertEqual([flag for words in shown_commands(text) for flag in unknown_flags(words, table)],
                         ["trireme launch --host", "trireme train --run.die", "trireme bench step --run.dir"])

    def test_a_block_needs_a_directive_and_a_part_a_reason(self):
        page = "<!-- {} -->\n```\ntrireme a\ntrireme b \\\n  c\n```\n"
        states = {"run": ("run", False, None), "run /b/: a is slow": ("run", False, "b"), "run /b/": None, "not run": None,
                  "not run: why": ("not run", False, None), "nightly apart": ("nightly", True, None), "other": None}
        for text, state in states.items():
            block = pages.blocks_of(page.format(text))[0]
            self.assertEqual(directive_of(block), state, text)
        self.assertTrue(has_command(block))
        self.assertEqual(commands_to_run(block, "b"), [("trireme b  c", [])])

    def test_numbers_of_a_page_are_compared_but_for_times_and_sizes(self):
        for wanted, found, same in (("loss 4.25 (0.4 s)", "loss 4.30 (7.4 s)", True), ("loss 4.25", "loss 5.25", False),
                                    ("3 tokens, 0.9 GB, 5.2 MB/s", "3 tokens, 1.9 GB, 9.2 MB/s", True), ("[15496, 995]", "[15496, 994]", True),
                                    ("[15496, 995]", "[11111, 994]", False), ("loss ...", "loss 5", True), ("a 1", "b 1", False)):
            self.assertEqual(pages.missing_line([wanted], found, pages.alike) is None, same, wanted)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    NIGHTLY = "--nightly" in arguments
    BINARY, WORK, *ONLY = [word for word in arguments if word != "--nightly"]
    BINARY, WORK = pathlib.Path(BINARY).resolve(), pathlib.Path(WORK).resolve()
    if not NIGHTLY:  # takes minutes
        del PageCommands.test_the_demo_prints_what_the_first_screen_says
    unittest.main(argv=sys.argv[:1], verbosity=2)
