#pragma once
// How the threads of a team wait for each other at the end of a parallel loop.

#include <filesystem>
#include <optional>

namespace trireme {

/// GCC's OpenMP lets them spin for some milliseconds before they sleep: what a thread burns so on a processor that it
/// shares with other programs, the one that it waits for lacks. It reads how long before main() begins. So this starts
/// the program again, as the same process and with the same arguments, with a spin of about 0.3 ms in its environment;
/// nothing on a quiet machine is slower by that (bench/results/2026-11-25-busy-processors.md). Returns where the
/// environment says already how to wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT), or the program cannot be started again.
void wait_briefly(char** argv);

/// Seconds for which the threads of this process have been ready to run while others ran on their processors, added up
/// over the threads that there are now; nothing where the kernel does not tell. `root`: where /proc is; another one in
/// tests.
std::optional<double> seconds_without_processor(const std::filesystem::path& root = "/");

}  // namespace trireme
