#pragma once
#include <string>

namespace trireme {

/// This host's own name; "unknown" if it has none.
std::string host_name();
/// Path of this program.
std::string program_path();
/// nullptr if it is not set.
const char* environment_variable(const char* name);

/// The kernel's boot id; "" if the system does not report it.
std::string boot_id();

}  // namespace trireme
