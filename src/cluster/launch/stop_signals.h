#pragma once
// The signals that ask a launch to stop, blocked while it has a job.

#include <csignal>

namespace trireme::launch {

/// During its lifetime TERM, INT and USR1 are queued here instead of ending the process; HUP and PIPE are ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_; }                      ///< readable when a signal is pending
  const sigset_t& before() const { return before_; }  ///< the signal mask for children
  int next() const;                                   ///< returns a pending signal; 0: none
  int wait(double seconds) const;                     ///< waits this long for a signal; 0: none came

 private:
  sigset_t set_{}, before_{};
  int fd_ = -1;
};

}  // namespace trireme::launch
