#include "comm/heartbeat.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <ctime>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

// On an overloaded machine a thread may run for less than a millisecond per second. Being ready to run counts as this
// much compute: more than comm/control/liveness.cc treats as none.
constexpr double kReadySeconds = 2e-3;

/// Whether the thread runs or is ready to run.
bool is_ready(int thread) {
  try {
    const std::string stat = read_text(fmt::format("/proc/self/task/{}/stat", thread), 4096);
    const size_t name_end = stat.rfind(')');
    return name_end != std::string::npos && stat.compare(name_end, 3, ") R") == 0;
  } catch (const Error&) {
    return false;  // no /proc: its processor time alone decides
  }
}

}  // namespace

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::start:
      return "start";
    case Phase::step:
      return "step";
    case Phase::evaluation:
      return "evaluation";
    default:
      return "save";
  }
}

std::string describe(const RankState& state) {
  std::string text = state.phase == Phase::start  ? fmt::format("start-up after step {}", state.step)
                     : state.phase == Phase::step ? fmt::format("step {}", state.step + 1)
                                                  : fmt::format("{} after step {}", name_of(state.phase), state.step);
  if (state.collective.empty()) return text + ", not waiting for another rank";
  text += fmt::format(", waiting for {}", state.collective);
  if (state.bytes > 0) text += fmt::format(" ({} bytes, {} done)", state.bytes, count_text(state.chunks, "chunk"));
  return text + fmt::format(" for {:.1f} s", state.seconds);
}

Heartbeat::Heartbeat() {
  static_assert(sizeof(clockid_t) == sizeof(int));
  if (pthread_getcpuclockid(pthread_self(), &cpu_clock_) != 0) cpu_clock_ = CLOCK_PROCESS_CPUTIME_ID;
  main_thread_ = gettid();
}

RankState Heartbeat::state() const {
  RankState state;
  state.phase = phase_.load(std::memory_order_relaxed);
  state.step = step_.load(std::memory_order_relaxed);
  state.moves = moves_.load(std::memory_order_relaxed);
  timespec cpu{};
  clock_gettime(cpu_clock_, &cpu);
  if (is_ready(main_thread_)) found_ready_.fetch_add(1, std::memory_order_relaxed);
  state.cpu_seconds = static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec) +
                      kReadySeconds * static_cast<double>(found_ready_.load(std::memory_order_relaxed));
  if (const char* name = collective_.load(std::memory_order_acquire)) {
    state.collective = name;
    state.bytes = bytes_.load(std::memory_order_relaxed);
    state.chunks = chunks_.load(std::memory_order_relaxed);
    state.seconds = seconds_since(Clock::time_point(Clock::duration(since_.load(std::memory_order_relaxed))));
  }
  return state;
}

Waiting::Waiting(Heartbeat* heartbeat, const char* what, uint64_t bytes) : heartbeat_(heartbeat) {
  if (!heartbeat_) return;
  start_ = Clock::now();
  cpu_start_ = thread_cpu_seconds();
  heartbeat_->since_.store(start_.time_since_epoch().count(), std::memory_order_relaxed);
  heartbeat_->bytes_.store(bytes, std::memory_order_relaxed);
  heartbeat_->collective_.store(what, std::memory_order_release);
}

Waiting::~Waiting() {
  if (!heartbeat_) return;
  heartbeat_->collective_.store(nullptr, std::memory_order_relaxed);
  heartbeat_->waited_ += seconds_since(start_);
  heartbeat_->cpu_.add_waiting(thread_cpu_seconds() - cpu_start_);
  heartbeat_->move();
}

}  // namespace trireme
