"""Runs the program and Hugging Face tokenizers on random and adversarial text and compares the ids.

usage: huggingface_differential.py TRIREME [TOKENIZER.json...]
Without files: one that the program trains, some of unusual elements, and those of the real test data
(TRIREME_TEST_DATA) where it is there.
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
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
except ImportError:
    print("skipped: the Python package tokenizers is not installed (scripts/bootstrap --peers)")
    sys.exit(77)

CHARACTERS = [" ", " ", " ", "\n", "\t", "\r", "a", "b", "the", "Hello", "ing", "'s", "'", "I'LL", "0", "12", "½", ".", ",", "!!",
              "-", "_", "(", "é", "É", "ß", "İ", "ﬁ", "Å", "e\u0301", "\u0301", "ñ", "привет", "Ж", "Ελλάς", "中", "文字", "日本",
              "ไทย", "한국", "עברית", "العربية", "😀", "👩‍👩‍👧", "🇩🇪", "\u00a0", "\u3000", "\u200b", "\u200d", "\ufeff", "\u2028",
              "\u0085", "\u00ad", "\u0000", "\u001c", "\ufffd", "\U00010400", "<|endoftext|>", "[MASK]", "[CLS]", "</s>",
              "<extra_id_5>", "▁", "Ġ", "##", "<0x0A>", "  ", "    ", "$", "+", "~", "€", "№", "Ⅷ", "ⓐ", "𝔸"]


DATA = pathlib.Path(os.environ.get("TRIREME_TEST_DATA", pathlib.Path(__file__).parents[3] / "shared" / "data"))
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
    for _ in range(1200):
        yield "".join(rng.choice(CHARACTERS) for _ in range(rng.randrange(1, 30)))
    for path in sorted(DATA.glob("unicode/*.txt")):
        content = path.read_bytes().decode(errors="replace")
        yield content[:20000]
        yield from content.splitlines()[:40]
    for _ in range(300):
        yield "".join(random_character(rng) for _ in range(rng.randrange(1, 20)))


def train(binary, folder):
    text = pathlib.Path(folder, "text.jsonl")
    text.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(2)))
    subprocess.run([binary, "tokenizer", "train", "--input", text, "--vocab-size", "2000", "--output", folder], check=True)
    return str(pathlib.Path(folder, "tokenizer.json"))


def unusual(folder):
    """Tokenizers of the elements that the real files have not, as files."""
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    paths = []

    def save(name, tokenizer):
        paths.append(str(pathlib.Path(folder, name + ".json")))
        tokenizer.save(paths[-1])

    def bpe(pre_tokenizer, normalizer=None, **options):
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **options))
        tokenizer.pre_tokenizer = pre_tokenizer
        if normalizer:
            tokenizer.normalizer = normalizer
        trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=special, show_progress=False)
        tokenizer.train_from_iterator(texts(3), trainer)
        return tokenizer

    pre, norm = pre_tokenizers, normalizers
    save("digits", bpe(pre.Sequence([pre.Digits(individual_digits=True), pre.Punctuation("isolated"), pre.WhitespaceSplit()]),
                       norm.Sequence([norm.NFKC(), norm.Lowercase(), norm.StripAccents()])))
    save("replace", bpe(pre.Sequence([pre.Whitespace(), pre.Digits(), pre.Punctuation("merged_with_previous")]),
                        norm.Sequence([norm.NFD(), norm.StripAccents(), norm.Strip(), norm.Replace(Regex("[0-9]+"), "#")]),
                        fuse_unk=True))
    save("places", bpe(pre.Sequence([pre.Split(Regex(r"(?=(\d{3})+(?!\d))"), "isolated"), pre.Split(Regex(r"\p{Han}+"), "contiguous"),
                                     pre.Split(Regex(r"[^\W\d_]+"), "isolated"), pre.Split(Regex("$"), "merged_with_previous")]),
                       norm.Replace(Regex("^ ?"), "_")))
    save("split", bpe(pre.Sequence([pre.Split("e", "removed"), pre.Split(Regex(r"\d"), "contiguous"),
                                    pre.CharDelimiterSplit("-"), pre.ByteLevel(add_prefix_space=True)])))
    template = bpe(pre.Metaspace(prepend_scheme="first"), norm.NFC())
    template.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)])
    template.enable_truncation(20)
    template.enable_padding(pad_id=3, pad_token="<pad>", length=12)
    save("template", template)
    words = Tokenizer(models.WordPiece(unk_token="<unk>"))
    words.normalizer, words.pre_tokenizer = norm.BertNormalizer(lowercase=False, strip_accents=True), pre.BertPreTokenizer()
    words.train_from_iterator(texts(3), trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special, show_progress=False))
    words.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 1))
    words.add_tokens([AddedToken("Hello", single_word=True), AddedToken("12", lstrip=True), AddedToken("the", rstrip=True), AddedToken("\n")])
    save("words", words)
    unigram = Tokenizer(models.Unigram())
    unigram.normalizer, unigram.pre_tokenizer = norm.Sequence([norm.Nmt(), norm.NFKC()]), pre.Metaspace()
    unigram.train_from_iterator(texts(3), trainers.UnigramTrainer(vocab_size=8000, special_tokens=["<unk>"], unk_token="<unk>",
                                                                  show_progress=False))
    save("unigram", unigram)
    return paths


def compare(binary, path):
    """True if all ids are the same, every third text paired with the one before it."""
    tokenizer = Tokenizer.from_file(path)
    cases = list(texts(1))
    pairs = {i: cases[i - 1][:500] for i in range(3, len(cases), 3)}
    lines = "".join(json.dumps({"text": text} | ({"text_pair": pairs[i]} if i in pairs else {})) + "\n"
                    for i, text in enumerate(cases))
    run = subprocess.run([binary, "tokenizer", "encode", "--jsonl", "--tokenizer", path], input=lines.encode(),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ours = [json.loads(line) for line in run.stdout.decode().splitlines()]
    if run.returncode != 0:
        print(f"{path}: {run.stderr.decode()[:500]} after {len(ours)} texts, at {cases[len(ours)]!a}")
        return False
    wrong = [(text, got, want) for i, (text, got) in enumerate(zip(cases, ours))
             if got != (want := tokenizer.encode(text, pairs.get(i)).ids)]
    print(f"{path}: {len(cases)} texts, {len(wrong)} differ")
    for text, got, want in wrong[:5]:
        print(f"  {text!a}\n    ours   {got[:40]}\n    theirs {want[:40]}")
    return not wrong


def main():
    binary, paths = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        if not paths:
            paths = [train(binary, folder)] + unusual(folder) + [str(DATA / name) for name in REAL if (DATA / name).exists()]
        results = [compare(binary, path) for path in paths]
    sys.exit(0 if all(results) else 1)


main()
