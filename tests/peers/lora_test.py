#!/usr/bin/env python3
"""Trains the same adapters on the same conversations in the same order here and in PEFT, and compares the loss of every
step and the adapters at the end. Then PEFT loads what this program exported: its logits are those of the merged export,
and `trireme parity --adapter` finds its logits, loss and gradients of the adapter equal.

    lora_test.py TRIREME [--steps 20 --ranks 1,2 --tolerance 1e-4]

Tiny random models whose published linears differ: queries, keys and values apart (Llama), fused with transposed weights
(GPT-2), fused by blocks with fused gates (Phi-3), fused by heads (GPT-NeoX). Needs torch, transformers, jinja2, peft."""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import jinja2  # noqa: F401
    import peft
    import safetensors.torch
    import torch
    import transformers as t
except ImportError as missing:
    print(f"not run: {missing}; scripts/bootstrap --peers installs it")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import make_parity_case  # noqa: E402
import sft_test  # noqa: E402

DECODER = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)


def llama(ids, row):
    return t.LlamaForCausalLM(t.LlamaConfig(vocab_size=ids, **DECODER, num_key_value_heads=2, max_position_embeddings=row,
                                            tie_word_embeddings=False))


def gpt2(ids, row):
    return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=ids, n_positions=row, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0,
                                          embd_pdrop=0, attn_pdrop=0))


def phi3(ids, row):
    return t.Phi3ForCausalLM(t.Phi3Config(vocab_size=ids, **DECODER, num_key_value_heads=2, max_position_embeddings=row,
                                          original_max_position_embeddings=row, pad_token_id=0))


def neox(ids, row):
    return t.GPTNeoXForCausalLM(t.GPTNeoXConfig(vocab_size=ids, **DECODER, max_position_embeddings=row, rotary_pct=0.5,
                                                hidden_dropout=0, attention_dropout=0))


CASES = {
    "llama, all linears": (llama, ["--lora.rank", 4, "--lora.alpha", 8, "--lora.targets", "all-linear"]),
    "llama, usual targets": (llama, ["--lora.rank", 8]),
    "llama, patterns and a head": (llama, ["--lora.rank", 4, "--lora.targets", "k_proj,o_proj,up_proj", "--lora.rslora", "true",
                                           "--lora.rank-pattern", "o_proj=2,layers.1.mlp.up_proj=6", "--lora.alpha-pattern",
                                           "k_proj=9", "--lora.modules-to-save", "lm_head"]),
    "gpt2": (gpt2, ["--lora.rank", 4, "--lora.targets", "c_attn,c_proj"]),
    "phi3": (phi3, ["--lora.rank", 4, "--lora.targets", "qkv_proj,gate_up_proj,down_proj"]),
    "llama, DoRA": (llama, ["--lora.rank", 4, "--lora.alpha", 8, "--lora.targets", "all-linear", "--lora.dora", "true"]),
    "gpt2, DoRA": (gpt2, ["--lora.rank", 4, "--lora.targets", "c_attn,c_proj,c_fc", "--lora.dora", "true"]),
    "gpt_neox, DoRA of some": (neox, ["--lora.rank", 4, "--lora.targets", "query_key_value,dense", "--lora.dora", "true"]),
    "gpt_neox": (neox, ["--lora.rank", 4, "--lora.targets", "query_key_value,dense_h_to_4h"]),
}


def call(trireme, *words):
    done = subprocess.run([str(w) for w in (trireme, *words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def export(trireme, *words):
    call(trireme, "export", *words)


def parity(trireme, folder):
    """The largest error of logits, loss and the adapter's gradients, relative to each tensor's largest value."""
    make_parity_case.make_case(folder / "model", folder / "case", 3, 9, 0, folder / "end")
    out = call(trireme, "parity", "--model", folder / "model", "--adapter", folder / "end", "--case", folder / "case")
    return out.splitlines()[-1]


def case(args, folder, name, make, flags):
    failed = False
    tokenizer = sft_test.make_model(folder / "model", make)
    conversations = sft_test.make_conversations(folder / "data.jsonl")
    rate, run = 3e-3, folder / "run"
    for ranks in map(int, args.ranks.split(",")):
        losses = sft_test.ours(args, folder / "model", folder / "data.jsonl", run, ranks, rate, "--checkpoint.also", 0,
                               "--checkpoint.keep", 0, *flags)
        for step, out in ((0, "start"), (args.steps, "end")):
            shutil.rmtree(folder / out, ignore_errors=True)
            export(args.trireme, "--model", run / f"step-{step:08d}", "--output", folder / out)
        model = peft.PeftModel.from_pretrained(sft_test.load(folder / "model"), folder / "start", is_trainable=True)
        want = sft_test.theirs(model, tokenizer, conversations, args.steps, rate)
        worst = max(abs(a - b) for a, b in zip(want, losses)) if len(want) == len(losses) else float("inf")
        trained = peft.get_peft_model_state_dict(model)
        ours = safetensors.torch.load_file(folder / "end/adapter_model.safetensors")
        apart = max((trained[k] - ours[k]).abs().max().item() for k in trained) if trained.keys() == ours.keys() else float("inf")
        print(f"{name}, {ranks} ranks: loss {losses[0]:.4f} to {losses[-1]:.4f}; differs from peft {peft.__version__} by at "
              f"most {worst:.1e}, the adapters by {apart:.1e}")
        failed |= worst > args.tolerance or apart > 10 * args.tolerance
    shutil.rmtree(folder / "merged", ignore_errors=True)
    export(args.trireme, "--model", run, "--merge", "--output", folder / "merged")
    loaded = peft.PeftModel.from_pretrained(sft_test.load(folder / "model"), folder / "end").eval()
    merged = sft_test.load(folder / "merged").eval()
    ids = torch.arange(sft_test.ROW)[None] % len(tokenizer)
    with torch.no_grad():
        logits, same = loaded(ids).logits, merged(ids).logits
        base = sft_test.load(folder / "model").eval()(ids).logits
    worst, moved = (logits - same).abs().max().item(), (logits - base).abs().max().item()
    print(f"{name}: logits of the adapter in peft and of the merged export differ by {worst:.1e} (from the base: {moved:.1e})")
    print(f"{name}: {parity(args.trireme, folder)}")  # ends the test if they differ
    return failed or worst > 1e-4 or moved < 1e-2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    torch.set_num_threads(2)
    t.logging.set_verbosity_error()
    t.utils.logging.disable_progress_bar()
    failed = False
    for name, (make, flags) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            failed |= case(args, pathlib.Path(folder), name, make, flags)
    sys.exit(failed)


if __name__ == "__main__":
    main()
