#pragma once
// What of a URL decides where a request goes and who may see the token.

#include <string>
#include <string_view>

namespace trireme::hub {

struct Url {
  std::string scheme, host, port;  ///< small letters; port: "443" or "80" where none is given
  std::string path, query;         ///< path begins with '/'; query without '?'

  std::string text() const;
  /// Without user, password, query and fragment, which may hold secrets: as messages show it.
  std::string shown() const;
  bool same_origin(const Url& other) const {
    return scheme == other.scheme && host == other.host && port == other.port;
  }
  bool is_this_host() const;
  /// https, or http on this host.
  bool may_be_asked() const { return scheme == "https" || (scheme == "http" && is_this_host()); }
};

/// Throws Error::data for what is no absolute http or https URL; one that names a user is none.
Url parse_url(std::string_view text);
/// Where a Location header of an answer from `base` leads. Throws Error::data.
Url redirected(const Url& base, std::string_view location);

}  // namespace trireme::hub
