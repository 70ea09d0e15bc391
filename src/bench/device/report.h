#pragma once
// What the checks of a GPU found, as text and as JSON that a user can send.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/names.h"
#include "ops/gpu_node.h"

namespace trireme::device_check {

enum class Verdict : uint8_t { ok, failed, not_checked };

/// A number that a check measured.
struct Figure {
  std::string name;  ///< of JSON: "pinned_to_gpu_bytes_per_s", "worst_bf16"
  double value = 0;
};

struct Result {
  std::string check = {};  ///< "operators"
  Verdict verdict = Verdict::ok;
  /// What was found: of `ok` the figures, of `failed` what differs from what, of `not_checked` the reason.
  std::string text = {};
  std::vector<Figure> figures = {};
  double seconds = 0;
};

/// The results of one GPU.
struct GpuReport {
  int rank = 0;
  std::string host = {}, hardware = {}, place = {};  ///< place: of the GPU in its host
  std::vector<std::string> libraries = {};           ///< "cuBLASLt 130200", "NCCL 2.28.9"
  std::vector<Result> results = {};
};

/// What was checked, and with what.
struct Facts {
  std::string program = {}, date = {}, kernels = {};  ///< version and commit; UTC; the CPU's instruction set
  std::string cpu = {}, model = {};
  int64_t batch = 0, sequence = 0, steps = 0, threads = 0;
  bool quick = false;
  std::string only = {};  ///< the checks that were asked for; empty: all
};

struct Report {
  Facts facts;
  std::vector<GpuReport> gpus;  ///< by rank
  NodeGpus node = {};           ///< of the first rank's host
};

/// "operators    ok           ..."
std::string line_of(const Result& result);
/// The last line: "ok: 9 checks of 1 GPU; not checked: cudnn". Of several GPUs what failed names the rank. Without a
/// result: "not checked: cudnn".
std::string verdict_line(const Report& report);
bool has_failed(const Report& report);
/// Whether any check gave a result.
bool has_checked(const Report& report);
/// What to_text() shows before the results.
std::string head_of(const Report& report, const GpuReport& gpu);
std::string to_text(const Report& report);
Json to_json(const Report& report);

Json to_json(const GpuReport& gpu);
/// The inverse of to_json(): what ranks send to the first one.
GpuReport gpu_report_from_json(const Json& json);

}  // namespace trireme::device_check

template <>
struct trireme::Names<trireme::device_check::Verdict> {
  static constexpr Named<device_check::Verdict> kAll[] = {{"ok", device_check::Verdict::ok},
                                                          {"failed", device_check::Verdict::failed},
                                                          {"not checked", device_check::Verdict::not_checked}};
};
