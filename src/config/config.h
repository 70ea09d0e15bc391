#pragma once
// Every option of a training run, declared once: name, field, default, help, range. YAML keys, flags, JSON, --help and
// docs/options.md are generated from these declarations (config/schema.h has the visitors). Names are written with '-';
// '_' means the same.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/choices.h"
#include "config/option_names.h"
#include "config/tuning_options.h"
#include "tensor/activation.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace trireme {

struct ModelOptions {
  std::string preset, init;
  std::optional<InitScheme> init_scheme;
  int64_t layers = 12, heads = 12, width = 768, inner_width = 0, context = 1024, vocabulary = 0,
          vocabulary_multiple = 64;
  Activation activation = Activation::gelu_tanh;
  NormPlace norm_place = NormPlace::pre;
  Residual residual = Residual::sequential;
  Position position = Position::learned;
  int64_t position_offset = 0;
  double rotary_fraction = 1, rotary_base = 10000, norm_epsilon = 1e-5;
  bool tied_head = true, bias = true, qkv_bias = true, attention_out_bias = true, mlp_in_bias = true,
       mlp_out_bias = true, norm_bias = true;
  Recompute recompute = Recompute::none;
  double dropout = 0, embedding_dropout = -1, attention_dropout = -1;

  // Choices of decoders since Llama.
  int64_t key_heads = 0, head_size = 0, norm_offset = 0, window = 0, rotary_original_context = 0;
  NormKind norm = NormKind::layer;
  bool gated = false, rotary_truncate = true;
  QueryKeys query_keys = QueryKeys::plain;
  std::string attention_layers;
  bool attention_gate = false;
  int64_t delta_key_heads = 0, delta_value_heads = 0, delta_key_size = 0, delta_value_size = 0, delta_taps = 0;
  RotaryKind rotary_scaling = RotaryKind::none;
  double attention_scale = 0, attention_cap = 0, window_rotary_base = 0, rotary_factor = 1, rotary_attention_factor = 0,
         rotary_low = 1, rotary_high = 4, rotary_beta_fast = 32, rotary_beta_slow = 1, embedding_scale = 1,
         residual_scale = 1, logits_scale = 1, logits_cap = 0;

  template <class V>
  void visit(V& v) {
    v.text(
        "preset", preset,
        "named sizes of a new model: gpt2-124m to gpt2-1558m, opt-8m to opt-175b, neox-19m to neox-175b, bert-tiny to "
        "bert-large, distilbert-tiny, distilbert-base, smollm2-135m, smollm2-360m, qwen3-0.6b, qwen3.5-0.8b to "
        "qwen3.5-27b, llama-3.2-1b; a preset sets all options of the model except dropout; other options of this group "
        "override its values (empty: none)");
    v.text("init", init,
           "initial weights: scratch, the folder or the hub name of a Hugging Face model, or the folder of a run or "
           "checkpoint (empty: scratch, unless a dialect requires a value)");
    v.choice_or("init-scheme", "preset", init_scheme,
                "standard deviations of a new model's weights: gpt2, bert, opt, neox, or preset: those of the preset "
                "(gpt2 without a preset)");
    v.integer("layers", layers, "transformer blocks", 1, 1000);
    v.integer("heads", heads, "attention heads; must divide width, unless head-size is set", 1, 1024);
    v.integer("width", width, "width of the residual stream", 8, 65536);
    v.integer("inner-width", inner_width,
              "width of the MLP (0: the preset's own if its width is not changed, otherwise 4 x width)", 0, 262144);
    v.integer("context", context, "maximum number of positions", 1, 1048576);
    v.integer("vocabulary", vocabulary, "vocabulary size (0: from the data's tokenizer)", 0, 4194304);
    v.integer("vocabulary-multiple", vocabulary_multiple,
              "rows of the token matrix are rounded up to a multiple of this in memory", 1, 4096);
    v.choice("activation", activation, "MLP activation",
             {Activation::gelu_tanh, Activation::gelu_erf, Activation::relu, Activation::silu, Activation::relu2});
    v.choice("norm-place", norm_place,
             "pre: norms before attention and MLP, and one before the head; post: after each residual sum, none before "
             "the head; branch: of the outputs of attention and MLP, and one before the head (OLMo 2); both: pre and "
             "branch (Gemma 2)");
    v.choice("residual", residual,
             "sequential: x += attention(x), then x += mlp(x); parallel: x += attention(x) + mlp(x), with two norms");
    v.choice("position", position, "learned: a table added to the embedding; rotary: queries and keys are rotated");
    v.integer("position-offset", position_offset, "learned positions: rows of the table before the row of position 0",
              0, 1048576);
    v.number("rotary-fraction", rotary_fraction,
             "rotary positions: fraction of each head that is rotated, from its start; the number of rotated values, "
             "rounded down, must be even",
             0, 1);
    v.number("rotary-base", rotary_base, "rotary positions: base of the frequencies", 1.001, 1e12);
    v.number("norm-epsilon", norm_epsilon, "epsilon of the norms", 1e-30, 1);
    v.flag("tied-head", tied_head, "the output head shares the token embedding's matrix");
    v.flag("bias", bias, "biases of linear layers and norms, except where one of the next options is set");
    v.flag("qkv-bias", qkv_bias, "biases of queries, keys and values (default: the value of bias)");
    v.flag("attention-out-bias", attention_out_bias, "bias of the attention's output (default: the value of bias)");
    v.flag("mlp-in-bias", mlp_in_bias, "bias of the MLP's first linear layer (default: the value of bias)");
    v.flag("mlp-out-bias", mlp_out_bias, "bias of the MLP's second linear layer (default: the value of bias)");
    v.flag("norm-bias", norm_bias, "biases of the norms (default: the value of bias; rms norms have none)");
    v.choice("recompute", recompute,
             "what the backward pass recomputes instead of keeping it in memory, with identical results: none; "
             "attention: the output of attention, a tenth of a block's memory; full: everything except each block's "
             "input, about 25 % more time. false means none; true, or the option without a value, means full",
             {}, {{"false", "none"}, {"true", "full"}});
    v.number("dropout", dropout, "dropout of embeddings, attention and residual branches", 0, 0.999);
    v.number("embedding-dropout", embedding_dropout, "dropout of embeddings (-1: the value of dropout)", -1, 0.999);
    v.number("attention-dropout", attention_dropout, "dropout of attention's probabilities (-1: the value of dropout)",
             -1, 0.999);
    visit_decoder(v);
  }

 private:
  template <class V>
  void visit_decoder(V& v) {
    v.integer("key-heads", key_heads,
              "number of key/value heads, each shared by heads / key-heads query heads (0: the value of heads)", 0,
              1024);
    v.integer("head-size", head_size, "size of each attention head (0: width / heads)", 0, 65536);
    v.choice("norm", norm, "norms: layer: by mean and variance; rms: by the mean square, without bias");
    v.integer("norm-offset", norm_offset, "rms norms: 1: a gain is 1 + weight (Gemma); 0: it is the weight", 0, 1);
    v.flag("gated", gated, "the MLP is out(activation(gate) * up), with a separate matrix for the gate");
    v.choice("query-keys", query_keys,
             "rms norms of queries and keys before they are rotated: plain: none; head: of each head (Qwen 3); "
             "projection: of all heads together (OLMo 2)");
    v.number("attention-scale", attention_scale, "factor of attention scores (0: 1 / sqrt(head size))", 0, 1e6);
    v.number("attention-cap", attention_cap, "soft cap of attention scores: cap * tanh(score / cap) (0: none)", 0, 1e6);
    v.integer("window", window,
              "keys that a query of a layer with a window attends to, itself included (0: no layer has a window)", 0,
              1048576);
    v.text("attention-layers", attention_layers,
           "one letter per layer, or a pattern that is repeated: F: a query attends to all positions before it; W: to "
           "a window; f, w: the same without rotary positions; D: a layer with a state (gated DeltaNet) instead of "
           "attention (empty: W if window is set, otherwise F)");
    v.flag("attention-gate", attention_gate, "attention's outputs are multiplied by the sigmoid of a gate (Qwen 3.5)");
    v.integer("delta-key-heads", delta_key_heads, "layers with a state: heads of queries and keys", 0, 1024);
    v.integer("delta-value-heads", delta_value_heads,
              "layers with a state: heads of values, a multiple of delta-key-heads", 0, 1024);
    v.integer("delta-key-size", delta_key_size, "layers with a state: values of a query or key", 0, 65536);
    v.integer("delta-value-size", delta_value_size, "layers with a state: values of a value", 0, 65536);
    v.integer("delta-taps", delta_taps, "layers with a state: positions that their convolution sees", 0, 8);
    v.number("window-rotary-base", window_rotary_base,
             "rotary base of layers with a window, which are not scaled then (0: the same as in other layers)", 0,
             1e12);
    v.choice("rotary-scaling", rotary_scaling,
             "how rotary frequencies are changed for a longer context: default: not at all; linear, dynamic, llama3, "
             "yarn: as in transformers (longrope has a list of factors: only the folder of a model can have it)",
             {RotaryKind::none, RotaryKind::linear, RotaryKind::dynamic, RotaryKind::llama3, RotaryKind::yarn});
    v.number("rotary-factor", rotary_factor, "RoPE scaling factor", 1, 1e6);
    v.integer("rotary-original-context", rotary_original_context,
              "rotary-scaling dynamic, llama3, yarn: context before scaling", 0, 1048576);
    v.number("rotary-attention-factor", rotary_attention_factor,
             "rotary-scaling: factor of cosines and sines (0: yarn: 0.1 ln(rotary-factor) + 1; otherwise 1)", 0, 1e6);
    v.number("rotary-low", rotary_low, "rotary-scaling llama3: low_freq_factor", 1e-6, 1e6);
    v.number("rotary-high", rotary_high, "rotary-scaling llama3: high_freq_factor", 1e-6, 1e6);
    v.number("rotary-beta-fast", rotary_beta_fast, "rotary-scaling yarn: beta_fast", 1e-6, 1e6);
    v.number("rotary-beta-slow", rotary_beta_slow, "rotary-scaling yarn: beta_slow", 1e-6, 1e6);
    v.flag("rotary-truncate", rotary_truncate, "rotary-scaling yarn: round the bounds between kept and scaled");
    v.number("embedding-scale", embedding_scale, "factor of the embeddings", 1e-6, 1e6);
    v.number("residual-scale", residual_scale, "factor of the outputs of attention and MLP", 1e-6, 1e6);
    v.number("logits-scale", logits_scale, "factor of the logits", 1e-6, 1e6);
    v.number("logits-cap", logits_cap, "soft cap of the logits, after logits-scale (0: none)", 0, 1e6);
  }
};

struct DataOptions {
  std::string dir, train = "train.bin", validation = "val.bin", test, split, index_dir, tokenizer, merges;
  bool verify = false, trust = false, whole_words = false, mask_end_of_text = false;
  double mask_rate = 0.15;

  template <class V>
  void visit(V& v) {
    v.text("dir", dir, "folder that `trireme prepare` wrote");
    v.text(
        "train", train,
        "training tokens, as a path in dir or an absolute path: a token file, the prefix of an indexed dataset of "
        "Megatron or NeoX, or a list of weights and prefixes (0.7 a_text_document 0.3 b_text_document); for `trireme "
        "sft` and `trireme dpo`: a .jsonl, .json, .csv, .tsv or .parquet file or a data set of the hub");
    v.text("validation", validation, "validation tokens, in the same forms (empty: none)");
    v.text("test", test,
           "tokens of a test after the last step, in the same forms (empty: the third share of data.split, if it has "
           "one)");
    v.text(
        "split", split,
        "shares of an indexed dataset's documents for training, validation and a test after the last step, like 969, "
        "30, 1 (empty: all for training)");
    v.text("index-dir", index_dir,
           "folder for the sample order of an indexed dataset, NeoX's three .npy files; it may be a local folder on "
           "each host (empty: beside the dataset)");
    v.text("tokenizer", tokenizer,
           "tokenizer to store with checkpoints: a file, a folder or a name on the Hugging Face hub (empty: the one in "
           "dir)");
    v.text("merges", merges,
           "merges file of data.tokenizer, if that is a vocabulary in GPT-2's format (empty: merges.txt or vocab.bpe "
           "beside a vocab.json)");
    v.number("mask-rate", mask_rate,
             "masked language models: fraction of the tokens to predict; 80 % of these become the mask token, 10 % "
             "another token, 10 % stay unchanged",
             0.001, 0.9);
    v.flag("whole-words", whole_words, "masked language models: mask all pieces of a word or none (WordPiece)");
    v.flag("mask-end-of-text", mask_end_of_text,
           "exclude from the loss the token that follows an end-of-document token");
    v.flag("verify", verify, "check every block's checksum and every id before the first step (default: a sample)");
    v.flag("trust", trust,
           "read a token file without a sidecar as 16-bit ids, whatever it looks like (default: refuse a file that "
           "looks like another format, numbers of another width or text)");
  }
};

struct BatchOptions {
  int64_t global = 32, per_rank = 0, micro = 0, accumulation = 0, sequence = 0;

  template <class V>
  void visit(V& v) {
    v.integer("global", global, "sequences per optimizer step over all ranks; accumulation is derived from it", 1,
              1 << 30);
    v.integer("per-rank", per_rank,
              "instead of global: sequences per optimizer step and data-parallel rank; multiplied by the number of "
              "ranks at the first start, it gives the global batch, which a resumed run keeps (0: use global)",
              0, 1 << 20);
    v.integer("micro", micro, "sequences per rank and micro-batch (0: the largest divisor of global / ranks up to 8)",
              0, 1 << 20);
    v.integer("accumulation", accumulation,
              "micro-batches per rank and step; if micro is 0, it is derived from this, otherwise both must agree (0: "
              "derived)",
              0, 1 << 14);
    v.integer("sequence", sequence, "tokens per sequence (0: the model's context)", 0, 1048576);
  }
};

struct OptimOptions {
  double learning_rate = 6e-4, min_learning_rate = 6e-5, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1,
         clip = 1.0;
  RateCourse schedule = RateCourse::cosine;
  ScheduleForm schedule_form = ScheduleForm::nanogpt;
  int64_t warmup_steps = 0, decay_steps = 0, decay_length = 0;
  DecayShape decay_shape = DecayShape::cosine;
  double warmup_fraction = 0, decay_power = 1, restarts = 1, timescale = 0;
  bool decay_all = false;
  ShardChoice shard = ShardChoice::none;
  ShardGroup shard_group = ShardGroup::all;
  LossMean loss_mean = LossMean::tokens;

  template <class V>
  void visit(V& v) {
    v.number("learning-rate", learning_rate, "peak learning rate", 0, 100);
    v.number("min-learning-rate", min_learning_rate, "learning rate at the end of the decay", 0, 100);
    v.choice("schedule", schedule, "schedule of the learning rate after warm-up");
    v.choice("schedule-form", schedule_form,
             "which program's formulas: nanogpt: counts steps, ends at min-learning-rate and stays there; neox: counts "
             "applied updates and never goes below min-learning-rate; its cosine rises again after decay-steps, its "
             "exponential halves the peak within decay-steps");
    v.number("decay-power", decay_power, "schedule polynomial: exponent of the remaining fraction of the decay", 0,
             100);
    v.number("restarts", restarts, "schedule cosine-with-restarts: number of times the cosine falls from the peak", 1,
             1e6);
    v.number("timescale", timescale,
             "schedule inverse-sqrt: the rate is half the peak at 3 x timescale steps after the warm-up (0: "
             "warmup-steps, or 10000 without a warm-up)",
             0, 1e15);
    v.integer("warmup-steps", warmup_steps, "steps of linear warm-up", 0, 1LL << 40);
    v.number("warmup-fraction", warmup_fraction,
             "instead of warmup-steps: warm-up as a fraction of decay-steps, not rounded (0: use warmup-steps)", 0, 1);
    v.integer("decay-steps", decay_steps, "step at which the decay reaches min-learning-rate (0: run.steps)", 0,
              1LL << 40);
    v.integer("decay-length", decay_length,
              "schedule stable-decay: steps of the decay that ends at decay-steps; before it the rate stays at the "
              "peak (0: a tenth of decay-steps)",
              0, 1LL << 40);
    v.choice("decay-shape", decay_shape,
             "schedule stable-decay: how the rate falls: cosine; linear; sqrt: by the square root of the part that is "
             "done, so fastest at its beginning");
    v.number("beta1", beta1, "AdamW first moment", 0, 0.999999);
    v.number("beta2", beta2, "AdamW second moment", 0, 0.9999999);
    v.number("epsilon", epsilon, "AdamW epsilon; with 0, zero moments would give 0 / 0", 1e-30, 1);
    v.number("weight-decay", weight_decay, "decoupled weight decay of tensors with at least two dimensions", 0, 100);
    v.flag("decay-all", decay_all,
           "apply weight-decay to every tensor, including biases and norms, as metaseq and fairseq do");
    v.number("clip", clip, "maximum global gradient norm; a larger gradient is scaled down to it (0: off)", 0, 1e9);
    v.choice("loss-mean", loss_mean,
             "what the loss of a step or an evaluation is averaged over, if some tokens are not predicted: tokens: all "
             "predicted tokens; micro-batches: the means of the micro-batches");
    v.choice("shard", shard,
             "what is sharded over data-parallel ranks instead of replicated (ZeRO 0 to 3): none; optimizer: the "
             "optimizer state; gradients: also the gradients; parameters: also the weights. A pipeline supports only "
             "none and optimizer");
    v.choice("shard-group", shard_group,
             "which ranks shard together: all data-parallel ranks, or those of each host: then every host has a "
             "complete copy and weights are gathered within the host; needs comm.reduce hosts");
  }
};

struct PrecisionOptions {
  DType dtype = DType::f32;
  LossScaleRule loss_scale_rule = LossScaleRule::deepspeed;
  double loss_scale = 0, loss_scale_initial = 0, loss_scale_min = 0;
  int64_t loss_scale_window = 0, loss_scale_hysteresis = 2, max_overflows = 50;
  bool loss_scale_refill = false;
  template <class V>
  void visit(V& v) {
    v.choice("dtype", dtype,
             "weights and activations; bf16 and f16 keep f32 master weights, moments and reductions; f16 needs a GPU "
             "and scales the loss by precision.loss-scale",
             {DType::f32, DType::bf16, DType::f16});
    v.number("loss-scale", loss_scale,
             "f16: the loss is multiplied by this before the backward pass, so that small gradients do not become zero "
             "(0: dynamic: halved after steps whose gradients overflow, which are skipped, and doubled after many "
             "steps without an overflow)",
             0, 0x1p60);
    v.choice("loss-scale-rule", loss_scale_rule,
             "f16: deepspeed: the scale doubles after every loss-scale-window steps without an overflow, and is halved "
             "from the loss-scale-hysteresis-th overflow on; metaseq: each overflow halves the scale and the window, "
             "and each growth doubles both");
    v.number("loss-scale-initial", loss_scale_initial,
             "f16: scale of the first step (0: the rule's: deepspeed 65536, metaseq 4)", 0, 0x1p60);
    v.integer("loss-scale-window", loss_scale_window,
              "f16: steps without an overflow until the scale doubles (0: the rule's: deepspeed 1000, metaseq 256 at "
              "first)",
              0, int64_t{1} << 30);
    v.integer("loss-scale-hysteresis", loss_scale_hysteresis,
              "f16, rule deepspeed: overflows until the scale is halved; a growth of the scale starts the count again",
              1, 1 << 20);
    v.flag("loss-scale-refill", loss_scale_refill,
           "f16, rule deepspeed: every step without an overflow starts the count of loss-scale-hysteresis again");
    v.number("loss-scale-min", loss_scale_min,
             "f16: smallest scale (0: the rule's: deepspeed 1, where another overflow ends the run; metaseq 1/32)", 0,
             0x1p60);
    v.integer("max-overflows", max_overflows,
              "f16: the run ends after this many overflows in a row (0: never); they do not count for run.max-skips", 0,
              1 << 20);
  }
};

struct MeshOptions {
  int64_t data = 0, tensor = 1, pipeline = 1, chunks = 1;
  std::string stages;
  bool sequence = false;
  template <class V>
  void visit(V& v) {
    v.integer("data", data, "data-parallel ranks (0: all ranks / (tensor x pipeline))", 0, 1 << 20);
    v.integer("tensor", tensor, "ranks that split each layer; must divide the heads", 1, 4096);
    v.integer("pipeline", pipeline,
              "pipeline stages, each with some of the layers, on different ranks; at most the number of layers", 1,
              1000);
    v.integer("chunks", chunks,
              "parts of the model per pipeline stage, which process micro-batches in turn (interleaved 1F1B); the "
              "number of micro-batches per step must be a multiple of the number of stages",
              1, 64);
    v.text("stages", stages,
           "layers of each pipeline stage, like 8,4; with several chunks: layers of each part, in the model's order "
           "(empty: chosen so that the slowest stage has the least work, including the head's matrix)");
    v.flag("sequence", sequence,
           "sequence parallelism: between layers, each tensor rank computes norms, dropouts and residuals only for its "
           "share of the rows and keeps 1/tensor of their memory");
  }
};

struct CommOptions {
  DType wire = DType::bf16;
  ReduceOrder reduce = ReduceOrder::automatic;
  std::string interface;
  double bucket_mb = 25;
  int64_t cores = 0;
  template <class V>
  void visit(V& v) {
    v.choice("wire", wire, "number format of gradients that are sent between ranks; sums are always computed in f32",
             {DType::bf16, DType::f32});
    v.choice("reduce", reduce,
             "order in which gradients are summed: flat: all ranks' gradients, rounded to comm.wire, in rank order; "
             "hosts: first those of each host in f32, then the hosts' sums, each rounded once, in the order of hosts; "
             "with n ranks per host, the network carries 1 / n of the bytes; nccl: by NCCL's own reduction in "
             "comm.wire, on GPUs only, in an order and with roundings of NCCL's choice; auto: hosts if GPUs compute on "
             "several hosts that have the same number of data ranks, more than one each, else flat");
    v.number("bucket-mb", bucket_mb,
             "size in MB of the buckets in which gradients are exchanged during the backward pass", 0.01, 4096);
    v.integer("cores", cores,
              "cores per rank reserved for communication (0: use a hyper-thread sibling if there is one, otherwise "
              "share the compute cores)",
              0, 1024);
    v.text("interface", interface,
           "network interface of rank 0's host through which the other hosts reach its control channel (empty: any)");
  }
};

struct CheckpointOptions {
  int64_t every = 1000, keep = 2;
  bool best = true, allow_other_data = false, allow_other_batch = false, allow_other_tokenizer = false;
  std::string best_link, also, local, resume = "auto";
  double copy_mb_per_second = 0, retry = 600;
  OnError on_error = OnError::keep_training;
  template <class V>
  void visit(V& v) {
    v.integer("every", every, "steps between snapshots (0: only at the end or when stopped)", 0, 1LL << 40);
    v.text("also", also, "additional steps after which a snapshot is written, like 0,1,2,4; 0: before the first step");
    v.integer("keep", keep, "number of newest snapshots to keep, besides the best one (0: all)", 0, 1 << 20);
    v.flag("best", best, "keep the snapshot with the lowest validation loss, which the link `best` names");
    v.text("best-link", best_link,
           "path of an additional link to the best snapshot; an existing file or folder at this path is never replaced "
           "(empty: none)");
    v.text("resume", resume,
           "auto: resume from the newest good snapshot of the run folder; none: start a new run; or a run or step "
           "folder to resume from");
    v.text("local", local,
           "folder on a local disk of each host where snapshots are written first; training waits only for this, and "
           "they are copied to the run folder in the background (empty: write directly to the run folder)");
    v.number("copy-mb-per-second", copy_mb_per_second,
             "with local: maximum megabytes per second that each host copies during training; the last snapshot of a "
             "run is copied without a limit (0: no limit)",
             0, 1e6);
    v.choice(
        "on-error", on_error,
        "what to do when a snapshot cannot be written during training; the last snapshot of a run must always succeed");
    v.number("retry", retry,
             "seconds for which the last snapshot of a run is tried again when it cannot be written, as on a full disk",
             0, 86400);
    v.flag("allow-other-data", allow_other_data, "resume even if data files or run.seed differ from the checkpoint's");
    v.flag("allow-other-batch", allow_other_batch,
           "resume even if batch.global or batch.sequence differs from the checkpoint's");
    v.flag("allow-other-tokenizer", allow_other_tokenizer,
           "resume even if the data's tokenizer differs from the checkpoint's");
  }
};

struct LogOptions {
  int64_t every = 10;
  double seconds = 15;
  bool jsonl = true, tensorboard = true;
  double peak_tflops = 0;
  int64_t profile = 0;
  std::string columns, metrics, metrics_token, metrics_file, mlflow, mlflow_experiment = "trireme";
  bool time = false, json = false;
  template <class V>
  void visit(V& v) {
    v.integer("every", every, "steps between log lines", 1, 1LL << 40);
    v.number("seconds", seconds,
             "print a progress line when no line was printed for this many seconds (0: only every log.every steps)", 0,
             1e6);
    v.text("columns", columns,
           "numbers in the line of a step, in this order, such as loss,lr,ppl,samples: epoch, loss, mean (of the "
           "losses since the last line), lr, grad, tok/s, measures "
           "(of the task), ms/step, wait, mfu, ppl, memory, samples, samples/s, flop/s; all: every one (empty: in this "
           "order, those that fit 120 characters)");
    v.integer(
        "profile", profile,
        "number of steps in which every operator is timed; prints a table of the times and writes RUN/trace.json for "
        "chrome://tracing (also --profile; 0: off)",
        0, 10000);
    v.flag("jsonl", jsonl, "write RUN/metrics.jsonl");
    v.flag("tensorboard", tensorboard, "write TensorBoard event files to RUN/tensorboard");
    v.text("metrics", metrics,
           "PORT or ADDRESS:PORT at which rank 0 serves a live page, and /metrics for Prometheus, while it trains; a "
           "port alone is open to "
           "programs of this host only, any other address requires log.metrics-token (empty: off)");
    v.text("metrics-token", metrics_token,
           "file whose first line readers of log.metrics must send as a bearer token (empty: none)");
    v.text("metrics-file", metrics_file,
           "file with the same metrics for the textfile collector of node_exporter, such as "
           "/var/lib/node_exporter/trireme.prom (empty: none)");
    v.text("mlflow", mlflow,
           "URL of an MLflow tracking server, such as http://node1:5000, that gets the run's numbers, options and "
           "facts (empty: none)");
    v.text("mlflow-experiment", mlflow_experiment, "with log.mlflow: name of the experiment; created if it is missing");
    v.flag("time", time, "print the time before every line of the log: 2026-01-31T23:59:59.123Z");
    v.flag(
        "json", json,
        "write every line of the log as a JSON object with time, level, priority (as syslog's), rank and message, for "
        "journald and programs that read it; log.time has no effect then");
    v.number("peak-tflops", peak_tflops, "peak of one rank for the MFU column (0: measured GEMM rate of this machine)",
             0, 1e6);
  }
};

struct LaunchOptions {
  Binding bind = Binding::automatic;
  int64_t threads = 0;
  template <class V>
  void visit(V& v) {
    v.choice("bind", bind, "auto: Trireme binds ranks to cores; inherit: keep the binding that the launcher set");
    v.integer("threads", threads, "compute threads per rank (0: this rank's share of the host's physical cores)", 0,
              1024);
  }
};

struct EvaluationOptions {
  int64_t every = 250, batches = 20, patience = 0;
  bool only = false, next_batches = false;
  template <class V>
  void visit(V& v) {
    v.integer("every", every, "steps between evaluations (0: only at the end)", 0, 1LL << 40);
    v.integer("batches", batches, "global batches of fixed windows per evaluation and split", 1, 1 << 20);
    v.flag("next-batches", next_batches,
           "each evaluation reads the validation batches after those of the one before it, as NeoX does; false: always "
           "the first ones, so that losses of a run differ by the model alone");
    v.integer("patience", patience,
              "end the training after this number of evaluations in a row without a lower validation loss (0: never)",
              0, 1 << 20);
    v.flag("only", only, "evaluate and stop");
  }
};

struct RunOptions {
  std::string dir = "run", fallback, mpi = "auto";
  int64_t steps = 1000, seed = 1337, hash_every = 100, max_skips = 10;
  double hang_timeout = 10, start_timeout = 120, spike_score = 6;
  OnDifference on_difference = OnDifference::heal;
  OnSpike on_spike = OnSpike::warn;
  DeviceChoice device = DeviceChoice::automatic;
  bool tune = false, cudnn = false, overwrite = false, take_over = false;
  template <class V>
  void visit(V& v) {
    v.text("dir", dir, "run folder: checkpoints, logs, status");
    v.text("fallback", fallback,
           "folder on another disk that gets the last snapshot if the run folder does not take it (empty: none)");
    v.integer("steps", steps, "optimizer steps", 0, 1LL << 40);
    v.choice(
        "device", device,
        "what ranks compute on: auto: a GPU each if this build and all hosts have them, else CPUs; cpu; cuda: GPUs, "
        "or an error that says why none can be used");
    v.flag("tune", tune,
           "on a GPU: time the methods of each matrix product at its first call and keep the fastest in "
           "RUN/products.jsonl; a resumed run uses the same, even without this option");
    v.flag("cudnn", cudnn,
           "on a GPU: attention by cuDNN where it is deterministic and computes the same: sequences of equal length, "
           "no dropout, bf16 or f16; else, or without libcudnn, by this program's kernels");
    v.integer("seed", seed, "seed of initial weights, sample order and dropout", 0, (1LL << 62));
    v.integer("hash-every", hash_every,
              "steps between checks that all ranks hold the same parameters (also after the first step)", 1, 1LL << 40);
    v.choice("on-difference", on_difference,
             "what to do when the parameters of a minority of ranks differ from the rest: heal: copy them from a good "
             "rank; stop: end the run");
    v.choice("on-spike", on_spike,
             "what to do when a step's loss is spike-score standard deviations above its running mean: warn; skip: "
             "discard the step; roll-back: return to the last snapshot and skip the samples since then");
    v.number("spike-score", spike_score, "see on-spike (0: spikes are not detected)", 0, 1e6);
    v.integer("max-skips", max_skips,
              "training stops after this many consecutive steps with a loss or gradients that are not finite; "
              "RUN/bad-samples.json lists their samples",
              1, 1LL << 40);
    v.number("hang-timeout", hang_timeout,
             "seconds without a heartbeat of a rank, or without progress of the job, after which the job ends with "
             "exit code 76; during start-up and saves, at least 120 seconds without progress",
             1, 86400);
    v.number("start-timeout", start_timeout,
             "seconds that a rank waits for the others during MPI start-up before it ends with exit code 76", 1, 86400);
    v.text("mpi", mpi,
           "MPI library that the ranks open: auto: that of the starter (TRIREME_MPI, if set); openmpi; mpich: MPICH, "
           "Intel "
           "MPI, Cray MPICH, MVAPICH; abi: one with MPI's standard ABI; or a library's path");
    v.flag("overwrite", overwrite, "with checkpoint.resume none: empty a run folder that holds steps");
    v.flag("take-over", take_over, "use a run folder even if another job holds its lock");
  }
};

/// The one native configuration. Dialects translate into it.
struct Config {
  ModelOptions model;
  DataOptions data;
  ChatOptions chat;
  PairOptions dpo;
  BatchOptions batch;
  TrainOptions train;
  LoraOptions lora;
  OptimOptions optim;
  PrecisionOptions precision;
  MeshOptions mesh;
  CommOptions comm;
  CheckpointOptions checkpoint;
  EvaluationOptions evaluation;
  LogOptions log;
  LaunchOptions launch;
  RunOptions run;
  OptionNames names;  ///< of options in messages

  template <class V>
  void visit(V& v) {
    v.group("model", "the model", model);
    v.group("data", "training data", data);
    v.group("chat", "chat data, for `trireme sft` and `trireme dpo` only", chat);
    v.group("dpo", "preference loss, for `trireme dpo` only", dpo);
    v.group("batch", "batch size", batch);
    v.group("train", "trainable parameters", train);
    v.group("lora", "low-rank adapters", lora);
    v.group("optim", "AdamW and learning rate schedule", optim);
    v.group("precision", "number formats", precision);
    v.group("mesh", "parallelism", mesh);
    v.group("comm", "communication between ranks", comm);
    v.group("checkpoint", "snapshots and resuming", checkpoint);
    v.group("evaluation", "validation during training", evaluation);
    v.group("log", "logging and monitoring", log);
    v.group("launch", "threads and cores of a rank", launch);
    v.group("run", "the run as a whole", run);
  }
};

}  // namespace trireme
