#!/usr/bin/env python3
"""Makes small adapters with PEFT, their base models, and the tensors that PEFT changes when it merges them, for
tests/checkpoint/peft.

    scripts/make_peft_samples.py OUTPUT

Needs torch, transformers, peft and safetensors. Last run with torch 2.15, transformers 5.24, peft 0.21.2.
"""

import copy
import json
import os
import shutil
import sys

import peft
import safetensors.torch
import torch
import transformers as t

SIZES = dict(vocab_size=24, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4)
COMMON = dict(bos_token_id=0, eos_token_id=0, pad_token_id=0)


def llama(**more):
    return t.LlamaForCausalLM(t.LlamaConfig(**SIZES, **COMMON, num_key_value_heads=2, max_position_embeddings=8, **more))


def gpt2():
    return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=24, n_positions=8, n_embd=16, n_layer=2, n_head=4, **COMMON))


def phi3():
    return t.Phi3ForCausalLM(t.Phi3Config(**SIZES, **COMMON, num_key_value_heads=2, max_position_embeddings=8,
                                          original_max_position_embeddings=8))


def neox():
    return t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**SIZES, **COMMON, max_position_embeddings=8, rotary_pct=0.5))


def bert():
    return t.BertForSequenceClassification(t.BertConfig(**SIZES, max_position_embeddings=8, num_labels=3))


# name: base, LoraConfig
CASES = {
    "llama": (llama(tie_word_embeddings=True), dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    "llama_all_rslora": (llama(tie_word_embeddings=False),
                         dict(r=3, lora_alpha=5, target_modules="all-linear", use_rslora=True,
                              rank_pattern={"down_proj": 2, r"layers\.1\..*up_proj": 5},
                              alpha_pattern={"o_proj": 7, "layers.0.self_attn.k_proj": 2})),
    "llama_dora": (llama(tie_word_embeddings=True),
                   dict(r=2, lora_alpha=4, target_modules=["k_proj", "gate_proj", "down_proj"], use_dora=True)),
    "llama_embedding": (llama(tie_word_embeddings=False),
                        dict(r=2, lora_alpha=4, target_modules=["embed_tokens", "q_proj"], modules_to_save=["lm_head"])),
    "gpt2": (gpt2(), dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj"], bias="lora_only",
                          fan_in_fan_out=True)),
    "gpt2_dora": (gpt2(), dict(r=2, lora_alpha=3, target_modules=["c_attn", "c_fc"], use_dora=True,
                               fan_in_fan_out=True)),
    "phi3": (phi3(), dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "gate_up_proj"])),
    "gpt_neox": (neox(), dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense_4h_to_h"])),
    "bert": (bert(), dict(r=4, lora_alpha=8, target_modules=["query", "value"], modules_to_save=["classifier"],
                          task_type="SEQ_CLS")),
}


def main(output):
    for name, (base, options) in CASES.items():
        torch.manual_seed(7)
        folder = os.path.join(output, name)
        shutil.rmtree(folder, ignore_errors=True)
        with torch.no_grad():
            for p in base.parameters():
                p.normal_(0, 0.3)
        base.tie_weights()
        base.save_pretrained(folder + "/base")
        options = dict(options)
        options.setdefault("task_type", "CAUSAL_LM")
        model = peft.get_peft_model(copy.deepcopy(base), peft.LoraConfig(**options))
        model.peft_config["default"].base_model_name_or_path = "example/" + name
        with torch.no_grad():
            for n, p in model.named_parameters():
                if p.requires_grad:
                    p.normal_(1 if "magnitude" in n else 0, 0.3)
        model.save_pretrained(folder + "/adapter")
        merged = model.merge_and_unload(safe_merge=True)
        before = base.state_dict()
        changed = {n: p.detach().clone() for n, p in merged.state_dict().items() if not torch.equal(p, before[n])}
        safetensors.torch.save_file(changed, folder + "/merged.safetensors", {"format": "pt"})
        for extra in ("README.md", ".gitattributes"):
            if os.path.exists(folder + "/adapter/" + extra):
                os.remove(folder + "/adapter/" + extra)
        if os.path.exists(folder + "/base/generation_config.json"):
            os.remove(folder + "/base/generation_config.json")
        print(name, json.load(open(folder + "/adapter/adapter_config.json"))["target_modules"])


if __name__ == "__main__":
    main(sys.argv[1])
