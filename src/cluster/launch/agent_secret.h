#pragma once
// The secret that the agents of a cluster and the head share.

#include <string>

namespace trireme::launch {

/// Used where no file is given, as in a container.
inline constexpr const char* kAgentSecretVariable = "TRIREME_AGENT_SECRET";

/// The text of `file` without blanks around it; of kAgentSecretVariable where `file` is empty. Throws Error::config
/// where it is missing or shorter than 32 characters, or the file is readable by others than its owner.
std::string read_agent_secret(const std::string& file);

/// A new random one into a file that does not exist yet, mode 0600. Throws Error::io.
void write_agent_secret(const std::string& file);

}  // namespace trireme::launch
