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
  std::string why = {};     ///< for none: why nothing is done
  std::string reason = {};  ///< for drain: "NHC: ..."
};

/// `state` and `reason` as `sinfo -o '%t|%E'` prints them ("none": no reason). Failing: drained with "NHC: <problem>".
/// Healthy: resumed if it is drained, its reason starts with "NHC:", and the check that the reason names has passed; of
/// a reason that names none, every check. A check that was not run, or is not in the configuration, has not passed.
/// Then the reason stays, too, if another check fails. A node that is down, rebooting, powered off or in a maintenance
/// reservation is not changed, nor is one that is drained for another reason or for none.
SlurmAction decide(const Report& report, std::string_view state, std::string_view reason);

struct MarkOptions {
  std::string node = {};  ///< its name in Slurm
  bool dry_run = false;
  bool require_all = false;  ///< resume it only if everything was checked
};

/// Asks sinfo for the node, decides, calls scontrol (or with `dry_run` only says so), and sets the report's `slurm` to
/// what was done. If Slurm does not answer, `slurm` says so and the report does not change. A node of which nothing was
/// checked is not changed.
void mark_in_slurm(const Machine& machine, const MarkOptions& options, Report& report);

}  // namespace trireme::health
