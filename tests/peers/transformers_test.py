"""A model that transformers made has the same loss here, and one that is exported from here has it there.

usage: transformers_test.py TRIREME
Needs torch, transformers and numpy (`scripts/bootstrap --peers`); ends with code 77, "not run", without them.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import transformers
except ImportError as missing:
    print(f"not run: {missing}; scripts/bootstrap --peers installs it")
    sys.exit(77)

TRIREME = sys.argv[1]
VOCABULARY, CONTEXT, WIDTH = 61, 16, 32


def trireme(*arguments):
    done = subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"trireme {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def make_tokens(folder, count, seed):
    numpy.random.default_rng(seed).integers(0, VOCABULARY, count).astype("<u2").tofile(folder / "train.bin")


def flags(folder, sequence):
    """One sequence of the whole file, so that both sides see the same tokens."""
    return ["--data.dir", folder, "--data.validation", "", "--batch.global", 1, "--batch.sequence", sequence,
            "--evaluation.batches", 1, "--launch.threads", 1, "--log.tensorboard", "false"]


def our_loss(run):
    """Loss of the run's first step, before its update: of the model that it started from."""
    records = map(json.loads, filter(None, (run / "metrics.jsonl").read_text().splitlines()))
    return next(record["loss"] for record in records if record["record"] == "step")


def train_one_step(folder, model, run, sequence=CONTEXT):
    trireme("train", *flags(folder, sequence), "--run.dir", run, "--model.init", model, "--run.steps", 1,
            "--optim.warmup-steps", 0, "--evaluation.every", 0)


def their_loss(folder, model):
    tokens = torch.from_numpy(numpy.fromfile(folder / "train.bin", "<u2").astype("int64"))
    with torch.no_grad():
        logits = model(tokens[None, :-1]).logits[0]
    return torch.nn.functional.cross_entropy(logits, tokens[1:]).item()


def make_theirs(folder, activation, tied):
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=2, n_head=4, activation_function=activation,
        tie_word_embeddings=tied, initializer_range=0.3, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():  # biases too, which start at zero
            if name.endswith("bias"):
                value.normal_(0, 0.3)
    model.save_pretrained(folder, safe_serialization=True)
    return model


def compare(what, ours, theirs, tolerance=1e-5):
    difference = abs(ours - theirs)
    print(f"{what}: ours {ours:.6f}, theirs {theirs:.6f}, difference {difference:.2e}")
    return difference <= tolerance


def check(activation, tied):
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_tokens(folder, CONTEXT + 1, 5)
        theirs = make_theirs(folder / "theirs", activation, tied)
        label = f"{activation}, {'tied' if tied else 'own'} head"
        train_one_step(folder, folder / "theirs", folder / "run")
        good &= compare(f"import, {label}", our_loss(folder / "run"), their_loss(folder, theirs))

        # What that step made of it, exported and trained on: their loss of it is the one that we have.
        trireme("export", "--checkpoint", folder / "run", "--output", folder / "exported")
        exported, report = transformers.GPT2LMHeadModel.from_pretrained(folder / "exported", output_loading_info=True)
        if report["missing_keys"] or report["unexpected_keys"]:
            print(f"export, {label}: {report}")
            good = False
        train_one_step(folder, folder / "exported", folder / "again")
        good &= compare(f"export, {label}", our_loss(folder / "again"), their_loss(folder, exported.eval()))
        changed = (exported.transformer.wpe.weight - theirs.transformer.wpe.weight).abs().max().item()
        good &= changed > 0
    return good


def check_lengths(name, rope):
    """Frequencies that depend on the length of a text: below and above the original context of 16."""
    torch.manual_seed(4)
    config = transformers.Phi3Config(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, original_max_position_embeddings=16, initializer_range=0.3,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, rope_parameters={"rope_theta": 100.0, "partial_rotary_factor": 1.0,
                                                                        "original_max_position_embeddings": 16, **rope})
    model = transformers.Phi3ForCausalLM(config).eval()
    good = True
    for length in (12, 16, 17, 40):
        with tempfile.TemporaryDirectory() as name_of_folder:
            folder = pathlib.Path(name_of_folder)
            make_tokens(folder, length + 1, length)
            model.save_pretrained(folder / "theirs", safe_serialization=True)
            train_one_step(folder, folder / "theirs", folder / "run", length)
            good &= compare(f"{name}, {length} tokens", our_loss(folder / "run"), their_loss(folder, model))
    return good


if __name__ == "__main__":
    checks = [check(a, t) for a in ("gelu_new", "gelu") for t in (True, False)]
    checks.append(check_lengths("longrope", {"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3],
                                             "long_factor": [1.0, 2.0, 4.0, 8.0]}))
    sys.exit(0 if all(checks) else 1)
