#pragma once
// Ranks as threads of the test (comm/local/local_group.h), each like a program's rank: with its own Heartbeat, its own
// name in the log, and one OpenMP thread.

#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "comm/heartbeat.h"
#include "comm/local/local_group.h"

namespace trireme {

using LocalBody = std::function<void(RankContext&)>;

/// Enough for work of some seconds on a busy machine with a sanitizer.
constexpr std::chrono::seconds kLocalPatience{300};

class LocalRanks {
 public:
  LocalRanks(int size, LocalOptions options)
      : members_(make_local_group(size, std::move(options))), endings_(members_.size()) {}

  void run(const LocalBody& body, std::chrono::milliseconds patience) {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < members_.size(); ++r) threads.emplace_back([this, r, &body] { run_rank(r, body); });
    const std::string late = revoke_after(patience);
    for (std::thread& thread : threads) thread.join();
    if (!late.empty()) fail_as_late(late);
    if (first_ || consequence_) std::rethrow_exception(first_ ? first_ : consequence_);
  }

 private:
  struct Ending {
    bool ended = false;
    std::string error;
  };

  void run_rank(size_t r, const LocalBody& body) {
    omp_set_num_threads(1);  // of this thread
    Heartbeat progress;
    RankContext context = rank_context(*members_[r], &progress);
    const log::ThreadIdentity identity({context.rank(), context.log_name});
    std::string error;
    try {
      body(context);
      if (testing::Test::HasFatalFailure()) error = "an assertion of the test failed";
    } catch (const LostMember& e) {
      error = e.what();
      keep(consequence_);
    } catch (const std::exception& e) {
      error = e.what();
      keep(first_);
    }
    if (!error.empty()) members_[r]->revoke(context.rank(), error);
    const std::lock_guard lock(mutex_);
    endings_[r] = {true, error};
    changed_.notify_all();
  }

  void keep(std::exception_ptr& place) {
    const std::lock_guard lock(mutex_);
    if (!place) place = std::current_exception();
  }

  /// Returns once all ranks have ended; ends the others after `patience` and returns them.
  std::string revoke_after(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    const auto running = [&] {
      std::vector<size_t> ranks;
      for (size_t r = 0; r < endings_.size(); ++r) {
        if (!endings_[r].ended) ranks.push_back(r);
      }
      return ranks;
    };
    if (changed_.wait_for(lock, patience, [&] { return running().empty(); })) return {};
    for (const size_t r : running()) late_.push_back(r);
    members_[0]->revoke(static_cast<int>(late_.front()), "the test's patience has ended");
    return fmt::format("{} of {} ranks had not ended after {} ms", late_.size(), endings_.size(), patience.count());
  }

  [[noreturn]] void fail_as_late(std::string text) const {
    for (const size_t r : late_) text += fmt::format("\n  rank {}: {}", r, endings_[r].error);
    throw Error(ErrorKind::comm, text);
  }

  std::vector<std::unique_ptr<LocalCommunicator>> members_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Ending> endings_;
  std::vector<size_t> late_;
  std::exception_ptr first_, consequence_;
};

/// Runs body on a thread per rank and waits for them. A rank whose body throws, or fails an ASSERT, is lost to the
/// others, so that no rank waits for it. Rethrows the first exception, without its consequences on other ranks. If
/// ranks wait for each other forever, throws Error::comm after `patience` with what each of them waited for.
inline void run_local(int size, const LocalBody& body, LocalOptions options = {},
                      std::chrono::milliseconds patience = kLocalPatience) {
  LocalRanks(size, std::move(options)).run(body, patience);
}

}  // namespace trireme
