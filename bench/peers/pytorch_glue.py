#!/usr/bin/env python3
"""Fine-tuning steps of transformers on MRPC, to stand beside `trireme bench glue --peer pytorch`, which starts it.

Forward, backward, clipping at 1.0 and AdamW in f32 (--dtype bf16: autocast over f32 weights) on random weights of the folder's sizes, rows in the file's order. It prints "ready" after a
step of warm-up on the first batch, then for each line read the seconds, tokens (padding left out), peak memory in bytes and loss of one step.
"""
import argparse
import csv
import os
import resource
import sys
import time

try:
    import torch
    import transformers
except ImportError as missing:
    sys.exit(f"pytorch_glue: {missing}; scripts/bootstrap --peers makes .venv with torch and transformers")


def read_rows(folder):
    path = os.path.join(folder, "MRPC")
    with open(os.path.join(path if os.path.isdir(path) else folder, "train.tsv"), encoding="utf-8-sig", newline="") as file:
        return [(r[3], r[4], int(r[0])) for r in list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--padding", choices=["dynamic", "full"], default="dynamic")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="bf16: autocast over f32 weights")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    model = transformers.AutoModelForSequenceClassification.from_config(
        transformers.AutoConfig.from_pretrained(args.model, num_labels=2)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0, fused=True)
    rows = read_rows(args.data_dir)
    padding = "max_length" if args.padding == "full" else True
    batches = []  # encoded before the clock runs, as the recipe does
    for first in range(0, len(rows) - args.batch + 1, args.batch):
        part = rows[first:first + args.batch]
        batch = tokenizer([r[0] for r in part], [r[1] for r in part], padding=padding, truncation=True,
                          max_length=args.max_length, return_tensors="pt")
        batches.append(dict(batch, labels=torch.tensor([r[2] for r in part])))

    def step(batch):
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - start, loss.item()

    step(batches[0])
    print("ready", flush=True)
    for index, _ in enumerate(sys.stdin, start=1):
        batch = batches[index % len(batches)]
        seconds, loss = step(batch)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(seconds, int(batch["attention_mask"].sum()), memory, loss, flush=True)


if __name__ == "__main__":
    main()
