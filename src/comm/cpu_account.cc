#include "comm/cpu_account.h"

#include <fmt/format.h>
#include <pthread.h>

#include <ctime>
#include "base/count.h"

namespace trireme {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

CpuTimes CpuTimes::since(const CpuTimes& earlier) const {
  return {total - earlier.total, waiting - earlier.waiting, exchange - earlier.exchange, control - earlier.control};
}

CpuTimes CpuTimes::operator+(const CpuTimes& other) const {
  return {total + other.total, waiting + other.waiting, exchange + other.exchange, control + other.control};
}

std::string describe(const CpuTimes& times, int ranks) {
  const auto percent = [&](double seconds) { return times.total > 0 ? 100 * seconds / times.total : 0; };
  return fmt::format(
      "processor time of {}: {:.1f} s, of it {:.1f} % computing, {:.1f} % waiting for other ranks, {:.1f} % exchange "
      "of gradients, {:.1f} % control channel",
      count_text(ranks, "rank"), times.total, percent(times.total) - 100 * times.share_beside(), percent(times.waiting),
      percent(times.exchange), percent(times.control));
}

double thread_cpu_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

CpuAccount::Thread::Thread(CpuAccount* account, ThreadKind kind) : account_(account), kind_(kind) {
  pthread_setname_np(pthread_self(), kind == ThreadKind::exchange ? "exchange" : "control");
  if (!account_) return;
  if (pthread_getcpuclockid(pthread_self(), &clock_) != 0) clock_ = CLOCK_THREAD_CPUTIME_ID;
  before_ = thread_cpu_seconds();
  const std::lock_guard lock(account_->mutex_);
  place_ = account_->threads_.insert(account_->threads_.end(), this);
}

CpuAccount::Thread::~Thread() {
  if (!account_) return;
  const std::lock_guard lock(account_->mutex_);
  account_->threads_.erase(place_);
  account_->ended_[static_cast<size_t>(kind_)] += thread_cpu_seconds() - before_;
}

CpuTimes CpuAccount::times() const {
  const std::lock_guard lock(mutex_);
  std::array<double, 2> kinds = ended_;
  for (const Thread* thread : threads_)
    kinds[static_cast<size_t>(thread->kind_)] += seconds_of(thread->clock_) - thread->before_;
  return {seconds_of(CLOCK_PROCESS_CPUTIME_ID), waiting_.load(std::memory_order_relaxed), kinds[0], kinds[1]};
}

}  // namespace trireme
