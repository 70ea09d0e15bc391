#pragma once
// Items are read in sequence, processed by several threads and taken in the order of reading. Every thread does all
// three: it takes ready items, otherwise reads the next item and processes it while it is in its core's own cache. So
// the number of threads equals the number of workers, without extra threads for hand-over. The number of items in
// flight bounds the memory; items are reused, so their buffers are allocated once.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme {

template <class Item>
class OrderedPipeline {
 public:
  struct Stages {
    std::function<bool(Item&)> read;  ///< fills an item; false at the end. One call at a time
    std::function<void(Item&, int worker)> work;
    std::function<void(Item&)> take;  ///< in order, one call at a time
  };

  /// Runs to the end, on the caller's thread and workers - 1 others. The first exception of a stage stops all of them
  /// and is rethrown here.
  static void run(int workers, Stages stages) { OrderedPipeline(workers, std::move(stages)).execute(); }

 private:
  // Two items per worker keep it busy while an earlier one is still processed; a few more for reading and taking.
  OrderedPipeline(int workers, Stages stages)
      : workers_(workers), stages_(std::move(stages)), slots_(static_cast<size_t>(workers) * 2 + 2) {}

  void execute() {
    std::vector<std::thread> threads;
    for (int worker = 1; worker < workers_; ++worker) threads.emplace_back([this, worker] { guarded_loop(worker); });
    guarded_loop(0);
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
  }

  void guarded_loop(int worker) {
    try {
      loop(worker);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  void loop(int worker) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return error_ || ended_ || can_take() || can_read(); });
      if (error_) return;
      if (can_take())
        take(lock);
      else if (can_read())
        read_and_work(lock, worker);
      else
        return;  // at the end; the threads that process the remaining items take them
    }
  }

  struct Slot {
    Item item;
    bool done = false;
  };
  Slot& slot(uint64_t index) { return slots_[index % slots_.size()]; }

  bool can_take() { return !taking_ && slot(taken_).done; }
  bool can_read() const { return !reading_ && !ended_ && read_ - taken_ < slots_.size(); }

  void take(std::unique_lock<std::mutex>& lock) {
    Slot& next = slot(taken_);
    taking_ = true;
    lock.unlock();
    stages_.take(next.item);
    lock.lock();
    taking_ = next.done = false;
    ++taken_;
    changed_.notify_one();  // there is room to read
  }

  void read_and_work(std::unique_lock<std::mutex>& lock, int worker) {
    Slot& next = slot(read_);
    reading_ = true;
    lock.unlock();
    const bool more = stages_.read(next.item);
    lock.lock();
    reading_ = false;
    if (!more) {
      ended_ = true;
      return changed_.notify_all();
    }
    ++read_;
    changed_.notify_one();  // another one can read
    lock.unlock();
    stages_.work(next.item, worker);
    lock.lock();
    next.done = true;
  }

  const int workers_;
  const Stages stages_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t read_ = 0, taken_ = 0;  // counts
  bool reading_ = false, taking_ = false;
  bool ended_ = false;
  std::exception_ptr error_;
};

}  // namespace trireme
