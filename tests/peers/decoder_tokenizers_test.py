#!/usr/bin/env python3
"""Tokenizers as those of Llama, Qwen, Gemma and other decoders: the same ids and texts as Hugging Face tokenizers.

usage: decoder_tokenizers_test.py TRIREME           compares them on 10,000 texts
       decoder_tokenizers_test.py TRIREME --write   writes tests/golden/tokenizers: small ones, and ids of some texts

The families' own files are not part of the project: each tokenizer here has a small vocabulary, trained on the texts, in
the pipeline that transformers' sources (or the family's published tokenizer.json) build around it. Llama 3's are made by
transformers' own TikTokenConverter. Exit code 77: tokenizers or transformers is not installed.
"""
import base64
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata
import unittest

try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers.convert_slow_tokenizer import TikTokenConverter
except ImportError as error:
    print(f"skipped: {error}; scripts/bootstrap --peers installs tokenizers and transformers")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("TRIREME_TEST_DATA", ROOT.parent / "shared" / "data"))
TEXTS = 10000
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+SUFFIX|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*SUFFIX|"
         r"DIGITS| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = CASED.replace("SUFFIX", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("DIGITS", r"\p{N}{1,3}")
TEKKEN = CASED.replace("SUFFIX", "").replace("DIGITS", r"\p{N}")
PIECES = [" ", " ", "\n", "\t", "\r", "a", "the", "Hello", "ing", "'s", "'", "'LL", "0", "12", "345", ".", "!!", "-", "é", "e\u0301", "ß", "İ", "привет", "中", "文字",
          "ไทย", "한국", "\u1112\u1161\u11ab", "עברית", "😀", "👩‍👩‍👧", "\u00a0", "\u3000", "\u200d", "\u0301", "  ", "    ", "\n\n", "ABC", "aB", "/", "\\", "ǅ", "Ⅷ",
          "½", "٣", "\u2028", "\x00", "\x85", "\ufeff", "\ufffd", "\U00010400", "▁", "▁▁", "Ġ", "<0x0A>", "<s>", "</s>", "<|im_end|>", "<|endoftext|>", "<bos>", "<think>"]


def is_old(text):
    """Of characters assigned since Unicode 3.2: the libraries' tables are of different later versions (tokenizers 0.23 normalises by Unicode 9)."""
    return all(unicodedata.ucd_3_2_0.category(c) != "Cn" for c in text)


def random_texts(count, seed):
    rng = random.Random(seed)
    for i in range(count):
        if i % 4:
            yield "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 30)))
            continue
        characters = []
        while len(characters) < rng.randrange(2, 20):
            c = chr(rng.choice([rng.randrange(1, 0x250), rng.randrange(0x250, 0xD800), rng.randrange(0xE000, 0x20000)]))
            if is_old(c):
                characters.append(c)
        yield "".join(characters)


def lines_of_files():
    """Lines of many languages, then of English."""
    for path in sorted(DATA.glob("unicode/*.txt")):
        yield from path.read_bytes().decode(errors="replace").splitlines()
    test = DATA / "unicode/NormalizationTest.txt.gz"
    if test.exists():
        rows = gzip.decompress(test.read_bytes()).decode().splitlines()
        made = ("".join(chr(int(code, 16)) for code in row.split(";")[0].split()) for row in rows if row[:1] not in "#@")
        yield from filter(is_old, made)
    crawl = DATA / "text/cc_en_head-0091.jsonl"
    if crawl.exists():
        yield from (json.loads(line)["text"][:2000] for line in crawl.read_text(encoding="utf-8").split("\n") if line)
    for name in ("wikitext2.test.txt", "tinyshakespeare.txt"):
        if (DATA / "text" / name).exists():
            yield from (DATA / "text" / name).read_text(encoding="utf-8").splitlines()


def texts(count):
    lines = [line for line in lines_of_files() if line]
    rng = random.Random(1)
    taken = lines if len(lines) < count * 3 // 4 else rng.sample(lines, count * 3 // 4)
    edges = ["", " ", "  ", "\n", "a" * 3000, " " * 3000, "ab" * 1000, "é" * 1000, "!" * 2000, "中" * 500, "\u0301" * 200, "1" * 700, "\n" * 300]
    made = edges + taken
    return made + list(random_texts(count - len(made), 2))


def special(*names, **options):
    return [AddedToken(name, normalized=False, special=True, **options) for name in names]


def begin_template(token, number):
    return processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A {token} $B:1", special_tokens=[(token, number)])


def byte_fallback(names, size, training):
    """A BPE over characters, with a token of each byte: SentencePiece's, whose merges do not cross the beginning of a word."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    learner.train_from_iterator(training, trainers.BpeTrainer(vocab_size=size, limit_alphabet=size // 4, show_progress=False))
    model = json.loads(learner.to_str())["model"]
    learned = sorted(model["vocab"], key=model["vocab"].get)
    tokens = dict.fromkeys([*names, *(f"<0x{byte:02X}>" for byte in range(256)), *learned])
    unknown = "<unk>"
    return models.BPE({token: i for i, token in enumerate(tokens)}, [tuple(merge) for merge in model["merges"]], unk_token=unknown, fuse_unk=True,
                      byte_fallback=True)


def spaces_to_text(strip):
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *([decoders.Strip(content=" ", left=1)] if strip else [])])


def llama2(size, training, **placeholder):
    """LlamaConverter of a slow tokenizer with legacy behaviour: Llama 2, TinyLlama, Mistral v0.1."""
    tokenizer = Tokenizer(byte_fallback(["<unk>", "<s>", "</s>"], size, training))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = spaces_to_text(True)
    tokenizer.add_special_tokens(special("<unk>", "<s>"))
    tokenizer.add_special_tokens(special("</s>", **placeholder))
    tokenizer.post_processor = begin_template("<s>", 1)
    return tokenizer


def llama5(size, training):
    """LlamaTokenizer of transformers 5, and Mistral v0.3: Metaspace before the first piece only."""
    tokenizer = llama2(size, training)
    tokenizer.normalizer = normalizers.Sequence([])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    return tokenizer


def phi3(size, training):
    tokenizer = llama2(size, training, rstrip=True)
    tokenizer.add_special_tokens(special("<|endoftext|>"))
    tokenizer.add_special_tokens(special("<|assistant|>", "<|im_end|>", "<|end|>", "<|user|>", rstrip=True))
    return tokenizer


def gemma(size, training):
    tokenizer = Tokenizer(byte_fallback(["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "\n\n", "\n\n\n", "▁▁", "▁▁▁▁", "\t"], size, training))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = spaces_to_text(False)
    tokenizer.add_special_tokens(special("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>"))
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in ("\n\n", "\n\n\n", "▁▁", "▁▁▁▁")])
    tokenizer.post_processor = begin_template("<bos>", 2)
    return tokenizer


def byte_level(pre_tokenizer, size, training, normalizer=None, names=("<|endoftext|>",), **options):
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(training, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special(*names))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def cut_by(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior, invert), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def by_tiktoken(pattern, size, training, names, begin):
    """A rank file of trained tokens, converted as transformers does: merges from ranks, and whole pieces looked up first."""
    trained = byte_level(cut_by(pattern), size, training)
    characters = {c: b for b, c in byte_characters().items()}
    ranks = sorted((number, bytes(characters[c] for c in token)) for token, number in trained.get_vocab(with_added_tokens=False).items())
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "ranks.tiktoken")
        path.write_text("".join(f"{base64.b64encode(token).decode()} {number}\n" for number, token in ranks))
        tokenizer = TikTokenConverter(vocab_file=str(path), pattern=pattern, extra_special_tokens=list(names)).converted()
    if begin:
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), begin_template(begin, tokenizer.token_to_id(begin))])
    return tokenizer


def byte_characters():
    """GPT-2's character of each byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {byte: chr(byte) for byte in kept}, 0
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + extra)
            extra += 1
    return table


def qwen(size, training):
    tokenizer = byte_level(cut_by(QWEN), size, training, normalizers.NFC(), ("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("<tool_call>", normalized=False)])
    return tokenizer


def digits_alone(size, training, names=("<|endoftext|>", "<|im_start|>", "<|im_end|>")):
    by_word = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return byte_level(by_word, size, training, names=names)


FAMILIES = {
    "llama2": llama2,
    "llama5": llama5,
    "phi3": phi3,
    "gemma": gemma,
    "llama3": lambda size, training: by_tiktoken(LLAMA3, size, training, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], "<|begin_of_text|>"),
    "tekken": lambda size, training: by_tiktoken(TEKKEN, size, training, ["<unk>", "<s>", "</s>"], "<s>"),
    "qwen": qwen,
    "smollm": digits_alone,
    "granite": lambda size, training: digits_alone(size, training, ("<|end_of_text|>", "<fim_prefix>", "<|start_of_role|>")),
    "olmo2": lambda size, training: byte_level(cut_by(LLAMA3, "removed", True), size, training, names=("<|endoftext|>", "|||IP_ADDRESS|||")),
    "phi4-mini": lambda size, training: byte_level(cut_by(O200K, "removed", True), size, training, names=("<|endoftext|>", "<|end|>")),
}


def run(*words, text):
    done = subprocess.run([TRIREME, "tokenizer", *words], input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr.decode()[:2000]}")
    return done.stdout.decode(errors="replace")


class SameAsHuggingFace(unittest.TestCase):
    def test_ids_and_texts_of_every_family(self):
        made = texts(TEXTS)
        self.assertEqual(len(made), TEXTS)
        training = made[::2]
        for family, make in FAMILIES.items():
            tokenizer = make(4000, training)
            with self.subTest(family), tempfile.TemporaryDirectory() as folder:
                path = str(pathlib.Path(folder, "tokenizer.json"))
                tokenizer.save(path)
                lines = "".join(json.dumps({"text": text}) + "\n" for text in made)
                ours = [json.loads(line) for line in run("encode", "--jsonl", "--tokenizer", path, text=lines).splitlines()]
                theirs = [encoding.ids for encoding in tokenizer.encode_batch(made)]
                wrong = [(ascii(text[:60]), got[:30], want[:30]) for text, got, want in zip(made, ours, theirs) if got != want]
                self.assertEqual((len(ours), wrong[:3]), (TEXTS, []), f"{len(wrong)} texts have other ids")
                whole = "".join(json.dumps(ids) + "\n" for ids in theirs)
                for words in ((), ("--skip-special-tokens",)):
                    decoded = tokenizer.decode_batch(theirs, skip_special_tokens=bool(words))
                    got = run("decode", "--tokenizer", path, *words, text=whole)
                    if got != (want := "".join(text + "\n" for text in decoded)):
                        at = next(i for i, (a, b) in enumerate(zip(got, want)) if a != b)
                        self.fail(f"decoded texts differ: {got[at - 30:at + 30]!a}, expected {want[at - 30:at + 30]!a}")
                print(f"{family}: {TEXTS} texts, {sum(map(len, theirs))} ids", flush=True)


def write():
    """Small tokenizers with the ids and the texts of 60 texts each; the texts come from no file."""
    folder = ROOT / "tests/golden/tokenizers"
    folder.mkdir(parents=True, exist_ok=True)
    training = [*random_texts(400, 5), *(pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()), *(ROOT / "README.md").read_text(encoding="utf-8").splitlines()] * 2
    cases = ["", " ", "Hello, world 12345 times. It's fine!", "  two  spaces\n\n\nand lines\t.", "naïve e\u0301 Ünïcode 中文 한국 😀👩‍👩‍👧", *random_texts(55, 6)]
    for family, make in FAMILIES.items():
        tokenizer = make(420, training)
        ids = [encoding.ids for encoding in tokenizer.encode_batch(cases)]
        rows = [{"text": text, "ids": of_text, "decoded": tokenizer.decode(of_text, skip_special_tokens=True)} for text, of_text in zip(cases, ids)]
        (folder / f"{family}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / f"{family}.cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    TRIREME = sys.argv[1]
    if sys.argv[2:] == ["--write"]:
        write()
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
