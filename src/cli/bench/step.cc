#include "cli/bench/benchmarks.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "bench/data_sheet.h"
#include "bench/goals.h"
#include "bench/ranks.h"
#include "bench/step.h"
#include "cli/flags.h"
#include "cli/version.h"
#include "comm/process.h"
#include "config/schema.h"
#include "ops/backend.h"
#include "train/start/ranks.h"

namespace trireme {
namespace {

void print_peer(const PeerStep& peer, const StepBenchResult& ours) {
  const std::string name = "PyTorch " + peer.mode;
  if (!peer.skipped.empty()) {
    fmt::print("{:<18} not measured: {}\n", name, peer.skipped);
    return;
  }
  fmt::print("{:<18} {:.3f} s (fastest {:.3f}, slowest {:.3f}), ours {} {:.3f} s: ours is {:.2f}x as fast\n", name,
             peer.times.median, peer.times.fastest, peer.times.slowest, peer.apart ? "in its own rounds" : "between",
             peer.our_seconds, peer.ratio());
  fmt::print("{:<18} {}\n", "", peer.loss_text());
  fmt::print("{:<18} {:.2f} GB peak memory, ours is {:.2f} of it\n", "", static_cast<double>(peer.peak_rss) / 1e9,
             static_cast<double>(ours.peak_rss) / static_cast<double>(peer.peak_rss));
}

const Option& recompute_option() { return *schema().find("model.recompute"); }

Recompute recompute_of(const std::string& text) {
  const Setting setting{"recompute", resolve_plain(text), text, {"flag --recompute", 0, kFlagLayer}, ""};
  Config config;
  set(config, recompute_option(), convert(recompute_option(), setting));
  return config.model.recompute;
}

double tokens_per_second(const StepBenchOptions& o, const RanksTime& time) {
  return static_cast<double>(o.batch * o.sequence * time.ranks) / time.seconds;
}

constexpr double kBusy = 0.1;  ///< share of the processors in use by other programs from which on a warning is printed

/// Explains the MFU: model FLOPs per second and rank, divided by the peak.
void print_peak(const StepBenchOptions& o, const StepBenchResult& r) {
  fmt::print(
      "model FLOPs        {:.1f} MFLOP per token = 6 x matmul parameters (head at logical vocabulary) + 6 x layers x "
      "width x sequence\n",
      r.model_flops / static_cast<double>(o.batch * o.sequence) / 1e6);
  fmt::print("MFU                model FLOPs / s of a rank divided by {:.4f} TFLOP/s ({})\n", r.peak_flops / 1e12,
             r.peak_is_measured ? "a large matrix product, measured now; --peak-tflops sets it" : "--peak-tflops");
  if (r.taken >= kBusy)
    fmt::print(
        "warning            other programs used {:.0f} % of the processors: steps were slower and the MFU is lower; "
        "the peak assumes idle processors\n",
        1e2 * r.taken);
}

/// Layouts of the same ranks and global batch, relative to the rate of the first one.
void print_layouts(const StepBenchOptions& o, const StepBenchResult& r) {
  print_peak(o, r);
  fmt::print(
      "comm CPU           share of all ranks' processor time spent on waiting for each other and on "
      "exchange, by thread clocks\n"
      "usable             largest share of the time in which a pipeline can compute: m / (m + p - 1) with m "
      "micro-batches and p stages, less for uneven stages\n\n"
      "data x tensor x pipeline  micro-batches   words/s  s per step  of the first  usable  waiting  comm CPU    MFU   "
      "   "
      "loss\n");
  for (size_t i = 0; i < r.ranks.size(); ++i) {
    const RanksTime& n = r.ranks[i];
    fmt::print("{:>24} {:>14} {:>9.1f} {:>11.3f} {:>12.2f}x {:>6.0f}% {:>7.1f}% {:>8.1f}% {:>5.1f}% {:>9.4f}\n",
               r.layouts[i].name(), r.layouts[i].micro_batches, tokens_per_second(o, n), n.seconds, n.speed_up,
               1e2 * r.layouts[i].use, 1e2 * n.waiting, 1e2 * n.cpu.share_beside(),
               1e2 * r.model_flops / n.seconds / r.peak_flops, n.loss);
  }
}

void print_ranks(const StepBenchOptions& o, const StepBenchResult& r) {
  print_peak(o, r);
  fmt::print(
      "comm CPU           share of all ranks' processor time spent on waiting for each other and on the "
      "exchange of gradients, by thread clocks\n\n"
      "ranks   words/s  s per step  speed-up  efficiency  waiting  comm CPU  TFLOP/s per rank    MFU      loss\n");
  for (const RanksTime& n : r.ranks)
    fmt::print("{:>5} {:>9.1f} {:>11.3f} {:>8.2f}x {:>10.0f}% {:>7.1f}% {:>8.1f}% {:>17.4f} {:>5.1f}% {:>9.4f}\n",
               n.ranks, tokens_per_second(o, n), n.seconds, n.speed_up, 1e2 * n.speed_up / n.ranks, 1e2 * n.waiting,
               1e2 * n.cpu.share_beside(), 1e-12 * r.model_flops / n.seconds,
               1e2 * r.model_flops / n.seconds / r.peak_flops, n.loss);
}

/// What the step reaches of a GPU's data sheet.
std::string sheet_line(const StepBenchOptions& o, const Backend& backend, const StepBenchResult& r) {
  const DataSheet sheet = data_sheet_of(backend.hardware);
  if (sheet.card.empty()) return "data sheet         none is known for this GPU";
  return fmt::format("data sheet         {:.1f}% of the {:.1f} TFLOP/s of a {} in {}",
                     1e2 * r.model_flops / r.times.median / sheet.flops(o.dtype), sheet.flops(o.dtype) / 1e12,
                     sheet.card, name_of(o.dtype));
}

void print_step(const StepBenchOptions& o, const Backend& backend, int threads, const StepBenchResult& r) {
  fmt::print("{} (commit {})\n", backend.hardware, commit_text());
  fmt::print("{} {}, batch {} x {}{}, {}{}, kernels {}\n\n", o.preset, name_of(o.dtype), o.batch, o.sequence,
             r.ranks.empty() ? "" : " per rank", count_text(threads, "thread"), r.ranks.empty() ? "" : " per rank",
             backend.kernels);
  if (!r.layouts.empty()) return print_layouts(o, r);
  if (!r.ranks.empty()) return print_ranks(o, r);
  fmt::print("step               {:.3f} s (median of {}; fastest {:.3f}, slowest {:.3f})\n", r.times.median, o.steps,
             r.times.fastest, r.times.slowest);
  fmt::print("tokens             {:.1f} words per second\n", r.tokens_per_second);
  print_peak(o, r);
  fmt::print("time per iteration {:.4f} ms, MFU {:.2f}%\n", 1e3 * r.times.median,
             1e2 * r.model_flops / r.times.median / r.peak_flops);
  fmt::print("model FLOP rate    {:.4f} TFLOP/s\n", r.model_flops / r.times.median / 1e12);
  if (backend.device) {
    fmt::print("{}\n", sheet_line(o, backend, r));
    fmt::print("last loss          {:.4f}\n", r.loss);
    return;
  }
  fmt::print(
      "GEMM ceiling       {:.1f} GFLOP/s (only this step's forward, dX and dW GEMMs, alternating with the steps)\n",
      r.ceiling.flops_per_second / 1e9);
  fmt::print("plain ceiling      {:.1f} GFLOP/s (the same without packed operands)\n",
             r.ceiling.plain_flops_per_second / 1e9);
  fmt::print("share              {:.3f} (median of model FLOP rate / GEMM ceiling after the step){}\n", r.share,
             r.share > 1 ? ": the machine was busy while the ceiling was measured; run it again" : "");
  fmt::print("peak memory        {:.2f} GB\n", static_cast<double>(r.peak_rss) / 1e9);
  fmt::print("last loss          {:.4f}\n", r.loss);
  for (const PeerStep& peer : r.peers) print_peer(peer, r);
}

Json to_json(const PeerStep& peer) {
  if (!peer.skipped.empty()) return {{"skipped", peer.skipped}};
  return {{"ms_per_step", 1e3 * peer.times.median},
          {"ms_fastest", 1e3 * peer.times.fastest},
          {"ms_slowest", 1e3 * peer.times.slowest},
          {"our_ms_per_step", 1e3 * peer.our_seconds},
          {"ratio", peer.ratio()},
          {"loss", peer.loss},
          {"our_loss", peer.our_loss},
          {"peak_rss_bytes", peer.peak_rss},
          {"apart", peer.apart}};
}

Json to_json(const StepBenchOptions& o, const Backend& backend, int threads, const StepBenchResult& r) {
  Json json{{"preset", o.preset},     {"dtype", name_of(o.dtype)}, {"recompute", name_of(o.recompute)},
            {"batch", o.batch},       {"seq", o.sequence},         {"steps", o.steps},
            {"threads", threads},     {"cpu", backend.hardware},   {"kernels", backend.kernels},
            {"commit", commit_text()}};
  json["peak_flops_per_s"] = r.peak_flops;
  if (r.peak_is_measured) json["processors_taken"] = r.taken;
  for (size_t i = 0; i < r.ranks.size(); ++i) {
    const RanksTime& n = r.ranks[i];
    Json figures{{"tokens_per_s", tokens_per_second(o, n)},
                 {"ms_per_step", 1e3 * n.seconds},
                 {"speed_up", n.speed_up},
                 {"waiting", n.waiting},
                 {"cpu_seconds", n.cpu.total},
                 {"cpu_waiting", n.cpu.waiting},
                 {"cpu_exchange", n.cpu.exchange},
                 {"loss", n.loss},
                 {"mfu", r.model_flops / n.seconds / r.peak_flops},
                 {"model_flops_per_s", r.model_flops * n.ranks / n.seconds}};
    if (r.layouts.empty()) {
      json["ranks"][std::to_string(n.ranks)] = std::move(figures);
    } else {
      figures["micro_batches"] = r.layouts[i].micro_batches;
      figures["pipeline_use"] = r.layouts[i].use;
      json["layouts"][r.layouts[i].name()] = std::move(figures);
    }
  }
  if (!r.ranks.empty()) return json;
  json["tokens_per_s"] = r.tokens_per_second;
  json["ms_per_step"] = 1e3 * r.times.median;
  json["ms_fastest"] = 1e3 * r.times.fastest;
  json["ms_slowest"] = 1e3 * r.times.slowest;
  json["model_flops_per_s"] = r.model_flops / r.times.median;
  if (backend.device) {
    if (const DataSheet sheet = data_sheet_of(backend.hardware); !sheet.card.empty())
      json["data_sheet_share"] = r.model_flops / r.times.median / sheet.flops(o.dtype);
  } else {
    json["ceiling_flops_per_s"] = r.ceiling.flops_per_second;
    json["plain_ceiling_flops_per_s"] = r.ceiling.plain_flops_per_second;
    json["share"] = r.share;
  }
  json["mfu"] = r.model_flops / r.times.median / r.peak_flops;
  json["loss"] = r.loss;
  json["peak_rss_bytes"] = r.peak_rss;
  if (!r.peers.empty()) {
    json["peer"] = {{"ratio", r.peer_ratio()}, {"rss_ratio", r.peer_rss_ratio()}};
    for (const PeerStep& peer : r.peers) json["peer"][peer.mode] = to_json(peer);
  }
  return json;
}

/// What all ranks' GPUs reach beside their goal; nothing: there is none.
std::optional<GoalResult> goal_of(const StepBenchOptions& o, const Backend& backend, const RankContext& rank,
                                  double goal, const StepBenchResult& r) {
  double got = r.tokens_per_second;
  for (const RanksTime& time : r.ranks)
    if (time.ranks == rank.size()) got = std::max(got, tokens_per_second(o, time));
  const bool on_gpu = backend.device != nullptr && o.dtype == DType::bf16;
  const std::optional<Goal> known =
      on_gpu ? find_goal(o.preset, backend.hardware, rank.size(), rank.hosts.hosts()) : std::nullopt;
  auto compared = compare_with_goal(known, goal, "tokens/s", got, backend.libraries);
  if (compared && !backend.device) compared->causes.clear();  // they are those of GPUs
  return compared;
}

/// goal: tokens per second of all ranks; 0: the known one of the card.
int measure_step(Process& process, const StepBenchOptions& options, int64_t threads, const std::string& json,
                 double goal) {
  Scalars scalars(process.world());
  const CorePlan cores = take_cores(threads, process, scalars);
  const RankContext rank = rank_context(process, cores.threads, [] { return false; });
  Backend backend = backend_of_ranks(options.device, "--device", rank, scalars, options.cudnn);
  const StepBenchResult result = bench_step(options, backend, rank, cores.exchange_cores);
  bool below = false;
  if (rank.rank() == 0) {
    print_step(options, backend, cores.threads, result);
    Json figures = to_json(options, backend, cores.threads, result);
    if (const auto compared = goal_of(options, backend, rank, goal, result)) {
      fmt::print("{}", to_text(*compared));
      figures["goal"] = to_json(*compared);
      below = !compared->reached();
    }
    if (!json.empty()) write_text(json, dump_valid_json(figures, 1) + "\n");
  }
  return scalars.any(below) ? kBelowGoal : 0;
}

}  // namespace

int bench_step_command(CommandLine line) {
  StepBenchOptions options;
  std::string json;
  int64_t threads = 0;
  double peak_tflops = 0, goal = 0;
  bool synthetic = false;
  Flags app(
      std::move(line), "trireme bench step",
      "Measures a complete training step: forward, backward, clip and AdamW, compared with the rate of its GEMMs.");
  app.set_footer(
      "Under `mpirun -n N` or `trireme launch` it compares 1, 2, 4, ... and N ranks, each with --batch sequences per "
      "step: the speed-up table. With --layouts it compares layouts of the N ranks (docs/layouts.md) on one global "
      "batch of N x --batch sequences, relative to the first layout. Exit code 3: below the goal.");
  app.add("--preset", options.preset, "named sizes, as in --model.preset (docs/models.md)").show_default();
  std::string bias;
  app.add("--bias", bias, "biases of all layers, True or False (default: the preset's; bench.py's is False)")
      .one_of({"True", "true", "False", "false"});
  app.add("--batch", options.batch, "sequences per step and rank").in_range(1, 1 << 20).show_default();
  app.add("--seq", options.sequence, "tokens per sequence").in_range(1, 1 << 20).show_default();
  app.choice("--dtype", options.dtype, "weights and activations", {DType::f32, DType::bf16});
  add_device(app, options.device);
  app.add("--steps", options.steps, "timed steps; the median counts").positive().show_default();
  app.add("--warmup", options.warmup, "untimed steps before them, on one rank").not_negative().show_default();
  app.add("--threads", threads, "compute threads per rank (0: its share of the physical cores)")
      .in_range(0, 1024)
      .show_default();
  std::string recompute = "none";
  app.add("--recompute", recompute, "what the backward pass recomputes, as in model.recompute; without a value: full")
      .optional_value("full", "[none|attention|full]=none");
  app.add("--layouts", options.layouts,
          "several ranks: layouts to compare, data x tensor x pipeline: 4x1x1,2x2x1,1x2x2; append c2 for two chunks "
          "per stage, s for sequence parallelism: 1x2x2c2s; all: every layout without c and s that the model supports");
  app.add("--micro", options.micro,
          "with --layouts: maximum sequences per micro-batch (0: all of a data rank; with a pipeline, four "
          "micro-batches per stage)")
      .in_range(0, 1 << 20)
      .show_default();
  app.choice("--shard", options.shard, "with --layouts: optim.shard");
  app.add("--data", options.tokens, "token file to train on (default: random tokens)");
  app.add_switch("--synthetic", synthetic,
                 "use random tokens, as metaseq's --benchmark does (the default without --data)");
  app.add("--peak-tflops", peak_tflops,
          "peak of one rank for the MFU (0: rate of a large matrix product, measured here)")
      .show_default();
  std::string peer;
  app.add("--peer", peer,
          "pytorch: measure the same step with PyTorch, alternating with ours (scripts/bootstrap --peers installs it)")
      .one_of({"pytorch"});
  app.add_switch("--apart", options.apart,
                 "with --peer: neither program holds memory while the other one is measured: two rounds, each of half "
                 "of the steps of one, then of the other (default: only if the memory is too small for both)");
  app.add("--python", options.python, "Python interpreter with the peer installed").show_default();
  app.add("--peer-script", options.peer_script, "script that runs the peer").show_default();
  app.add_switch("--cudnn", options.cudnn, "attention by cuDNN where it can compute it, as run.cudnn; needs a GPU");
  app.add("--goal", goal,
          "tokens per second that all ranks have to reach, otherwise the likely cause and exit code 3 (default: the "
          "goal "
          "that docs/gpu.md lists for preset and card in bf16)")
      .positive();
  app.add("--json", json, "also write the result to this file").output_file();
  if (const auto code = app.parse()) return *code;
  require(!synthetic || options.tokens.empty(), ErrorKind::usage,
          "--synthetic means random tokens, but --data {} names a file; remove one of them", options.tokens);
  require(peak_tflops >= 0, ErrorKind::usage, "--peak-tflops is {}, expected 0 (measure it) or more", peak_tflops);
  require(!options.layouts.empty() || (options.micro == 0 && options.shard == ShardChoice::none), ErrorKind::usage,
          "--micro and --shard need --layouts; add the layouts, or `--layouts all`");
  require(!options.apart || !peer.empty(), ErrorKind::usage, "--apart needs --peer; add `--peer pytorch`");
  if (!bias.empty()) options.bias = bias == "True" || bias == "true";
  options.recompute = recompute_of(recompute);
  options.pytorch = peer == "pytorch";
  options.peak_flops = 1e12 * peak_tflops;
  Process process;
  return process.run([&] { return measure_step(process, options, threads, json, goal); });
}

}  // namespace trireme
