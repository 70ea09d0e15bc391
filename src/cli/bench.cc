#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "bench/generate.h"
#include "bench/ops.h"
#include "bench/step.h"
#include "cli/bench_comm.h"
#include "cli/bench_glue.h"
#include "cli/bench_tokenize.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/threads.h"
#include "cli/version.h"
#include "comm/launcher.h"
#include "comm/process.h"
#include "ops/backend.h"
#include "train/cores.h"

namespace trireme {
namespace {

void print_peer(const PeerStep& peer, const StepBenchResult& ours) {
  const std::string name = "PyTorch " + peer.mode;
  if (!peer.skipped.empty()) {
    fmt::print("{:<18} not measured: {}\n", name, peer.skipped);
    return;
  }
  fmt::print("{:<18} {:.3f} s (fastest {:.3f}, slowest {:.3f}), ours between {:.3f} s: ours is {:.2f}x as fast\n", name,
             peer.times.median, peer.times.fastest, peer.times.slowest, peer.our_seconds, peer.ratio());
  fmt::print("{:<18} {:.2f} GB peak memory, ours is {:.2f} of it\n", "", static_cast<double>(peer.peak_rss) / 1e9,
             static_cast<double>(ours.peak_rss) / static_cast<double>(peer.peak_rss));
}

double tokens_per_second(const StepBenchOptions& o, const RanksTime& time) {
  return static_cast<double>(o.batch * o.sequence * time.ranks) / time.seconds;
}

void print_ranks(const StepBenchOptions& o, const StepBenchResult& r) {
  fmt::print("ranks  tokens/s  s per step  speed-up  efficiency  waiting  GFLOP/s of the model\n");
  for (const RanksTime& n : r.ranks)
    fmt::print("{:>5} {:>9.1f} {:>11.3f} {:>8.2f}x {:>10.0f}% {:>7.1f}% {:>9.1f}\n", n.ranks, tokens_per_second(o, n),
               n.seconds, n.speed_up, 1e2 * n.speed_up / n.ranks, 1e2 * n.waiting,
               1e-9 * r.model_flops * n.ranks / n.seconds);
}

void print_step(const StepBenchOptions& o, const Backend& backend, int threads, const StepBenchResult& r) {
  fmt::print("{} (commit {})\n", backend.hardware, commit_text());
  fmt::print("{} {}, batch {} x {}{}, {} threads{}, kernels {}\n\n", o.preset, name_of(o.dtype), o.batch, o.sequence,
             r.ranks.empty() ? "" : " per rank", threads, r.ranks.empty() ? "" : " per rank", backend.kernels);
  if (!r.ranks.empty()) return print_ranks(o, r);
  fmt::print("step               {:.3f} s (median of {}; fastest {:.3f}, slowest {:.3f})\n", r.times.median, o.steps,
             r.times.fastest, r.times.slowest);
  fmt::print("tokens             {:.1f} per second\n", r.tokens_per_second);
  fmt::print(
      "model FLOPs        {:.1f} MFLOP per token = 6 x matmul parameters (head at logical vocabulary) + 6 x layers x "
      "width x sequence\n",
      r.model_flops / static_cast<double>(o.batch * o.sequence) / 1e6);
  fmt::print("model FLOP rate    {:.1f} GFLOP/s\n", r.model_flops / r.times.median / 1e9);
  fmt::print("GEMM ceiling       {:.1f} GFLOP/s (this step's forward, dX and dW GEMMs alone, same run)\n",
             r.ceiling_flops_per_second / 1e9);
  fmt::print("share              {:.3f} (model FLOP rate / GEMM ceiling)\n", r.share);
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
          {"peak_rss_bytes", peer.peak_rss}};
}

Json to_json(const StepBenchOptions& o, const Backend& backend, int threads, const StepBenchResult& r) {
  Json json{{"preset", o.preset},     {"dtype", name_of(o.dtype)}, {"recompute", o.recompute},
            {"batch", o.batch},       {"seq", o.sequence},         {"steps", o.steps},
            {"threads", threads},     {"cpu", backend.hardware},   {"kernels", backend.kernels},
            {"commit", commit_text()}};
  for (const RanksTime& n : r.ranks)
    json["ranks"][std::to_string(n.ranks)] = {{"tokens_per_s", tokens_per_second(o, n)},
                                              {"ms_per_step", 1e3 * n.seconds},
                                              {"speed_up", n.speed_up},
                                              {"waiting", n.waiting},
                                              {"model_flops_per_s", r.model_flops * n.ranks / n.seconds}};
  if (!r.ranks.empty()) return json;
  json["tokens_per_s"] = r.tokens_per_second;
  json["ms_per_step"] = 1e3 * r.times.median;
  json["ms_fastest"] = 1e3 * r.times.fastest;
  json["ms_slowest"] = 1e3 * r.times.slowest;
  json["model_flops_per_s"] = r.model_flops / r.times.median;
  json["ceiling_flops_per_s"] = r.ceiling_flops_per_second;
  json["share"] = r.share;
  json["peak_rss_bytes"] = r.peak_rss;
  if (!r.peers.empty()) {
    json["peer"] = {{"ratio", r.peer_ratio()}, {"rss_ratio", r.peer_rss_ratio()}};
    for (const PeerStep& peer : r.peers) json["peer"][peer.mode] = to_json(peer);
  }
  return json;
}

int measure_step(Process& process, const StepBenchOptions& options, int64_t threads, const std::string& json) {
  Scalars scalars(process.world());
  Config config;
  config.launch.threads = threads;
  const CorePlan cores = take_cores(config, process, scalars);
  Backend backend = make_backend();
  const RankContext rank = rank_context(process, cores.threads, [] { return false; });
  const StepBenchResult result = bench_step(options, backend, rank, cores.progress_cpus);
  if (rank.rank() != 0) return 0;
  print_step(options, backend, cores.threads, result);
  if (!json.empty()) write_text(json, to_json(options, backend, cores.threads, result).dump(1) + "\n");
  return 0;
}

int bench_step_command(std::vector<std::string> arguments) {
  StepBenchOptions options;
  std::string dtype = "f32", json;
  int64_t threads = 0;
  Flags app("trireme bench step",
            "Measures a whole training step: forward, backward, clip and AdamW, beside the rate of its own GEMMs.");
  app.set_footer(
      "Under `mpirun -n N` or `trireme launch` it compares 1, 2, 4, ... and N ranks, each with --batch sequences per "
      "step: the speed-up table.");
  app.add("--preset", options.preset, "named sizes, as --model.preset takes them (docs/models.md)").show_default();
  app.add("--batch", options.batch, "sequences per step and rank").in_range(1, 1 << 20).show_default();
  app.add("--seq", options.sequence, "tokens per sequence").in_range(1, 1 << 20).show_default();
  app.add("--dtype", dtype, "weights and activations").one_of({"f32", "bf16"}).show_default();
  app.add("--steps", options.steps, "timed steps; the median counts").positive().show_default();
  app.add("--warmup", options.warmup, "steps before them, on one rank").not_negative().show_default();
  app.add("--threads", threads, "compute threads per rank (0: its share of the physical cores)")
      .in_range(0, 1024)
      .show_default();
  app.add_switch("--recompute", options.recompute, "keep only block inputs for backward: less memory, more time");
  app.add("--data", options.tokens, "token file to train on (default: random tokens)");
  std::string peer;
  app.add("--peer", peer,
          "pytorch: measure the same step there, in turn with ours (scripts/bootstrap --peers installs it)")
      .one_of({"pytorch"});
  app.add("--python", options.python, "interpreter that has the peer").show_default();
  app.add("--peer-script", options.peer_script, "what runs it").show_default();
  app.add("--json", json, "also write the result to this file");
  if (const auto code = app.parse(std::move(arguments))) return *code;
  options.pytorch = peer == "pytorch";
  options.dtype = dtype == "bf16" ? DType::bf16 : DType::f32;
  Process process;
  return process.run([&] { return measure_step(process, options, threads, json); });
}

int bench_ops_command(std::vector<std::string> arguments) {
  OpsBenchOptions options;
  std::string dtype = "f32";
  int64_t threads = 0;
  Flags app("trireme bench ops",
            "Measures every operator on the shapes of one GPT-2 layer against its ceiling in the same run.");
  app.add("--dtype", dtype, "weights and activations").one_of({"f32", "bf16"}).show_default();
  app.add("--batch", options.sequences, "sequences").in_range(1, 1 << 20).show_default();
  app.add("--seq", options.length, "tokens per sequence").in_range(1, 1 << 20).show_default();
  app.add("--width", options.width, "width of the layer").in_range(1, 1 << 20).show_default();
  app.add("--heads", options.heads, "attention heads").in_range(1, 1 << 20).show_default();
  app.add("--threads", threads, "compute threads (0: all physical cores)").in_range(0, 1024).show_default();
  if (const auto code = app.parse(std::move(arguments))) return *code;
  require(options.width % options.heads == 0, ErrorKind::usage, "--heads {} does not divide --width {}", options.heads,
          options.width);
  options.dtype = dtype == "bf16" ? DType::bf16 : DType::f32;
  options.threads = compute_threads(threads);
  const Backend backend = make_backend();
  fmt::print("{} (commit {}), {} threads, kernels {}\n{}", backend.hardware, commit_text(), options.threads,
             backend.kernels, to_text(bench_ops(*backend.ops, options)));
  return 0;
}

int bench_generate_command(std::vector<std::string> arguments) {
  GenerateBenchOptions options;
  std::string dtype = "f32", json;
  int64_t threads = 0;
  Flags app("trireme bench generate",
            "Measures generation of one sequence against the memory bandwidth: every weight is read once per token.");
  app.add("--preset", options.preset, "gpt2-124m, gpt2-355m, gpt2-774m or gpt2-1558m").show_default();
  app.add("--dtype", dtype, "weights and activations").one_of({"f32", "bf16"}).show_default();
  app.add("--prompt", options.prompt, "tokens of the prompt").in_range(1, 1 << 20).show_default();
  app.add("--tokens", options.tokens, "tokens to generate").in_range(3, 1 << 20).show_default();
  app.add("--threads", threads, "compute threads (0: all physical cores)").in_range(0, 1024).show_default();
  app.add("--json", json, "also write the result to this file");
  if (const auto code = app.parse(std::move(arguments))) return *code;
  options.dtype = dtype == "bf16" ? DType::bf16 : DType::f32;
  options.threads = compute_threads(threads);
  const Backend backend = make_backend();
  const GenerateBenchResult r = bench_generate(options, *backend.ops);
  fmt::print("{} (commit {})\n{} {}, {} threads, kernels {}\n\n", backend.hardware, commit_text(), options.preset,
             dtype, options.threads, backend.kernels);
  fmt::print("token              {:.2f} ms (median of {}), {:.1f} per second\n", 1e3 * r.seconds_per_token,
             options.tokens, 1 / r.seconds_per_token);
  fmt::print("weights            {:.2f} GB, read once in {:.2f} ms (median, between the tokens): {:.1f} GB/s\n",
             r.weight_bytes / 1e9, 1e3 * r.seconds_per_read, r.weight_bytes / r.seconds_per_read / 1e9);
  fmt::print("share              {:.3f} (time of that read / time of a token)\n", r.share());
  if (!json.empty()) {
    write_text(json, Json{{"preset", options.preset},
                          {"dtype", dtype},
                          {"threads", options.threads},
                          {"tokens_per_s", 1 / r.seconds_per_token},
                          {"ms_per_token", 1e3 * r.seconds_per_token},
                          {"weight_bytes", r.weight_bytes},
                          {"read_bytes_per_s", r.weight_bytes / r.seconds_per_read},
                          {"share", r.share()},
                          {"cpu", backend.hardware},
                          {"kernels", backend.kernels},
                          {"commit", commit_text()}}
                             .dump(1) +
                         "\n");
  }
  return 0;
}

struct Bench {
  Command command;
  bool of_one_process;  ///< ranks would each measure alone, while the others disturb them
};

constexpr Bench kBenches[] = {
    {{"step", "a whole training step of a model preset", bench_step_command}, false},
    {{"glue", "fine-tuning steps on real rows", bench_glue_command}, false},
    {{"ops", "every operator of a layer", bench_ops_command}, true},
    {{"generate", "tokens of one sequence against the memory bandwidth", bench_generate_command}, true},
    {{"comm", "collectives over the ranks of a job", bench_comm_command}, false},
    {{"tokenize", "encoding text, or training a vocabulary", bench_tokenize_command}, true},
};

/// Whether a starter made this process one of several. Throws Error::mismatch on rank 0, which says it for all.
bool is_refused_rank(const Bench& bench) {
  const Launcher launcher = detect_launcher();
  if (!bench.of_one_process || launcher.kind == Launcher::Kind::none || launcher.size == 1) return false;
  if (launcher.size == 0 && launcher.rank <= 0) return false;  // a starter that does not tell; rank 1 of it refuses
  require(launcher.rank > 0 && launcher.size > 0, ErrorKind::mismatch,
          "{} processes started by {} ({}) would each measure alone and disturb each other: `bench {}` measures one "
          "process; start it without {}, or measure ranks together with `bench step`, `bench comm` or `bench glue`",
          launcher.size > 0 ? std::to_string(launcher.size) : "several", launcher.name, launcher.variable,
          bench.command.name, launcher.name);
  return true;
}

void print_benches(std::FILE* out) {
  fmt::print(out, "usage: trireme bench WHAT [flags]\n\n");
  for (const Bench& bench : kBenches) fmt::print(out, "  {:<10} {}\n", bench.command.name, bench.command.help);
}

}  // namespace

int run_bench(std::vector<std::string> arguments) {
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    print_benches(stdout);
    return 0;
  }
  if (arguments.empty()) {
    print_benches(stderr);
    return exit_code(ErrorKind::usage);
  }
  for (const Bench& bench : kBenches) {
    if (arguments[0] != bench.command.name) continue;
    if (is_refused_rank(bench)) return exit_code(ErrorKind::mismatch);
    return bench.command.run({arguments.begin() + 1, arguments.end()});
  }
  fail(ErrorKind::usage, "no benchmark \"{}\"; `trireme bench --help` lists them", arguments[0]);
}

}  // namespace trireme
