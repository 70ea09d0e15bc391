#include "cluster/launch/stop_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <initializer_list>

namespace trireme::launch {

StopSignals::StopSignals() {
  sigemptyset(&set_);
  for (int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set_, number);
  sigprocmask(SIG_BLOCK, &set_, &before_);
  fd_ = signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK);
  signal(SIGHUP, SIG_IGN);  // closing a terminal must not end a job
}

StopSignals::~StopSignals() {
  close(fd_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int StopSignals::next() const {
  signalfd_siginfo info{};
  return read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

int StopSignals::wait(double seconds) const {
  pollfd polled{fd_, POLLIN, 0};
  poll(&polled, 1, static_cast<int>(seconds * 1000));
  return next();
}

}  // namespace trireme::launch
