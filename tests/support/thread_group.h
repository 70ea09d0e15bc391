#pragma once
// Ranks as threads of the test: enough of a communicator for comm/scalars. Every call is complete
// when it returns.

#include <barrier>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"

namespace trireme {

class ThreadGroup {
 public:
  /// Calls body(communicator) on `size` threads, waits for them and throws what the lowest failing rank threw.
  static void run(int size, const std::function<void(Communicator&)>& body) {
    ThreadGroup group(size);
    std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        Member member(group, rank);
        try {
          body(member);
        } catch (...) {
          errors[static_cast<size_t>(rank)] = std::current_exception();
          group.barrier_.arrive_and_drop();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  explicit ThreadGroup(int size) : size_(size), barrier_(size), buffers_(static_cast<size_t>(size)) {}

  class Member final : public Communicator {
   public:
    Member(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return group_.size_; }
    std::string backend() const override { return "threads"; }

    Handle all_gather(ConstView x, View y) override {
      exchange(x, [&] {
        for (size_t r = 0; r < group_.buffers_.size(); ++r) {
          std::memcpy(static_cast<std::byte*>(y.data()) + r * x.bytes(), group_.buffers_[r].data(), x.bytes());
        }
      });
      return {};
    }
    Handle broadcast(View x, int root) override {
      exchange(x, [&] {
        if (root != rank_) std::memcpy(x.data(), group_.buffers_[static_cast<size_t>(root)].data(), x.bytes());
      });
      return {};
    }
    Handle barrier() override {
      group_.barrier_.arrive_and_wait();
      return {};
    }
    Handle all_reduce(View, Reduction) override { absent("all_reduce"); }
    Handle reduce_scatter(ConstView, View) override { absent("reduce_scatter"); }
    Handle all_to_all(ConstView, View) override { absent("all_to_all"); }
    Handle send(ConstView, int, int) override { absent("send"); }
    Handle receive(View, int, int) override { absent("receive"); }
    std::unique_ptr<Communicator> split(int, int) override { absent("split"); }

   private:
    [[noreturn]] void absent(const char* call) { fail(ErrorKind::comm, "ranks as threads have no {}", call); }

    /// Shows x to the others while read() runs on every rank.
    template <class Read>
    void exchange(ConstView x, Read read) {
      group_.buffers_[static_cast<size_t>(rank_)] = x;
      group_.barrier_.arrive_and_wait();
      read();
      group_.barrier_.arrive_and_wait();
    }
    ThreadGroup& group_;
    int rank_;
  };

  int size_;
  std::barrier<> barrier_;
  std::vector<ConstView> buffers_;
};

}  // namespace trireme
