#pragma once
// Whether mpirun can start its daemon on a host, and whether it is of the same version there.

#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/launch/node_session.h"
#include "cluster/launch/starter.h"

namespace trireme::launch {

/// The program that this starter starts on every host before the ranks; empty for srun, whose daemon is Slurm's.
std::string daemon_of(const Starter& starter);

/// On the host itself: {"daemon": the path that mpirun would start, or "", "version": first line that the mpirun beside
/// it says of its version, "" without one, "print": file_fingerprint() of the daemon, "answers": whether it explains
/// itself under its own name}.
Json probe_starter(const std::string& program, const std::string& daemon);

/// `answers` of probe_starter(), index i of hosts[i], null where there is none; `own` is that of this host. Pure.
std::vector<Problem> judge_starters(const Starter& starter, const std::vector<std::string>& hosts,
                                    const std::vector<Json>& answers, const Json& own);

}  // namespace trireme::launch
