#pragma once
// Runs a plan under a watchdog and reports the state of the node.

#include <functional>
#include <optional>
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
  bool timed_out = false;  ///< the watchdog killed the run; the last result names the hung check
  double seconds = 0;
  std::string slurm;  ///< what was done with the node in Slurm, or why that failed; empty: not requested
  bool slurm_failed = false;

  std::vector<const Result*> failures() const;
  std::vector<const Result*> not_checked() const;  ///< including skipped ones
  size_t checked() const { return results.size() - not_checked().size(); }
  bool healthy() const { return failures().empty(); }  ///< no failure; checked() may be 0
};

/// Adds a failure if checks were not run, or none was. Such a failure must not drain a node: mark the node before.
void require_all_checked(Report& report);

/// The limit in seconds: `requested` unless negative, else the file's TIMEOUT, else NHC's 30 s, or 500 s if a line that
/// applies measures a speed.
double watchdog_seconds(double requested, const Plan& plan);

struct CheckOptions {
  bool all = false;                           ///< continue after a failure
  double seconds = 30;                        ///< watchdog for the whole run; 0: none
  std::function<void(const Step&)> announce;  ///< before each check
};

/// Whether this node has a GPU or what a driver brings: a display or 3D controller of NVIDIA or AMD on the PCI bus,
/// nvidia-smi or rocm-smi in PATH, or NVIDIA's management library. On a node without them GPU checks fail.
bool has_gpu(const Machine& machine);

/// Checks run in a child process, so that a check that hangs in the kernel (a dead NFS server) becomes a failure
/// instead of a hang: after `seconds` the child gets SIGKILL with everything that the hung check started, and is not
/// waited for. Processes that earlier checks left running (a service that a repair started) are not killed.
Report run_plan(const Plan& plan, const Machine& machine, const CheckOptions& options);

/// 0 healthy; 142 after a watchdog; otherwise with `all` the number of failures (at most 125), without it the code of
/// the first failure: 1, or the code of the line's command or of its `die CODE MESSAGE`.
int exit_code(const Report& report, bool all);

/// Safe on a terminal: "host | Healthy", "host | Healthy (2 of 9 not checked: ...)", "host | Not checked: ..." if
/// nothing was checked, or one line "host | ERROR: nhc: Health check failed: ..." per failure.
std::string one_line_per_node(const Report& report);

Json to_json(const Report& report);
/// Throws Error::data if the document is not from to_json().
Report report_from_json(const Json& document, const std::string& where);

// NHC's detached mode: answer immediately with the last result, check again in the background.

/// The report that the last background run left in `path`; nullopt before the first one or if it is from before this
/// boot, and with a warning if the file cannot be read.
std::optional<Report> last_report(const std::string& path, const std::string& boot_id);
void save_report(const std::string& path, const std::string& boot_id, const Report& report);
/// Writes the report of this boot.
std::string this_boot_id();

/// Calls `body` in a separate process that outlives this one. Does nothing if an earlier one still holds the lock file
/// `path`.lock: runs must not pile up behind a hung check. Returns whether it started. Throws Error::io.
bool run_in_background(const std::string& path, const std::function<void()>& body);

}  // namespace trireme::health
