#pragma once
#include <string>

namespace trireme {

/// Version of the oneDNN library that is loaded, "2.6.3".
std::string onednn_version_text();

}  // namespace trireme
