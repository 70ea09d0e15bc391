#include "bench/sft.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "cli/bench/benchmarks.h"
#include "cli/flags.h"
#include "cli/version.h"
#include "comm/process.h"
#include "train/start/ranks.h"

namespace trireme {
namespace {

constexpr double kSameLoss = 1e-3;  ///< f32, over any number of steps that is reasonable here

std::string trained_text(const SftBenchOptions& o) {
  if (!o.lora.on()) return "all weights";
  return fmt::format("adapters of rank {} on {}", o.lora.rank,
                     o.lora.targets.empty() ? "the family's usual linears" : o.lora.targets);
}

void print_rate(const std::string& name, const SftRate& rate, const std::string& more) {
  fmt::print("{:<24} {:>8.1f} counted tokens/s {:>8.1f} tokens/s {:>6.1f} % padding {:>6.2f} GB{}\n", name,
             rate.counted_per_second(), rate.ids_per_second(), 1e2 * rate.padding(),
             static_cast<double>(rate.peak_rss) / 1e9, more);
}

void print_curve(const SftBenchOptions& o, const SftCurve& curve) {
  const double apart = curve.largest_difference();
  fmt::print(
      "\nlosses of {} in the same order: TRL {:.4f} to {:.4f}, ours {:.4f} to {:.4f}; they differ by at most "
      "{:.1e}{}\n",
      count_text(static_cast<int64_t>(curve.ours.size()), "step"), curve.theirs.front(), curve.theirs.back(),
      curve.ours.front(), curve.ours.back(), apart,
      o.dtype != DType::f32 ? " (in bf16, where both round)"
      : apart <= kSameLoss  ? ": the same training"
                            : ": more than f32 explains, so one of the two is wrong");
}

void print_sft(const SftBenchOptions& o, const Backend& backend, int threads, const SftBenchResult& r) {
  fmt::print("{} (commit {})\n{} {}, {}, {} rows of at most {} tokens per step, {}, kernels {}\n", backend.hardware,
             commit_text(), o.preset, name_of(o.dtype), trained_text(o), o.batch, o.sequence,
             count_text(threads, "thread"), backend.kernels);
  fmt::print(
      "{} of {:.0f} tokens on average, {:.0f} % count; packed by us, {:.1f} % of the rows' room is unused and "
      "not computed\n\n",
      count_text(o.conversations, "conversation"), r.mean_ids, 1e2 * r.counted_share, 1e2 * r.unused);
  print_rate("ours", r.ours, "");
  for (const SftPeer& peer : r.peers) {
    const std::string name = "TRL, " + peer.setting;
    if (!peer.skipped.empty()) {
      fmt::print("{:<24} not measured: {}\n", name, peer.skipped);
      continue;
    }
    print_rate(name, peer.theirs,
               fmt::format("; ours before it {:.1f}: {:.2f}x as fast", peer.ours.counted_per_second(), peer.ratio()));
  }
  if (r.curve) print_curve(o, *r.curve);
}

Json to_json(const SftRate& rate) {
  return {{"counted_per_s", rate.counted_per_second()},
          {"tokens_per_s", rate.ids_per_second()},
          {"seconds", rate.seconds},
          {"padding", rate.padding()},
          {"peak_rss_bytes", rate.peak_rss}};
}

Json to_json(const SftBenchOptions& o, const Backend& backend, int threads, const SftBenchResult& r) {
  Json json{{"preset", o.preset},
            {"dtype", name_of(o.dtype)},
            {"lora_rank", o.lora.rank},
            {"conversations", o.conversations},
            {"tokens_per_conversation", r.mean_ids},
            {"counted_share", r.counted_share},
            {"unused", r.unused},
            {"batch", o.batch},
            {"seq", o.sequence},
            {"steps", o.steps},
            {"threads", threads},
            {"cpu", backend.hardware},
            {"kernels", backend.kernels},
            {"commit", commit_text()},
            {"ours", to_json(r.ours)}};
  if (!r.peers.empty()) json["peer"]["ratio"] = r.peer_ratio();
  for (const SftPeer& peer : r.peers) {
    Json& of = json["peer"][peer.setting];
    if (peer.skipped.empty()) {
      of = to_json(peer.theirs);
      of["our_counted_per_s"] = peer.ours.counted_per_second();
      of["ratio"] = peer.ratio();
    } else {
      of = {{"skipped", peer.skipped}};
    }
  }
  if (r.curve)
    json["curve"] = {
        {"ours", r.curve->ours}, {"theirs", r.curve->theirs}, {"largest_difference", r.curve->largest_difference()}};
  return json;
}

int measure(Process& process, const SftBenchOptions& options, int64_t threads, const std::string& json) {
  Scalars scalars(process.world());
  const CorePlan cores = take_cores(threads, process, scalars);
  Backend backend = make_backend();
  const RankContext rank = rank_context(process, cores.threads, [] { return false; });
  const SftBenchResult result = bench_sft(options, backend, rank, cores.exchange_cores);
  print_sft(options, backend, cores.threads, result);
  if (!json.empty()) write_text(json, dump_valid_json(to_json(options, backend, cores.threads, result), 1) + "\n");
  return 0;
}

}  // namespace

int bench_sft_command(CommandLine line) {
  SftBenchOptions options;
  std::string json, peer;
  int64_t threads = 0;
  Flags app(std::move(line), "trireme bench sft",
            "Measures fine-tuning steps on conversations, of all weights or of adapters, and TRL's if asked for.");
  app.set_footer(
      "The conversations are made up: lengths as in chat data, ids at random. The rate is that of the tokens that "
      "count in the loss. Ours and TRL's steps alternate in rounds, from the same weights; neither is in memory while "
      "the other one is measured. TRL's packing: rows like ours; grouping: conversations of similar length, padded; "
      "compiled: with torch_compile.");
  app.add("--preset", options.preset, "named sizes, as in --model.preset (docs/models.md)").show_default();
  app.add("--conversations", options.conversations, "how many are made up").in_range(1, 1 << 20).show_default();
  app.add("--batch", options.batch, "rows per step").in_range(1, 1 << 20).show_default();
  app.add("--seq", options.sequence, "most tokens of a row").in_range(8, 1 << 20).show_default();
  app.choice("--dtype", options.dtype, "weights and activations; TRL's autocast", {DType::f32, DType::bf16});
  app.add("--lora-rank", options.lora.rank, "train adapters of this rank (0: all weights)")
      .in_range(0, 1 << 16)
      .show_default();
  app.add("--lora-targets", options.lora.targets, "with --lora-rank: as lora.targets, for example all-linear");
  app.add("--steps", options.steps, "timed steps of each side").positive().show_default();
  app.add("--threads", threads, "compute threads (0: all physical cores)").in_range(0, 1024).show_default();
  app.add("--peer", peer,
          "trl: measure the same with TRL and PEFT, in turn with ours (scripts/bootstrap --peers installs them)")
      .one_of({"trl"});
  app.add("--peer-settings", options.settings, "with --peer: which settings of TRL are measured").show_default();
  app.add("--curve", options.curve,
          "with --peer: also compare the losses of this number of steps, of --batch conversations each, in one order")
      .not_negative()
      .show_default();
  app.add("--python", options.python, "Python interpreter with the peer installed").show_default();
  app.add("--peer-script", options.peer_script, "script that runs the peer").show_default();
  app.add("--json", json, "also write the result to this file").output_file();
  if (const auto code = app.parse()) return *code;
  options.trl = peer == "trl";
  require(options.lora.rank > 0 || options.lora.targets.empty(), ErrorKind::usage,
          "--lora-targets {} needs --lora-rank, the rank of the adapters", options.lora.targets);
  require(options.trl || app.count("--peer-settings") == 0, ErrorKind::usage, "--peer-settings needs --peer trl");
  Process process;
  return process.run([&] { return measure(process, options, threads, json); });
}

}  // namespace trireme
