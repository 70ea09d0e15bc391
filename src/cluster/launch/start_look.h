#pragma once
// A starter that starts no rank: how far it has come on each host, seen from outside.

#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/launch/node_session.h"
#include "cluster/launch/starter.h"

namespace trireme::launch {

/// On the host itself: whether a process with `daemon` in its environment runs there and holds a TCP connection, and
/// how many have `ranks` in it: {"daemon", "connected", "ranks"}.
Json look_for_start(const std::string& daemon, const std::string& ranks);

/// Which hosts are the reason that no rank has begun, with what is the case there; index i of `answers`, given by
/// look_for_start(), is of hosts[i], null: `unseen` says why. `here`: the starter's own host, where mpirun needs no
/// daemon. Empty: ranks run, which have said nothing yet. Pure.
std::vector<Problem> hosts_not_begun(StarterKind kind, const std::vector<std::string>& hosts,
                                     const std::vector<Json>& answers, const std::vector<Problem>& unseen,
                                     const std::string& here);

}  // namespace trireme::launch
