#pragma once
// The node that checks look at. Tests give it another root folder and other programs.

#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cluster/subprocess.h"

namespace trireme::health {

struct Space {
  uint64_t total_kb = 0, free_kb = 0, used_kb = 0;  ///< free: for users, as df counts
  uint64_t inodes = 0, inodes_free = 0;
  /// df's percentages: used of used + free.
  double used_percent() const;
  double inodes_used_percent() const;
};

struct ProcessEntry {
  int pid = 0;
  std::string user, name, command_line;
};

struct Machine {
  std::string root;       ///< in front of every path of /proc, /sys and files; empty for the real node
  std::string host;       ///< short name
  std::string full_host;  ///< as the kernel has it, with a domain where there is one

  std::function<ProcessResult(const ProcessRequest&)> run = run_process;
  std::function<std::optional<Space>(const std::string& path)> space;  ///< none: no such path
  std::function<std::vector<ProcessEntry>()> processes;
  std::function<std::time_t()> now = [] { return std::time(nullptr); };
  bool repair = true;  ///< checks may run the repair that the configuration asks for

  /// This node.
  static Machine local();

  std::optional<std::string> read(const std::string& path) const;  ///< first 4 MiB
  std::vector<std::string> list(const std::string& folder) const;  ///< names, sorted; empty when there is no folder
  bool exists(const std::string& path) const;
  /// The program in PATH with arguments; exit code 127 when it is not there.
  ProcessResult command(std::vector<std::string> arguments, double seconds = 20) const;
};

/// This host's name, and up to its first dot.
std::string full_host_name();
std::string short_host_name();

}  // namespace trireme::health
