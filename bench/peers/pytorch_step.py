#!/usr/bin/env python3
"""One training step of GPT-2 or of a decoder like Llama in PyTorch, to stand beside `trireme bench step` on the same machine.

Forward, backward, gradient clipping at 1.0 and AdamW with nanoGPT's constants, over synthetic tokens. GPT-2 is written here with
torch.nn.functional.scaled_dot_product_attention, the fastest attention that PyTorch has on CPUs; the decoders are those of
Hugging Face transformers with the same attention ("sdpa"). Run with the Python of .venv (scripts/bootstrap --peers):

    .venv/bin/python bench/peers/pytorch_step.py --preset gpt2-124m --batch 4 --seq 1024 --dtype bf16 --compile --json out.json

With --start FILE, a safetensors file that `trireme bench step` writes, it begins with that file's weights and takes its tokens, step by step.

With --serve it prints "ready" after its warm-up, then for each line read the seconds, tokens, peak memory in bytes and loss of one
step: `trireme bench step --peer pytorch` starts it so and alternates with it.

Keys of the JSON: as `trireme bench step` has them where both have them.
"""
import argparse
import json
import mmap
import os
import platform
import resource
import statistics
import struct
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("pytorch_step: this Python has no torch; scripts/bootstrap --peers makes .venv with it")
from torch import nn
from torch.nn import functional as F

GPT2 = {  # layers, heads, width
    "gpt2-124m": (12, 12, 768),
    "gpt2-355m": (24, 16, 1024),
    "gpt2-774m": (36, 20, 1280),
    "gpt2-1558m": (48, 25, 1600),
}


def decoder(family, layers, width, heads, key_heads, head_size, inner, vocabulary, theta, epsilon, **positions):
    return family, {
        "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "num_key_value_heads": key_heads,
        "head_dim": head_size, "intermediate_size": inner, "vocab_size": vocabulary, "rms_norm_eps": epsilon,
        "tie_word_embeddings": True, "attention_dropout": 0.0, "rope_parameters": {"rope_type": "default", "rope_theta": theta, **positions}}


DECODERS = {  # as src/model/presets.cc has them
    "smollm2-135m": decoder("llama", 30, 576, 9, 3, 64, 1536, 49152, 1e5, 1e-5),
    "smollm2-360m": decoder("llama", 32, 960, 15, 5, 64, 2560, 49152, 1e5, 1e-5),
    "qwen3-0.6b": decoder("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 1e6, 1e-6),
    "llama-3.2-1b": decoder("llama", 16, 2048, 32, 8, 64, 8192, 128256, 5e5, 1e-5, rope_type="llama3", factor=32.0, low_freq_factor=1.0,
                            high_freq_factor=4.0, original_max_position_embeddings=8192),
}
PRESETS = [*GPT2, *DECODERS]
VOCABULARY, VOCABULARY_ROWS = 50257, 50304  # the second: rounded up to a multiple of 64


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp_in, self.mlp_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, self.heads, 3, width // self.heads).permute(3, 0, 2, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp_out(F.gelu(self.mlp_in(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, heads, width, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY_ROWS, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(heads, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        # The rows behind the vocabulary are no classes: e^-1e4 is 0.
        self.register_buffer("padding", torch.zeros(VOCABULARY_ROWS).index_fill_(0, torch.arange(VOCABULARY, VOCABULARY_ROWS), -1e4))
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight, self.padding)  # tied head
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.view(-1))

    def load(self, tensors):
        copy_weights(self, {own_name(name): tensor for name, tensor in tensors.items()})


class Decoder(nn.Module):
    """A model of transformers with the loss of targets that are given."""

    def __init__(self, family, values, context):
        super().__init__()
        try:
            import transformers
        except ImportError:
            sys.exit("pytorch_step: this Python has no transformers; scripts/bootstrap --peers makes .venv with it")
        config = transformers.AutoConfig.for_model(family, **values, max_position_embeddings=context, use_cache=False)
        self.model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32)

    def forward(self, ids, targets):
        logits = self.model(input_ids=ids, use_cache=False).logits
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.view(-1))

    def load(self, tensors):
        """From trireme's table, where a matrix has the queries, key and value of each group of heads one after the other, and each
        row of a gate before its row of the other half."""
        config, ours = self.model.config, {}
        group = config.num_attention_heads // config.num_key_value_heads
        names = {"attention.out": "self_attn.o_proj", "attention.q_norm": "self_attn.q_norm", "attention.k_norm": "self_attn.k_norm",
                 "mlp.out": "mlp.down_proj", "norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
        for name, tensor in tensors.items():
            if name == "embedding.token.weight":
                ours["model.embed_tokens.weight"] = tensor
                continue
            if not name.startswith("block."):
                ours["model." + name] = tensor
                continue
            _, layer, part = name.split(".", 2)
            place, part = f"model.layers.{layer}.", part.removesuffix(".weight")
            if part == "attention.qkv":
                heads = tensor.view(config.num_key_value_heads, group + 2, config.head_dim, config.hidden_size)
                for which, rows in (("q", heads[:, :group]), ("k", heads[:, group]), ("v", heads[:, group + 1])):
                    ours[f"{place}self_attn.{which}_proj.weight"] = rows.reshape(-1, config.hidden_size)
            elif part == "mlp.in":
                ours[place + "mlp.gate_proj.weight"], ours[place + "mlp.up_proj.weight"] = tensor[0::2], tensor[1::2]
            else:
                ours[f"{place}{names.get(part, part)}.weight"] = tensor
        copy_weights(self.model, ours)


def read_start(path):
    """The tensors of a safetensors file, which must not change while they are in use."""
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    (size,) = struct.unpack_from("<Q", data)
    types = {"F32": torch.float32, "I32": torch.int32}
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        count = 1
        for dim in entry["shape"]:
            count *= dim
        begin = 8 + size + entry["data_offsets"][0]
        tensors[name] = torch.frombuffer(data, dtype=types[entry["dtype"]], count=count, offset=begin).view(entry["shape"])
    return tensors


def own_name(name):
    """GPT-2's here for a parameter of trireme's table."""
    for theirs, ours in (("block.", "blocks."), ("attention.", ""), ("mlp.", "mlp_"), ("embedding.token.", "tokens."),
                         ("embedding.position.", "positions.")):
        name = name.replace(theirs, ours)
    return name


def copy_weights(model, weights):
    parameters = dict(model.named_parameters())
    if weights.keys() != parameters.keys():
        sys.exit(f"pytorch_step: --start has other weights than the model: {sorted(weights.keys() ^ parameters.keys())}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != weights[name].shape:
                sys.exit(f"pytorch_step: --start has {name} of {list(weights[name].shape)}, expected {list(parameter.shape)}")
            parameter.copy_(weights[name])


def optimizer_of(model, learning_rate, weight_decay):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), eps=1e-8, fused=True)


def model_of(preset, context):
    """The model, its logical vocabulary, and floating-point operations per token of a sequence of some length: 6 x matmul
    parameters (head at logical vocabulary) + 6 x layers x width of attention x T, the formula that trireme prints."""
    if preset in GPT2:
        layers, heads, width = GPT2[preset]
        return Gpt2(layers, heads, width, context), VOCABULARY, lambda length: 6 * (
            layers * 12 * width * width + VOCABULARY * width + layers * width * length)
    family, v = DECODERS[preset]
    layers, width, attention = v["num_hidden_layers"], v["hidden_size"], v["num_attention_heads"] * v["head_dim"]
    block = 2 * width * (attention + v["num_key_value_heads"] * v["head_dim"]) + 3 * width * v["intermediate_size"]
    return Decoder(family, v, context), v["vocab_size"], lambda length: 6 * (
        layers * block + v["vocab_size"] * width + layers * attention * length)


def cpu_name():
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def peak_rss():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="gpt2-124m")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="bf16: autocast over f32 weights")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=5, help="timed steps; the median counts")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--start", metavar="FILE", help="first weights and every step's tokens; else random ones")
    parser.add_argument("--serve", action="store_true", help="one step per line of standard input")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(1337)
    torch.set_num_threads(args.threads)
    model, vocabulary, flops_per_token = model_of(args.preset, max(args.seq, 1024))
    optimizer = optimizer_of(model, args.learning_rate, args.weight_decay)
    loss_of = torch.compile(model) if args.compile else model
    if args.start:
        tensors = read_start(args.start)
        batches = [pair for pair in zip(*(tensors.pop(name).long().view(-1, args.batch, args.seq) for name in ("tokens", "targets")))]
        model.load(tensors)
        del tensors
    else:
        stream = torch.randint(vocabulary, (args.batch, args.seq + 1))
        batches = [(stream[:, :-1].contiguous(), stream[:, 1:].contiguous())]
    steps = 0

    def step():
        nonlocal steps
        ids, targets = batches[steps % len(batches)]
        steps += 1
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = loss_of(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    first_loss = step()
    for _ in range(args.warmup - 1):
        step()
    tokens = args.batch * args.seq
    if args.serve:
        print("ready", flush=True)
        for _ in sys.stdin:
            start = time.perf_counter()
            loss = step()
            print(time.perf_counter() - start, tokens, peak_rss(), loss, flush=True)
        return
    seconds = []
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)

    median = statistics.median(seconds)
    result = {
        "peer": f"PyTorch {torch.__version__} {'compiled' if args.compile else 'eager'}",
        "preset": args.preset,
        "batch": args.batch,
        "seq": args.seq,
        "dtype": args.dtype,
        "threads": args.threads,
        "tokens_per_s": tokens / median,
        "ms_per_step": 1e3 * median,
        "ms_per_step_lowest": 1e3 * min(seconds),
        "ms_per_step_highest": 1e3 * max(seconds),
        "model_flops_per_s": flops_per_token(args.seq) * tokens / median,
        "peak_rss_bytes": peak_rss(),
        "first_loss": first_loss,
        "cpu": cpu_name(),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if args.json:
        with open(args.json, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
