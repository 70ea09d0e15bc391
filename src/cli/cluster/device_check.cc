// trireme device check: whether the GPU of each rank computes what the CPU computes, and a report that can be sent.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "bench/device/check.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/version.h"
#include "comm/process.h"
#include "train/start/ranks.h"

namespace trireme {
namespace {

/// "trireme-device-check-HOST-20261127-1432"
std::string default_name(const device_check::Report& report) {
  std::string digits;
  for (const char c : report.facts.date)
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) digits += c;
  return fmt::format("trireme-device-check-{}-{}-{}", report.gpus[0].host, digits.substr(0, 8), digits.substr(8));
}

int check(Process& process, const device_check::Options& options, int64_t threads, std::string name) {
  Scalars scalars(process.world());
  const CorePlan cores = take_cores(threads, process, scalars);
  const RankContext rank = rank_context(process, cores.threads, [] { return false; });
  const device_check::Report report =
      device_check::check_device(options, rank, program_text(), [](const std::string& text) {
        fmt::print("{}", text);
        std::fflush(stdout);
      });
  if (rank.rank() == 0) {
    for (size_t r = 1; r < report.gpus.size(); ++r) {  // the first one's were printed while they were made
      fmt::print("{}", head_of(report, report.gpus[r]));
      for (const device_check::Result& result : report.gpus[r].results) fmt::print("{}", line_of(result));
    }
    if (name.empty()) name = default_name(report);
    write_text(name + ".txt", to_text(report));
    write_text(name + ".json", dump_json(to_json(report), 1) + "\n");
    fmt::print("report       {0}.txt, {0}.json\nverdict      {1}\n", name, verdict_line(report));
  }
  return has_failed(report) || !has_checked(report) ? 1 : 0;
}

}  // namespace

int run_device_check(CommandLine line) {
  device_check::Options options;
  std::string name;
  int64_t threads = 0;
  Flags app(std::move(line), "trireme device check",
            "Checks in a few minutes whether a GPU computes what this node's CPU computes, and writes a report");
  app.add("--model", options.preset, "preset whose shapes are checked, as in --model.preset (docs/models.md)")
      .show_default();
  app.add("--batch", options.batch, "sequences").in_range(1, 1 << 20).show_default();
  app.add("--seq", options.sequence, "tokens of each").in_range(1, 1 << 20).show_default();
  app.add("--steps", options.steps, "training steps that are compared").in_range(2, 1 << 20).show_default();
  app.add_switch(
      "--quick", options.quick,
      "a tiny model and few steps: seconds, but the shapes of no real model (without --model, --batch, --seq, "
      "--steps)");
  app.add("--only", options.only, "only these checks: copies,bits").separated_by(',');
  app.add("--threads", threads, "compute threads of the CPU's side (0: this rank's share of the physical cores)")
      .in_range(0, 1024)
      .show_default();
  app.add("--report", name, "the report is NAME.txt and NAME.json (default: trireme-device-check-HOST-DATE-TIME)")
      .output_file();
  app.set_footer(
      "One process checks the first GPU; `mpirun -n 8 trireme device check` checks eight, one for each rank, and the "
      "links between them (NCCL). Checks:\n"
      "  copies     bytes that go to the GPU and back are the same, through pageable and pinned memory; rates\n"
      "  events     a stream that waits for another one sees its work; times of events are those of the host\n"
      "  products   matrix products (cuBLASLt) against the CPU's, f32 and bf16\n"
      "  operators  all other operators against the CPU's, f32 and bf16\n"
      "  bits       AdamW, norms of gradients, dropout's masks, casts, sums, hashes: the CPU's bits\n"
      "  cudnn      attention by cuDNN against this program's kernels and the CPU's\n"
      "  training   losses of training steps, f32 and bf16, against the CPU's\n"
      "  resume     snapshots that go from the GPU to the CPU and back\n"
      "  links      NCCL: right sums, and the rate of the links\n"
      "A check is `ok`, `failed`, or `not checked` with the reason. The last line is the verdict.\n"
      "Exit codes: 0: nothing failed; 1: a check failed, or none could run; 2: wrong flags, or no GPU can be used.");
  if (const auto code = app.parse()) return *code;
  for (const char* flag : {"--model", "--batch", "--seq", "--steps"})
    require(!options.quick || app.count(flag) == 0, ErrorKind::usage, "--quick has its own sizes; remove it or {}",
            flag);
  device_check::validate(options);
  Process process;
  return process.run([&] { return check(process, options, threads, name); });
}

}  // namespace trireme
