#!/usr/bin/env python3
"""Fine-tunes the same model on the same rows in the same order here and in transformers, dropout off, and compares the
loss of every step.

    glue_test.py TRIREME [--model DIR --data-dir GLUE --steps 100 --ranks 1,2,4 --tolerance 1e-3]

Without --model, a tiny random BERT on a task that is made here. Needs torch and transformers."""
import argparse
import csv
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
except ImportError as missing:
    print(f"not run: {missing}")
    sys.exit(77)

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1


def philox(key, counter):
    """Philox4x32-10 (Salmon et al. 2011)."""
    c, (k0, k1) = list(counter), (key & MASK32, key >> 32)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & MASK32, (p0 >> 32) ^ c[3] ^ k1, p0 & MASK32]
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return c


def mix_key(*words):
    h = 0x9E3779B97F4A7C15
    for w in words:
        h = (h + w + 0x9E3779B97F4A7C15) & MASK64
        h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & MASK64
        h ^= h >> 31
    return h


def epoch_order(seed, epoch, rows):
    """The shuffle of src/train/glue/plan.cc."""
    order, key = list(range(rows)), mix_key(seed, 3, epoch)
    for draw, i in enumerate(range(rows, 1, -1)):
        w = philox(key, (draw & MASK32, draw >> 32, 0, 0))
        j = ((w[0] | w[1] << 32) * i) >> 64
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


def make_tiny(folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(25)]
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=72, max_position_embeddings=40)
    transformers.BertForMaskedLM(config).save_pretrained(folder / "model")
    (folder / "model" / "vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "model" / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    (folder / "data" / "MRPC").mkdir(parents=True)
    dice = random.Random(1)
    rows = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
    for i in range(150):
        texts = [" ".join(dice.choices(words[5:], k=dice.randint(2, 12))) for _ in range(2)]
        rows.append(f"{int('w3' in texts[1])}\t{i}\t{i}\t{texts[0]}\t{texts[1]}")
    (folder / "data" / "MRPC" / "train.tsv").write_text("\n".join(rows) + "\n")
    return folder / "model", folder / "data"


def read_mrpc(data):
    with open(data / "MRPC" / "train.tsv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [(r[3], r[4], int(r[0])) for r in rows]


def ours(binary, model, data, folder, steps, ranks, batch, rate):
    out = folder / f"ours-{ranks}"
    shutil.rmtree(out, ignore_errors=True)
    command = [] if ranks == 1 else ["mpirun", "-n", str(ranks), "--oversubscribe", "--allow-run-as-root"]
    command += [binary, "glue", "--model", model, "--task", "mrpc", "--data-dir", data, "--do-train", "--max-steps", steps,
                "--per-device-train-batch-size", batch // ranks, "--learning-rate", rate, "--logging-steps", 1,
                "--output-dir", out, "--comm.wire", "f32", "--model.dropout", 0, "--weight-decay", 0.01]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    records = [json.loads(line) for line in open(out / "metrics.jsonl")]
    return {r["step"]: r["loss"] for r in records if r.get("type", "step") == "step" and "loss" in r}, out


def theirs(model, data, steps, batch, rate):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    net = transformers.AutoModelForSequenceClassification.from_pretrained(
        model, hidden_dropout_prob=0, attention_probs_dropout_prob=0, classifier_dropout=0)
    net.train()
    limit = min(128, net.config.max_position_embeddings)
    plain = [p for n, p in net.named_parameters() if "bias" in n or "LayerNorm.weight" in n]
    others = [p for n, p in net.named_parameters() if not ("bias" in n or "LayerNorm.weight" in n)]
    optimizer = torch.optim.AdamW([{"params": others, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0}],
                                  lr=rate, betas=(0.9, 0.999), eps=1e-8)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, steps)
    rows, losses, epoch, place = read_mrpc(data), [], 0, 0
    order = epoch_order(42, 0, len(rows))
    while len(losses) < steps:
        if place == len(rows):
            epoch, place = epoch + 1, 0
            order = epoch_order(42, epoch, len(rows))
        part = [rows[i] for i in order[place:place + batch]]
        place += len(part)
        batch_of = tokenizer([r[0] for r in part], [r[1] for r in part], padding=True, truncation=True, max_length=limit,
                             return_tensors="pt")
        loss = net(**batch_of, labels=torch.tensor([r[2] for r in part])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--data-dir", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--ranks", default="1")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, data = (args.model, args.data_dir) if args.model else make_tiny(folder)
        # A step of rate 0 gives both the same new head.
        _, start = ours(args.trireme, model, data, folder / "start", 1, 1, args.batch, 0)
        want = theirs(start, data, args.steps, args.batch, args.learning_rate)
        for ranks in [int(r) for r in args.ranks.split(",")]:
            got, _ = ours(args.trireme, start, data, folder, args.steps, ranks, args.batch, args.learning_rate)
            errors = [abs(got[i + 1] - want[i]) for i in range(args.steps)]
            failed |= len(got) != args.steps or not max(errors) <= args.tolerance
            print(f"{ranks} ranks, {args.steps} steps: loss {want[0]:.4f} to {want[-1]:.4f}, largest difference {max(errors):.2e}")
    print("different" if failed else "equal")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
