#pragma once
// Drains a failing node in Slurm and resumes it later; changes only nodes with our own reason.

#include <string>
#include <string_view>

#include "cluster/health/machine.h"
#include "cluster/health/run.h"

namespace trireme::health {

/// Whether a node's reason in Slurm was set by us: it begins with "NHC:", as those of NHC do.
bool is_own_reason(std::string_view reason);

struct SlurmAction {
  enum class Kind { none, drain, resume } kind = Kind::none;
  std::string why;     ///< for none: why nothing is done
  std::string reason;  ///< for drain: "NHC: ..."
};

/// `state` and `reason` as `sinfo -o '%t|%E'` prints them ("none": no reason). Failing: drained with "NHC: <problem>";
/// a node that is down, rebooting or powered off is not changed, nor is one out of service for another reason or for
/// none. Healthy: resumed if it is out of service and the reason starts with "NHC:".
SlurmAction decide(bool healthy, std::string_view problem, std::string_view state, std::string_view reason);

/// Asks sinfo for the node, decides, and calls scontrol, or with `dry_run` only reports. Returns what was done, for the
/// log. Throws Error::io if sinfo or scontrol fails.
std::string mark_in_slurm(const Machine& machine, const std::string& node, bool healthy, std::string_view problem,
                          bool dry_run);

struct MarkOptions {
  std::string node;  ///< its name in Slurm
  bool dry_run = false;
};

/// The same for a report, and sets its `slurm` to what was done. If the controller does not answer, `slurm` says so and
/// the report does not change. A node of which nothing was checked is not changed.
void mark_in_slurm(const Machine& machine, const MarkOptions& options, Report& report);

}  // namespace trireme::health
