#include "base/stop.h"

#include <unistd.h>
#include <cerrno>
#include <csignal>

#include "base/error.h"

namespace trireme::stop {
namespace {

constexpr std::chrono::seconds kSameRequest{5};

// A signal handler can only use globals.
Request request;
std::atomic<int> listener{-1};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<Time::rep>::is_always_lock_free);

void handle(int signal) {
  const int before = errno;
  if (const int fd = listener; fd >= 0) static_cast<void>(!write(fd, "s", 1));
  errno = before;
  if (request.take(signal, Clock::now())) _exit(exit_code(ErrorKind::stopped));
}

}  // namespace

bool leaves_at_once(int signal, std::chrono::nanoseconds after_first) {
  return signal != SIGUSR1 && after_first >= kSameRequest;
}

bool Request::take(int signal, Time now) {
  // The time decides who is first: another thread may handle a second signal while this one is handled.
  Time::rep first = 0;
  if (!first_.compare_exchange_strong(first, now.time_since_epoch().count()))
    return leaves_at_once(signal, now.time_since_epoch() - Time::duration(first));
  signal_ = signal;
  made_ = true;
  return false;
}

const std::atomic<bool>& watch() {
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
  return request.made();
}

void install() {
  watch();
  std::signal(SIGHUP, SIG_IGN);
}

void tell(int descriptor) { listener = descriptor; }

bool requested() { return request.made(); }

const char* reason() {
  switch (request.first_signal()) {
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
