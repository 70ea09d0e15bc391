#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "bench/data_sheet.h"
#include "bench/generate.h"
#include "bench/ops.h"
#include "cli/bench/benchmarks.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/threads.h"
#include "cli/version.h"
#include "comm/launcher.h"
#include "ops/backend.h"

namespace trireme {
namespace {

int bench_ops_command(CommandLine line) {
  OpsBenchOptions options;
  DeviceChoice device = DeviceChoice::automatic;
  int64_t threads = 0;
  Flags app(std::move(line), "trireme bench ops",
            "Measures every operator on the shapes of one GPT-2 layer, relative to its ceiling in the same run.");
  app.choice("--dtype", options.dtype, "weights and activations", {DType::f32, DType::bf16});
  add_device(app, device);
  app.add("--batch", options.sequences, "sequences").in_range(1, 1 << 20).show_default();
  app.add("--seq", options.length, "tokens per sequence").in_range(1, 1 << 20).show_default();
  app.add("--width", options.width, "width of the layer").in_range(1, 1 << 20).show_default();
  app.add("--heads", options.heads, "attention heads").in_range(1, 1 << 20).show_default();
  app.add("--threads", threads, "compute threads (0: all physical cores)").in_range(0, 1024).show_default();
  app.add(
      "--only", options.only,
      "only operators whose names begin with one of these words: attention,gelu (copy and linear, the ceilings, always "
      "run)");
  app.add("--seconds", options.seconds, "time for each operator").positive().show_default();
  app.set_footer(
      "share: of copy's bandwidth or of the fastest linear layer, medians; best: the same for the fastest calls, "
      "useful on a busy machine. in cache: rate of the operator's arithmetic, measured on rows that stay in the caches "
      "of one thread, times the threads. bound by: memory, products or arithmetic, if the fastest call reaches 0.8 of "
      "it.");
  if (const auto code = app.parse()) return *code;
  require(options.width % options.heads == 0, ErrorKind::usage, "--heads {} does not divide --width {}", options.heads,
          options.width);
  options.threads = compute_threads(threads);
  const Backend backend = make_backend(device, "--device");
  const DataSheet sheet = backend.device ? data_sheet_of(backend.hardware) : DataSheet();
  fmt::print("{} (commit {}), {}, kernels {}\n{}", backend.hardware, commit_text(),
             count_text(options.threads, "thread"), backend.kernels,
             to_text(bench_ops(*backend.ops, options), options.dtype, sheet));
  return 0;
}

int bench_generate_command(CommandLine line) {
  GenerateBenchOptions options;
  DeviceChoice device = DeviceChoice::automatic;
  std::string json;
  int64_t threads = 0;
  Flags app(std::move(line), "trireme bench generate",
            "Measures generation of one sequence against the memory bandwidth: every weight is read once per token.");
  app.add("--preset", options.preset, "named sizes, as in --model.preset (docs/models.md)").show_default();
  app.choice("--dtype", options.dtype, "weights and activations", {DType::f32, DType::bf16});
  add_device(app, device);
  app.add("--prompt", options.prompt, "tokens of the prompt").in_range(1, 1 << 20).show_default();
  app.add("--tokens", options.tokens, "tokens to generate").in_range(3, 1 << 20).show_default();
  app.add("--threads", threads, "compute threads (0: all physical cores)").in_range(0, 1024).show_default();
  app.add("--json", json, "also write the result to this file").output_file();
  if (const auto code = app.parse()) return *code;
  options.threads = compute_threads(threads);
  const Backend backend = make_backend(device, "--device");
  const DataSheet sheet = backend.device ? data_sheet_of(backend.hardware) : DataSheet();
  const GenerateBenchResult r = bench_generate(options, *backend.ops);
  fmt::print("{} (commit {})\n{} {}, {}, kernels {}\n\n", backend.hardware, commit_text(), options.preset,
             name_of(options.dtype), count_text(options.threads, "thread"), backend.kernels);
  fmt::print("token              {:.2f} ms (median of {}), {:.1f} per second\n", 1e3 * r.seconds_per_token,
             options.tokens, 1 / r.seconds_per_token);
  const double rate = r.weight_bytes / r.seconds_per_token;
  if (backend.device)
    fmt::print("weights            {:.2f} GB, read once per token: {:.1f} GB/s\n{}\n", r.weight_bytes / 1e9, rate / 1e9,
               sheet.card.empty() ? "data sheet         none is known for this GPU"
                                  : fmt::format("data sheet         {:.1f}% of the {:.0f} GB/s of a {}",
                                                1e2 * rate / sheet.bytes, sheet.bytes / 1e9, sheet.card));
  else
    fmt::print("weights            {:.2f} GB, read once in {:.2f} ms (median, between the tokens): {:.1f} GB/s\n",
               r.weight_bytes / 1e9, 1e3 * r.seconds_per_read, r.weight_bytes / r.seconds_per_read / 1e9);
  if (!backend.device) fmt::print("share              {:.3f} (time of that read / time of a token)\n", r.share());
  if (!json.empty()) {
    Json figures{{"preset", options.preset},
                 {"dtype", name_of(options.dtype)},
                 {"threads", options.threads},
                 {"tokens_per_s", 1 / r.seconds_per_token},
                 {"ms_per_token", 1e3 * r.seconds_per_token},
                 {"weight_bytes", r.weight_bytes},
                 {"cpu", backend.hardware},
                 {"kernels", backend.kernels},
                 {"commit", commit_text()}};
    if (!backend.device) {
      figures["read_bytes_per_s"] = r.weight_bytes / r.seconds_per_read;
      figures["share"] = r.share();
    } else if (!sheet.card.empty()) {
      figures["data_sheet_share"] = rate / sheet.bytes;
    }
    write_text(json, dump_valid_json(figures, 1) + "\n");
  }
  return 0;
}

struct Bench {
  Command command;
  bool single_process;  ///< with several ranks, each would measure alone and be disturbed by the others
};

constexpr Bench kBenches[] = {
    {{"step", "a whole training step of a model preset", bench_step_command}, false},
    {{"glue", "fine-tuning steps on real rows", bench_glue_command}, false},
    {{"sft", "fine-tuning steps on conversations, of weights or adapters", bench_sft_command}, true},
    {{"ops", "every operator of a layer", bench_ops_command}, true},
    {{"node", "rates of this node for planning: products, memory, disk", bench_node_command}, true},
    {{"generate", "generation of one sequence, relative to the memory bandwidth", bench_generate_command}, true},
    {{"comm", "collectives over the ranks of a job", bench_comm_command}, false},
    {{"plan", "the planner's step times, compared with measured runs", bench_plan_command}, true},
    {{"tokenize", "encoding text, or training a vocabulary", bench_tokenize_command}, true},
};

/// Whether a launcher started this process as one of several. Throws Error::mismatch on rank 0, for all ranks.
bool is_refused_rank(const Bench& bench) {
  const Launcher launcher = detect_launcher();
  if (!bench.single_process || launcher.kind == Launcher::Kind::none || launcher.size == 1) return false;
  if (launcher.size == 0 && launcher.rank <= 0)
    return false;  // this launcher does not give the number of ranks; rank 1 will refuse
  require(launcher.rank > 0 && launcher.size > 0, ErrorKind::mismatch,
          "{} processes started by {} ({}) would measure separately and disturb each other: `bench {}` measures one "
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

int run_bench(CommandLine line) {
  Flags app(std::move(line), "trireme bench", "Measures this machine or, under mpirun, the ranks of a job.");
  for (const Bench& bench : kBenches) {
    app.add_command(bench.command.name, [&bench](CommandLine words) {
      if (!words.shape && is_refused_rank(bench)) return exit_after_report(ErrorKind::mismatch);
      return bench.command.run(std::move(words));
    });
  }
  const std::string word = app.words().empty() ? "" : app.words()[0];
  if (word == "--help" || word == "-h") {
    print_benches(stdout);
    return 0;
  }
  if (const auto code = app.answer()) return *code;
  if (word.empty()) {
    print_benches(stderr);
    return exit_code(ErrorKind::usage);
  }
  fail(ErrorKind::usage, "unknown benchmark \"{}\"; `trireme bench --help` lists them", word);
}

}  // namespace trireme
