#pragma once
#include <cstddef>

namespace trireme {

/// Throws Error::usage when more than `most` parts are summed by one launch.
void require_parts(size_t parts, size_t most);

}  // namespace trireme
