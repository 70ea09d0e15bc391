"""Runs the program and Hugging Face tokenizers on random and adversarial text and compares the ids.

usage: huggingface_differential.py TRIREME [TOKENIZER.json...]
Without files: one that the program trains, and those of the real test data (TRIREME_TEST_DATA) where it is there.
Exit code 77: Hugging Face tokenizers is not installed.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

try:
    from tokenizers import Tokenizer
except ImportError:
    print("skipped: the Python package tokenizers is not installed (scripts/bootstrap --peers)")
    sys.exit(77)

CHARACTERS = [" ", " ", " ", "\n", "\t", "\r", "a", "b", "the", "Hello", "ing", "'s", "'", "I'LL", "0", "12", "½", ".", ",", "!!",
              "-", "_", "(", "é", "É", "ß", "İ", "ﬁ", "Å", "e\u0301", "\u0301", "ñ", "привет", "Ж", "Ελλάς", "中", "文字", "日本",
              "ไทย", "한국", "עברית", "العربية", "😀", "👩‍👩‍👧", "🇩🇪", "\u00a0", "\u3000", "\u200b", "\u200d", "\ufeff", "\u2028",
              "\u0085", "\u00ad", "\u0000", "\u001c", "\ufffd", "\U00010400", "<|endoftext|>", "[MASK]", "[CLS]", "</s>",
              "<extra_id_5>", "▁", "Ġ", "##", "<0x0A>", "  ", "    ", "$", "+", "~", "€", "№", "Ⅷ", "ⓐ", "𝔸"]


REAL = ["tokenizers/gpt2.tokenizer.json", "neox/20B_tokenizer.json", "tokenizers/bert-base-uncased.tokenizer.json",
        "tokenizers/roberta-base.tokenizer.json", "tokenizers/t5-small.tokenizer.json",
        "tokenizers/torchtune-test.tokenizer.json"]


def random_character(rng):
    """Assigned since Unicode 3.2: the libraries' tables are of different later versions."""
    while True:
        c = chr(rng.choice([rng.randrange(1, 0x250), rng.randrange(0x250, 0xD800), rng.randrange(0xE000, 0x20000)]))
        if unicodedata.ucd_3_2_0.category(c) != "Cn":
            return c


def texts(seed):
    rng = random.Random(seed)
    yield from ["", " ", "  ", "\n", "a" * 3000, " " * 3000, "ab" * 1500, "é" * 1000, "!" * 2000, "中" * 500, "\u0301" * 200]
    for _ in range(3000):
        yield "".join(rng.choice(CHARACTERS) for _ in range(rng.randrange(1, 30)))
    for _ in range(500):
        yield "".join(random_character(rng) for _ in range(rng.randrange(1, 20)))


def train(binary, folder):
    text = pathlib.Path(folder, "text.jsonl")
    text.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(2)))
    subprocess.run([binary, "tokenizer", "train", "--input", text, "--vocab-size", "2000", "--output", folder], check=True)
    return str(pathlib.Path(folder, "tokenizer.json"))


def compare(binary, path):
    """True if all ids are the same."""
    tokenizer = Tokenizer.from_file(path)
    cases = list(texts(1))
    lines = "".join(json.dumps({"text": text}) + "\n" for text in cases)
    run = subprocess.run([binary, "tokenizer", "encode", "--jsonl", "--tokenizer", path], input=lines.encode(),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ours = [json.loads(line) for line in run.stdout.decode().splitlines()]
    if run.returncode != 0:
        print(f"{path}: {run.stderr.decode()[:500]} after {len(ours)} texts, at {cases[len(ours)]!a}")
        return False
    wrong = [(text, got, want) for text, got in zip(cases, ours) if got != (want := tokenizer.encode(text).ids)]
    print(f"{path}: {len(cases)} texts, {len(wrong)} differ")
    for text, got, want in wrong[:5]:
        print(f"  {text!a}\n    ours   {got[:40]}\n    theirs {want[:40]}")
    return not wrong


def main():
    binary, paths = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        if not paths:
            data = pathlib.Path(os.environ.get("TRIREME_TEST_DATA", pathlib.Path(__file__).parents[3] / "shared" / "data"))
            paths = [train(binary, folder)] + [str(data / name) for name in REAL if (data / name).exists()]
        results = [compare(binary, path) for path in paths]
    sys.exit(0 if all(results) else 1)


main()
