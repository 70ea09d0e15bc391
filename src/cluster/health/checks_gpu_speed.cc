// Measured speeds of GPUs: copies from and to the host, sums over NVLink and over InfiniBand. What neither this build
// nor a tool of the node can measure is not checked.

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/text.h"
#include "cluster/health/check.h"
#include "cluster/health/gpu_condition.h"
#include "cluster/health/own_sum.h"

namespace trireme::health {
namespace {

constexpr int kMostTries = 1000;
constexpr double kSeconds = 300;  // the longest time that one run of a tool may take

ProcessResult run_tool(const Machine& machine, std::vector<std::string> words,
                       std::vector<std::pair<std::string, std::string>> variables = {}) {
  ProcessRequest request;
  request.arguments = std::move(words);
  request.timeout = std::chrono::duration<double>(kSeconds);
  request.variables = std::move(variables);
  return machine.run(request);
}

/// The first of the programs that there is, and how it ended; code 127 if there is none.
ProcessResult run_first(const Machine& machine, const std::vector<std::string>& programs,
                        const std::vector<std::string>& arguments,
                        const std::vector<std::pair<std::string, std::string>>& variables = {}) {
  ProcessResult result{127, false, "", "", 0};
  for (const std::string& program : programs) {
    std::vector<std::string> words = {program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    result = run_tool(machine, words, variables);
    if (result.exit_code != 127) break;
  }
  return result;
}

/// The folder of the Azure set's own programs comes first.
std::vector<std::string> places_of(const std::string& program, std::vector<std::string> others = {}) {
  if (const char* const root = std::getenv("AZ_NHC_ROOT"); root != nullptr && *root != 0)
    others.insert(others.begin(), std::string(root) + "/bin/" + program);
  others.push_back(program);
  return others;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

struct PeerSpeed {
  int from = 0, to = 0;
  double speed = 0;  ///< GB/s
};
struct Nvbandwidth {
  std::vector<CopySpeed> copies;
  std::vector<PeerSpeed> peers;
};

/// Tables of nvbandwidth: a line "Running NAME.", then rows that begin with their number.
Nvbandwidth parse_nvbandwidth(std::string_view text) {
  Nvbandwidth found;
  std::string table;
  for (std::string_view line : split_lines(text)) {
    const std::string_view content = trim_blanks(line);
    if (content.starts_with("Running ")) table = content.substr(8);
    std::istringstream fields{std::string(content)};
    std::vector<std::string> cells;
    for (std::string cell; fields >> cell;) cells.push_back(cell);
    const auto number = [](const std::string& cell) {
      return cell.find_first_not_of("0123456789.") == std::string::npos ? std::atof(cell.c_str()) : -1;
    };
    // The head of a table is whole numbers; a row has a number, then speeds or N/A.
    const bool is_row =
        cells.size() > 1 && number(cells[0]) >= 0 && std::ranges::any_of(cells, [](const std::string& cell) {
          return cell == "N/A" || cell.find('.') != std::string::npos;
        });
    if (!is_row) continue;
    for (size_t i = 1; i < cells.size(); ++i) {
      const double speed = number(cells[i]);
      const size_t gpu = i - 1;
      if (speed < 0) continue;
      if (table.starts_with("device_to_device")) {
        found.peers.push_back({std::atoi(cells[0].c_str()), static_cast<int>(gpu), speed});
        continue;
      }
      while (found.copies.size() <= gpu) found.copies.push_back({.gpu = static_cast<int>(found.copies.size())});
      if (table.starts_with("host_to_device")) found.copies[gpu].to_gpu = speed;
      if (table.starts_with("device_to_host")) found.copies[gpu].to_host = speed;
    }
  }
  return found;
}

/// By nvbandwidth; why_not if it is missing or fails.
MeasuredCopies copies_by_tool(const Machine& machine, const std::string& why_not) {
  const ProcessResult result = run_first(machine, places_of("nvbandwidth", {"/opt/nvbandwidth/nvbandwidth"}),
                                         {"-t", "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"});
  if (result.exit_code == 127) return {.why_not = why_not + ", and this node has no nvbandwidth"};
  if (result.exit_code != 0)
    return {.why_not =
                fmt::format("{}, and nvbandwidth {}: {}", why_not, describe_end(result), first_line(result.err))};
  return {.gpus = parse_nvbandwidth(result.out).copies};
}

/// The first copy that is too slow.
Outcome judge_copies(const MeasuredCopies& measured, const std::vector<GpuCondition>& gpus, double least) {
  double slowest = 0;
  for (const CopySpeed& copy : measured.gpus) {
    const auto gpu = std::ranges::find(gpus, copy.gpu, &GpuCondition::index);
    const std::string label = gpu == gpus.end() ? fmt::format("GPU {}", copy.gpu) : gpu->label();
    const auto slow = [&](const char* way, double speed) {
      return failed(
          "{}: copies {} at {:.1f} GB/s, below {}; check_gpu_pcie and `nvidia-smi -q -i {} -d CLOCK,PERFORMANCE` "
          "may say why; restart the node, and if that does not help, have the GPU reseated",
          label, way, speed, least, copy.gpu);
    };
    if (copy.to_gpu < least) return slow("from the host", copy.to_gpu);
    if (copy.to_host < least) return slow("to the host", copy.to_host);
    const double slower = std::min(copy.to_gpu, copy.to_host);
    slowest = slowest == 0 ? slower : std::min(slowest, slower);
  }
  return passed(fmt::format("copies from and to the host at {:.1f} GB/s or more", slowest));
}

/// Repeats what was slow: another program may have used the bus.
Outcome check_copies(const Machine& machine, const std::vector<GpuCondition>& gpus, double least, int tries) {
  Outcome outcome;
  for (int i = 0; i < tries; ++i) {
    MeasuredCopies measured = machine.measure_copies
                                  ? machine.measure_copies(static_cast<int>(gpus.size()))
                                  : MeasuredCopies{.why_not = "this build has no libtrireme_cuda.so"};
    if (!measured.why_not.empty()) measured = copies_by_tool(machine, measured.why_not);
    if (measured.why_not.empty() && measured.gpus.empty()) measured.why_not = "nothing was measured";
    if (!measured.why_not.empty()) return not_checked("cannot measure copies: " + measured.why_not);
    outcome = judge_copies(measured, gpus, least);
    if (outcome.kind == Outcome::Kind::pass) break;
  }
  return outcome;
}

/// The GPUs, or the failure that there are none.
std::vector<GpuCondition> gpus_of(const Machine& machine, Outcome& problem) {
  GpuConditions found = gpu_conditions(machine);
  if (found.none && has_amd_gpu(machine))
    problem = not_checked(found.problem);
  else if (!found.problem.empty())
    problem = failed("{}", found.problem);
  else if (found.gpus.empty())
    problem = failed("the driver lists no GPUs; `dmesg | grep NVRM` shows why");
  return std::move(found.gpus);
}

bool is_number(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789.") == std::string::npos;
}

/// [LEAST-GB-PER-S [TRIES]]: some versions of the original take a folder of programs in place of the tries.
Check make_cuda_bw(Words words) {
  require_words(words, 0, 2, "[LEAST-GB-PER-S [TRIES]]");
  const double least = words.empty() ? 24 : parse_amount(words[0], "GB/s");
  const int tries = words.size() > 1 && is_number(words[1]) ? parse_count(words[1], "tries", 0, kMostTries) : 1;
  return [=](const Machine& machine) {
    Outcome outcome;
    const std::vector<GpuCondition> gpus = gpus_of(machine, outcome);
    return gpus.empty() ? outcome : check_copies(machine, gpus, least, std::max(tries, 1));
  };
}

Outcome check_peers(const Machine& machine, const std::vector<GpuCondition>& gpus, double least) {
  const ProcessResult result = run_first(machine, places_of("nvbandwidth", {"/opt/nvbandwidth/nvbandwidth"}),
                                         {"-t", "device_to_device_memcpy_read_ce"});
  if (result.exit_code == 127)
    return not_checked(
        "copies between GPUs were not measured: this node has no nvbandwidth; copies from and to the host "
        "are fast enough");
  if (result.exit_code != 0) return failed("nvbandwidth {}: {}", describe_end(result), first_line(result.err));
  const std::vector<PeerSpeed> peers = parse_nvbandwidth(result.out).peers;
  if (peers.empty()) return not_checked("nvbandwidth printed no speeds of copies between GPUs");
  for (const PeerSpeed& peer : peers) {
    if (peer.speed >= least) continue;
    const auto gpu = std::ranges::find(gpus, peer.to, &GpuCondition::index);
    return failed(
        "{}: reads GPU {} at {:.1f} GB/s, below {}; check_nvlink_status may say why; restart "
        "nvidia-fabricmanager and the node, and if that does not help, have GPU and NVSwitch examined",
        gpu == gpus.end() ? fmt::format("GPU {}", peer.to) : gpu->label(), peer.from, peer.speed, least);
  }
  return passed();
}

/// LEAST-GB-PER-S [LEAST-BETWEEN-GPUS]
Check make_gpu_bw(Words words) {
  require_words(words, 1, 3, "LEAST-GB-PER-S [LEAST-BETWEEN-GPUS]");
  const double least = parse_amount(words[0], "GB/s");
  const double between = words.size() > 1 ? parse_amount(words[1], "GB/s between GPUs") : 0;
  return [=](const Machine& machine) {
    Outcome outcome;
    const std::vector<GpuCondition> gpus = gpus_of(machine, outcome);
    if (gpus.empty()) return outcome;
    outcome = check_copies(machine, gpus, least, 1);
    const bool linked = between > 0 && gpus.size() > 1;
    return outcome.kind == Outcome::Kind::pass && linked ? check_peers(machine, gpus, between) : outcome;
  };
}

struct SumWords {
  double least = 0;  ///< GB/s
  int tries = 1;
  std::string size, topology = {};  ///< of the messages; an NCCL topology file
};

/// LEAST-GB-PER-S [TRIES [SIZE [TOPOLOGY-FILE]]], SIZE and TOPOLOGY-FILE in any order, as versions of the original
/// differ.
SumWords sum_words(Words words, const char* size) {
  require_words(words, 1, 4, "LEAST-GB-PER-S [TRIES [SIZE [TOPOLOGY-FILE]]]");
  SumWords sum{.least = parse_amount(words[0], "GB/s"), .size = size};
  if (words.size() > 1) sum.tries = std::max(1, parse_count(words[1], "tries", 0, kMostTries));
  for (const std::string& word : words.subspan(std::min<size_t>(words.size(), 2))) {
    const bool is_size = !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0;
    (is_size ? sum.size : sum.topology) = word;
  }
  return sum;
}

/// The value after the colon of a line of nccl-tests; negative if there is none.
double average_of(std::string_view text) {
  for (std::string_view line : split_lines(text)) {
    const size_t colon = line.find(':');
    if (line.find("Avg bus bandwidth") == std::string_view::npos || colon == std::string_view::npos) continue;
    return std::atof(std::string(line.substr(colon + 1)).c_str());
  }
  return -1;
}

using EnvironmentVariables = std::vector<std::pair<std::string, std::string>>;

/// A sum over all GPUs by nccl-tests, in one process.
OwnSum sum_by_tool(const Machine& machine, const std::string& gpus, const std::string& size,
                   const EnvironmentVariables& variables) {
  const ProcessResult result =
      run_first(machine, places_of("all_reduce_perf", {"/opt/nccl-tests/build/all_reduce_perf"}),
                {"-b", size, "-e", size, "-f", "2", "-g", gpus, "-c", "1"}, variables);
  if (result.exit_code == 127) return {.bandwidth = -1};
  OwnSum sum{.bandwidth = average_of(result.out), .right = result.out.find("FAILED") == std::string::npos};
  if (result.exit_code != 0 && sum.right) {
    sum.problem = fmt::format("all_reduce_perf {}: {}", describe_end(result),
                              first_line(result.err.empty() ? result.out : result.err));
  } else if (sum.bandwidth < 0) {
    sum.problem = "all_reduce_perf printed no average bus bandwidth";
  }
  return sum;
}

/// By nccl-tests, which such files' thresholds are of; without them by this program. advice: where to look if it is
/// slow.
Check sum_check(const SumWords& words, const EnvironmentVariables& variables, const char* what, const char* advice) {
  return [=](const Machine& machine) {
    Outcome outcome;
    const std::vector<GpuCondition> gpus = gpus_of(machine, outcome);
    if (gpus.empty()) return outcome;
    EnvironmentVariables all = variables;
    all.insert(all.end(), {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}, {"NCCL_IB_PCI_RELAXED_ORDERING", "1"}});
    const bool with_topology = !words.topology.empty() && machine.exists(words.topology);
    if (with_topology) all.emplace_back("NCCL_TOPO_FILE", machine.root + words.topology);
    std::string remark;
    if (!words.topology.empty() && !with_topology)
      remark = fmt::format(", without {}, which is missing", words.topology);
    const std::string count = std::to_string(gpus.size()), name = count_text(gpus.size(), "GPU");
    OwnSum sum;
    for (int i = 0; i < words.tries; ++i) {
      sum = sum_by_tool(machine, count, words.size, all);
      if (sum.bandwidth < 0 && sum.problem.empty()) {
        if (machine.gpu_library.empty()) {
          return not_checked(
              "this node has no all_reduce_perf of nccl-tests (in /opt/nccl-tests/build or PATH), and "
              "this build has no libtrireme_cuda.so");
        }
        sum = measure_own_sum(machine, count, words.size, "cuda", all, kSeconds);
        if (sum.cannot_run)
          return not_checked("this node has no all_reduce_perf of nccl-tests, and trireme bench comm " + sum.problem);
        if (!sum.problem.empty()) sum.problem = "trireme bench comm " + sum.problem;
      }
      if (!sum.right) {
        return failed(
            "NCCL's sum over {} has wrong values; restart the node, and if that does not help, have its GPUs examined "
            "(dcgmi diag -r 3)",
            name);
      }
      if (!sum.problem.empty()) return failed("NCCL's sum over {}: {}", name, sum.problem);
      if (sum.bandwidth >= words.least)
        return passed(fmt::format("NCCL's sum over {} {} at {:.1f} GB/s{}", name, what, sum.bandwidth, remark));
    }
    return failed("NCCL's sum over {} {} at {:.1f} GB/s, below {} in {}{}; {}", name, what, sum.bandwidth, words.least,
                  count_text(words.tries, "try"), remark, advice);
  };
}

Check make_all_reduce(Words words) {
  return sum_check(sum_words(words, "2G"), {}, "of the node",
                   "check_nvlink_status, check_gpu_ecc and check_gpu_clock_throttling may say which GPU it is");
}

Check make_all_reduce_ib(Words words) {
  return sum_check(
      sum_words(words, "1G"), {{"NCCL_SHM_DISABLE", "1"}, {"NCCL_P2P_DISABLE", "1"}, {"NCCL_NET_GDR_LEVEL", "5"}},
      "over InfiniBand", "check_hw_ib, check_ib_link_flapping and check_ib_bw_gdr may say which port it is");
}

constexpr KnownCheck kChecks[] = {
    {"check_cuda_bw", make_cuda_bw, true, true},
    {"check_gpu_bw", make_gpu_bw, true, true},
    {"check_nccl_allreduce", make_all_reduce, true, true},
    {"check_nccl_allreduce_ib_loopback", make_all_reduce_ib, true, true},
};

}  // namespace

std::span<const KnownCheck> gpu_speed_checks() { return kChecks; }

}  // namespace trireme::health
