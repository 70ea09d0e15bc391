#pragma once
// The processor time that a rank spends on coordination with other ranks, by thread clocks: if many ranks share cores,
// time that one burns while it waits is missing for another.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>

namespace trireme {

enum class ThreadKind : uint8_t {
  exchange,  ///< sends, receives and adds up tensors (comm/progress_thread.h)
  control    ///< listens to other ranks, to a launch, to a terminal; watches memory
};

/// Processor seconds; of one rank, or added up over several.
struct CpuTimes {
  double total = 0;    ///< of all threads of the process, including libraries' threads
  double waiting = 0;  ///< of the main thread while it waited for other ranks
  double exchange = 0, control = 0;

  CpuTimes since(const CpuTimes& earlier) const;
  CpuTimes operator+(const CpuTimes& other) const;
  /// The share of the total that is waiting, exchange and control.
  double share_beside() const { return total > 0 ? (waiting + exchange + control) / total : 0; }
  std::array<double, 4> values() const { return {total, waiting, exchange, control}; }
  static CpuTimes of(const std::array<double, 4>& values) { return {values[0], values[1], values[2], values[3]}; }
};

/// "processor time of 4 ranks: 81.2 s, of it 96.9 % computing, 0.5 % waiting for other ranks, 2.5 % exchange of
/// gradients, 0.1 % control channel"
std::string describe(const CpuTimes& times, int ranks);

/// The processor time of the calling thread (CLOCK_THREAD_CPUTIME_ID).
double thread_cpu_seconds();

/// From any thread.
class CpuAccount {
 public:
  CpuAccount() = default;
  CpuAccount(const CpuAccount&) = delete;
  CpuAccount& operator=(const CpuAccount&) = delete;

  /// While it exists, the thread that made it counts as this kind; `top -H` and perf show the kind's name.
  class Thread {
   public:
    /// account may be nullptr: not counted.
    Thread(CpuAccount* account, ThreadKind kind);
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;
    ~Thread();

   private:
    CpuAccount* account_;
    double before_ = 0;  ///< what the thread had used before
    std::list<Thread*>::iterator place_;
    ThreadKind kind_;
    int clock_ = 0;
    friend class CpuAccount;
  };

  void add_waiting(double seconds) { waiting_.fetch_add(seconds, std::memory_order_relaxed); }
  CpuTimes times() const;

 private:
  mutable std::mutex mutex_;
  std::list<Thread*> threads_;
  std::array<double, 2> ended_{};  ///< of threads that have ended, by kind
  std::atomic<double> waiting_ = 0;
};

}  // namespace trireme
