#include "comm/communicator.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/time.h"

namespace trireme {
namespace {

// Spinning for about the time of a message inside a host, then sleeping: ranks may share cores with compute threads.
constexpr int kSpins = 200;
constexpr auto kFirstSleep = std::chrono::microseconds(10);
constexpr auto kLongestSleep = std::chrono::microseconds(500);

}  // namespace

Handle::~Handle() { assert(!operation_ || std::uncaught_exceptions() > 0); }

Handle& Handle::operator=(Handle&& other) noexcept {
  assert(!operation_);
  operation_ = std::move(other.operation_);
  return *this;
}

bool Handle::test() {
  try {
    if (operation_ && operation_->test()) operation_.reset();
  } catch (...) {
    abandon();
    throw;
  }
  return !operation_;
}

void Handle::wait(std::string_view what, std::chrono::duration<double> deadline) {
  const auto start = Clock::now();
  auto pause = kFirstSleep;
  for (int turn = 0; !test(); ++turn) {
    if (turn < kSpins) {
      std::this_thread::yield();
      continue;
    }
    const double waited = seconds_since(start);
    if (waited > deadline.count()) {
      abandon();
      fail(ErrorKind::comm, "{}: no answer from the other ranks for {:.1f} s; see what the slowest rank is doing", what,
           waited);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestSleep);
  }
}

}  // namespace trireme
