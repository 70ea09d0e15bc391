#!/usr/bin/env python3
"""Trains the same model on the same pairs in the same order here and by TRL's formulas in PyTorch, and compares the loss
and the rewards of every step. There, apply_chat_template cuts prompt and answer apart as TRL's DPOTrainer does, each
answer is computed alone, and a copy of the start model is the reference.

    dpo_test.py TRIREME [--steps 20 --ranks 1,2 --tolerance 1e-5]

With adapters (LoRA) the reference is PEFT's model with its adapters off, as in TRL.

A tiny random Llama and pairs that are made here. Needs torch, transformers, jinja2 and peft."""
import argparse
import copy
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import jinja2  # noqa: F401, transformers renders templates by it
    import peft
    import torch
    import torch.nn.functional as F
    import transformers
except ImportError as missing:
    print(f"not run: {missing}; scripts/bootstrap --peers installs it")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from glue_test import epoch_order  # noqa: E402
from lora_test import export  # noqa: E402
from sft_test import ROW, SEED, make_model  # noqa: E402

BATCH = 4
LOSSES = {  # name: (beta, label smoothing)
    "sigmoid": (0.1, 0.0),
    "robust": (0.2, 0.1),
    "ipo": (0.3, 0.0),
    "hinge": (0.2, 0.0),
    "sigmoid-norm": (1.0, 0.0),
}


def make_pairs(path):
    dice, numbers = random.Random(1), ["one", "two", "three", "four", "five"]
    rows = []
    for _ in range(31):
        a, b = dice.choices(numbers, k=2)
        answers = [" ".join(dice.choices(numbers, k=dice.randint(1, 6))) for _ in range(2)]
        if answers[0] == answers[1]:
            answers[1] += " and"
        rows.append({"prompt": [{"role": "user", "content": f"what is {a} and {b}"}],
                     "chosen": [{"role": "assistant", "content": answers[0]}],
                     "rejected": [{"role": "assistant", "content": answers[1]}]})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def pair_loss(kind, beta, smoothing, chosen, rejected, chosen_ids, rejected_ids):
    """trl/trainer/dpo_trainer.py 1.16, DPOTrainer._compute_loss, of log-ratios."""
    delta = chosen - rejected
    if kind == "sigmoid":
        return -F.logsigmoid(beta * delta)
    if kind == "robust":
        clean, flipped = -(1 - smoothing) * F.logsigmoid(beta * delta), -smoothing * F.logsigmoid(-beta * delta)
        return (clean - flipped) / (1 - 2 * smoothing)
    if kind == "ipo":
        return (chosen / chosen_ids - rejected / rejected_ids - 1 / (2 * beta)) ** 2
    if kind == "hinge":
        return torch.relu(1 - beta * delta)
    return -F.logsigmoid(beta * (chosen / chosen_ids - rejected / rejected_ids))


def theirs(folder, tokenizer, pairs, steps, rate, kind, adapter=None):
    """adapter: a folder with the adapters that are trained; else all weights are."""
    beta, smoothing = LOSSES[kind]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    if adapter:
        model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True)
    reference = None if adapter else copy.deepcopy(model).eval()

    def encode(row, answer):
        prompt = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
        whole = tokenizer.apply_chat_template(row["prompt"] + row[answer], return_dict=True)["input_ids"]
        assert whole[:len(prompt)] == prompt
        return torch.tensor(whole[:ROW]), len(prompt)

    def score(of, ids, prompt):
        logits = of(ids[None]).logits[0, :-1]
        return -F.cross_entropy(logits, ids[1:], reduction="none")[prompt - 1:].sum()

    def start_score(ids, prompt):
        with torch.no_grad():
            if reference is not None:
                return score(reference, ids, prompt)
            with model.disable_adapter():
                return score(model, ids, prompt)

    encoded = [(encode(row, "chosen"), encode(row, "rejected")) for row in pairs]
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.dim() > 1]
    others = [p for p in trained if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
                                  lr=rate, betas=(0.9, 0.999), eps=1e-8)
    records, epoch, first = [], 0, 0
    while len(records) < steps:
        step = epoch_order(SEED, epoch, len(pairs))[first:first + BATCH]
        optimizer.zero_grad()
        total = margin = right = 0.0
        for one in step:
            ratios, counts = [], []
            for ids, prompt in encoded[one]:
                ratios.append(score(model, ids, prompt) - start_score(ids, prompt))
                counts.append(len(ids) - prompt)
            loss = pair_loss(kind, beta, smoothing, *ratios, *counts) / len(step)
            loss.backward()
            total += loss.item()
            margin += beta * (ratios[0] - ratios[1]).item() / len(step)
            right += float(ratios[0] > ratios[1]) / len(step)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        records.append((total, margin, right))
        first += BATCH
        if first >= len(pairs):
            epoch, first = epoch + 1, 0
    return records


def ours(args, model, data, out, ranks, rate, kind, *more):
    shutil.rmtree(out, ignore_errors=True)
    beta, smoothing = LOSSES[kind]
    command = [] if ranks == 1 else ["mpirun", "-n", str(ranks), "--oversubscribe", "--allow-run-as-root"]
    # Everything behind the prompt counts, as in TRL.
    command += [args.trireme, "dpo", "--model", model, "--data", data, "--output", out, "--sequence", ROW, "--batch", BATCH,
                "--loss", kind, "--beta", beta, "--label-smoothing", smoothing, "--loss-on", "all", "--run.steps", args.steps,
                "--run.seed", SEED, "--validation-share", 0, "--learning-rate", rate, "--optim.schedule", "constant",
                "--optim.warmup-steps", 0, "--optim.weight-decay", 0.01, "--log.every", 1, "--comm.wire", "f32",
                "--log.peak-tflops", 1, *more]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    records = [json.loads(line) for line in open(out / "metrics.jsonl")]
    return [(r["loss"], r["metrics"]["rewards/margins"], r["metrics"]["rewards/accuracies"])
            for r in records if r["record"] == "step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    args = parser.parse_args()
    torch.set_num_threads(2)
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tokenizer = make_model(folder / "model")
        pairs = make_pairs(folder / "data.jsonl")
        ranks_of = [int(ranks) for ranks in args.ranks.split(",")]

        def compare(name, ranks, want, got):
            same = len(want) == len(got)
            loss, margin, right = (max(abs(a[i] - b[i]) for a, b in zip(want, got)) if same else float("inf")
                                   for i in range(3))
            print(f"{name}, {ranks} ranks: loss {got[0][0]:.4f} to {got[-1][0]:.4f} in {len(got)} steps; differs from "
                  f"TRL's formulas by at most {loss:.1e}, margins by {margin:.1e}, accuracies by {right:.2f}")
            return loss > args.tolerance * max(1.0, want[0][0]) or margin > 10 * args.tolerance

        rate = 1e-3
        for kind in LOSSES:
            want = theirs(folder / "model", tokenizer, pairs, args.steps, rate, kind)
            for ranks in ranks_of if kind == "sigmoid" else ranks_of[-1:]:
                got = ours(args, folder / "model", folder / "data.jsonl", folder / "run", ranks, rate, kind)
                failed |= compare(kind, ranks, want, got)
        rate = 3e-3  # of adapters
        for kind in ("sigmoid", "ipo"):
            for ranks in ranks_of:
                got = ours(args, folder / "model", folder / "data.jsonl", folder / "run", ranks, rate, kind, "--lora.rank", 4,
                           "--lora.targets", "all-linear", "--checkpoint.also", 0, "--checkpoint.keep", 0)
                start = folder / f"{kind}-{ranks}"
                export(args.trireme, "--model", folder / "run/step-00000000", "--output", start)
                want = theirs(folder / "model", tokenizer, pairs, args.steps, rate, kind, start)
                failed |= compare(f"{kind} of adapters", ranks, want, got)
    sys.exit(failed)


if __name__ == "__main__":
    main()
