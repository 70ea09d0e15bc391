#!/usr/bin/env python3
"""Makes tests/golden/torch: the same small GPT-2 in every file that torch.save() and its users write.

    make_torch_samples.py tests/golden/torch

    huggingface/   config.json, model.safetensors: what the others must equal
    zip.bin        its state_dict, as pytorch_model.bin
    stream.bin     the same in the format of torch before 1.6
    views.bin      the same with tensors that are views: transposed, sliced, sharing one storage
    sharded/       the same in two files with an index
    ckpt.pt        nanoGPT's checkpoint of it after one AdamW step's state, a compiled model's names
    snapshot.pt    Intel's: model_state, optimizer_state; no model_args
    bare.pt        Intel's ckpt.pt: the state_dict alone
Needs torch, transformers and safetensors.
"""

import json
import pathlib
import sys

import torch
import transformers

V, T, C, L, H = 11, 6, 8, 2, 2
TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def huggingface(folder):
    torch.manual_seed(1)
    config = transformers.GPT2Config(vocab_size=V, n_positions=T, n_embd=C, n_layer=L, n_head=H,
                                     activation_function="gelu", bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder, safe_serialization=True)
    return model


def nanogpt_state(state, prefix=""):
    """nanoGPT's linear layers keep [out, in] where Hugging Face's Conv1D keeps [in, out]."""
    out = {}
    for name, tensor in state.items():
        out[prefix + name] = tensor.t().contiguous() if name.endswith(TRANSPOSED) else tensor
    out[prefix + "lm_head.weight"] = out[prefix + "transformer.wte.weight"]  # one storage, as there
    return out


def nanogpt(folder, state):
    model = nanogpt_state(state, "_orig_mod.")
    parameters = [torch.nn.Parameter(tensor.clone()) for tensor in list(model.values())[:3]]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    sum((p * p).sum() for p in parameters).backward()
    optimizer.step()
    args = dict(n_layer=L, n_head=H, n_embd=C, block_size=T, bias=True, vocab_size=V, dropout=0.0)
    torch.save({"model": model, "optimizer": optimizer.state_dict(), "model_args": args, "iter_num": 1,
                "best_val_loss": torch.tensor(2.5), "config": {"dataset": "x", "learning_rate": 1e-3, "compile": True}},
               folder / "ckpt.pt")
    plain = nanogpt_state(state)
    torch.save({"model_state": plain, "optimizer_state": optimizer.state_dict(), "iter_num": 1, "best_val_loss": 2.5},
               folder / "snapshot.pt")
    torch.save(plain, folder / "bare.pt")


def views(state):
    """Every matrix as a transposed view, every vector as a slice; all of one storage."""
    pool = torch.cat([t.t().reshape(-1) if t.dim() == 2 else t.reshape(-1) for t in state.values()])
    out, at = {}, 0
    for name, tensor in state.items():
        piece = pool[at:at + tensor.numel()]
        out[name] = piece.view(tensor.shape[1], tensor.shape[0]).t() if tensor.dim() == 2 else piece
        at += tensor.numel()
        assert torch.equal(out[name], tensor)
    return out


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    model = huggingface(folder / "huggingface")
    for extra in ("generation_config.json",):
        (folder / "huggingface" / extra).unlink(missing_ok=True)
    state = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    torch.save(model.state_dict(), folder / "zip.bin")
    torch.save(model.state_dict(), folder / "stream.bin", _use_new_zipfile_serialization=False)
    torch.save(views(state), folder / "views.bin")
    sharded = folder / "sharded"
    sharded.mkdir(exist_ok=True)
    names, weight_map = list(state), {}
    for part, some in enumerate((names[:9], names[9:]), 1):
        file = f"pytorch_model-{part:05}-of-00002.bin"
        torch.save({name: state[name].clone() for name in some}, sharded / file)
        weight_map.update({name: file for name in some})
    (sharded / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    nanogpt(folder, state)


if __name__ == "__main__":
    main()
