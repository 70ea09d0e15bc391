#pragma once
// The parts of a URL that decide where a request goes and who may see the token.

#include <string>
#include <string_view>

namespace trireme::hub {

struct Url {
  std::string scheme, host, port;  ///< lower case; port: "443" or "80" by default
  std::string path, query;         ///< path begins with '/'; query without '?'

  std::string text() const;
  /// For messages: without user, password, query and fragment, which may contain secrets.
  std::string shown() const;
  bool same_origin(const Url& other) const {
    return scheme == other.scheme && host == other.host && port == other.port;
  }
  bool is_this_host() const;
  /// https, or http on this host.
  bool may_be_asked() const { return scheme == "https" || (scheme == "http" && is_this_host()); }
};

/// Throws Error::data unless it is an absolute http or https URL without a user.
Url parse_url(std::string_view text);
/// The target of a Location header in an answer from `base`. Throws Error::data.
Url redirected(const Url& base, std::string_view location);

}  // namespace trireme::hub
