#pragma once
#include <cstdint>

namespace trireme {

/// For commands that run as one process: binds this process to the cores that it was given, `requested` of them (0:
/// all), and returns how many threads compute. Throws Error::config.
int compute_threads(int64_t requested);

/// Threads of commands that bind nothing: the CPUs that this process may run on.
int default_threads();

}  // namespace trireme
