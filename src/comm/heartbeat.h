#pragma once
// What this rank is doing, for the control channel (comm/control/control.h): training threads write it, the channel's
// thread reads it. Costs a few relaxed stores per collective; a reader may see fields of two instants.

#include <atomic>
#include <cstdint>
#include <string>

#include "base/time.h"
#include "comm/cpu_account.h"

namespace trireme {

enum class Phase : uint8_t { start, step, evaluation, save };

const char* name_of(Phase phase);

/// One rank as others see it.
struct RankState {
  Phase phase = Phase::start;  ///< start lasts until the attempt's first step has ended
  int64_t step = 0;            ///< steps done
  uint64_t moves = 0;          ///< grows with any progress
  double cpu_seconds = 0;      ///< of the main thread: grows while it computes or is ready to run
  std::string collective;      ///< what is waited for; empty: nothing
  uint64_t bytes = 0;          ///< of that collective, this rank's part; 0: unknown
  uint64_t chunks = 0;         ///< of it that are complete
  double seconds = 0;          ///< waited so far
};

/// "step 57, waiting for the sum of gradients (1.2 MB, 3 chunks done) for 0.4 s"
std::string describe(const RankState& state);

class Heartbeat {
 public:
  /// The calling thread is the main one.
  Heartbeat();

  void enter(Phase phase) {
    phase_.store(phase, std::memory_order_relaxed);
    move();
  }
  Phase phase() const { return phase_.load(std::memory_order_relaxed); }
  void set_step(int64_t step) {
    step_.store(step, std::memory_order_relaxed);
    move();
  }
  void move() { moves_.fetch_add(1, std::memory_order_relaxed); }
  /// This many more chunks of the awaited collective are complete.
  void chunks_done(uint64_t count) {
    chunks_.fetch_add(count, std::memory_order_relaxed);
    move();
  }
  /// A collective that may overlap with compute begins: counts its chunks from here.
  void begin_chunks() { chunks_.store(0, std::memory_order_relaxed); }

  RankState state() const;
  /// Seconds that the main thread has waited for other ranks since construction. Main thread only.
  double waited_seconds() const { return waited_; }
  /// Processor time of this rank's threads.
  CpuAccount& cpu() const { return cpu_; }

 private:
  friend class Waiting;
  std::atomic<Phase> phase_ = Phase::start;
  std::atomic<int64_t> step_ = 0;
  std::atomic<uint64_t> moves_ = 0, chunks_ = 0, bytes_ = 0;
  std::atomic<const char*> collective_ = nullptr;
  std::atomic<Clock::rep> since_ = 0;
  double waited_ = 0;
  int cpu_clock_ = 0, main_thread_ = 0;
  mutable CpuAccount cpu_;
  mutable std::atomic<int64_t> found_ready_ = 0;  ///< calls of state() that found the main thread ready to run
};

/// A phase within a scope; the enclosing phase resumes after it.
class InPhase {
 public:
  InPhase(Heartbeat& moves, Phase phase) : moves_(moves), around_(moves.phase()) { moves_.enter(phase); }
  ~InPhase() { moves_.enter(around_); }
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  Heartbeat& moves_;
  Phase around_;
};

/// While it exists the main thread waits for a collective.
class Waiting {
 public:
  /// heartbeat may be nullptr; `what` exists as long as the program.
  Waiting(Heartbeat* heartbeat, const char* what, uint64_t bytes);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Heartbeat* heartbeat_;
  Clock::time_point start_;
  double cpu_start_ = 0;
};

}  // namespace trireme
