#pragma once
// The node that checks examine. Tests give it another root folder and other programs.

#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cluster/subprocess.h"
#include "ops/nvml.h"

namespace trireme::health {

// How fast this node's GPUs copy from and to pinned memory of the host, measured through the GPU library
// (ops/gpu_library.h).

struct CopySpeed {
  int gpu = 0;                     ///< its index
  double to_gpu = 0, to_host = 0;  ///< GB/s (1e9 bytes), by the GPU's clock; 0: not measured
};

struct MeasuredCopies {
  std::vector<CopySpeed> gpus = {};
  std::string why_not = {};  ///< this build cannot measure, or failed to
};

/// Measures the first `gpus` GPUs, one after the other, each from memory of its own NUMA node. Never throws.
MeasuredCopies measure_copies(int gpus);

struct Space {
  uint64_t total_kb = 0, free_kb = 0, used_kb = 0;  ///< free: for users, as in df
  uint64_t inodes = 0, inodes_free = 0;
  /// Percentages as in df: used / (used + free).
  double used_percent() const;
  double inodes_used_percent() const;
};

struct ProcessEntry {
  int pid = 0;
  std::string user, name, command_line;
  unsigned uid = 0;
};

struct Machine {
  std::string root;       ///< prefix of every path of /proc, /sys and files; empty for the real node
  std::string host;       ///< short name
  std::string full_host;  ///< the kernel's host name, with its domain if it has one

  std::function<ProcessResult(const ProcessRequest&)> run = run_process;
  std::function<std::optional<Space>(const std::string& path)> space;  ///< nullopt: no such path
  std::function<std::vector<ProcessEntry>()> processes;
  std::function<std::time_t()> now = [] { return std::time(nullptr); };
  std::function<MeasuredCopies(int gpus)> measure_copies;  ///< gpu_copies.h; none: this program cannot
  std::string gpu_library;                                 ///< this program's, for GPUs; empty: it has none
  std::string nvml_library = nvml::kFile;                  ///< the library of NVIDIA's driver, as the loader finds it
  bool repair = true;                                      ///< checks may run the repairs of the configuration
  bool skip_gpu = false;                                   ///< it has no GPU by design: GPU checks are skipped

  /// This node.
  static Machine local();

  /// A complete file; nullopt: it cannot be read, or has more than 1 GiB.
  std::optional<std::string> read(const std::string& path) const;
  std::vector<std::string> list(const std::string& folder) const;  ///< names, sorted; empty if the folder is missing
  bool exists(const std::string& path) const;
  /// Runs the program in PATH with arguments; exit code 127 if it is missing.
  ProcessResult command(std::vector<std::string> arguments, double seconds = 20) const;
};

/// This host's name, and its part before the first dot.
std::string full_host_name();
std::string short_host_name();

}  // namespace trireme::health
