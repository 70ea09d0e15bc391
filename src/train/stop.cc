#include "train/stop.h"

#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <ctime>

#include <atomic>

#include "base/error.h"

namespace trireme::stop {
namespace {

constexpr long kSameRequestSeconds = 5;

// A signal handler can reach nothing but globals.
std::atomic<int> first_signal{0};
std::atomic<long> first_time{0};
std::atomic<int> listener{-1};

long now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<long>(t.tv_sec);
}

void handle(int signal) {
  const int before = errno;
  if (const int fd = listener; fd >= 0) static_cast<void>(!write(fd, "s", 1));
  errno = before;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    first_time = now();
    return;
  }
  if (signal == SIGUSR1 || now() - first_time < kSameRequestSeconds) return;
  _exit(exit_code(ErrorKind::stopped));
}

}  // namespace

void install() {
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
  // A terminal that is closed is writes that fail, and nothing else.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
}

void tell(int descriptor) { listener = descriptor; }

bool requested() { return first_signal != 0; }

const char* reason() {
  switch (first_signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "";
  }
}

}  // namespace trireme::stop
