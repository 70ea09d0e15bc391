#pragma once
// Runs a plan under a watchdog and says how the node is.

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/health/nhc_config.h"

namespace trireme::health {

struct Result {
  int line = 0;
  std::string check;  ///< the text of its line
  Outcome outcome;
};

struct Report {
  std::string host;
  std::vector<Result> results;
  bool timed_out = false;  ///< the watchdog ended the run; the last result names the check that hung
  double seconds = 0;
  std::string slurm;  ///< what was done with the node in Slurm, or why that failed; empty: nobody asked
  bool slurm_failed = false;

  std::vector<const Result*> failures() const;
  std::vector<const Result*> not_checked() const;  ///< skipped ones included
  size_t checked() const { return results.size() - not_checked().size(); }
  bool healthy() const { return failures().empty(); }  ///< nothing wrong was found; checked() may be 0
};

/// Makes what was not checked, or that nothing was, a failure of its own. Not one to drain a node for: mark it before.
void require_all_checked(Report& report);

/// The last numeric word: `told` unless below 0, else the file's TIMEOUT, else NHC's 30 s.
double watchdog_seconds(double told, const Plan& plan);

struct CheckOptions {
  bool all = false;                           ///< go on after a failure
  double seconds = 30;                        ///< watchdog for the whole run; 0: none
  std::function<void(const Step&)> announce;  ///< before each check
};

/// Whether this node has a GPU or the tools of one: a display or 3D controller of NVIDIA or AMD on the PCI bus, or
/// nvidia-smi or rocm-smi in PATH. A node that has neither is CPU only, and GPU checks are skipped on it.
bool has_gpu(const Machine& machine);

/// Checks run in a child process, so that one that hangs in the kernel (a dead NFS server) ends as a failure of this
/// run and not as a hang: after `seconds` it gets SIGKILL with everything that the hung check started, and is not
/// waited for. What earlier checks left running (a service that a repair started) is spared.
Report run_plan(const Plan& plan, const Machine& machine, const CheckOptions& options);

/// 0 healthy; 142 after a watchdog; else the number of failures (at most 125) with `all`; without, that of the first
/// failure: 1, or what the line's command or its `die CODE MESSAGE` told.
int exit_code(const Report& report, bool all);

/// "host | Healthy", "host | Healthy (2 of 9 not checked: ...)", "host | Not checked: ..." when nothing was, or one
/// line "host | ERROR: nhc: Health check failed: ..." per failure.
std::string one_line_per_node(const Report& report);

Json to_json(const Report& report);
/// Throws Error::data when the document is not one of to_json().
Report report_from_json(const Json& document, const std::string& where);

}  // namespace trireme::health
