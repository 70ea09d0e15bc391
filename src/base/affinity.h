#pragma once
#include <span>

namespace trireme {

/// The calling thread, and threads that it starts, run on these processors only. Throws Error::config naming them when
/// the system refuses.
void pin_this_thread(std::span<const int> cpus);

}  // namespace trireme
