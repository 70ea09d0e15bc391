#!/usr/bin/env python3
"""Ids of cl100k, o200k and Llama 3 are tiktoken's and quicktok's, text for text; the rank tables are those of quicktok's package.

usage: tokenizers_test.py TRIREME; exit code 77 where tiktoken or quicktok is not installed
"""
import base64
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata
import unittest

# As tiktoken's and Llama 3's own sources have them.
CL100K = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
O200K = "|".join([
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""\p{N}{1,3}""", r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""", r"""\s*[\r\n]+""", r"""\s+(?!\S)""", r"""\s+"""])
LLAMA3 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
# quicktok cuts Llama 3's text by a pattern of its own, which differs in some texts from Meta's.
ENCODINGS = {"cl100k_base": ("cl100k", CL100K, True), "o200k_base": ("o200k", O200K, True), "llama3": ("llama3", LLAMA3, False)}
PIECES = [" ", " ", "\n", "\t", "\r", "a", "the", "Hello", "ing", "'s", "'", "'LL", "0", "12", "345", ".", "!!", "-", "_", "é", "ß", "привет", "中", "文字",
          "ไทย", "한국", "עברית", "😀", "\u00a0", "\u3000", "\u200d", "\u0301", "  ", "    ", "\n\n", "ABC", "aB", "/", "\\", "ǅ", "Ⅷ", "\u2028", "\x00", "\x85"]


def texts():
    """This file, every assigned character in turn, and borders of pieces in random order."""
    choose = random.Random(3)
    made = [pathlib.Path(__file__).read_text(encoding="utf-8")]
    # What is not assigned yet may be a digit in one library's Unicode and nothing in another's.
    codes = [chr(code) for code in range(0x30000) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    made += ["".join(codes[i:i + 4096]) for i in range(0, len(codes), 4096)]
    made += [" ".join(codes[i:i + 4096]) for i in range(0, len(codes), 4096)]
    made += ["".join(choose.choice(PIECES) for _ in range(choose.randrange(1, 40))) for _ in range(3000)]
    return made


def read_ranks(name):
    """u32 count, then of each token u16 bytes, the bytes, u32 id."""
    data = (pathlib.Path(quicktok.__file__).parent / "data" / (name + ".vocab")).read_bytes()
    count, at = struct.unpack_from("<I", data)[0], 4
    ranks = {}
    for _ in range(count):
        size = struct.unpack_from("<H", data, at)[0]
        token = data[at + 2:at + 2 + size]
        ranks[token] = struct.unpack_from("<I", data, at + 2 + size)[0]
        at += 6 + size
    assert at == len(data) and len(ranks) == count
    return ranks


class SameIds(unittest.TestCase):
    def encode(self, name, ranks, made):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, name + ".tiktoken")
            lines = sorted((rank, base64.b64encode(token).decode()) for token, rank in ranks.items())
            file.write_text("".join(f"{token} {rank}\n" for rank, token in lines))
            done = subprocess.run([TRIREME, "tokenizer", "encode", "--jsonl", "--no-special-tokens", "--tokenizer", file],
                                  input="".join(json.dumps({"text": text}) + "\n" for text in made).encode(), capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return [json.loads(line) for line in done.stdout.decode().splitlines()]

    def test_of_every_encoding(self):
        made = texts()
        for name, (package_name, pattern, by_quicktok) in ENCODINGS.items():
            ranks = read_ranks(package_name)
            ours = self.encode(name, ranks, made)
            self.assertEqual(len(ours), len(made))
            reference = tiktoken.Encoding(name + "-test", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
            wrong = [text for text, ids in zip(made, ours) if ids != reference.encode_ordinary(text)]
            self.assertEqual([ascii(text[:80]) for text in wrong[:5]], [], f"{name}: {len(wrong)} texts differ from tiktoken")
            if not by_quicktok:
                continue
            ids, starts = quicktok.get_encoding(name).encode_batch(made, 1, False)
            theirs = [[int(i) for i in ids[starts[k]:starts[k + 1]]] for k in range(len(made))]
            wrong = [text for text, a, b in zip(made, ours, theirs) if a != b]
            self.assertEqual([ascii(text[:80]) for text in wrong[:5]], [], f"{name}: {len(wrong)} texts differ from quicktok")


if __name__ == "__main__":
    TRIREME = sys.argv.pop(1)
    try:
        import quicktok
        import tiktoken
    except ImportError as missing:
        print(f"not run: {missing}; scripts/bootstrap --peers installs it")
        sys.exit(77)
    unittest.main()
