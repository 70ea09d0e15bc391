"""Records what Hugging Face tokenizers decodes: python3 make_decoder_cases.py > ../golden/decoders.jsonl

Each line is a decoder and some lists of ids over one small vocabulary, with and without special tokens, and their text.
Lists whose bytes are not UTF-8 are left out: that library writes U+FFFD there, this program the bytes.
"""

import json
import random
import sys

from tokenizers import Tokenizer

TOKENS = ["▁the", "▁cat", "▁", "s", "##s", "dog</w>", "do", "Ġx", "<0xE2>", "<0x82>", "<0xAC>", "<0x20>", "Ċ", ".", "'", "n't", "not",
          "<pad>", "|", "a", "▁▁b", "ðŁ", "ĺĢ", "aba", "  c  ", "</w>", ",", "##", "é", "<0x0A>", "s▁", "▁do</w>", "Ġ", "aa", "'s", ""]
SPECIAL = ["<s>", "[SEP]"]
METASPACE = {"type": "Metaspace", "replacement": "▁"}
LLAMA = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]


def sequence(*decoders):
    return {"type": "Sequence", "decoders": list(decoders)}


def strip(start, stop, content=" "):
    return {"type": "Strip", "content": content, "start": start, "stop": stop}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


DECODERS = [
    None,
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {**METASPACE, "prepend_scheme": "always", "split": True},
    {**METASPACE, "prepend_scheme": "first", "split": False},
    {**METASPACE, "prepend_scheme": "never", "split": True},
    {"type": "WordPiece", "prefix": "##", "cleanup": True},
    {"type": "WordPiece", "prefix": "##", "cleanup": False},
    {"type": "BPEDecoder", "suffix": "</w>"},
    {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
    {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": False},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    replace("a", "bb"),
    replace("ab", ""),
    replace("[a-c]+", "<>", "Regex"),
    sequence(*LLAMA, strip(1, 0)),
    sequence(*LLAMA, strip(2, 0)),
    sequence(*LLAMA),
    sequence({"type": "ByteFallback"}, {**METASPACE, "prepend_scheme": "always", "split": True}),
    sequence({"type": "ByteFallback"}, {"type": "WordPiece", "prefix": "##", "cleanup": True}),
    sequence({"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, replace("s.", "S")),
    sequence({"type": "Fuse"}, replace("▁▁", "_")),
    sequence({"type": "Fuse"}, replace("a+", "A", "Regex")),
    sequence({"type": "Fuse"}, {"type": "WordPiece", "prefix": "##", "cleanup": True}),
    sequence({"type": "Fuse"}, {"type": "BPEDecoder", "suffix": "</w>"}),
    sequence({"type": "Fuse"}, {**METASPACE, "prepend_scheme": "first", "split": True}),
    sequence({"type": "BPEDecoder", "suffix": "</w>"}, {"type": "WordPiece", "prefix": "##", "cleanup": False}),
    sequence({"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "Fuse"}, strip(0, 1, "s")),
    sequence(replace("▁", " "), {"type": "Fuse"}, strip(1, 2)),
    sequence({**METASPACE, "prepend_scheme": "always", "split": True}, {"type": "CTC", "pad_token": "s", "word_delimiter_token": "a", "cleanup": True}),
    sequence(sequence({"type": "ByteFallback"}, {"type": "Fuse"}), sequence(replace("▁", " "), strip(1, 0))),
    sequence(),
]


def tokenizer(decoder):
    added = [{"id": len(TOKENS) + i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, token in enumerate(SPECIAL)]
    vocabulary = {token: i for i, token in enumerate(TOKENS + SPECIAL)}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": decoder,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "s"}}


def main():
    rng = random.Random(39)
    for decoder in DECODERS:
        file = tokenizer(decoder)
        library = Tokenizer.from_str(json.dumps(file))
        cases = []
        while len(cases) < 12:
            ids = [rng.randrange(len(TOKENS) + len(SPECIAL)) for _ in range(rng.randrange(1, 14))]
            if rng.random() < 0.3:
                ids[len(ids) // 2:len(ids) // 2] = [TOKENS.index(t) for t in ("<0xE2>", "<0x82>", "<0xAC>")]
            if rng.random() < 0.3:
                ids[:0] = [TOKENS.index(t) for t in ("ðŁ", "ĺĢ")]
            skip = bool(len(cases) % 2)
            try:
                text = library.decode(ids, skip_special_tokens=skip)
            except BaseException:  # the library's Strip fails on a token shorter than what is stripped
                continue
            if "\ufffd" not in text:
                cases.append([ids, skip, text])
        json.dump({"tokenizer": file, "cases": cases}, sys.stdout, ensure_ascii=False)
        print()


main()
