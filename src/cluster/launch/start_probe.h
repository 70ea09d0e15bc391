#pragma once
// Diagnoses a starter that starts no rank: how far it got on each host, seen from outside.

#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/launch/node_session.h"
#include "cluster/launch/starter.h"

namespace trireme::launch {

/// On the host itself: whether a process with `daemon` in its environment runs and has a TCP connection, and how many
/// processes have `ranks` in theirs: {"daemon", "connected", "ranks"}.
Json probe_start(const std::string& daemon, const std::string& ranks);

/// The hosts that keep ranks from starting, and what was found there. answers[i], from probe_start(), is for
/// hosts[i]; null: `unseen` says why. `here`: the starter's own host, where mpirun needs no daemon. Empty: ranks run
/// but have had no output yet. Pure.
std::vector<Problem> hosts_not_started(StarterKind kind, const std::vector<std::string>& hosts,
                                       const std::vector<Json>& answers, const std::vector<Problem>& unseen,
                                       const std::string& here);

// Whether mpirun can start its daemon on a host, and whether it has the same version there.

/// The program that this starter starts on every host before the ranks; empty for srun, which uses Slurm's daemon.
std::string daemon_of(const Starter& starter);

/// On the host itself: {"daemon": the path that mpirun would start, or "", "version": first version line of the mpirun
/// beside it, or "", "print": file_fingerprint() of the daemon, "answers": whether its help mentions its own name}.
Json probe_starter(const std::string& program, const std::string& daemon);

/// answers[i], from probe_starter(), is for hosts[i]; null if there is none. `own` is that of this host. Pure.
std::vector<Problem> judge_starters(const Starter& starter, const std::vector<std::string>& hosts,
                                    const std::vector<Json>& answers, const Json& own);

}  // namespace trireme::launch
