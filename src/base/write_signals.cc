#include "base/write_signals.h"

#include <signal.h>
#include <unistd.h>

namespace trireme {

void ignore_write_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);
}

void restore_write_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);
}

void end_by_broken_pipe() {
  restore_write_signals();
  raise(SIGPIPE);
  _exit(128 + SIGPIPE);  // it is blocked
}

}  // namespace trireme
