#include "base/error.h"

namespace trireme {

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
