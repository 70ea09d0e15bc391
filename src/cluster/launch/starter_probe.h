#pragma once
// Whether mpirun can start its daemon on a host, and whether it has the same version there.

#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/launch/node_session.h"
#include "cluster/launch/starter.h"

namespace trireme::launch {

/// The program that this starter starts on every host before the ranks; empty for srun, which uses Slurm's daemon.
std::string daemon_of(const Starter& starter);

/// On the host itself: {"daemon": the path that mpirun would start, or "", "version": first version line of the mpirun
/// beside it, or "", "print": file_fingerprint() of the daemon, "answers": whether its help mentions its own name}.
Json probe_starter(const std::string& program, const std::string& daemon);

/// answers[i], from probe_starter(), is for hosts[i]; null if there is none. `own` is that of this host. Pure.
std::vector<Problem> judge_starters(const Starter& starter, const std::vector<std::string>& hosts,
                                    const std::vector<Json>& answers, const Json& own);

}  // namespace trireme::launch
