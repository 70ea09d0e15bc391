#!/usr/bin/env python3
"""Makes a case for `trireme parity` from a model of Hugging Face transformers.

    make_parity_case.py --model DIR --output CASE.safetensors [--adapter DIR --length 9 --sequences 3 --seed 0]

The case holds random input_ids with right padding (attention_mask), labels that suit the model's head, and what the
model gives for them in float64, dropout off: logits, loss and grad.<parameter name> for every parameter.
`--random FAMILY` (see --help) makes a small random model first and saves it to --model.
`--adapter DIR`: with this adapter of PEFT; the gradients are those of what it trains, as grad.<name in its file>.
Needs torch, transformers and safetensors, and peft for adapters.
"""

import argparse

import torch
import transformers
from safetensors.torch import save_file

# Vocabulary, layers, heads, width, inner width, positions, narrow embedding. Head size 8 and inner widths that are not
# 4 x width are where implementations go wrong; "wide" has the head size of the published models.
SIZES = {
    "small": dict(V=37, L=2, H=2, C=16, I=24, T=12, E=8),
    "odd": dict(V=101, L=3, H=5, C=40, I=72, T=33, E=24),
    "wide": dict(V=997, L=4, H=4, C=256, I=1024, T=128, E=128),
}


def random_models(size="small"):
    """Name -> a function that makes the model."""
    t, z = transformers, SIZES[size]
    common = dict(vocab_size=z["V"], num_hidden_layers=z["L"], num_attention_heads=z["H"], hidden_size=z["C"],
                  max_position_embeddings=z["T"])
    bert = dict(common, intermediate_size=z["I"])
    opt = dict(common, ffn_dim=z["I"], pad_token_id=1)
    neox = dict(common, intermediate_size=z["I"])
    distil = dict(vocab_size=z["V"], dim=z["C"], n_layers=z["L"], n_heads=z["H"], hidden_dim=z["I"],
                  max_position_embeddings=z["T"])
    roberta = dict(bert, max_position_embeddings=z["T"] + 2, type_vocab_size=1, pad_token_id=1)
    gpt2 = dict(vocab_size=z["V"], n_positions=z["T"], n_embd=z["C"], n_layer=z["L"], n_head=z["H"], n_inner=z["I"])

    # Decoders since Llama: heads in groups of two, four layers where kinds of layers alternate, windows and original
    # contexts shorter than the text (but no window without a token before the padding: its softmax would be of nothing), heads that are not width / heads where the family has the key.
    ends = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    heads = 2 * z["H"]
    decoder = dict(common, **ends, intermediate_size=z["I"], num_attention_heads=heads, num_key_value_heads=z["H"])
    deep = dict(decoder, num_hidden_layers=4)
    head_dim = z["C"] // heads
    scaled = dict(rope_theta=500.0, factor=4.0, original_max_position_embeddings=6)

    def rope(**values):
        return dict(rope_theta=values.pop("rope_theta", 50.0), rope_type=values.pop("rope_type", "default"), **values)

    half = head_dim // 2  # rotary pairs of a head
    # Layers with a state: sizes of keys and values that differ, rotary positions of half a head.
    hybrid = dict(decoder, head_dim=12, linear_num_key_heads=2, linear_key_head_dim=6, linear_value_head_dim=5,
                  linear_conv_kernel_dim=3, rope_parameters=rope(partial_rotary_factor=0.5))
    decoders = {
        "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**decoder, rope_parameters=rope())),
        "llama-biases": lambda: t.LlamaForCausalLM(
            t.LlamaConfig(**decoder, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                          rope_parameters=rope(rope_type="linear", factor=4.0))),
        "llama-llama3": lambda: t.LlamaForCausalLM(
            t.LlamaConfig(**decoder, rope_parameters=dict(scaled, rope_type="llama3", low_freq_factor=1.0,
                                                          high_freq_factor=4.0))),
        "llama-dynamic": lambda: t.LlamaForCausalLM(
            t.LlamaConfig(**decoder, rope_parameters=rope(rope_type="dynamic", factor=2.0))),
        "mistral": lambda: t.MistralForCausalLM(
            t.MistralConfig(**decoder, head_dim=10, sliding_window=6, rope_parameters=rope())),
        "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**decoder, tie_word_embeddings=True, rope_parameters=rope())),
        "qwen2-window": lambda: t.Qwen2ForCausalLM(
            t.Qwen2Config(**deep, use_sliding_window=True, sliding_window=6, max_window_layers=2,
                          rope_parameters=dict(scaled, rope_type="yarn"))),
        "qwen3": lambda: t.Qwen3ForCausalLM(
            t.Qwen3Config(**decoder, head_dim=12, tie_word_embeddings=True, rope_parameters=rope())),
        "qwen3.5": lambda: t.Qwen3_5ForCausalLM(
            t.Qwen3_5TextConfig(**hybrid, layer_types=["full_attention", "linear_attention"], tie_word_embeddings=True,
                                linear_num_value_heads=4)),
        "qwen3.5-interval": lambda: t.Qwen3_5ForCausalLM(
            t.Qwen3_5TextConfig(**hybrid, full_attention_interval=2, attention_bias=True, linear_num_value_heads=2)),
        "gemma": lambda: t.GemmaForCausalLM(t.GemmaConfig(**decoder, head_dim=12, rope_parameters=rope())),
        "gemma2": lambda: t.Gemma2ForCausalLM(
            t.Gemma2Config(**deep, head_dim=12, sliding_window=6, query_pre_attn_scalar=20, attn_logit_softcapping=2.0,
                           final_logit_softcapping=3.0, rope_parameters=rope())),
        "gemma3": lambda: t.Gemma3ForCausalLM(
            t.Gemma3TextConfig(**deep, head_dim=12, sliding_window=6, query_pre_attn_scalar=12,
                               layer_types=["sliding_attention", "sliding_attention", "full_attention",
                                            "sliding_attention"],
                               rope_parameters={"full_attention": rope(rope_type="linear", factor=8.0),
                                                "sliding_attention": rope(rope_theta=20.0)})),
        "phi3": lambda: t.Phi3ForCausalLM(
            t.Phi3Config(**decoder, sliding_window=7, original_max_position_embeddings=6,
                         rope_parameters=rope(rope_type="longrope", short_factor=[1.0] * half,
                                              long_factor=[1.0 + i for i in range(half)]))),
        "phi3-partial": lambda: t.Phi3ForCausalLM(
            t.Phi3Config(**decoder, rope_parameters=rope(partial_rotary_factor=0.5))),
        "smollm3": lambda: t.SmolLM3ForCausalLM(
            t.SmolLM3Config(**deep, no_rope_layer_interval=2, rope_parameters=rope())),
        "olmo2": lambda: t.Olmo2ForCausalLM(t.Olmo2Config(**decoder, rope_parameters=rope())),
        "olmo3": lambda: t.Olmo3ForCausalLM(
            t.Olmo3Config(**decoder, sliding_window=6, layer_types=["sliding_attention", "full_attention"],
                          rope_parameters={"full_attention": dict(scaled, rope_type="yarn"),
                                           "sliding_attention": rope(rope_theta=500.0)})),
        "granite": lambda: t.GraniteForCausalLM(
            t.GraniteConfig(**decoder, embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.2,
                            logits_scaling=2.0, tie_word_embeddings=True, rope_parameters=rope())),
    }
    return decoders | {
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(**gpt2)),
        "opt": lambda: t.OPTForCausalLM(t.OPTConfig(**opt, word_embed_proj_dim=z["C"])),
        "opt-post-norm": lambda: t.OPTForCausalLM(
            t.OPTConfig(**opt, do_layer_norm_before=False, word_embed_proj_dim=z["E"])),
        "neox-parallel": lambda: t.GPTNeoXForCausalLM(
            t.GPTNeoXConfig(**neox, rotary_pct=0.25, use_parallel_residual=True, hidden_act="gelu_fast")),
        "neox-sequential": lambda: t.GPTNeoXForCausalLM(
            t.GPTNeoXConfig(**neox, rotary_pct=1.0, use_parallel_residual=False, hidden_act="gelu")),
        "bert-mlm": lambda: t.BertForMaskedLM(t.BertConfig(**bert)),
        "bert-classifier": lambda: t.BertForSequenceClassification(t.BertConfig(**bert, num_labels=3)),
        "bert-regression": lambda: t.BertForSequenceClassification(t.BertConfig(**bert, num_labels=1)),
        "distilbert-classifier": lambda: t.DistilBertForSequenceClassification(
            t.DistilBertConfig(**distil, num_labels=2)),
        "distilbert-mlm": lambda: t.DistilBertForMaskedLM(t.DistilBertConfig(**distil)),
        "roberta-classifier": lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**roberta, num_labels=2)),
        "roberta-mlm": lambda: t.RobertaForMaskedLM(t.RobertaConfig(**roberta)),
    }


def make_random(name, folder, seed, size="small"):
    torch.manual_seed(seed)
    model = random_models(size)[name]()
    with torch.no_grad():  # values that give every parameter a say, biases and norms included
        for key, parameter in model.named_parameters():
            spread = 0.8 / SIZES[size]["C"] ** 0.5 if parameter.dim() > 1 else 0.2  # activations of about 1 at any width
            parameter.add_(spread * torch.randn_like(parameter))
    model.save_pretrained(folder, safe_serialization=True)


def inputs_for(model, sequences, length, seed, padding=False):
    """Random rows of different lengths, padded right; token ids from 3 up are no padding in any family. padding: the
    first row has the padding token among its ids."""
    config = model.config
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, config.vocab_size, (sequences, length), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(1, sequences):
        mask[row, max(2, length - 2 * row):] = 0
    if config.model_type == "roberta":
        ids[0, 3] = config.pad_token_id  # attended to: it has the padding's position, and those behind it are one earlier
    if padding:
        ids[0, 2:4] = config.pad_token_id
    ids[mask == 0] = config.pad_token_id if getattr(config, "pad_token_id", None) is not None else 0
    case = {"input_ids": ids, "attention_mask": mask}
    if getattr(config, "type_vocab_size", 0) > 1:
        case["token_type_ids"] = (torch.arange(length)[None, :] >= length // 2).long().expand(sequences, -1).contiguous()
    name = type(model).__name__
    if name.endswith("ForSequenceClassification"):
        if config.num_labels == 1:
            case["labels"] = torch.randn(sequences, generator=generator)
        else:
            case["labels"] = torch.randint(0, config.num_labels, (sequences,), generator=generator)
    elif name.endswith("ForMaskedLM"):
        chosen = (torch.rand(ids.shape, generator=generator) < 0.5) & (mask == 1)
        chosen[0, 1] = True
        case["labels"] = torch.where(chosen, torch.randint(0, config.vocab_size, ids.shape, generator=generator), -100)
    else:
        case["labels"] = torch.where(mask == 1, ids, -100)
    return case


def load(folder, attention="eager"):
    config = transformers.AutoConfig.from_pretrained(folder)
    return getattr(transformers, config.architectures[0]).from_pretrained(folder, attn_implementation=attention)


def adapted(model, adapter):
    """The model with an adapter that is trained, in float64, and its trained parameters by their names in PEFT's file."""
    import peft
    model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True).double().eval()
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    # "...q_proj.lora_A.default.weight", "...lm_head.modules_to_save.default.weight" without the wrappers' words
    plain = {name.replace(".lora_magnitude_vector.default.weight", ".lora_magnitude_vector")
             .replace(".modules_to_save.default", "").replace(".default", ""): p for name, p in named.items()}
    stored = peft.get_peft_model_state_dict(model)
    assert plain.keys() == stored.keys(), sorted(plain.keys() ^ stored.keys())
    return model, plain


def make_case(folder, output, sequences, length, seed, adapter=None, padding=False):
    """Writes the case and returns the model, in float64."""
    model = load(folder).double().eval()
    case = inputs_for(model, sequences, length, seed, padding)
    parameters = dict(model.named_parameters())
    if adapter:
        model, parameters = adapted(model, adapter)
    inputs = {key: value.double() if value.is_floating_point() else value for key, value in case.items()}
    result = model(**inputs)
    result.loss.backward()
    expected = {"logits": result.logits.detach(), "loss": result.loss.detach().reshape(1)}
    for name, parameter in parameters.items():
        gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        expected["grad." + name] = gradient
    save_file({key: value.contiguous() for key, value in {**case, **expected}.items()}, output)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model folder")
    parser.add_argument("--output", required=True, help="case to write")
    parser.add_argument("--random", choices=sorted(random_models()), help="make this random model in --model first")
    parser.add_argument("--size", choices=SIZES, default="small", help="of the random model")
    parser.add_argument("--adapter", help="folder of an adapter of PEFT")
    parser.add_argument("--padding", action="store_true", help="the padding token is also an id of the text")
    parser.add_argument("--sequences", type=int, default=3)
    parser.add_argument("--length", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.random:
        make_random(options.random, options.model, options.seed, options.size)
    make_case(options.model, options.output, options.sequences, options.length, options.seed, options.adapter,
              options.padding)


if __name__ == "__main__":
    main()
