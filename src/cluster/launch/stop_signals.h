#pragma once
// The signals that ask a launch to stop, held while it has something to look after.

#include <csignal>

namespace trireme::launch {

/// While it lives TERM, INT and USR1 wait to be read here in place of ending the process; HUP and PIPE end nothing.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_; }                      ///< readable when one waits
  const sigset_t& before() const { return before_; }  ///< the mask that children should get
  int next() const;                                   ///< takes one; 0: none
  int wait(double seconds) const;                     ///< takes one within this time; 0: none came

 private:
  sigset_t set_{}, before_{};
  int fd_ = -1;
};

}  // namespace trireme::launch
