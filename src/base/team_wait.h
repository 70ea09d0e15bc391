#pragma once
// How the threads of a team wait for each other at the end of a parallel loop.

#include <filesystem>
#include <optional>

namespace trireme {

/// GCC's OpenMP lets them spin for some milliseconds before they sleep. On a processor shared with other programs, a
/// spinning thread takes the time that the awaited thread needs. OpenMP reads the duration before main() begins, so
/// this function executes the program again, as the same process and with the same arguments, with a spin of about 0.3
/// ms in its environment; on a quiet machine nothing gets slower (bench/results/2026-11-25-busy-processors.md). Returns
/// if the environment already sets how to wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT) or the program cannot be executed
/// again.
void wait_briefly(char** argv);

/// Seconds that the threads of this process spent ready to run while others used their processors, summed over the
/// current threads; empty if the kernel does not report it. `root`: where /proc is; tests use another.
std::optional<double> seconds_without_processor(const std::filesystem::path& root = "/");

}  // namespace trireme
