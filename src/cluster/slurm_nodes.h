#pragma once
// Which nodes Slurm offers: the output of sinfo in its usual forms, and the variables of a job.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/hosts.h"

namespace trireme {

/// Why a node in this state cannot run a job now ("drained", "not responding", ...), empty when it can. `state` is
/// sinfo's word in either length, with its suffix flags (* ~ # % ! $ @ ^ -), or words joined by "+" as scontrol prints.
/// Throws Error::data naming `where` for a word that is no node state.
std::string unusable_reason(std::string_view state, std::string_view where);

struct SlurmNodes {
  std::vector<Host> usable;
  std::vector<Host> skipped;  ///< `state` says why
};

/// Reads `sinfo`, `sinfo -N`, `sinfo -Nel` (header line, any columns that include NODELIST and STATE; prompts and dates
/// before it are passed over), headerless rows that start with the nodes and end with the state (blank or comma
/// separated), `sinfo --json`, and one JSON object per line with "n" and "s". A node in several rows is usable when
/// every row says so. `partition` keeps the rows of one partition where the form tells it; empty: all. Throws
/// Error::data with "source:line:".
SlurmNodes parse_sinfo(std::string_view text, const std::string& source, std::string_view partition);

/// Moves usable nodes that are in none of these states to `skipped`, with the word that would offer them: nodes in use
/// (mix, alloc, comp), reserved (resv), planned for another job (plnd), in perfctrs (npc). states: comma-separated
/// words of sinfo in either length, or "all". Throws Error::usage naming `flag` for another word.
void keep_states(SlurmNodes& nodes, std::string_view states, std::string_view flag);

using EnvironmentReader = std::function<const char*(const char*)>;

/// Hosts of the job this process runs in: SLURM_JOB_NODELIST (SLURM_NODELIST), slots from SLURM_TASKS_PER_NODE
/// ("2(x3),1") where it is set; of a heterogeneous job those of all components. Throws Error::config when there is no
/// job, or the counts do not fit the nodes.
std::vector<Host> slurm_job_hosts(const EnvironmentReader& environment);

/// In a heterogeneous job, whose steps start in the first component alone: throws Error::config when any of `hosts` is
/// in another one.
void require_first_component(const EnvironmentReader& environment, const std::vector<Host>& hosts);

}  // namespace trireme
