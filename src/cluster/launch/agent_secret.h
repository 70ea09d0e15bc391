#pragma once
// The secret that the agents of a cluster and the head share.

#include <string>

namespace trireme::launch {

/// Used if no file is given, for example in a container.
inline constexpr const char* kAgentSecretVariable = "TRIREME_AGENT_SECRET";

/// The text of `file` without blanks around it, or of kAgentSecretVariable if `file` is empty. Throws Error::config if
/// it is missing or shorter than 32 characters, or others than the owner can read the file.
std::string read_agent_secret(const std::string& file);

/// Writes a new random secret into a file that must not exist, mode 0600. Throws Error::io.
void write_agent_secret(const std::string& file);

}  // namespace trireme::launch
