#include "data/prepare/background_tasks.h"

#include <utility>

namespace trireme {

BackgroundTasks::~BackgroundTasks() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundTasks::add(std::function<void()> task) {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.size() < most_; });
  if (error_) std::rethrow_exception(error_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void BackgroundTasks::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty(); });
  if (error_) std::rethrow_exception(error_);
}

void BackgroundTasks::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    if (!error_) {
      const std::function<void()>& task = tasks_.front();  // others only append
      lock.unlock();
      std::exception_ptr error;
      try {
        task();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
    }
    tasks_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace trireme
