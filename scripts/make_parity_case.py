#!/usr/bin/env python3
"""Makes a case for `trireme parity` from a model of Hugging Face transformers.

    make_parity_case.py --model DIR --output CASE.safetensors [--text-length 9 --sequences 3 --seed 0]

The case holds random input_ids with right padding (attention_mask), labels that suit the model's head, and what the
model gives for them in float64, dropout off: logits, loss and grad.<parameter name> for every parameter.
`--random FAMILY` (see --help) makes a small random model first and saves it to --model.
Needs torch, transformers and safetensors.
"""

import argparse

import torch
import transformers
from safetensors.torch import save_file

V, L, H, C, I, T = 37, 2, 2, 16, 24, 12


def random_models():
    t = transformers
    bert = dict(vocab_size=V, hidden_size=C, num_hidden_layers=L, num_attention_heads=H, intermediate_size=I,
                max_position_embeddings=T)
    opt = dict(vocab_size=V, hidden_size=C, num_hidden_layers=L, num_attention_heads=H, ffn_dim=I,
               max_position_embeddings=T, pad_token_id=1)
    neox = dict(vocab_size=V, hidden_size=C, num_hidden_layers=L, num_attention_heads=H, intermediate_size=I,
                max_position_embeddings=T, rotary_pct=0.25)
    distil = dict(vocab_size=V, dim=C, n_layers=L, n_heads=H, hidden_dim=I, max_position_embeddings=T)
    roberta = dict(bert, max_position_embeddings=T + 2, type_vocab_size=1, pad_token_id=1)
    return {
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=V, n_positions=T, n_embd=C, n_layer=L, n_head=H, n_inner=I)),
        "opt": lambda: t.OPTForCausalLM(t.OPTConfig(**opt)),
        "opt-post-norm": lambda: t.OPTForCausalLM(t.OPTConfig(**opt, do_layer_norm_before=False, word_embed_proj_dim=8)),
        "neox-parallel": lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**neox, use_parallel_residual=True, hidden_act="gelu_fast")),
        "neox-sequential": lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**dict(neox, rotary_pct=1.0), use_parallel_residual=False, hidden_act="gelu")),
        "bert-mlm": lambda: t.BertForMaskedLM(t.BertConfig(**bert)),
        "bert-classifier": lambda: t.BertForSequenceClassification(t.BertConfig(**bert, num_labels=3)),
        "bert-regression": lambda: t.BertForSequenceClassification(t.BertConfig(**bert, num_labels=1)),
        "distilbert-classifier": lambda: t.DistilBertForSequenceClassification(t.DistilBertConfig(**distil, num_labels=2)),
        "distilbert-mlm": lambda: t.DistilBertForMaskedLM(t.DistilBertConfig(**distil)),
        "roberta-classifier": lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**roberta, num_labels=2)),
        "roberta-mlm": lambda: t.RobertaForMaskedLM(t.RobertaConfig(**roberta)),
    }


def make_random(name, folder, seed):
    torch.manual_seed(seed)
    model = random_models()[name]()
    with torch.no_grad():  # values that give every parameter a say, biases and norms included
        for key, parameter in model.named_parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder, safe_serialization=True)


def inputs_for(model, sequences, length, seed):
    """Random rows of different lengths, padded right; token ids from 3 up are no padding in any family."""
    config = model.config
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, config.vocab_size, (sequences, length), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(1, sequences):
        mask[row, max(2, length - 2 * row):] = 0
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


def load(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    return getattr(transformers, config.architectures[0]).from_pretrained(folder, attn_implementation="eager")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model folder")
    parser.add_argument("--output", required=True, help="case to write")
    parser.add_argument("--random", choices=sorted(random_models()), help="make this small random model in --model first")
    parser.add_argument("--sequences", type=int, default=3)
    parser.add_argument("--length", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.random:
        make_random(options.random, options.model, options.seed)

    model = load(options.model).double().eval()
    case = inputs_for(model, options.sequences, options.length, options.seed)
    inputs = {key: value.double() if value.is_floating_point() else value for key, value in case.items()}
    output = model(**inputs)
    output.loss.backward()
    expected = {"logits": output.logits.detach(), "loss": output.loss.detach().reshape(1)}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        expected["grad." + name] = gradient
    save_file({key: value.contiguous() for key, value in {**case, **expected}.items()}, options.output)


if __name__ == "__main__":
    main()
