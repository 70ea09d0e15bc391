#pragma once
// The descendants of a process, even after setsid and double forks.

#include <functional>
#include <set>
#include <string>

namespace trireme {

/// The parent's pid; 0 if the process is gone.
int parent_of(int pid);

/// All descendants except zombies. Processes whose parents have exited are children of the nearest ancestor that called
/// become_subreaper().
std::set<int> descendants_of(int pid);

/// Processes with this assignment ("NAME=VALUE") in their environment, as far as we may read it.
std::set<int> processes_with(const std::string& assignment);

/// From now on orphaned descendants become children of this process, even after setsid and double forks.
void become_subreaper();

/// Stops `pid`, a subreaper, kills all its descendants except `spared` and theirs, then `pid`. Waits at most a second:
/// a process that hangs in the kernel ends later.
void end_tree(int pid, const std::set<int>& spared);

}  // namespace trireme
