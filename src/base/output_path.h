#pragma once
// Whether a result can be written where the user asks for it, before what it is about has been computed.

#include <string>

namespace trireme {

/// Why no file can be written under this name; empty: one can.
std::string why_no_output(const std::string& path);

}  // namespace trireme
