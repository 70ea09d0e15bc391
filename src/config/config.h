#pragma once
// Every option of a training run, declared once: name, field, default, help, range. YAML keys, flags, JSON, --help and
// docs/options.md are made from these declarations (config/schema.h has the visitors). Names are written with '-'; '_'
// is the same.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/choices.h"
#include "tensor/activation.h"
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

  template <class V>
  void visit(V& v) {
    v.text(
        "preset", preset,
        "named sizes of a new model: gpt2-124m to gpt2-1558m, opt-8m to opt-175b, neox-19m to neox-175b, bert-tiny to "
        "bert-large, distilbert-tiny, distilbert-base; they give everything that a model is, dropout apart, and "
        "options of this "
        "group resize and change them (empty: none)");
    v.text(
        "init", init,
        "weights to start from: scratch, a Hugging Face model by its folder or its name on the hub, or the folder of a "
        "run or checkpoint (empty: scratch, except where a dialect asks)");
    v.choice_or("init-scheme", "preset", init_scheme,
                "spread of a new model's weights: gpt2, bert, opt, neox, or the preset's own (no preset: gpt2)");
    v.integer("layers", layers, "transformer blocks", 1, 1000);
    v.integer("heads", heads, "attention heads; must divide width", 1, 1024);
    v.integer("width", width, "width of the residual stream", 8, 65536);
    v.integer("inner-width", inner_width,
              "width of the MLP (0: 4 x width; of a preset that is not given another width: its own)", 0, 262144);
    v.integer("context", context, "positions the model knows", 1, 1048576);
    v.integer("vocabulary", vocabulary, "token ids (0: from the data's tokenizer)", 0, 4194304);
    v.integer("vocabulary-multiple", vocabulary_multiple,
              "rows of the token matrix are rounded up to a multiple of this in memory", 1, 4096);
    v.choice("activation", activation, "MLP activation",
             {Activation::gelu_tanh, Activation::gelu_erf, Activation::relu});
    v.choice("norm-place", norm_place,
             "pre: norms before attention and MLP, and one before the head; post: after each residual sum, none before "
             "the head");
    v.choice("residual", residual,
             "sequential: x += attention(x), then x += mlp(x); parallel: x += attention(x) + mlp(x), with two norms");
    v.choice("position", position, "learned: a table added to the embedding; rotary: queries and keys are turned");
    v.integer("position-offset", position_offset, "learned positions: rows of the table before that of position 0", 0,
              1048576);
    v.number(
        "rotary-fraction", rotary_fraction,
        "rotary positions: leading share of each head that turns; its values, rounded down, must be even in number", 0,
        1);
    v.number("rotary-base", rotary_base, "rotary positions: base of the wavelengths", 1.001, 1e12);
    v.number("norm-epsilon", norm_epsilon, "epsilon of the norms", 1e-30, 1);
    v.flag("tied-head", tied_head, "the output head shares the token embedding's matrix");
    v.flag("bias", bias, "biases in linears and norms, those apart that the next options name");
    v.flag("qkv-bias", qkv_bias, "biases of queries, keys and values (not given: as bias)");
    v.flag("attention-out-bias", attention_out_bias, "bias of the attention's output (not given: as bias)");
    v.flag("mlp-in-bias", mlp_in_bias, "bias of the MLP's first linear (not given: as bias)");
    v.flag("mlp-out-bias", mlp_out_bias, "bias of the MLP's second linear (not given: as bias)");
    v.flag("norm-bias", norm_bias, "biases of the norms (not given: as bias)");
    v.choice("recompute", recompute,
             "what backward computes again instead of keeping it, with the same bits: none; attention: the output of "
             "attention, a tenth of what a block keeps; full: all but each block's input, about a quarter more time. "
             "false and true, or the option alone, mean none and full",
             {}, {{"false", "none"}, {"true", "full"}});
    v.number("dropout", dropout, "dropout of embeddings, attention and residual branches", 0, 0.999);
    v.number("embedding-dropout", embedding_dropout, "dropout of embeddings (-1: as dropout)", -1, 0.999);
    v.number("attention-dropout", attention_dropout, "dropout of attention's probabilities (-1: as dropout)", -1,
             0.999);
  }
};

struct DataOptions {
  std::string dir, train = "train.bin", validation = "val.bin", test, split, index_dir, tokenizer, merges;
  bool verify = false, trust = false, whole_words = false, mask_end_of_text = false;
  double mask_rate = 0.15;

  template <class V>
  void visit(V& v) {
    v.text("dir", dir, "folder that `trireme prepare` wrote");
    v.text("train", train,
           "training tokens, in dir or an absolute path: a token file, the prefix of an indexed dataset of Megatron or "
           "NeoX, or weights and prefixes in turn (0.7 a_text_document 0.3 b_text_document)");
    v.text("validation", validation, "validation tokens, likewise (empty: none)");
    v.text("test", test,
           "tokens of a test after the last step, likewise (empty: the third share of data.split, where that has one)");
    v.text(
        "split", split,
        "shares of an indexed dataset's documents for training, validation and a test after the last step, like 969, "
        "30, 1 (empty: all for training)");
    v.text(
        "index-dir", index_dir,
        "folder for the order of an indexed dataset's samples, NeoX's three .npy files; one of each host's own works "
        "too (empty: beside the dataset)");
    v.text("tokenizer", tokenizer,
           "tokenizer to store with checkpoints: a file, a folder or a name of the Hugging Face hub (empty: the one in "
           "dir)");
    v.text(
        "merges", merges,
        "merges of data.tokenizer, when that is a vocabulary of GPT-2's form (empty: merges.txt or vocab.bpe beside a "
        "vocab.json)");
    v.number("mask-rate", mask_rate,
             "masked language models: share of the tokens that are to be found; of these 80 % become the mask, 10 % "
             "another token, 10 % stay",
             0.001, 0.9);
    v.flag("whole-words", whole_words, "masked language models: hide all pieces of a word or none (WordPiece)");
    v.flag("mask-end-of-text", mask_end_of_text,
           "what follows the token that ends a document is not to be predicted: it counts in no loss");
    v.flag("verify", verify, "check every block's checksum and every id before the first step (default: a sample)");
    v.flag("trust", trust,
           "a token file without a sidecar is 16-bit ids, whatever it looks like (default: what looks like another "
           "format, numbers of another width or text is refused)");
  }
};

struct BatchOptions {
  int64_t global = 32, per_rank = 0, micro = 0, accumulation = 0, sequence = 0;

  template <class V>
  void visit(V& v) {
    v.integer("global", global, "sequences per optimizer step over all ranks; accumulation is derived from it", 1,
              1 << 30);
    v.integer(
        "per-rank", per_rank,
        "instead of global: sequences per optimizer step and data-parallel rank; the product with the ranks of the "
        "first start becomes the global batch and is kept when the run is resumed (0: use global)",
        0, 1 << 20);
    v.integer("micro", micro, "sequences per rank and micro-batch (0: the largest divisor of global / ranks up to 8)",
              0, 1 << 20);
    v.integer("accumulation", accumulation,
              "micro-batches per rank and step: gives micro where that is 0, else the two must agree (0: follows)", 0,
              1 << 14);
    v.integer("sequence", sequence, "tokens per sequence (0: the model's context)", 0, 1048576);
  }
};

struct OptimOptions {
  double learning_rate = 6e-4, min_learning_rate = 6e-5, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1,
         clip = 1.0;
  RateCourse schedule = RateCourse::cosine;
  ScheduleForm schedule_form = ScheduleForm::nanogpt;
  int64_t warmup_steps = 0, decay_steps = 0;
  double warmup_fraction = 0, decay_power = 1, restarts = 1, timescale = 0;
  bool decay_all = false;
  ShardChoice shard = ShardChoice::none;
  ShardGroup shard_group = ShardGroup::all;
  LossMean loss_mean = LossMean::tokens;

  template <class V>
  void visit(V& v) {
    v.number("learning-rate", learning_rate, "peak learning rate", 0, 100);
    v.number("min-learning-rate", min_learning_rate, "where the decay ends", 0, 100);
    v.choice("schedule", schedule, "course of the learning rate after warm-up");
    v.choice(
        "schedule-form", schedule_form,
        "whose formulas: nanogpt: over steps, ends at min-learning-rate and stays there; neox: over the updates that "
        "were applied, never below min-learning-rate, the cosine rises again after decay-steps, the exponential "
        "halves the peak in them");
    v.number("decay-power", decay_power, "schedule polynomial: exponent of the share of the decay that is left", 0,
             100);
    v.number("restarts", restarts, "schedule cosine-with-restarts: how often the cosine falls from the peak", 1, 1e6);
    v.number("timescale", timescale,
             "schedule inverse-sqrt: the rate is half the peak three of these after the warm-up (0: warmup-steps, or "
             "10000 without a warm-up)",
             0, 1e15);
    v.integer("warmup-steps", warmup_steps, "steps of linear warm-up", 0, 1LL << 40);
    v.number("warmup-fraction", warmup_fraction,
             "instead of warmup-steps: warm-up as a share of decay-steps, not rounded (0: use warmup-steps)", 0, 1);
    v.integer("decay-steps", decay_steps, "step at which the decay reaches min-learning-rate (0: run.steps)", 0,
              1LL << 40);
    v.number("beta1", beta1, "AdamW first moment", 0, 0.999999);
    v.number("beta2", beta2, "AdamW second moment", 0, 0.9999999);
    v.number("epsilon", epsilon, "AdamW epsilon; 0 would divide zero moments by zero", 1e-30, 1);
    v.number("weight-decay", weight_decay, "decoupled decay of tensors with two or more dims", 0, 100);
    v.flag("decay-all", decay_all, "weight-decay is for every tensor, biases and norms too, as metaseq and fairseq do");
    v.number("clip", clip, "global gradient norm is clipped to this (0: off)", 0, 1e9);
    v.choice("loss-mean", loss_mean,
             "what the loss of a step and of an evaluation is a mean over, where not every token is to be predicted: "
             "tokens: all of them; micro-batches: the means of the micro-batches");
    v.choice(
        "shard", shard,
        "what data-parallel ranks share instead of each having all of it (ZeRO 0 to 3): the optimizer's state, the "
        "gradients too, the weights too; the last two without a pipeline");
    v.choice("shard-group", shard_group,
             "who shares it: all data-parallel ranks, or those of each host, so that every host has a whole copy and "
             "weights come from inside it; needs comm.reduce hosts");
  }
};

struct PrecisionOptions {
  DType dtype = DType::f32;
  template <class V>
  void visit(V& v) {
    v.choice("dtype", dtype,
             "weights and activations; bf16 keeps f32 master weights, moments and reductions; f16 "
             "is for other programs' files: CPUs do not train in it",
             {DType::f32, DType::bf16, DType::f16});
  }
};

struct MeshOptions {
  int64_t data = 0, tensor = 1, pipeline = 1, chunks = 1;
  std::string stages;
  bool sequence = false;
  template <class V>
  void visit(V& v) {
    v.integer("data", data, "data-parallel ranks (0: all that the other axes leave)", 0, 1 << 20);
    v.integer("tensor", tensor, "ranks that split each layer; must divide the heads", 1, 4096);
    v.integer("pipeline", pipeline, "stages of layers, each on other ranks; at most as many as layers", 1, 1000);
    v.integer("chunks", chunks,
              "parts of the model that each pipeline stage has, micro-batches taking turns between them (interleaved "
              "1F1B); a step's micro-batches must be a multiple of the stages",
              1, 64);
    v.text(
        "stages", stages,
        "layers of each pipeline stage, like 8,4, of several chunks of each part in the model's order (empty: so that "
        "the slowest has the least work, the head's matrix counted)");
    v.flag(
        "sequence", sequence,
        "tensor ranks share the rows between layers: each computes norms, dropouts and residuals of its own and keeps "
        "1/tensor of their memory");
  }
};

struct CommOptions {
  DType wire = DType::bf16;
  ReduceOrder reduce = ReduceOrder::flat;
  std::string interface;
  double bucket_mb = 25;
  int64_t cores = 0;
  template <class V>
  void visit(V& v) {
    v.choice("wire", wire, "type of gradients between ranks; sums are made in f32 either way",
             {DType::bf16, DType::f32});
    v.choice(
        "reduce", reduce,
        "order of the sum of gradients: flat: every rank's, rounded to comm.wire, in rank order; hosts: those of a "
        "host in f32, each host's sum rounded once, in the order of hosts: with n ranks on every host a network "
        "carries 1 / n of the bytes");
    v.number("bucket-mb", bucket_mb, "gradients are exchanged in buckets of this many MB while backward goes on", 0.01,
             4096);
    v.integer("cores", cores,
              "cores per rank kept for communication (0: share the compute cores, or a hyper-thread sibling where "
              "there is one)",
              0, 1024);
    v.text("interface", interface,
           "network interface of rank 0's host on which the other hosts reach its control channel (empty: any)");
  }
};

struct CheckpointOptions {
  int64_t every = 1000, keep = 2;
  bool best = true, allow_other_data = false, allow_other_batch = false, allow_other_tokenizer = false;
  std::string best_link, also, local, resume = "auto";
  double copy_mb_per_second = 0;
  OnError on_error = OnError::go_on;
  template <class V>
  void visit(V& v) {
    v.integer("every", every, "steps between snapshots (0: only at the end or when stopped)", 0, 1LL << 40);
    v.text("also", also, "further steps after which there is a snapshot, like 0,1,2,4; 0: before the first one");
    v.integer("keep", keep, "newest snapshots kept, beside the best one (0: all)", 0, 1 << 20);
    v.flag("best", best, "keep a snapshot of the lowest validation loss, named by `best`");
    v.text("best-link", best_link,
           "also keep a link of this path to the best snapshot; a file or folder that stands there is never replaced "
           "(empty: none)");
    v.text("resume", resume,
           "auto: go on from the run folder's newest good snapshot; none: start anew; or a run or step folder");
    v.text(
        "local", local,
        "folder on each host's own disk that takes snapshots first: training waits for that one, and they are copied "
        "into the run folder in the background (empty: straight into the run folder)");
    v.number(
        "copy-mb-per-second", copy_mb_per_second,
        "with local: megabytes that each host copies per second while training goes on; the last snapshot of a run "
        "is copied without a limit (0: none)",
        0, 1e6);
    v.choice("on-error", on_error,
             "when a snapshot cannot be written while training goes on; the last one of a run must succeed either way");
    v.flag("allow-other-data", allow_other_data, "resume although data files or run.seed are not the checkpoint's");
    v.flag("allow-other-batch", allow_other_batch,
           "resume although batch.global or batch.sequence is not the checkpoint's");
    v.flag("allow-other-tokenizer", allow_other_tokenizer,
           "resume although the data's tokenizer is not the checkpoint's");
  }
};

struct LogOptions {
  int64_t every = 10;
  double seconds = 15;
  bool jsonl = true, tensorboard = true;
  double peak_tflops = 0;
  int64_t profile = 0;
  template <class V>
  void visit(V& v) {
    v.integer("every", every, "steps between log lines", 1, 1LL << 40);
    v.number(
        "seconds", seconds,
        "seconds after which a line says how far a run is, where no other line did (0: only every log.every steps)", 0,
        1e6);
    v.integer("profile", profile,
              "time the operators of so many steps, print where the time goes and write RUN/trace.json for "
              "chrome://tracing (also --profile; 0: off)",
              0, 10000);
    v.flag("jsonl", jsonl, "write RUN/metrics.jsonl");
    v.flag("tensorboard", tensorboard, "write TensorBoard event files to RUN/tensorboard");
    v.number("peak-tflops", peak_tflops, "peak of one rank for the MFU column (0: measured GEMM rate of this machine)",
             0, 1e6);
  }
};

struct LaunchOptions {
  Binding bind = Binding::automatic;
  int64_t threads = 0;
  template <class V>
  void visit(V& v) {
    v.choice("bind", bind,
             "auto: Trireme binds ranks to cores by itself; inherit: keep the binding that the launcher set");
    v.integer("threads", threads, "compute threads per rank (0: this rank's share of the host's physical cores)", 0,
              1024);
  }
};

struct EvaluationOptions {
  int64_t every = 250, batches = 20;
  bool only = false;
  template <class V>
  void visit(V& v) {
    v.integer("every", every, "steps between evaluations (0: only at the end)", 0, 1LL << 40);
    v.integer("batches", batches, "global batches of fixed windows per evaluation and split", 1, 1 << 20);
    v.flag("only", only, "evaluate and stop");
  }
};

struct RunOptions {
  std::string dir = "run";
  int64_t steps = 1000, seed = 1337, hash_every = 100, max_skips = 10;
  double hang_timeout = 10, start_timeout = 120, spike_score = 6;
  OnDifference on_difference = OnDifference::heal;
  OnSpike on_spike = OnSpike::warn;
  bool overwrite = false, take_over = false;
  template <class V>
  void visit(V& v) {
    v.text("dir", dir, "run folder: checkpoints, logs, status");
    v.integer("steps", steps, "optimizer steps", 0, 1LL << 40);
    v.integer("seed", seed, "seed of initial weights, sample order and dropout", 0, (1LL << 62));
    v.integer("hash-every", hash_every,
              "steps between checks that all ranks hold the same parameters (also after the first step)", 1, 1LL << 40);
    v.choice("on-difference", on_difference,
             "when a minority of ranks holds other parameters than the rest: heal: they take a good rank's; stop");
    v.choice("on-spike", on_spike,
             "when a step's loss lies spike-score standard deviations above its running mean: warn; skip: the step "
             "changes nothing; roll-back: the run goes back to its last snapshot and passes over the samples since");
    v.number("spike-score", spike_score, "see on-spike (0: spikes are not looked for)", 0, 1e6);
    v.integer("max-skips", max_skips,
              "steps in a row whose loss or gradients are not finite before training stops and RUN/bad-samples.json "
              "tells their samples",
              1, 1LL << 40);
    v.number(
        "hang-timeout", hang_timeout,
        "seconds after which a rank without a heartbeat, or a job in which nothing moves, is given up with code 76; "
        "at least 120 for what does not move during start-up and saves",
        1, 86400);
    v.number("start-timeout", start_timeout,
             "seconds that a rank waits in MPI's start for the others before it leaves with code 76", 1, 86400);
    v.flag("overwrite", overwrite, "with checkpoint.resume none: a folder that holds steps is emptied");
    v.flag("take-over", take_over, "take a run folder whose lock belongs to another job");
  }
};

/// The one native configuration. Dialects translate into it.
struct Config {
  ModelOptions model;
  DataOptions data;
  BatchOptions batch;
  OptimOptions optim;
  PrecisionOptions precision;
  MeshOptions mesh;
  CommOptions comm;
  CheckpointOptions checkpoint;
  EvaluationOptions evaluation;
  LogOptions log;
  LaunchOptions launch;
  RunOptions run;

  template <class V>
  void visit(V& v) {
    v.group("model", "what is trained", model);
    v.group("data", "what it is trained on", data);
    v.group("batch", "how much of it per step", batch);
    v.group("optim", "AdamW and its schedule", optim);
    v.group("precision", "number formats", precision);
    v.group("mesh", "how ranks are arranged", mesh);
    v.group("comm", "exchange between ranks", comm);
    v.group("checkpoint", "snapshots and resuming", checkpoint);
    v.group("evaluation", "validation during training", evaluation);
    v.group("log", "what is written about a run", log);
    v.group("launch", "threads and cores of a rank", launch);
    v.group("run", "the run as a whole", run);
  }
};

}  // namespace trireme
