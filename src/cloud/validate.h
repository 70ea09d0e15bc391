#pragma once
// Checks across several options of a cluster's file.

#include <cstdint>
#include <string>
#include <string_view>

#include "cloud/options.h"

namespace trireme::cloud {

/// Throws Error::config naming `path`, the option, the value found and the remedy.
void validate(const ClusterOptions& options, const std::string& path);

/// Throws Error::config naming file and line, never the secret itself, for a key with the name of a secret (password,
/// secret, token, ...) and a value, a private key, an access key of AWS, a key or signature of an Azure storage
/// account, or a bearer token.
void refuse_secrets(std::string_view text, const std::string& path);

/// Throws Error::config if software.package or software.source cannot be copied to a node. An existing cluster does not
/// need them, so validate() does not check them. A package without the library for GPUs on machines that have some is a
/// warning.
void require_software(const ClusterOptions& options);

/// Throws Error::config if new machines would have no Trireme: with the provider's image and no package or sources.
void require_software_for_new(const ClusterOptions& options);

/// A network in CIDR form, "10.60.0.0/24".
struct AddressRange {
  uint32_t first = 0;
  int bits = 32;
  /// "10.60.0.5" for 5. Precondition: inside the range.
  std::string address(uint32_t offset) const;
  uint64_t size() const { return uint64_t{1} << (32 - bits); }
};

/// False if it is not a network: a form other than a.b.c.d/n, or bits after the prefix.
bool parse_range(const std::string& text, AddressRange& range);

}  // namespace trireme::cloud
