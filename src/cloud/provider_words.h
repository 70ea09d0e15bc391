#pragma once
// Recognizes messages of az and aws: both exit with the same code for most failures and name the reason only in their
// messages. Follows the providers' documented error codes; tested with substitutes and the parsers of azure-cli and
// awscli, never with the real services.

#include <string>

namespace trireme::cloud {

/// The line of a message with the reason: az repeats the parts of its message after it, aws prints nothing after it.
std::string reason_in(const std::string& message);

/// "ssh-ed25519 AAAA..." of a line with a host key, which may have a comment; else empty.
std::string host_key_in(const std::string& line);

bool is_azure_not_found(const std::string& reason);
bool is_azure_group_not_found(const std::string& reason);
/// Azure has no machine of a size free.
bool is_azure_no_capacity(const std::string& reason);

bool is_aws_no_stack(const std::string& reason);
/// A stack is in the requested state.
bool is_aws_no_update(const std::string& reason);

}  // namespace trireme::cloud
