#pragma once
#include <string>

namespace trireme {

/// This host's own name; "unknown" if it has none.
std::string host_name();

}  // namespace trireme
