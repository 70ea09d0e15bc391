#!/usr/bin/env python3
"""Fine-tunes the same model on the same conversations in the same order here and in transformers, and compares the loss
of every step. There, apply_chat_template says what counts in the loss, each conversation is computed alone, and the loss is the
sum over what counts in a step divided by its number.

    sft_test.py TRIREME [--steps 40 --ranks 1,2 --tolerance 1e-3]

A tiny random Llama and conversations that are made here. Needs torch, transformers and jinja2."""
import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import jinja2  # noqa: F401, transformers renders templates by it
    import tokenizers
    import torch
    import transformers
except ImportError as missing:
    print(f"not run: {missing}; scripts/bootstrap --peers installs it")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from glue_test import epoch_order  # noqa: E402

ROW, BATCH, SEED = 64, 4, 1337
TEMPLATE = ("{% for m in messages %}{{ '<|' + m['role'] + '|>' }}{% if m['role'] == 'assistant' %}{% generation %}"
            "{{ m['content'] + '<|end|>' }}{% endgeneration %}{% else %}{{ m['content'] + '<|end|>' }}{% endif %}{{ '\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


def tiny_llama(ids, row):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=ids, hidden_size=32, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=row, tie_word_embeddings=True))


def make_model(folder, make=tiny_llama):
    marks = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=marks, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(["what is one and two", "it is three", "the sum of four and five"], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    make(len(fast), ROW).save_pretrained(folder)
    return fast


def make_conversations(path):
    dice, numbers = random.Random(1), ["one", "two", "three", "four", "five"]
    rows = []
    for _ in range(57):
        messages = [{"role": "system", "content": "count"}] if dice.random() < 0.3 else []
        for _ in range(dice.randint(1, 3)):
            a, b = dice.choices(numbers, k=2)
            messages.append({"role": "user", "content": f"what is {a} and {b}"})
            messages.append({"role": "assistant", "content": " ".join(dice.choices(numbers, k=dice.randint(1, 6)))})
        rows.append({"messages": messages})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def best_fit(lengths):
    """Rows of conversations, longest first, each into the fullest row that has room."""
    rows, rooms = [], []
    for one in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = min(lengths[one], ROW)
        open_rows = [r for r in range(len(rows)) if rooms[r] >= length]
        if open_rows:
            row = min(open_rows, key=lambda r: (rooms[r], r))
        else:
            rows.append([])
            rooms.append(ROW)
            row = len(rows) - 1
        rows[row].append(one)
        rooms[row] -= length
    return rows


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def theirs(model, tokenizer, conversations, steps, rate):
    encoded = []
    for row in conversations:
        made = tokenizer.apply_chat_template(row["messages"], return_dict=True, return_assistant_tokens_mask=True)
        encoded.append((made["input_ids"][:ROW], made["assistant_masks"][:ROW]))
    rows = best_fit([len(ids) for ids, _ in encoded])
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices, others = [p for p in trained if p.dim() > 1], [p for p in trained if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
                                  lr=rate, betas=(0.9, 0.999), eps=1e-8)
    losses, epoch, first = [], 0, 0
    while len(losses) < steps:
        order = epoch_order(SEED, epoch, len(rows))
        step = [one for row in order[first:first + BATCH] for one in rows[row]]
        count = sum(sum(encoded[one][1][1:]) for one in step)
        optimizer.zero_grad()
        total = 0
        for one in step:
            ids, mask = (torch.tensor(part) for part in encoded[one])
            logits = model(ids[None]).logits[0, :-1]
            nll = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
            loss = (nll * mask[1:]).sum() / count
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        losses.append(total)
        first += BATCH
        if first >= len(rows):
            epoch, first = epoch + 1, 0
    return losses


def ours(args, model, data, out, ranks, rate, *more):
    shutil.rmtree(out, ignore_errors=True)
    command = [] if ranks == 1 else ["mpirun", "-n", str(ranks), "--oversubscribe", "--allow-run-as-root"]
    command += [args.trireme, "sft", "--model", model, "--data", data, "--output", out, "--sequence", ROW, "--batch", BATCH,
                "--run.steps", args.steps, "--run.seed", SEED, "--validation-share", 0, "--learning-rate", rate,
                "--optim.schedule", "constant", "--optim.warmup-steps", 0, "--optim.weight-decay", 0.01, "--log.every", 1,
                "--comm.wire", "f32", "--log.peak-tflops", 1, *more]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    records = [json.loads(line) for line in open(out / "metrics.jsonl")]
    return [r["loss"] for r in records if r["record"] == "step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    args = parser.parse_args()
    torch.set_num_threads(2)
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tokenizer = make_model(folder / "model")
        conversations = make_conversations(folder / "data.jsonl")
        rate = 3e-3
        want = theirs(load(folder / "model"), tokenizer, conversations, args.steps, rate)
        for ranks in map(int, args.ranks.split(",")):
            got = ours(args, folder / "model", folder / "data.jsonl", folder / "run", ranks, rate)
            worst = max(abs(a - b) for a, b in zip(want, got)) if len(want) == len(got) else float("inf")
            print(f"{ranks} ranks: loss {got[0]:.4f} to {got[-1]:.4f} in {len(got)} steps; differs from transformers "
                  f"{transformers.__version__} by at most {worst:.1e}")
            failed |= worst > args.tolerance
    sys.exit(failed)


if __name__ == "__main__":
    main()
