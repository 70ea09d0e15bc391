#!/usr/bin/env python3
"""Fine-tunes the same model on the same rows in the same order here and in transformers, dropout off, and compares the
loss of every step.

    glue_test.py TRIREME [--model DIR --data-dir GLUE --tasks mrpc cola stsb --steps 100 --ranks 1,2,4 --tolerance 1e-3]

Without --model, tiny random encoders of each family on rows that are made here. Needs torch and transformers."""
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
    from transformers.trainer_pt_utils import LabelSmoother
except ImportError as missing:
    print(f"not run: {missing}; scripts/bootstrap --peers installs it")
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
    """The shuffle of src/train/step_batches.cc."""
    order, key = list(range(rows)), mix_key(seed, 3, epoch)
    for draw, i in enumerate(range(rows, 1, -1)):
        w = philox(key, (draw & MASK32, draw >> 32, 0, 0))
        j = ((w[0] | w[1] << 32) * i) >> 64
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


# Folder, header, columns of the texts, column of the label, kind of the label.
TASKS = {
    "mrpc": ("MRPC", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", (3, 4), 0, int),
    "cola": ("CoLA", "", (3,), 1, int),
    "stsb": ("STS-B", "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore", (7, 8), 9,
             float),
}
WORDS = [f"w{i}" for i in range(25)]


def make_wordpiece(folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + WORDS
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")  # and nothing else: the rest is written by ours, for theirs
    return len(words)


def make_bpe(folder):
    alphabet = [c for c in sorted(set("".join(WORDS)))] + ["\u0120"]
    tokens = ["<s>", "<pad>", "</s>", "<unk>"] + alphabet + ["\u0120w", "<mask>"]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n\u0120 w\n")
    transformers.RobertaTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    return len(tokens)


def make_tiny(family, folder):
    """A random encoder without a classifier, as pretraining leaves one."""
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    vocabulary = (make_bpe if family == "roberta" else make_wordpiece)(folder)
    t = transformers
    if family == "distilbert":
        config = t.DistilBertConfig(vocab_size=vocabulary, dim=32, n_layers=2, n_heads=4, hidden_dim=72,
                                    max_position_embeddings=48)
        t.DistilBertForMaskedLM(config).save_pretrained(folder)
        return folder
    sizes = dict(vocab_size=vocabulary, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=72)
    if family == "roberta":
        config = t.RobertaConfig(**sizes, max_position_embeddings=130, type_vocab_size=1, pad_token_id=1, bos_token_id=0,
                                 eos_token_id=2)
        t.RobertaForMaskedLM(config).save_pretrained(folder)
    else:
        t.BertForMaskedLM(t.BertConfig(**sizes, max_position_embeddings=40)).save_pretrained(folder)
    return folder


def make_rows(task, folder):
    name, header, texts, label, kind = TASKS[task]
    dice = random.Random(1)
    lines = [header] if header else []
    for i in range(150):
        row = ["-"] * (max(*texts, label) + 1)
        sentences = [" ".join(dice.choices(WORDS, k=dice.randint(2, 12))) for _ in texts]
        for column, sentence in zip(texts, sentences):
            row[column] = sentence
        row[label] = str(sentences[-1].count("w1") / 2 if kind is float else int("w3" in sentences[-1].split()))
        lines.append("\t".join(row))
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "train.tsv").write_text("\n".join(lines) + "\n")


def read_rows(data, task):
    name, header, texts, label, kind = TASKS[task]
    with open(data / name / "train.tsv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1 if header else 0:]
    return [([r[i] for i in texts], kind(r[label])) for r in rows]


def ours(args, task, model, data, out, steps, ranks, rate, smoothing):
    shutil.rmtree(out, ignore_errors=True)
    command = [] if ranks == 1 else ["mpirun", "-n", str(ranks), "--oversubscribe", "--allow-run-as-root"]
    command += [args.trireme, "glue", "--model", model, "--task", task, "--data-dir", data, "--do-train", "--max-steps",
                steps, "--per-device-train-batch-size", args.batch // ranks, "--learning-rate", rate, "--logging-steps", 1,
                "--output-dir", out, "--comm.wire", "f32", "--model.dropout", 0, "--weight-decay", 0.01,
                "--label-smoothing-factor", smoothing]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    records = [json.loads(line) for line in open(out / "metrics.jsonl")]
    return {r["step"]: r["loss"] for r in records if r["record"] == "step"}


def without_dropout(model):
    config = transformers.AutoConfig.from_pretrained(model)
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "dropout", "attention_dropout",
                 "seq_classif_dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    return config


def groups_of(net):
    """Weight decay is for what is neither a bias nor of a norm, as in their Trainer."""
    norms = {id(p) for module in net.modules() if isinstance(module, torch.nn.LayerNorm) for p in module.parameters()}
    plain = [p for name, p in net.named_parameters() if id(p) in norms or name.endswith("bias")]
    kept = {id(p) for p in plain}
    return [{"params": [p for p in net.parameters() if id(p) not in kept], "weight_decay": 0.01},
            {"params": plain, "weight_decay": 0}]


def theirs(args, task, model, data, smoothing):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    config = without_dropout(model)
    net = transformers.AutoModelForSequenceClassification.from_pretrained(model, config=config).train()
    limit = min(128, config.max_position_embeddings - (2 if config.model_type == "roberta" else 0))
    optimizer = torch.optim.AdamW(groups_of(net), lr=args.learning_rate, betas=(0.9, 0.999), eps=1e-8)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, args.steps)
    rows, losses, epoch, place = read_rows(data, task), [], 0, 0
    kind = torch.float if TASKS[task][4] is float else torch.long
    order = epoch_order(42, 0, len(rows))
    while len(losses) < args.steps:
        if place == len(rows):
            epoch, place = epoch + 1, 0
            order = epoch_order(42, epoch, len(rows))
        part = [rows[i] for i in order[place:place + args.batch]]
        place += len(part)
        texts = [[row[0][i] for row in part] for i in range(len(part[0][0]))]
        batch = tokenizer(*texts, padding=True, truncation=True, max_length=limit, return_tensors="pt")
        labels = torch.tensor([row[1] for row in part], dtype=kind)
        outputs = net(**batch, labels=labels)
        loss = LabelSmoother(epsilon=smoothing)(outputs, labels) if smoothing else outputs.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def compare(args, task, model, data, folder, what, smoothing=0.0):
    """False where the losses of a step differ."""
    start, good = folder / "start", True
    ours(args, task, model, data, start, 1, 1, 0, 0)  # a step of rate 0 gives both the same new head
    want = theirs(args, task, start, data, smoothing)
    for ranks in map(int, args.ranks.split(",")):
        got = ours(args, task, start, data, folder / "ours", args.steps, ranks, args.learning_rate, smoothing)
        largest = max(abs(got[i + 1] - want[i]) for i in range(args.steps))
        good &= len(got) == args.steps and largest <= args.tolerance
        print(f"{what}, {ranks} ranks, {args.steps} steps: loss {want[0]:.4f} to {want[-1]:.4f}, largest difference "
              f"{largest:.2e}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--data-dir", type=pathlib.Path)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--ranks", default="1")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if args.model:
            good = all([compare(args, task, args.model, args.data_dir, folder, task) for task in args.tasks])
        else:
            for task in args.tasks:
                make_rows(task, folder / "data")
            models = {family: make_tiny(family, folder / family) for family in ("bert", "distilbert", "roberta")}
            pairs = [("bert", task) for task in args.tasks] + [("distilbert", args.tasks[0]), ("roberta", args.tasks[0])]
            good = all([compare(args, task, models[family], folder / "data", folder, f"{family} on {task}")
                        for family, task in pairs])
            good &= compare(args, args.tasks[0], models["bert"], folder / "data", folder, "smoothed labels", 0.1)
    print("equal" if good else "different")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
