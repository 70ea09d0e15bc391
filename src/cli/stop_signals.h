#pragma once
// For commands that leave nothing half done: TERM and INT ask them to stop.

#include <atomic>

namespace trireme {

/// Makes TERM and INT set the flag that is returned; a second signal ends the process at once.
const std::atomic<bool>& watch_stop_signals();

/// Threads that a command uses by default: the CPUs that this process may run on.
int default_threads();

}  // namespace trireme
