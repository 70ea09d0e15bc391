#pragma once
#include <cstdint>

namespace trireme {

/// For commands that run as one process: binds this process to `requested` of its allowed cores (0: all), and returns
/// the number of compute threads. Throws Error::config.
int compute_threads(int64_t requested);

/// Number of threads for commands without binding: the CPUs that this process may use.
int default_threads();

}  // namespace trireme
