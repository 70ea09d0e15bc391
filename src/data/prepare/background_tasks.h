#pragma once
// Work that another thread does in the order in which it is given: what waits for a disk does not hold up who computes.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace trireme {

/// Used by one thread at a time. The other thread starts with the first task.
class BackgroundTasks {
 public:
  /// `most`: tasks that may be unfinished at a time.
  explicit BackgroundTasks(size_t most) : most_(most) {}
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;
  /// Waits for the tasks; nobody hears of their exceptions.
  ~BackgroundTasks();

  /// Waits until fewer than `most` are unfinished. Throws what an earlier task threw; the tasks after that one are
  /// dropped, this one too.
  void add(std::function<void()> task);
  /// Waits for all of them. Throws what one of them threw, now and whenever it is called again.
  void finish();

 private:
  void run();

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // the first one is worked on
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trireme
