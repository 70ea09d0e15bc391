#pragma once
#include <string>
#include <vector>

namespace trireme {

/// What `trireme health` was asked for.
struct HealthOptions {
  std::string config, check, name, log_file;
  std::string result_file = "/run/trireme/health.json";
  double seconds = -1;  ///< below 0: not told
  bool list = false, all = false, verbose = false, quiet = false, json = false;
  bool no_repair = false, detached = false, drain = false;
  int json_indent = 2;
  std::vector<std::string> variables;
};

/// The exit code of NHC.
int check_this_node(const HealthOptions& options);

}  // namespace trireme
