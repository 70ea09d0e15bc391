#include "comm/communicator.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/time.h"

namespace trireme {
namespace {

// Spins for about the time of a message inside a host, then sleeps for a small part of the time waited so far: ranks
// may share cores with compute threads.
constexpr int kSpins = 200, kSleepPart = 32;
constexpr Clock::duration kShortestSleep = std::chrono::microseconds(10), kLongestSleep = std::chrono::milliseconds(5);
constexpr Clock::duration kUnwinding = std::chrono::seconds(1);  // the others do their part, or are lost, too

}  // namespace

Handle::~Handle() {
  if (!operation_) return;
  assert(std::uncaught_exceptions() > 0);
  // The exception frees the buffers next, into which MPI may still write.
  try {
    for (const auto start = Clock::now(); !operation_->test() && Clock::now() - start < kUnwinding;)
      std::this_thread::sleep_for(kShortestSleep);
  } catch (...) {  // it has failed: nothing is written any more
  }
}

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

void Handle::wait(std::string_view what, std::chrono::duration<double> deadline, const std::function<void()>& check) {
  const auto start = Clock::now();
  for (int turn = 0; !test(); ++turn) {
    if (check) check();
    if (turn < kSpins) {
      std::this_thread::yield();
      continue;
    }
    const Clock::duration waited = Clock::now() - start;
    if (waited > deadline) {
      abandon();
      fail(ErrorKind::comm, "{}: no answer from the other ranks for {:.1f} s; check the slowest rank", what,
           std::chrono::duration<double>(waited).count());
    }
    std::this_thread::sleep_for(std::clamp(waited / kSleepPart, kShortestSleep, kLongestSleep));
  }
}

}  // namespace trireme
