#pragma once
#include <string>

namespace trireme {

/// Shows the records of a run folder as a live page at PORT or ADDRESS:PORT until a stop is requested; token: the file
/// whose first line readers must send, empty: none. Returns the exit code. Throws Error::usage, io, data.
int serve_page(const std::string& run, const std::string& address, const std::string& token);

}  // namespace trireme
