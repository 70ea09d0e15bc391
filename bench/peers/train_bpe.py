"""Trains a byte-level BPE vocabulary with Hugging Face tokenizers, once per line on standard input: the peer of
`trireme bench tokenize --train`.

usage: train_bpe.py VOCABULARY_SIZE TEXT THREADS VOCABULARY.json
Prints "ready" after reading, then for each line read the seconds and the number of tokens of one training; leaves the
vocabulary, an object of tokens and ids, in the last file.
"""

import json
import os
import re
import sys
import time

PART = 1 << 17  # characters that are counted at a time
CUT = re.compile("[A-Za-z](?=[ \n])")  # where the words of both sides are those of the whole


def cut(text):
    parts, begin = [], 0
    while begin < len(text):
        match = CUT.search(text, begin + PART)
        end = match.end() if match else len(text)
        parts.append(text[begin:end])
        begin = end
    return parts


def main():
    size, text_path, threads, output = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
    os.environ["RAYON_NUM_THREADS"] = threads
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    with open(text_path, encoding="utf-8", errors="replace", newline="") as file:
        parts = cut(file.read())
    print("ready", flush=True)
    for _ in sys.stdin:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=["<|endoftext|>"],
            show_progress=False,
        )
        start = time.perf_counter()
        tokenizer.train_from_iterator(parts, trainer)
        seconds = time.perf_counter() - start
        with open(output, "w", encoding="utf-8") as file:
            json.dump(tokenizer.get_vocab(), file)
        print(seconds, tokenizer.get_vocab_size(), flush=True)


main()
