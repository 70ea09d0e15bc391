#pragma once
// Stop requests by signal (docs/design.md, decision 15): TERM, INT and USR1 ask for a stop. Signals within 5 s of the
// first are the same request, since Slurm and `timeout` send TERM twice; USR1 never counts as a second request; any
// other later signal exits at once with code 75.

#include <atomic>
#include <chrono>

#include "base/time.h"

namespace trireme::stop {

using Time = Clock::time_point;

/// Whether a stop signal this long after the first demands the end at once.
bool leaves_at_once(int signal, std::chrono::nanoseconds after_first);

/// The request made by one or several signals. Usable in a handler: no call waits.
class Request {
 public:
  /// Handles a signal at `now`; true if the process must exit at once.
  bool take(int signal, Time now);
  const std::atomic<bool>& made() const { return made_; }
  int first_signal() const { return signal_; }  ///< 0 before the first

 private:
  std::atomic<Time::rep> first_{0};
  std::atomic<int> signal_{0};
  std::atomic<bool> made_{false};
};

/// Makes TERM, INT and USR1 stop requests of this process; returns the flag that they set. For a command that ends its
/// work, or the rest of it, in order.
const std::atomic<bool>& watch();
/// watch(), and lets the process outlive its terminal. Call at the start of the program,
/// and again after MPI's start-up, which installs some of its own.
void install();
/// True after a stop request on this rank.
bool requested();
/// Every later stop request of this process also writes a byte to this descriptor; -1: none.
void tell(int descriptor);
/// "SIGTERM", ... of the first request; "" before it.
const char* reason();

}  // namespace trireme::stop
