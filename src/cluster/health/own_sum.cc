#include "cluster/health/own_sum.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_fields.h"
#include "base/private_folder.h"

namespace trireme::health {
namespace {

/// Without variables of a starter around this process, which would make the ranks part of its job.
std::vector<std::string> clean_environment() {
  std::vector<std::string> words = {"env", "-i"};
  for (const char* name : {"PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR"}) {
    if (const char* value = std::getenv(name)) words.push_back(std::string(name) + "=" + value);
  }
  return words;
}

}  // namespace

OwnSum measure_own_sum(const Machine& machine, const std::string& ranks, const std::string& bytes,
                       const std::string& device, const std::vector<std::pair<std::string, std::string>>& variables,
                       double seconds) {
  constexpr int kBelowGoal = 3;  // the exit code of a result that is slow for its hardware
  constexpr int kRefused = 2;    // ... of what cannot run as it is asked for: no mpirun, no NCCL
  const PrivateFolder folder("health");
  const std::string file = folder.file("result.json");
  std::vector<std::string> command = clean_environment();
  for (const auto& [name, value] : variables) command.push_back(name + "=" + value);
  command.insert(command.end(), {std::filesystem::read_symlink("/proc/self/exe"), "launch", "--hosts",
                                 "localhost:" + ranks, "--skip-preflight", "--", "bench", "comm", "all_reduce", "-b",
                                 bytes, "-e", bytes, "-n", "5", "--device", device, "-J", file});
  const ProcessResult result = machine.command(command, seconds);
  if (result.exit_code != 0 && result.exit_code != kBelowGoal)
    return {.problem = fmt::format("{}: {}", describe_end(result), result.err.substr(0, result.err.find('\n'))),
            .cannot_run = result.exit_code == kRefused};
  const Json document = read_json(file);
  OwnSum sum;
  sum.bandwidth = json_field<double>(json_member(document, "average_bus_bandwidth", file), "bandwidth", file);
  if (document.contains("out_of_bounds"))
    sum.right = json_field<bool>(json_member(document, "out_of_bounds", file), "okay", file);
  return sum;
}

}  // namespace trireme::health
