#pragma once
// Stop requests by signal (docs/design.md, decision 15): TERM, INT and USR1 ask for a stop. Signals within 5 s of the
// first are the same request, since Slurm and `timeout` send TERM twice; USR1 never is a second one; any other later
// signal leaves at once with code 75.

#include <atomic>
#include <chrono>

#include "base/time.h"

namespace trireme::stop {

using Time = Clock::time_point;

/// Whether a stop signal that comes this long after the first wants the end at once.
bool leaves_at_once(int signal, std::chrono::nanoseconds after_first);

/// The request that signals make together. What a handler needs: no call of it waits for anything.
class Request {
 public:
  /// Takes a signal that came at `now`; true when the process shall leave at once.
  bool take(int signal, Time now);
  const std::atomic<bool>& made() const { return made_; }
  int first_signal() const { return signal_; }  ///< 0 before one

 private:
  std::atomic<Time::rep> first_{0};
  std::atomic<int> signal_{0};
  std::atomic<bool> made_{false};
};

/// Makes TERM, INT and USR1 stop requests of this process; gives the flag that they set. For a command that ends its
/// work, or what is left of it, in an orderly way.
const std::atomic<bool>& watch();
/// watch(), and lets a terminal that is closed end no process: writes to it fail. Call at the start of the program, and
/// again after MPI's start-up, which installs some of its own.
void install();
/// True once a stop was asked for on this rank.
bool requested();
/// Every later stop request of this process also writes a byte to this descriptor; -1: to none.
void tell(int descriptor);
/// "SIGTERM", ... of the first request; "" before one.
const char* reason();

}  // namespace trireme::stop
