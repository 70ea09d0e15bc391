#include "base/error.h"

#include "base/printable.h"

namespace trireme {

Error::Error(ErrorKind kind, const std::string& message) : std::runtime_error(printable(message)), kind_(kind) {}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::config:
    case ErrorKind::mismatch:
      return 2;
    case ErrorKind::stopped:
      return 75;
    case ErrorKind::peer:
      return 76;
    default:
      return 1;
  }
}

}  // namespace trireme
