#include "cuda/limits.h"

#include "base/error.h"

namespace trireme {

void require_parts(size_t parts, size_t most) {
  require(parts <= most, ErrorKind::usage,
          "sum_contributions: {} ranks share a gradient, but GPUs support at most {}; use fewer data ranks", parts,
          most);
}

}  // namespace trireme
