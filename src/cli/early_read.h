#pragma once
// What a command's arguments say is needed before MPI starts (run.start-timeout); what is wrong with them is told once,
// by all ranks together, after that.

#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "comm/start_watch.h"
#include "config/config.h"

namespace trireme {

template <class T>
class EarlyRead {
 public:
  explicit EarlyRead(const std::function<T()>& read) {
    try {
      value_ = read();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  /// nullptr: reading failed.
  const T* found() const { return value_ ? &*value_ : nullptr; }
  /// Throws what reading threw. Once.
  T take() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
  std::exception_ptr failure_;
};

inline StartLimit start_limit(const RunOptions& run) { return {run.start_timeout, "--run.start-timeout"}; }

}  // namespace trireme
