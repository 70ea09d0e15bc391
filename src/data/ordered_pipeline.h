#pragma once
// One thread reads, several work, the caller's thread takes the results in the order of reading. Memory is bounded by
// the number of items in flight, and the items are used again, so their buffers are allocated once.

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
    std::function<bool(Item&)> read;  ///< fills an item; false: there are no more. Called by one thread
    std::function<void(Item&, int worker)> work;
    std::function<void(Item&)> take;  ///< in order, on the caller's thread
  };

  /// Runs to the end. The first exception of a stage stops all of them and is thrown here.
  static void run(int workers, Stages stages) { OrderedPipeline(workers, std::move(stages)).execute(); }

 private:
  // Two items per worker keep it busy while the writer waits for an earlier one; a few more for reader and writer.
  OrderedPipeline(int workers, Stages stages)
      : workers_(workers), stages_(std::move(stages)), slots_(static_cast<size_t>(workers) * 2 + 2) {}

  void execute() {
    std::vector<std::thread> threads;
    threads.emplace_back([this] { guarded([this] { read_all(); }); });
    for (int w = 0; w < workers_; ++w) threads.emplace_back([this, w] { guarded([this, w] { work_all(w); }); });
    guarded([this] { take_all(); });
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
  }

  template <class Body>
  void guarded(Body body) {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      notify_everyone();
    }
  }

  void notify_everyone() {
    for (std::condition_variable* changed : {&room_, &filled_, &worked_}) changed->notify_all();
  }

  struct Slot {
    Item item;
    bool done = false;
  };
  Slot& slot(uint64_t index) { return slots_[index % slots_.size()]; }

  void read_all() {
    for (uint64_t index = 0;; ++index) {
      {
        std::unique_lock lock(mutex_);
        room_.wait(lock, [&] { return error_ || index - taken_ < slots_.size(); });
        if (error_) return;
      }
      const bool more = stages_.read(slot(index).item);
      const std::lock_guard lock(mutex_);
      if (!more) {
        ended_ = true;
        return notify_everyone();
      }
      read_ = index + 1;
      filled_.notify_one();
    }
  }

  void work_all(int worker) {
    while (true) {
      uint64_t index;
      {
        std::unique_lock lock(mutex_);
        filled_.wait(lock, [&] { return error_ || ended_ || started_ < read_; });
        if (error_ || started_ == read_) return;
        index = started_++;
      }
      stages_.work(slot(index).item, worker);
      const std::lock_guard lock(mutex_);
      slot(index).done = true;
      if (index == taken_) worked_.notify_one();
    }
  }

  void take_all() {
    for (uint64_t index = 0;; ++index) {
      {
        std::unique_lock lock(mutex_);
        worked_.wait(lock, [&] { return error_ || slot(index).done || (ended_ && index == read_); });
        if (error_ || !slot(index).done) return;
      }
      stages_.take(slot(index).item);
      const std::lock_guard lock(mutex_);
      slot(index).done = false;
      taken_ = index + 1;
      room_.notify_one();
    }
  }

  const int workers_;
  const Stages stages_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable room_, filled_, worked_;  // what the reader, the workers and the taker wait for
  uint64_t read_ = 0, started_ = 0, taken_ = 0;
  bool ended_ = false;
  std::exception_ptr error_;
};

}  // namespace trireme
