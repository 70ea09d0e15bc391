#pragma once
#include <string>

namespace trireme {

/// This host's own name; "unknown" if it has none.
std::string host_name();
/// Path of this program.
std::string program_path();
/// nullptr where it is not set.
const char* environment_variable(const char* name);

/// Which start of which kernel this is; "" where the system does not say.
std::string boot_id();

}  // namespace trireme
