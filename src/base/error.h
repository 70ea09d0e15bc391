#pragma once
// The one exception type for user and I/O faults. Broken invariants of our own use assert(). Wording: what failed,
// found, expected, its source, what to do; lower case, no "!". The logger adds rank and host.

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace trireme {

enum class ErrorKind {
  usage,     ///< wrong flags or command
  config,    ///< wrong option value, combination or file
  mismatch,  ///< ranks do not form one job (world size, config, binary, parameters)
  io,        ///< file missing, unreadable, disk full
  data,      ///< wrong content of a data, tokenizer or model file
  shape,     ///< tensors do not fit an operator
  comm,      ///< communication failed
  peer,      ///< a peer was lost or hangs
  locked,    ///< the run folder belongs to another job
  numeric,   ///< NaN or Inf stopped the run
  stopped,   ///< a stop was requested
};

class Error : public std::runtime_error {
 public:
  /// Makes the message printable, since it contains text from outside (base/printable.h).
  Error(ErrorKind kind, const std::string& message);
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Process exit code for an error: 1 error, 2 usage, configuration or mismatch, 75 stopped (requeue), 76 peer lost or
/// hung.
int exit_code(ErrorKind kind);

/// Throws Error(kind) with the formatted message.
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error(kind) with the formatted message unless condition holds.
template <class... Args>
void require(bool condition, ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace trireme
