#!/usr/bin/env python3
"""Makes tests/golden/neox: one small model each as GPT-NeoX and DeepSpeed would have saved it, and what it is.

    make_neox_samples.py tests/golden/neox
    make_neox_samples.py --corpus tests/fuzz/corpus/neox    (small states to begin fuzzing with)

    zero/     parallel residual, tensor 2 x pipeline 2 x data 2, fp16 under ZeRO stage 1
    bf16/     sequential, tied, pipeline 2 x data 3, BF16_Optimizer (padding in masters and moments)
    plain/    sequential, tensor 2, pipe-parallel-size 0, f32 without ZeRO, learned positions, older key names
    fused/    parallel, tied, tensor 2 x pipeline 1, fp16 without ZeRO, one group of parameters
Each has latest, global_step5/ and expected.safetensors: weight.NAME, m.NAME, v.NAME of the whole tensors under our
names. Forms and padding are those that NeoX's own files were found to have. Needs torch and safetensors.
"""

import collections
import json
import pathlib
import random
import sys
import types

import torch
from safetensors.torch import save_file

L, H, C, INNER, V, T = 2, 2, 8, 16, 12, 6
STEP, SKIPPED, BATCH = 5, 1, 6
CASES = {
    "zero": dict(tensor=2, pipe=2, data=2, parallel=True, tied=False, dtype=torch.float16, kind="zero"),
    "bf16": dict(tensor=1, pipe=2, data=3, parallel=False, tied=True, dtype=torch.bfloat16, kind="zero"),
    "plain": dict(tensor=2, pipe=0, data=1, parallel=False, tied=False, dtype=torch.float32, kind="whole"),
    "fused": dict(tensor=2, pipe=1, data=1, parallel=True, tied=True, dtype=torch.float16, kind="fused"),
}


def opaque(module, name):
    """A class of a module that is not installed, as the pickle names it."""
    parts = module.split(".")
    for i in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
    cls = type(name, (), {"__module__": module})
    setattr(sys.modules[module], name, cls)
    return cls


Scaler = opaque("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler")
Address = opaque("deepspeed.utils.tensor_fragment", "fragment_address")


def rules(case):
    """(layer, key, ours, shape, cut): cut is the dim, "copy" or "share"."""
    share = "share" if case["parallel"] else "copy"
    out = [(0, "word_embeddings.weight", "embedding.token.weight", (V, C), 0)]
    if case["pipe"] == 0:
        out.append((0, "position_embeddings.weight", "embedding.position.weight", (T, C), "copy"))
    for b in range(L):
        block = [("input_layernorm.weight", "norm1.weight", (C,), "copy"), ("input_layernorm.bias", "norm1.bias", (C,), "copy"),
                 ("attention.query_key_value.weight", "attention.qkv.weight", (3 * C, C), 0),
                 ("attention.query_key_value.bias", "attention.qkv.bias", (3 * C,), 0),
                 ("attention.dense.weight", "attention.out.weight", (C, C), 1), ("attention.dense.bias", "attention.out.bias", (C,), share),
                 ("post_attention_layernorm.weight", "norm2.weight", (C,), "copy"), ("post_attention_layernorm.bias", "norm2.bias", (C,), "copy"),
                 ("mlp.linear1.weight", "mlp.in.weight", (INNER, C), 0), ("mlp.linear1.bias", "mlp.in.bias", (INNER,), 0),
                 ("mlp.linear2.weight", "mlp.out.weight", (C, INNER), 1), ("mlp.linear2.bias", "mlp.out.bias", (C,), share)]
        out += [(2 + b, key, f"block.{b}.{ours}", shape, cut) for key, ours, shape, cut in block]
    out += [(L + 3, "norm.weight", "norm.weight", (C,), "copy"), (L + 3, "norm.bias", "norm.bias", (C,), "copy")]
    if not case["tied"]:
        out.append((L + 4, "final_linear.weight", "head.weight", (V, C), 0))
    return out


def values(shape):
    """Exact in bf16 and fp16."""
    count = 1
    for size in shape:
        count *= size
    return torch.tensor([random.randint(-127, 127) / 128 for _ in range(count)]).reshape(shape)


def pieces(whole, shape, cut, ranks):
    """What each rank holds of a tensor, and the tensor again."""
    if cut == "copy":
        return [whole.clone() for _ in range(ranks)], whole
    if cut == "share":
        shares = [values(shape) for _ in range(ranks)]
        return shares, sum(s.double() for s in shares).float()
    return [piece.contiguous() for piece in whole.chunk(ranks, cut)], whole


def groups_of(names, single):
    """DeepSpeed's groups: with weight decay, and norms and biases without."""
    if single:
        return [names]
    decayed = [n for n in names if "norm" not in n and not n.endswith("bias")]
    return [decayed, [n for n in names if n not in decayed]]


def write(folder, name, case):
    random.seed(name)
    step = folder / f"global_step{STEP}"
    (step / "configs").mkdir(parents=True)
    (folder / "latest").write_text(f"global_step{STEP}")
    tp, stages = case["tensor"], max(case["pipe"], 1)
    weights = [{} for _ in range(tp)]  # {(layer, key): master}
    moments = [{} for _ in range(tp)]
    expected = {}
    for layer, key, ours, shape, cut in rules(case):
        parts, whole = pieces(values(shape), shape, cut, tp)
        if case["kind"] != "whole":  # masters have more digits than the weights
            parts, whole = [p + 2.0**-20 for p in parts], whole + (tp if cut == "share" else 1) * 2.0**-20
        expected["weight." + ours] = whole
        first = [pieces(v, shape, "copy" if cut == "share" else cut, tp) for v in (values(shape), values(shape).abs())]
        expected["m." + ours], expected["v." + ours] = first[0][1], first[1][1]
        for t in range(tp):
            weights[t][layer, key] = parts[t]
            moments[t][layer, key] = (first[0][0][t], first[1][0][t])
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")
    layers = sorted({layer for layer, _ in weights[0]})
    stage_layers = [layers] if stages == 1 else [[n for n in layers if n <= 2], [n for n in layers if n > 2]]
    older = case["pipe"] == 0

    def file_key(key):
        return key.replace("mlp.linear1", "mlp.dense_h_to_4h").replace("mlp.linear2", "mlp.dense_4h_to_h") if older else key

    if case["pipe"]:
        for layer in layers:
            for t in range(tp):
                state = collections.OrderedDict((file_key(k), w.to(case["dtype"]).clone()) for (n, k), w in weights[t].items() if n == layer)
                torch.save(state, step / f"layer_{layer:02}-model_{t:02}-model_states.pt")
    for stage in range(stages):
        for t in range(tp):
            rank = stage * tp + t

            def name_of(layer, key):
                if case["tied"] and layer == 0 and case["pipe"]:
                    return "tied_modules.embed." + key
                return ("" if case["pipe"] else "sequential.") + f"{layer}.{file_key(key)}"

            own = {name_of(*place): place for place in weights[t] if place[0] in stage_layers[stage]}
            if case["tied"] and stage > 0:  # the head's copy comes first: tied_modules are before the layers
                own = {name_of(0, "word_embeddings.weight"): (0, "word_embeddings.weight"), **own}
            groups = groups_of(list(own), single=name == "fused")
            shapes = [collections.OrderedDict((n, weights[t][own[n]].shape) for n in g) for g in groups]
            flat = lambda group, part: torch.cat([part(own[n]).flatten() for n in group])
            arrays = [dict(master=flat(g, lambda p: weights[t][p]), m=flat(g, lambda p: moments[t][p][0]),
                           v=flat(g, lambda p: moments[t][p][1])) for g in groups]
            save_states(step, rank, name, case, own, groups, shapes, arrays, weights[t], moments[t])
    config = {"pipe-parallel-size": case["pipe"], "model-parallel-size": tp, "num-layers": L, "hidden-size": C,
              "num-attention-heads": H, "intermediate-size": INNER, "seq-length": T, "max-position-embeddings": T,
              "pos-emb": "rotary" if case["pipe"] else "learned", "rotary-pct": 0.5, "no-weight-tying": not case["tied"],
              "gpt-j-residual": case["parallel"], "bias-gelu-fusion": case["parallel"], "make-vocab-size-divisible-by": 6,
              "norm": "layernorm", "tokenizer-type": "HFTokenizer", "vocab-file": "/somewhere/20B_tokenizer.json",
              "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.9, 0.95], "eps": 1.0e-8}},
              "train-micro-batch-size-per-gpu": BATCH // case["data"], "train-iters": 20, "warmup": 0.1, "min-lr": 0.0001,
              "weight-decay": 0.0 if name == "fused" else 0.1, "data-path": "data/x_text_document", "use_wandb": True,
              "save": "checkpoints", "load": "checkpoints"}
    (step / "configs" / f"{name}.yml").write_text(f"# kept with the checkpoint\n{json.dumps(config, indent=2)}\n")


def save_states(step, rank, name, case, own, groups, shapes, arrays, weights, moments):
    adam = STEP - SKIPPED
    dp, bf16 = case["data"], case["dtype"] == torch.bfloat16
    group_info = [dict(name=f"group{i}", lr=1e-3, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1 if i == 0 else 0.0, params=[i])
                  for i in range(len(groups))]
    optimizer = None
    if case["kind"] == "whole":  # a state for each parameter, Adam's step as torch keeps it
        order = [n for g in groups for n in g]
        first = 0
        for info, g in zip(group_info, groups):
            info["params"] = list(range(first, first + len(g)))
            first += len(g)
        optimizer = dict(state={i: dict(step=torch.tensor(float(adam)), exp_avg=moments[own[n]][0], exp_avg_sq=moments[own[n]][1])
                                for i, n in enumerate(order)}, param_groups=group_info)
    if case["kind"] == "fused":  # apex: the step in the group
        for info in group_info:
            info["step"] = adam
        optimizer = dict(dynamic_loss_scale=True, cur_scale=1024.0, fp32_groups_flat=[a["master"] for a in arrays], clip_grad=0.0,
                         optimizer_state_dict=dict(state={i: dict(exp_avg=a["m"], exp_avg_sq=a["v"]) for i, a in enumerate(arrays)},
                                                   param_groups=group_info))
    module = None
    if case["pipe"] == 0:
        module = collections.OrderedDict((n, weights[p].to(case["dtype"])) for n, p in own.items())
        module["sequential.2.attention.rotary_emb.inv_freq"] = torch.ones(2)
    zero = case["kind"] == "zero"
    tp, stages = case["tensor"], max(case["pipe"], 1)
    torch.save(dict(module=module, buffer_names=[], optimizer=optimizer, param_shapes=shapes if zero else None,
                    lr_scheduler=dict(start_lr=0.001, num_iters=adam, decay_style="cosine"), sparse_tensor_module_names=set(),
                    skipped_steps=SKIPPED, global_steps=STEP, global_samples=STEP * BATCH, dp_world_size=dp,
                    mp_world_size=tp * stages, ds_config=dict(train_batch_size=BATCH), ds_version="0.16.5", iteration=STEP,
                    args=dict(num_layers=L, hidden_size=C, num_attention_heads=H, max_position_embeddings=T,
                              make_vocab_size_divisible_by=6, padded_vocab_size=V, model_parallel_size=tp),
                    random_rng_state=random.Random(0).getstate(), torch_rng_state=torch.zeros(16, dtype=torch.uint8)),
               step / f"mp_rank_{rank:02}_model_states.pt")
    if not zero:
        return
    for d in range(dp):
        state, masters, paddings, mappings = {}, [], [], []
        for i, array in enumerate(arrays):
            count = array["m"].numel()
            part = -(-count // (2 * dp)) * 2
            end = min((d + 1) * part, count)
            padding = (d + 1) * part - max(end, d * part)
            cut = lambda a: a[d * part : max(end, d * part)]
            padded = lambda a: torch.cat([cut(a), torch.zeros(padding)])
            state[i] = dict(step=adam, exp_avg=padded(array["m"]), exp_avg_sq=padded(array["v"]))
            masters.append(padded(array["master"]) if bf16 else padded(array["master"])[: part - padding])
            paddings.append(padding)
            first, mapping = 0, collections.OrderedDict()
            for n in groups[i]:
                size = weights[own[n]].numel()
                a, b = max(first, d * part), min(first + size, (d + 1) * part)
                if a < b:
                    mapping[n] = Address()
                    mapping[n].__dict__.update(numel=b - a, start=a - d * part)
                first += size
            mappings.append(mapping)
            group_info[i]["step"] = 0
        out = dict(clip_grad=0.0, base_optimizer_state=dict(state=state, param_groups=group_info),
                   single_partition_of_fp32_groups=masters, group_paddings=paddings, partition_count=[dp] * len(arrays),
                   ds_version="0.16.5", param_slice_mappings=mappings)
        if not bf16:
            scaler = Scaler()
            scaler.__dict__.update(cur_scale=4096, cur_iter=STEP, last_overflow_iter=0)
            out.update(loss_scaler=scaler, zero_stage=1)
        torch.save(dict(optimizer_state_dict=out, ds_version="0.16.5"),
                   step / f"{'bf16_' if bf16 else ''}zero_pp_rank_{d}_mp_rank_{rank:02}_optim_states.pt")


def write_corpus(folder):
    """States of the parameters a [4, 3], b [5] and c [3], as tests/fuzz/neox_fuzz.cc has them."""
    folder.mkdir(parents=True)
    flat = {0: torch.arange(18.0), 1: torch.arange(4.0)}
    group_info = [dict(lr=1e-3, step=0, params=[i]) for i in range(2)]
    state = {i: dict(step=4, exp_avg=a, exp_avg_sq=a) for i, a in flat.items()}
    scaler = Scaler()
    scaler.__dict__.update(cur_scale=4096)
    address = Address()
    address.__dict__.update(numel=12, start=0)
    torch.save(dict(optimizer_state_dict=dict(base_optimizer_state=dict(state=state, param_groups=group_info), loss_scaler=scaler,
                                              single_partition_of_fp32_groups=[flat[0][:17], flat[1][:3]], partition_count=[1, 1],
                                              param_slice_mappings=[collections.OrderedDict(a=address)], zero_stage=1)), folder / "zero")
    torch.save(dict(cur_scale=1024.0, fp32_groups_flat=list(flat.values()),
                    optimizer_state_dict=dict(state=state, param_groups=group_info)), folder / "fused")
    parts = [torch.ones(4, 3), torch.ones(5), torch.ones(3)]
    torch.save(dict(state={i: dict(step=torch.tensor(4.0), exp_avg=p, exp_avg_sq=p) for i, p in enumerate(parts)},
                    param_groups=[dict(params=[0, 1]), dict(params=[2])]), folder / "whole")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--corpus":
        return write_corpus(pathlib.Path(sys.argv[2]))
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, case in CASES.items():
        write(pathlib.Path(sys.argv[1]) / name, name, case)


main()
