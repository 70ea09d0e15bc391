#pragma once
// The variables that Hugging Face's own programs are set with, so that both work on the same cache with the same hub.

#include <functional>
#include <span>
#include <string>

namespace trireme::hub {

struct Settings {
  std::string cache;     ///< HF_HUB_CACHE, or "hub" in HF_HOME, which is ~/.cache/huggingface by default
  std::string endpoint;  ///< HF_ENDPOINT, https://huggingface.co by default; no '/' at its end
  std::string token;     ///< HF_TOKEN, or what the file HF_TOKEN_PATH (HF_HOME/token) holds; empty: none
  bool offline = false;  ///< HF_HUB_OFFLINE
  std::string
      certificates;  ///< file of authorities: REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE; empty: the system's
  int connect_seconds = 10;  ///< HF_HUB_ETAG_TIMEOUT
  int first_attempts = 2;    ///< until some server has answered; five from then on
  int stalled_seconds = 10;  ///< HF_HUB_DOWNLOAD_TIMEOUT: without a byte for so long a transfer is begun anew
  double first_wait = 1;     ///< seconds before the second attempt; doubles with each
};

/// Variables that say how to reach the hub and its cache: a launcher passes them on to all hosts.
std::span<const char* const> passed_variables();

/// nullptr for a variable that is not set.
using Environment = std::function<const char*(const char*)>;

/// Throws Error::config for an endpoint that is no https URL (http is for this host only), a time that is no number of
/// seconds, or where neither HF_HOME nor HOME tells where the cache is.
Settings read_settings(const Environment& environment);
/// Of this process.
Settings read_settings();
/// Of this process, for a name that may be a mistyped path: one attempt, and unless HF_HUB_ETAG_TIMEOUT is set 3 s to
/// connect.
Settings settings_for_names();

}  // namespace trireme::hub
