#pragma once
// Takes a sick node out of Slurm and brings it back: only ever with our own reason.

#include <string>
#include <string_view>

#include "cluster/health/machine.h"
#include "cluster/health/run.h"

namespace trireme::health {

/// Whether a node's reason in Slurm is one that we set: such begin with "NHC:", as NHC's own do.
bool is_own_reason(std::string_view reason);

struct SlurmAction {
  enum class Kind { none, drain, resume } kind = Kind::none;
  std::string why;     ///< of none: what keeps us from acting
  std::string reason;  ///< of drain: "NHC: ..."
};

/// `state` and `reason` as `sinfo -o '%t|%E'` prints them ("none": no reason).
/// Sick: drained with "NHC: <problem>"; a node that is down, rebooting or powered off is left alone; one that is
/// already out of service keeps a reason of somebody else, and no reason counts as somebody's. Healthy: resumed when it
/// is out of service and the reason starts with "NHC:".
SlurmAction decide(bool healthy, std::string_view problem, std::string_view state, std::string_view reason);

/// Asks sinfo for the node, decides, and calls scontrol, or with `dry_run` says what it would do. Returns what was
/// done, for the log. Throws Error::io when sinfo or scontrol fail.
std::string mark_in_slurm(const Machine& machine, const std::string& node, bool healthy, std::string_view problem,
                          bool dry_run);

struct MarkOptions {
  std::string node;  ///< Slurm's name of it
  bool dry_run = false;
};

/// The same for a report, whose `slurm` then tells what was done. A controller that does not answer changes nothing of
/// how the node is: `slurm` says so, the report stays. A node of which nothing was checked is left as it is.
void mark_in_slurm(const Machine& machine, const MarkOptions& options, Report& report);

}  // namespace trireme::health
