#pragma once
// The remote side of launch: `trireme node-agent` answers requests, one JSON object per line on its standard streams,
// until they close. It does not start ranks.
//   {"do": "facts", "folder": F, "files": [..], "model": M, "tokenizer": T, "glue_task": G,
//    "variables": ["NAME=VALUE", ..]}                         -> NodeFacts; M, T and G by names of the hub, or empty
//   {"do": "leave-token", "folder": F, "name": N}             -> {"made": folders}: an empty file N in F, which is made
//                                                                where it is missing (base/folder_token.h)
//   {"do": "find-token", "folder": F, "name": N}              -> {"found": whether it is there}
//   {"do": "take-token", "folder": F, "name": N, "made": M}   -> {}: removes it, and the folders that were made for it
//   {"do": "clock"}                                           -> {"time": seconds since the epoch}
//   {"do": "listen", "port": P}                               -> {"port": P'} or {"error": why}; P 0: any free port
//   {"do": "connect", "targets": [[host, address, port], ..]} -> {"failed": [[host, reason], ..]}
//   {"do": "sweep", "id": ID, "daemon": M}                    -> {"killed": N, "memory_kills": MemoryKills}: processes
//                                                                with TRIREME_LAUNCH_ID=ID, or TRIREME_DAEMON=M where
//                                                                M is given
//   {"do": "start", "id": ID, "daemon": M}                    -> probe_start() of those two
//   {"do": "health", "config": TEXT, "name": N, "all": A, "seconds": S, "repair": R,
//    "drain": D, "dry_run": Y, "variables": {..}}            -> health report
//   {"do": "starter", "program": P, "daemon": D}              -> probe_starter()
//   {"do": "describe"}                                        -> {"host": H, "lines": [[section, check], ..]}, what
//                                                                `health gen` writes
//   {"do": "gpus"}                                            -> {"gpus": NodeGpus, "usable": hardware,
//                                                                "why_none": ..}, for `trireme device`

#include <functional>
#include <iosfwd>
#include <string>

#include "base/json.h"
#include "comm/launcher.h"

namespace trireme::launch {

inline constexpr const char* kAgentGreeting = "trireme-node-agent 1";

/// Serves until `in` ends. Answers a failed request with {"error": why}.
void serve_node(std::istream& in, std::ostream& out);

/// Ends every process of this user on this host with the launch id, or with the mark of mpirun's daemon if one is
/// given: TERM first, KILL after a second. Returns their number. This process and its ancestors are not ended.
int sweep(const std::string& launch_id, const std::string& daemon = "");

}  // namespace trireme::launch
