#pragma once
// Runs tasks in order on another thread, so that waiting for a disk does not block compute.

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
  /// Waits for the tasks; ignores their exceptions.
  ~BackgroundTasks();

  /// Waits until fewer than `most` are unfinished. Throws an earlier task's exception; the tasks after it are dropped,
  /// including this one.
  void add(std::function<void()> task);
  /// Waits for all tasks. Throws a task's exception, also in later calls.
  void finish();

 private:
  void run();

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // the first one is running
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trireme
