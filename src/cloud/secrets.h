#pragma once
// Secrets must not be in a cluster's file or in anything made from it.

#include <string>
#include <string_view>

namespace trireme::cloud {

/// Throws Error::config naming file and line, never the secret itself, for a key with the name of a secret (password,
/// secret, token, ...) and a value, a private key, an access key of AWS, a key or signature of an Azure storage
/// account, or a bearer token.
void refuse_secrets(std::string_view text, const std::string& path);

}  // namespace trireme::cloud
