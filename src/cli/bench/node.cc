#include "cli/bench/benchmarks.h"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/json_text.h"
#include "bench/node.h"
#include "cli/flags.h"
#include "cli/threads.h"
#include "cli/version.h"

namespace trireme {
namespace {

Json to_json(const Backend& backend, const NodeBenchResult& r) {
  Json json{{"host", host_name()},
            {"cpu", backend.hardware},
            {"instruction_set", backend.kernels},
            {"multiplies_bf16", backend.multiplies_bf16},
            {"cores", r.cores},
            {"sockets", r.sockets},
            {"threads", r.threads},
            {"memory_bytes", r.memory_bytes},
            {"processors_taken", r.taken},
            {"copy_bytes_per_s", r.copy_bytes_per_second},
            {"triad_bytes_per_s", r.triad_bytes_per_second},
            {"disk_write_bytes_per_s", r.disk_write_bytes_per_second},
            {"disk_read_bytes_per_s", r.disk_read_bytes_per_second},
            {"commit", commit_text()}};
  for (const NodeGemm& gemm : r.gemms)
    json["gemms"].push_back({{"kind", name_of(gemm.shape.kind)},
                             {"dtype", name_of(gemm.shape.dtype)},
                             {"rows", gemm.shape.rows},
                             {"in", gemm.shape.in},
                             {"out", gemm.shape.out},
                             {"seconds", gemm.seconds},
                             {"flops_per_s", gemm.flops_per_second()}});
  return json;
}

}  // namespace

int bench_node_command(CommandLine command_line) {
  NodeBenchOptions options;
  int64_t threads = 0, disk_mb = options.disk_bytes >> 20;
  std::string json;
  std::optional<int64_t> width;
  Flags app(std::move(command_line), "trireme bench node",
            "Measures the rates of this node for planning: matrix products of a layer per size and type, memory and "
            "disk bandwidth, cores and instruction set.");
  app.add("--rows", options.rows, "tokens per product").in_range(1, 1 << 20).show_default();
  app.add("--width", width, "measure only the products of a layer of this width (default: widths 768 to 4096)")
      .in_range(1, 1 << 16);
  app.add("--threads", threads, "compute threads (0: all physical cores)").in_range(0, 1024).show_default();
  app.add("--disk", options.folder, "folder whose disk is measured").show_default();
  app.add("--disk-mb", disk_mb, "size of the test file there").in_range(4, 1 << 20).show_default();
  app.add("-J,--json", json, "also write the result to this file").output_file();
  if (const auto code = app.parse()) return *code;
  options.disk_bytes = disk_mb << 20;
  if (width) options.widths = {*width};
  options.threads = compute_threads(threads);
  const Backend backend = make_backend();
  const NodeBenchResult result = bench_node(options, *backend.ops, [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  });
  fmt::print("{} (commit {}), kernels {}\n{}", backend.hardware, commit_text(), backend.kernels, to_text(result));
  if (!json.empty()) write_text(json, dump_valid_json(to_json(backend, result), 1) + "\n");
  return 0;
}

}  // namespace trireme
