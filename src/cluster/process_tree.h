#pragma once
// The processes below a process, wherever setsid and forks took them.

#include <functional>
#include <set>
#include <string>

namespace trireme {

/// Parent's pid; 0 when the process is gone.
int parent_of(int pid);

/// Children, their children, and so on; not those that have ended and wait for their parent (zombies). Processes whose
/// parents ended count as the children of the nearest ancestor that called become_subreaper().
std::set<int> descendants_of(int pid);

/// Processes in whose environment this assignment ("NAME=VALUE") stands, as far as we may read it.
std::set<int> processes_with(const std::string& assignment);

/// Orphans below this process become its children from now on, those of setsid and double forks included.
void become_subreaper();

/// Stops `pid`, a subreaper, ends all that is below it but `spared` and what is below those, then `pid` itself. Waits
/// at most a second: a process that hangs in the kernel ends when the kernel lets it go.
void end_tree(int pid, const std::set<int>& spared);

}  // namespace trireme
