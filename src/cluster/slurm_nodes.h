#pragma once
// The nodes of Slurm: parses the output of sinfo in its usual forms, and the variables of a job.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/hosts.h"

namespace trireme {

/// Why a node in this state cannot run a job now ("drained", "not responding", ...); empty if it can. `state` is the
/// short or long word of sinfo with its suffix flags (* ~ # % ! $ @ ^ -), or words joined by "+" as printed by
/// scontrol. Throws Error::data naming `where` for a word that is not a node state.
std::string unusable_reason(std::string_view state, std::string_view where);

struct SlurmNodes {
  std::vector<Host> usable;
  std::vector<Host> skipped;  ///< `state` says why
};

/// Reads `sinfo`, `sinfo -N`, `sinfo -Nel` (header line, any columns that include NODELIST and STATE; prompts and dates
/// before it are skipped), headerless rows that start with the nodes and end with the state (blank or comma separated),
/// `sinfo --json`, and one JSON object per line with "n" and "s". A node in several rows is usable if every row says
/// so. `partition` keeps the rows of one partition if the form has it; empty: all. Throws Error::data with
/// "source:line:".
SlurmNodes parse_sinfo(std::string_view text, const std::string& source, std::string_view partition);

/// Moves usable nodes that are in none of these states to `skipped`, with the word that would include them: nodes in
/// use (mix, alloc, comp), reserved (resv), planned for another job (plnd), in perfctrs (npc). states: comma-separated
/// short or long words of sinfo, or "all". Throws Error::usage naming `flag` for another word.
void keep_states(SlurmNodes& nodes, std::string_view states, std::string_view flag);

using EnvironmentReader = std::function<const char*(const char*)>;

/// Hosts of the current job: SLURM_JOB_NODELIST (SLURM_NODELIST), slots from SLURM_TASKS_PER_NODE ("2(x3),1") if it is
/// set; of a heterogeneous job those of all components. Throws Error::config outside a job, or if the counts do not
/// match the nodes.
std::vector<Host> slurm_job_hosts(const EnvironmentReader& environment);

/// In a heterogeneous job steps start only in the first component: throws Error::config if any of `hosts` is in another
/// one.
void require_first_component(const EnvironmentReader& environment, const std::vector<Host>& hosts);

}  // namespace trireme
