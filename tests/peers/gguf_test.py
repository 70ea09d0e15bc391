#!/usr/bin/env python3
"""GGUF files as llama.cpp reads them: blocks, logits and token ids.

    gguf_test.py TRIREME [blocks] [logits] [tokens]

blocks: every tensor of every type of file has the bytes that libgguf makes of the f32 file's values: random, constant,
zero, denormal and huge ones. logits: the next token's log-probabilities in llama.cpp (xllamacpp) of the families in
tests/golden are those of their cases, and the files are read again as the same weights. tokens: llama.cpp makes the same
ids of 2,000 random texts from the tokenizers in tests/golden/tokenizers. Needs gguf, libgguf, xllamacpp, numpy; exit code 77 without."""
import contextlib
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unicodedata
import urllib.request

try:
    import gguf
    import libgguf
    import numpy as np
    import xllamacpp
except ImportError as missing:
    print(f"not run: {missing}; scripts/bootstrap --peers installs it")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
DATA = pathlib.Path(os.environ.get("TRIREME_TEST_DATA", ROOT.parent / "shared" / "data"))
TYPES = ["f32", "f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0"]
# llama.cpp's gelu of CPUs is a table of f16, which is why the log-probabilities of models with it differ by that much.
LOGITS = {"llama": 1e-5, "llama-biases": 1e-5, "llama-llama3": 1e-5, "llama-dynamic": 1e-5, "qwen2": 1e-5, "qwen3": 1e-5, "phi3-partial": 1e-5, "olmo2": 1e-5,
          "olmo3": 1e-5, "granite": 1e-5, "gpt2": 2e-3, "neox-parallel": 2e-3, "neox-sequential": 2e-3, "gemma": 2e-3, "gemma2": 2e-3, "gemma3": 2e-3}
# No windows there, and no other layers without positions than every fourth: only as far as the window reaches; refused.
WINDOWS = {"mistral": 6, "qwen2-window": 6, "phi3": 7}
REFUSED = {"smollm3": "layers without positions are every fourth one there", "opt": "no architecture for OPT", "distilbert-mlm": "no architecture for DistilBERT",
           "bert-mlm": "llama.cpp computes embeddings with BERT", "roberta-classifier": "llama.cpp computes embeddings with RoBERTa"}


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    kinds = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}
    tensors = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(raw[8 + size + begin:8 + size + end], kinds[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        values = np.ascontiguousarray(values, dtype="<f4")
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_llama(folder, vocabulary, fill, layers=2, width=256, inner=512, heads=4):
    """A Llama whose matrices and gains are made by fill(name, shape)."""
    folder.mkdir()
    shapes = {"model.embed_tokens.weight": (vocabulary, width), "model.norm.weight": (width,), "lm_head.weight": (vocabulary, width)}
    for i in range(layers):
        own = {"self_attn.q_proj": (width, width), "self_attn.k_proj": (width // 2, width), "self_attn.v_proj": (width // 2, width), "self_attn.o_proj": (width, width),
               "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width), "mlp.down_proj": (width, inner), "input_layernorm": (width,),
               "post_attention_layernorm": (width,)}
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in own.items()}
    write_safetensors(folder / "model.safetensors", {name: fill(name, shape) for name, shape in shapes.items()})
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary, "hidden_size": width, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads // 2, "max_position_embeddings": 512, "tie_word_embeddings": False}))


def export(trireme, model, output, *words):
    done = subprocess.run([str(w) for w in (trireme, "export", "--model", model, "--output", output, *words)], capture_output=True, text=True)
    return done.returncode, done.stderr


def exported(trireme, model, output, types):
    code, text = export(trireme, model, output, "--gguf", ",".join(types))
    assert code == 0, text
    return {t: output / f"{output.name}-{t.upper()}.gguf" for t in types}, text


def tensors_of(path):
    return {t.name: t for t in gguf.GGUFReader(path).tensors}


def odd_rows(rng, shape):
    """Rows of every kind that a quantiser may meet."""
    rows = rng.standard_normal(shape).astype(np.float32)
    if len(shape) < 2:
        return rows
    for i, row in enumerate(rows):
        kind = i % 12
        row *= [1, 1, 1e-3, 0, 1, 1e-42, 1e-20, 1e30, 1, 1, 1, 1][kind]
        if kind == 4:
            row[:] = row[0]
        elif kind == 8:
            row[rng.random(row.size) > 0.02] = 0
        elif kind == 9:
            row *= 10.0 ** rng.uniform(-20, 10, row.size)
        elif kind == 10:
            row[:] = np.abs(row)
        elif kind == 11:
            row[:] = np.round(row * 3)
    return rows


def check_blocks(trireme, folder):
    rng = np.random.default_rng(0)
    for name, width, inner in (("whole", 256, 512), ("uneven", 96, 144)):
        write_llama(folder / name, 120, lambda _, shape: odd_rows(rng, shape), layers=10, width=width, inner=inner)
        files, text = exported(trireme, folder / name, folder / f"{name}-gguf", TYPES)
        values = {t.name: t.data.reshape(-1, t.shape[0]) for t in tensors_of(files["f32"]).values()}
        for kind in TYPES:
            tensors, counts = tensors_of(files[kind]), {}
            for tensor in tensors.values():
                expected = libgguf.quantize_rows(values[tensor.name], tensor.tensor_type.value) if tensor.tensor_type.value else values[tensor.name]
                assert np.array_equal(np.ascontiguousarray(expected).view(np.uint8).ravel(), np.ascontiguousarray(tensor.data).view(np.uint8).ravel()), (kind, tensor.name)
                counts[tensor.tensor_type.name] = counts.get(tensor.tensor_type.name, 0) + 1
            print(f"blocks: {name}, {kind}: {counts}")
        if name == "whole":  # llama.cpp's choice for 10 layers: 0, 3, 6, 8 and 9 have more bits
            kinds = {n: t.tensor_type.name for n, t in tensors_of(files["q4_k_m"]).items()}
            assert [i for i in range(10) if kinds[f"blk.{i}.attn_v.weight"] == "Q6_K"] == [0, 3, 6, 8, 9], kinds
            assert kinds["output.weight"] == "Q6_K" and kinds["token_embd.weight"] == "Q4_K" and kinds["blk.0.attn_norm.weight"] == "F32"
        else:
            assert "q5_0 instead of q4_k, because rows of 96 values are not whole blocks" in text, text
            assert "f16 instead of q4_0, because rows of 144 values are not whole blocks" in text, text


@contextlib.contextmanager
def llama_cpp(path):
    """A server of llama.cpp that computes in f32 wherever it can."""
    p = xllamacpp.CommonParams()
    p.model.path = str(path)
    p.n_ctx, p.n_parallel, p.warmup, p.verbosity, p.n_gpu_layers = 512, 1, False, 0, 0
    p.cpuparams.n_threads = 1
    p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    p.fit_params, p.swa_full = False, True
    yield xllamacpp.Server(p)


def next_log_probabilities(server, ids, vocabulary):
    answer = server.handle_completions({"prompt": [int(i) for i in ids], "n_predict": 1, "n_probs": vocabulary, "temperature": -1, "cache_prompt": False})
    answer = json.loads(answer) if isinstance(answer, str) else answer
    found = np.full(vocabulary, np.nan)
    for token in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
        found[token["id"]] = token["logprob"]
    assert not np.isnan(found).any(), answer
    return found


def log_softmax(logits):
    shifted = logits.astype(np.float64) - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def letters_tokenizer(count):
    """A token for each of so many letters and digits; the server needs one."""
    characters = [chr(c) for c in range(33, 127)][:count - 1]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": 0, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None, "pre_tokenizer": level, "post_processor": None,
            "decoder": level, "model": {"type": "BPE", "vocab": {"<|endoftext|>": 0} | {c: i + 1 for i, c in enumerate(characters)}, "merges": []}}


def check_logits(trireme, folder):
    for name in [*LOGITS, *WINDOWS, *REFUSED]:
        model = folder / name
        shutil.copytree(GOLDEN / name, model)
        vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
        (model / "tokenizer.json").write_text(json.dumps(letters_tokenizer(vocabulary)))
        if name in REFUSED:
            code, text = export(trireme, model, folder / f"{name}-gguf", "--gguf", "f32")
            assert code == 2 and REFUSED[name] in text, text
            continue
        files, text = exported(trireme, model, folder / f"{name}-gguf/model", ["f32"])  # llama.cpp looks for "phi3" in the name
        assert ("llama.cpp has no windows" in text) == (name in WINDOWS), text
        code, text = export(trireme, files["f32"], folder / f"{name}-back")
        assert code == 0, text
        before, after = read_safetensors(model / "model.safetensors"), read_safetensors(folder / f"{name}-back/model.safetensors")
        assert name == "gemma2" or all(np.abs(after[n] - before[n]).max() < 1e-6 for n in after), name  # gemma2: scaled queries
        case, worst = read_safetensors(model / "case.safetensors"), 0
        with llama_cpp(files["f32"]) as server:
            for ids, mask, logits in zip(case["input_ids"], case["attention_mask"], case["logits"]):
                for n in range(1, min(int(mask.sum()), WINDOWS.get(name, len(ids))) + 1 if mask[0] else 1):
                    worst = max(worst, np.abs(next_log_probabilities(server, ids[:n], vocabulary) - log_softmax(logits[n - 1])).max())
        print(f"logits: {name}: log-probabilities differ by up to {worst:.1e}")
        assert worst < LOGITS.get(name, 1e-5), worst


PIECES = [" ", " ", "\n", "\t", "a", "the", "Hello", "ing", "'s", "'", "'LL", "0", "12", "345", "6789", ".", "!!", "-", "é", "ß", "привет", "中", "文字", "ไทย", "한국", "עברית",
          "😀", "👩‍👩‍👧", "  ", "    ", "\n\n", "ABC", "aB", "/", "\\", "½", "٣", "<s>", "</s>", "<|im_end|>", "<|endoftext|>", "<bos>"]


def random_texts(count, pieces):
    rng = random.Random(0)
    return ["".join(rng.choice(pieces) for _ in range(rng.randrange(1, 30))) for _ in range(count)]


def ids_of(trireme, tokenizer, texts):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    done = subprocess.run([str(trireme), "tokenizer", "encode", "--tokenizer", str(tokenizer), "--jsonl", "-"], input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [line["ids"] if isinstance(line, dict) else line for line in found]


def with_all_merges(tokenizer):
    """SentencePiece merges any two tokens that make one, as the published files list them; the small ones here, made by another trainer, do not."""
    model = tokenizer["model"]
    if not model["byte_fallback"]:
        return tokenizer
    made = list(dict.fromkeys("".join(pair) for pair in model["merges"]))
    usable = {t for t in model["vocab"] if len(t) == 1} | set(made)
    model["merges"] = [[t[:i], t[i:]] for t in made for i in range(1, len(t)) if t[:i] in usable and t[i:] in usable]
    for token in [t for t in tokenizer["added_tokens"] if "▁" in t["content"]]:
        tokenizer["added_tokens"].remove(token)
        del model["vocab"][token["content"]]
    return tokenizer


def check_tokens(trireme, folder):
    rng = np.random.default_rng(0)
    paths = [*sorted((GOLDEN / "tokenizers").glob("*.json")), *(DATA / f"tokenizers/{name}.tokenizer.json" for name in ("gpt2", "llama2"))]
    for path in filter(pathlib.Path.exists, paths):
        name, tokenizer = path.name.split(".")[0] + ("" if path.is_relative_to(GOLDEN) else ", published"), json.loads(path.read_text())
        vocabulary, added = tokenizer["model"]["vocab"], {t["content"] for t in tokenizer["added_tokens"] if not t["normalized"]}
        count = 1 + max([*vocabulary.values(), *(t["id"] for t in tokenizer["added_tokens"])])
        tokenizer["truncation"] = None
        model = folder / name
        write_llama(model, count, lambda _, shape: rng.standard_normal(shape), layers=1, width=16, inner=16, heads=4)
        (model / "tokenizer.json").write_text(json.dumps(with_all_merges(tokenizer) if path.is_relative_to(GOLDEN) else tokenizer))
        files, _ = exported(trireme, model, folder / f"{name}-gguf", ["f32"])
        # llama.cpp makes no normal form, takes every <|im_end|> for a marker, and puts a space before every text and behind markers.
        composes = (tokenizer["normalizer"] or {}).get("type") == "NFC"
        first_only = (tokenizer["pre_tokenizer"] or {}).get("prepend_scheme") == "first"
        pieces = [p for p in PIECES if p in added and not first_only or not p.startswith("<") or p not in added and p not in vocabulary]
        texts = [t for t in random_texts(2000, pieces) if not (composes and not unicodedata.is_normalized("NFC", t) or first_only and t.startswith(" "))]
        wrong = []
        with llama_cpp(files["f32"]) as server:
            for text, ids in zip(texts, ids_of(trireme, model, texts)):
                body = json.dumps({"content": text, "add_special": True, "parse_special": True}).encode()
                request = urllib.request.Request(f"{server.listening_address}/tokenize", body, {"Content-Type": "application/json"})
                found = json.load(urllib.request.urlopen(request))["tokens"]
                if found != ids:
                    wrong.append((text, ids, found))
        print(f"tokens: {name}: {len(texts) - len(wrong)} of {len(texts)} texts have the same ids")
        assert not wrong, wrong[:3]


def main():
    trireme, wanted = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    for name, check in (("blocks", check_blocks), ("logits", check_logits), ("tokens", check_tokens)):
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            check(trireme, pathlib.Path(folder))


if __name__ == "__main__":
    main()
