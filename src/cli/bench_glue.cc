#include "cli/bench_glue.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "cli/flags.h"
#include "cli/threads.h"
#include "cli/version.h"
#include "ops/cpu/isa.h"
#include "train/glue/bench.h"

namespace trireme {
namespace {

Json to_json(const GlueBenchOptions& o, const GlueBenchResult& r) {
  Json json{{"model", o.model},
            {"task", o.task},
            {"batch", o.batch},
            {"padded", o.pad},
            {"steps", o.steps},
            {"threads", o.threads},
            {"samples_per_s", r.rows_per_second},
            {"tokens_per_sample", r.tokens_per_row},
            {"ms_per_step", 1e3 * r.median},
            {"ms_fastest", 1e3 * r.fastest},
            {"ms_slowest", 1e3 * r.slowest},
            {"cpu", cpu_brand_text()},
            {"commit", commit_text()}};
  for (const GluePeer& peer : r.peers)
    json["pytorch"][peer.padding] = {{"samples_per_s", peer.rows_per_second}, {"ratio", peer.ratio}};
  return json;
}

}  // namespace

int bench_glue_command(std::vector<std::string> arguments) {
  GlueBenchOptions options;
  std::string peer, json;
  int64_t threads = 0;
  Flags app("trireme bench glue", "Measures fine-tuning steps on real rows: forward, backward, clip and AdamW.");
  app.add("--model", options.model, "Hugging Face folder: sizes and tokenizer; its weights are not read").required();
  app.add("--data-dir", options.data_dir, "folder of the GLUE files").required();
  app.add("--task", options.task, "task of GLUE").show_default();
  app.add("--batch", options.batch, "rows per step").positive().show_default();
  app.add("--max-seq-length", options.max_length, "ids of a row at most").positive().show_default();
  app.add("--steps", options.steps, "timed steps; the median counts").positive().show_default();
  app.add("--threads", threads, "compute threads (0: all physical cores)").not_negative().show_default();
  app.add_switch("--pad", options.pad, "pad every row to --max-seq-length");
  app.add("--peer", peer, "pytorch: the same steps there, in turn with ours (scripts/bootstrap --peers installs it)")
      .one_of({"pytorch"});
  app.add("--python", options.python, "interpreter that has the peer").show_default();
  app.add("--peer-script", options.peer_script, "what runs it").show_default();
  app.add("--json", json, "also write the result to this file");
  if (const auto code = app.parse(std::move(arguments))) return *code;
  options.pytorch = peer == "pytorch";
  options.threads = compute_threads(threads);
  const GlueBenchResult r = bench_glue(options);
  fmt::print("{} (commit {})\n{}, batch {}, {:.1f} tokens per row, {}, {} threads\n\n", cpu_brand_text(), commit_text(),
             options.task, options.batch, r.tokens_per_row, options.pad ? "padded" : "packed", options.threads);
  fmt::print("{:<24} {:>10.2f} rows/s   {:.3f} s per step (fastest {:.3f}, slowest {:.3f})\n", "ours",
             r.rows_per_second, r.median, r.fastest, r.slowest);
  for (const GluePeer& p : r.peers)
    fmt::print("{:<24} {:>10.2f} rows/s   ours is {:.2f}x as fast\n", "PyTorch, " + p.padding + " padding",
               p.rows_per_second, p.ratio);
  if (!json.empty()) write_text(json, to_json(options, r).dump(1) + "\n");
  return 0;
}

}  // namespace trireme
