#!/usr/bin/env python3
"""Fine-tuning steps of TRL's SFTTrainer (with PEFT where there is an adapter), to stand beside `trireme bench sft --peer trl`, which starts it.

Both sides begin with the same weights and have the same conversations, as ids with a mask of those that count. --setting says how TRL forms its steps:
packing (rows of --sequence ids by best fit decreasing, attention within each conversation, one row at a time with gradients accumulated), grouping
(conversations of similar length, padded to the longest), or order (conversations in their order, padded). The loss is TRL's default, in chunks over the
positions that count; gradient checkpointing is off; with --dtype bf16 the products are bf16 by autocast, and a base below adapters is stored as bf16.

It prints "ready" after --warmup steps, then for each line read the seconds of one step, its ids without padding, peak memory in bytes, loss, ids that
count, and ids with padding.
"""
import argparse
import os
import resource
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import datasets
    import peft
    import safetensors.numpy
    import tokenizers
    import torch
    import transformers
    import trl
except ImportError as missing:
    sys.exit(f"trl_sft: {missing}; scripts/bootstrap --peers makes .venv with torch, transformers, peft, trl and datasets")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="Hugging Face folder without a tokenizer")
    parser.add_argument("--adapter", help="folder of PEFT; without it all weights are trained")
    parser.add_argument("--conversations", required=True, help="safetensors: codes (an id, or its complement where it counts) and offsets")
    parser.add_argument("--setting", choices=["packing", "grouping", "order"], default="packing")
    parser.add_argument("--compile", action="store_true", help="torch_compile of TrainingArguments")
    parser.add_argument("--sequence", type=int, default=1024, help="maximum number of ids of a row")
    parser.add_argument("--batch", type=int, default=4, help="rows per step; with grouping or order: conversations")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def read_conversations(path):
    tensors = safetensors.numpy.load_file(path)
    codes, offsets = tensors["codes"], tensors["offsets"]
    rows = [codes[a:b] for a, b in zip(offsets[:-1], offsets[1:])]
    return datasets.Dataset.from_dict({
        "input_ids": [[int(c) if c >= 0 else ~int(c) for c in row] for row in rows],
        "assistant_masks": [[int(c < 0) for c in row] for row in rows],
    })


def no_tokenizer(vocabulary):
    """TRL asks for one; the conversations are ids already."""
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({str(i): i for i in range(vocabulary)}, unk_token="0"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="0", eos_token="0")


class Steps(trl.SFTTrainer):
    """Counts what each step computes, and sums the losses of its micro-batches."""
    ids = computed = counted = 0
    step_loss = 0.0

    def training_step(self, model, inputs, *rest, **named):
        self.computed += inputs["input_ids"].numel()
        self.ids += int((inputs["input_ids"] != 0).sum())  # 0 is padding only
        self.counted += int((inputs["labels"][..., 1:] != -100).sum())
        loss = super().training_step(model, inputs, *rest, **named)
        self.step_loss += loss.item()
        return loss


class OnRequest(transformers.TrainerCallback):
    """A step for each line of standard input; the time of a step is everything between its line and its end."""

    def __init__(self, warmup):
        self.warmup, self.done, self.began, self.trainer = warmup, 0, 0.0, None

    def on_step_end(self, args, state, control, **_):
        seconds, trainer = time.perf_counter() - self.began, self.trainer
        self.done += 1
        if self.done > self.warmup:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            print(seconds, trainer.ids, memory, trainer.step_loss, trainer.counted, trainer.computed, file=ANSWERS, flush=True)
        elif self.done == self.warmup:
            print("ready", file=ANSWERS, flush=True)
        if self.done >= self.warmup and not sys.stdin.readline():
            os._exit(0)
        trainer.ids = trainer.computed = trainer.counted = 0
        trainer.step_loss = 0.0
        self.began = time.perf_counter()


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    datasets.utils.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    bf16 = args.dtype == "bf16"
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model, attn_implementation="sdpa", dtype=torch.bfloat16 if bf16 and args.adapter else torch.float32)
    vocabulary = model.config.vocab_size
    if args.adapter:
        model = peft.PeftModel.from_pretrained(model, args.adapter, is_trainable=True)
    packs = args.setting == "packing"
    config = trl.SFTConfig(
        output_dir="unused", report_to="none", save_strategy="no", use_cpu=True, bf16=bf16, disable_tqdm=True,
        packing=packs, packing_strategy="bfd", max_length=args.sequence, pad_to_multiple_of=args.sequence if packs else None,
        per_device_train_batch_size=1 if packs else args.batch, gradient_accumulation_steps=args.batch if packs else 1,
        train_sampling_strategy={"packing": "random", "grouping": "group_by_length", "order": "sequential"}[args.setting],
        num_train_epochs=1000, logging_strategy="no", gradient_checkpointing=False, torch_compile=args.compile,
        learning_rate=args.learning_rate, lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.0, adam_beta1=0.9,
        adam_beta2=0.999, adam_epsilon=1e-8, max_grad_norm=1.0, optim="adamw_torch_fused", seed=1, dataloader_num_workers=0,
        dataloader_pin_memory=False)
    on_request = OnRequest(args.warmup)
    trainer = on_request.trainer = Steps(model=model, args=config, train_dataset=read_conversations(args.conversations),
                                         processing_class=no_tokenizer(vocabulary), callbacks=[on_request])
    if args.warmup == 0:
        print("ready", file=ANSWERS, flush=True)
        if not sys.stdin.readline():
            return
    on_request.began = time.perf_counter()
    trainer.train()


if __name__ == "__main__":
    ANSWERS = os.fdopen(os.dup(1), "w")  # what libraries print goes to standard error
    os.dup2(2, 1)
    main()
