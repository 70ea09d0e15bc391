"""Encodes text with another tokenizer library, once per line on standard input: the peer of `trireme bench tokenize`.

usage: encode_text.py tiktoken|hf|quicktok TOKENIZER.json TEXT THREADS
Prints "ready" after loading, then for each line read the seconds and the number of tokens of one pass.
"""

import json
import os
import sys
import time

PART = 1 << 17  # characters that are encoded at a time, as `trireme bench tokenize` does


def byte_alphabet():
    printable = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    letters.update({chr(256 + i): byte for i, byte in enumerate(others)})
    return letters


def read_ranks(tokenizer):
    letters = byte_alphabet()
    ranks = {}
    for token, rank in tokenizer["model"]["vocab"].items():
        if all(c in letters for c in token) and not token.startswith("<|"):
            ranks[bytes(letters[c] for c in token)] = rank
    return ranks


def make_tiktoken(path, threads):
    import tiktoken

    with open(path, encoding="utf-8") as file:
        tokenizer = json.load(file)
    ranks = read_ranks(tokenizer)
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    pre = tokenizer["pre_tokenizer"]
    if pre["type"] == "Sequence":
        pattern = pre["pretokenizers"][0]["pattern"]["Regex"]
    encoding = tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    if threads == 1:
        return lambda parts: sum(len(encoding.encode_ordinary(part)) for part in parts)
    return lambda parts: sum(len(ids) for ids in encoding.encode_ordinary_batch(parts, num_threads=threads))


def make_hf(path, threads):
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda parts: sum(len(e.ids) for e in tokenizer.encode_batch(parts, add_special_tokens=False))


def make_quicktok(path, threads):
    """One of the encodings that its package has, found by its tokens."""
    import quicktok

    with open(path, encoding="utf-8") as file:
        ranks = read_ranks(json.load(file))
    for name in ["cl100k_base", "o200k_base", "llama3", "qwen3"]:
        encoding = quicktok.get_encoding(name)
        try:
            if all(encoding.decode_single_token_bytes(rank) == token for token, rank in ranks.items()):
                return lambda parts: len(encoding.encode_batch(parts, threads, False)[0])
        except (KeyError, ValueError, IndexError, RuntimeError):
            continue
    sys.exit("quicktok has no encoding with these tokens (it has cl100k_base, o200k_base, llama3, qwen3)")


def main():
    peer, path, text_path, threads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    encode = {"tiktoken": make_tiktoken, "hf": make_hf, "quicktok": make_quicktok}[peer](path, threads)
    with open(text_path, encoding="utf-8", errors="replace", newline="") as file:
        text = file.read()
    parts = [text[i : i + PART] for i in range(0, len(text), PART)]
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        tokens = encode(parts)
        print(time.perf_counter() - start, tokens, flush=True)


main()
