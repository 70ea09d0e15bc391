#!/usr/bin/env python3
"""Measures every model family against Hugging Face transformers and prints the table of docs/models.md.

    parity_table.py --trireme build/release/trireme [--sizes small odd wide --models gpt2 opt ...]

For each class and size: a random model, its logits, loss and gradients in float64 (make_parity_case.py), compared by
`trireme parity` in f32 and bf16; then `trireme export` writes the model as a new folder, whose tensors must be the same
bytes and which must load in transformers with the same logits. Ends with code 1 where something is past its tolerance.
Needs torch, transformers and safetensors; ends with code 77, "not run", without them.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file

    import make_parity_case as cases
except ImportError as missing:
    print(f"not run: {missing}; scripts/bootstrap --peers installs it")
    sys.exit(77)

# Largest error of a tensor that passes; logits and loss, gradients. bf16 has nothing to say about gradients below a
# thousandth of the largest, which are zero but for rounding (key biases): they are left out there. Where PyTorch's own
# bf16 is far from float64 (a ReLU on in one precision and off in the other; queries and keys, whose gradients are small
# differences of rounded numbers), ours may be as far, times two.
TOLERANCE = {"f32": (1e-4, 1e-3), "bf16": (5e-2, 1e-1)}
TIMES_PYTORCHS = 2
SMALL = {"f32": 0, "bf16": 1e-3}


def measure(trireme, folder, case, dtype):
    """Largest error of logits and loss, and of the gradients."""
    done = subprocess.run([trireme, "parity", "--model", folder, "--case", case, "--dtype", dtype, "--tolerance", "1e9"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{folder}: {done.stdout}{done.stderr}")
    lines = re.findall(r"^ *(\S+) +(\S+)  (logits|loss|grad\.\S+)", done.stdout, re.M)
    output = [float(error) for error, _, name in lines if not name.startswith("grad.")]
    gradients = [(float(error), float(largest)) for error, largest, name in lines if name.startswith("grad.")]
    assert gradients and len(output) == 2, done.stdout
    floor = SMALL[dtype] * max(largest for _, largest in gradients)
    return max(output), max(error for error, largest in gradients if largest > floor)


def error_of_torch(folder, case, attention):
    """Largest error of the gradients when PyTorch computes in bf16, by the same measure."""
    values = load_file(case)
    model = cases.load(folder, attention).bfloat16().eval()
    inputs = {key: value.bfloat16() if value.is_floating_point() else value
              for key, value in values.items() if key in ("input_ids", "attention_mask", "token_type_ids", "labels")}
    model(**inputs).loss.backward()
    want = {name: values["grad." + name] for name, _ in model.named_parameters()}
    largest = max(gradient.abs().max().item() for gradient in want.values())
    errors = []
    for name, parameter in model.named_parameters():
        size = want[name].abs().max().item()
        if parameter.grad is not None and size > SMALL["bf16"] * largest:
            errors.append((parameter.grad.double() - want[name]).abs().max().item() / size)
    return max(errors)


def check_export(trireme, folder, again, model):
    """The exported folder has the same tensors, and transformers computes the same with it."""
    subprocess.run([trireme, "export", "--model", folder, "--output", again], check=True, capture_output=True)
    theirs, ours = load_file(folder / "model.safetensors"), load_file(again / "model.safetensors")
    if theirs.keys() != ours.keys() or any(not torch.equal(theirs[name], ours[name]) for name in theirs):
        return "other tensors"
    exported, report = type(model).from_pretrained(again, output_loading_info=True, attn_implementation="eager")
    if report["missing_keys"] or report["unexpected_keys"] or report["mismatched_keys"]:
        return f"does not load: {report}"
    ids = torch.randint(3, model.config.vocab_size, (2, 7), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        got, want = exported.double().eval()(ids).logits, model(ids).logits
    # Names of one activation (gelu_fast, gelu_new) differ by the digits of their constants.
    return "same" if (got - want).abs().max() <= 1e-8 * want.abs().max() else "other logits"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, help="the program")
    parser.add_argument("--sizes", nargs="+", choices=cases.SIZES, default=list(cases.SIZES))
    parser.add_argument("--models", nargs="+", choices=cases.random_models(), default=list(cases.random_models()))
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    good = True
    print("| model | size | f32 logits, loss | f32 gradients | bf16 logits, loss | bf16 gradients | PyTorch's | exported |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for size in options.sizes:
        length = min(48, cases.SIZES[size]["T"] - 3)
        for name in options.models:
            with tempfile.TemporaryDirectory() as temporary:
                folder = pathlib.Path(temporary) / "model"
                cases.make_random(name, folder, 1, size)
                model = cases.make_case(folder, folder / "case.safetensors", 3, length, 1)
                errors = [error for dtype in TOLERANCE
                          for error in measure(options.trireme, folder, folder / "case.safetensors", dtype)]
                theirs = max(error_of_torch(folder, folder / "case.safetensors", kind) for kind in ("eager", "sdpa"))
                exported = check_export(options.trireme, folder, pathlib.Path(temporary) / "again", model)
            limits = [limit for pair in TOLERANCE.values() for limit in pair]
            limits[-1] = max(limits[-1], TIMES_PYTORCHS * theirs)
            good &= exported == "same" and all(error <= limit for error, limit in zip(errors, limits))
            cells = " | ".join(f"{error:.1e}" for error in errors)
            print(f"| {type(model).__name__} ({name}) | {size} | {cells} | {theirs:.1e} | {exported} |", flush=True)
    print(f"\ntransformers {transformers.__version__}, torch {torch.__version__}; tolerances: "
          + "; ".join(f"{dtype} logits and loss {a:g}, gradients {b:g}" for dtype, (a, b) in TOLERANCE.items())
          + f", or {TIMES_PYTORCHS} x PyTorch's")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
