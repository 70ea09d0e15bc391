#pragma once
// Errors that all ranks share: every rank throws, one of them logs the reason, and no rank waits for one that has
// failed.

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "comm/scalars.h"

namespace trireme {

/// An error that all ranks throw at the same point. Process::run() logs it once and ends every rank in order.
class CommonError : public Error {
 public:
  using Error::Error;
};

/// Collective. `failure`: what went wrong on this rank, empty: nothing. Throws CommonError with the failure of the
/// lowest rank that has one: its kind, its text, and "rank R on HOST: " before it unless that is rank 0.
void agree_on_success(Scalars& scalars, const std::string& failure, ErrorKind kind = ErrorKind::io);

/// Collective. Runs body() on every rank; no rank may wait for another in it. Its exceptions are agreed on as above.
void together(Scalars& scalars, const std::function<void()>& body);

}  // namespace trireme
