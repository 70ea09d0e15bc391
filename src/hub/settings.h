#pragma once
// The environment variables of Hugging Face's programs, so that both use the same cache and hub.

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace trireme::hub {

// The parts of a URL that decide where a request goes and who may see the token.

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

struct Settings {
  std::string cache;     ///< HF_HUB_CACHE, or "hub" in HF_HOME, which is ~/.cache/huggingface by default
  std::string endpoint;  ///< HF_ENDPOINT, https://huggingface.co by default; no '/' at its end
  std::string token;     ///< HF_TOKEN, or what the file HF_TOKEN_PATH (HF_HOME/token) holds; empty: none
  bool offline = false;  ///< HF_HUB_OFFLINE
  std::string
      certificates;  ///< file of authorities: REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE; empty: the system's
  int connect_seconds = 10;  ///< HF_HUB_ETAG_TIMEOUT
  int first_attempts = 2;    ///< until a server has answered; five after that
  int stalled_seconds = 10;  ///< HF_HUB_DOWNLOAD_TIMEOUT: restarts a transfer without a byte for this long
  double first_wait = 1;     ///< seconds before the second attempt; doubles with each
};

/// Variables for reaching the hub and its cache; a launcher passes them to all hosts.
std::span<const char* const> passed_variables();

/// Returns nullptr for an unset variable.
using Environment = std::function<const char*(const char*)>;

/// Throws Error::config for an endpoint that is not an https URL (http is for this host only), a time that is not a
/// number of seconds, or if neither HF_HOME nor HOME is set.
Settings read_settings(const Environment& environment);
/// From this process's environment.
Settings read_settings();
/// From this process's environment, for a name that may be a mistyped path: one attempt, and 3 s to connect unless
/// HF_HUB_ETAG_TIMEOUT is set.
Settings settings_for_names();

}  // namespace trireme::hub
