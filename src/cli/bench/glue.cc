#include "cli/bench/benchmarks.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "bench/glue.h"
#include "bench/ranks.h"
#include "cli/flags.h"
#include "cli/version.h"
#include "comm/process.h"
#include "ops/backend.h"
#include "train/start/ranks.h"

namespace trireme {
namespace {

struct Request {
  GlueBenchOptions options;
  DeviceChoice device = DeviceChoice::automatic;
  int64_t threads = 0;
  std::string json;
};

double rows_per_second(const GlueBenchOptions& options, const RanksTime& time) {
  return static_cast<double>(options.batch * time.ranks) / time.seconds;
}

Json to_json(const Request& request, const Backend& backend, int threads, const GlueBenchResult& r) {
  const GlueBenchOptions& o = request.options;
  Json json{{"model", o.model},          {"task", o.task},
            {"dtype", name_of(o.dtype)}, {"batch", o.batch},
            {"padded", o.pad},           {"steps", o.steps},
            {"threads", threads},        {"tokens_per_sample", r.tokens_per_row},
            {"cpu", backend.hardware},   {"kernels", backend.kernels},
            {"commit", commit_text()}};
  for (const RanksTime& n : r.ranks)
    json["ranks"][std::to_string(n.ranks)] = {{"samples_per_s", rows_per_second(o, n)},
                                              {"ms_per_step", 1e3 * n.seconds},
                                              {"speed_up", n.speed_up},
                                              {"waiting", n.waiting}};
  if (!r.ranks.empty()) return json;
  json["samples_per_s"] = r.rows_per_second;
  json["ms_per_step"] = 1e3 * r.median;
  json["ms_fastest"] = 1e3 * r.fastest;
  json["ms_slowest"] = 1e3 * r.slowest;
  json["model_flops_per_s"] = r.model_flops_per_second;
  if (!backend.device) {
    json["ceiling_flops_per_s"] = r.ceiling.flops_per_second;
    json["plain_ceiling_flops_per_s"] = r.ceiling.plain_flops_per_second;
    json["share"] = r.share;
  }
  json["losses"] = r.losses;
  for (const GluePeer& peer : r.peers)
    json["pytorch"][peer.padding] = {{"samples_per_s", peer.rows_per_second}, {"ratio", r.ratio(peer)}};
  return json;
}

void print_alone(const GlueBenchResult& r) {
  fmt::print("{:<24} {:>10.2f} rows/s   {:.3f} s per step (fastest {:.3f}, slowest {:.3f})\n", "ours",
             r.rows_per_second, r.median, r.fastest, r.slowest);
  fmt::print("{:<24} {:>10.1f} GFLOP/s  model FLOPs of the rows' own tokens\n", "", 1e-9 * r.model_flops_per_second);
  if (r.ceiling.flops_per_second > 0) {  // of a CPU
    fmt::print("{:<24} {:>10.1f} GFLOP/s  only the step's GEMMs: ours reaches {:.3f} of it\n", "GEMM ceiling",
               1e-9 * r.ceiling.flops_per_second, r.share);
    fmt::print("{:<24} {:>10.1f} GFLOP/s  the same without packed operands\n", "plain ceiling",
               1e-9 * r.ceiling.plain_flops_per_second);
  }
  fmt::print("{:<24} {:>10.4f} in the last step\n", "loss", r.losses.back());
  for (const GluePeer& p : r.peers)
    fmt::print("{:<24} {:>10.2f} rows/s   ours is {:.2f}x as fast\n", "PyTorch, " + p.padding + " padding",
               p.rows_per_second, r.ratio(p));
}

void print_ranks(const GlueBenchOptions& o, const GlueBenchResult& r) {
  fmt::print("ranks   rows/s   s per step   speed-up   efficiency   waiting\n");
  for (const RanksTime& n : r.ranks)
    fmt::print("{:>5} {:>8.2f} {:>12.3f} {:>9.2f}x {:>11.0f}% {:>8.1f}%\n", n.ranks, rows_per_second(o, n), n.seconds,
               n.speed_up, 1e2 * n.speed_up / n.ranks, 1e2 * n.waiting);
}

int measure(Process& process, const Request& request) {
  const GlueBenchOptions& o = request.options;
  Scalars scalars(process.world());
  const CorePlan cores = take_cores(request.threads, process, scalars);
  const RankContext rank = rank_context(process, cores.threads, [] { return false; });
  const Backend backend = backend_of_ranks(request.device, "--device", rank, scalars);
  const GlueBenchResult r = bench_glue(o, *backend.ops, rank, cores.exchange_cores);
  if (process.rank() != 0) return 0;
  fmt::print("{} (commit {})\n{} {}, batch {} per rank, {:.1f} tokens per row, {}, {}, kernels {}\n\n",
             backend.hardware, commit_text(), o.task, name_of(o.dtype), o.batch, r.tokens_per_row,
             o.pad ? "padded" : "packed", count_text(cores.threads, "thread per rank"), backend.kernels);
  r.ranks.empty() ? print_alone(r) : print_ranks(o, r);
  if (!request.json.empty()) write_text(request.json, dump_json(to_json(request, backend, cores.threads, r), 1) + "\n");
  return 0;
}

}  // namespace

int bench_glue_command(CommandLine line) {
  Request request;
  GlueBenchOptions& options = request.options;
  std::string peer;
  Flags app(std::move(line), "trireme bench glue",
            "Measures fine-tuning steps on real rows: forward, backward, clip and AdamW.");
  app.set_footer(
      "Under `mpirun -n N` it compares 1, 2, 4, ... and N ranks, each with --batch rows per step: the speed-up table.");
  app.add("--model", options.model,
          "Hugging Face folder, or the name of a model on the hub: gives sizes and tokenizer; its weights are not read")
      .required();
  app.add("--data-dir", options.data_dir, "folder of the GLUE files (default: fetched from the hub if missing)");
  app.add("--task", options.task, "GLUE task").show_default();
  app.add("--batch", options.batch, "rows per step and rank").in_range(1, 1 << 20).show_default();
  app.add("--max-seq-length", options.max_length, "maximum ids per row").in_range(1, 1 << 20).show_default();
  app.choice("--dtype", options.dtype, "weights and activations; the peer's autocast", {DType::f32, DType::bf16});
  add_device(app, request.device);
  app.add("--steps", options.steps, "timed steps; the median counts").positive().show_default();
  app.add("--threads", request.threads, "compute threads per rank (0: its share of the physical cores)")
      .in_range(0, 1024)
      .show_default();
  app.add_switch("--pad", options.pad, "pad every row to --max-seq-length");
  app.add("--peer", peer,
          "pytorch: measure the same steps with PyTorch, alternating with ours (scripts/bootstrap --peers installs it)")
      .one_of({"pytorch"});
  app.add("--python", options.python, "Python interpreter with the peer installed").show_default();
  app.add("--peer-script", options.peer_script, "script that runs the peer").show_default();
  app.add("--json", request.json, "also write the result to this file").output_file();
  if (const auto code = app.parse()) return *code;
  options.pytorch = peer == "pytorch";
  Process process;
  return process.run([&] { return measure(process, request); });
}

}  // namespace trireme
