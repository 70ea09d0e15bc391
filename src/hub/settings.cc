#include "hub/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/text.h"

namespace trireme::hub {
namespace {

/// "host", "host:1", "[::1]:1" into both parts.
bool split_authority(std::string_view text, Url& url) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == text.npos) return false;
  const size_t colon = text.find(':', bracket);
  url.host = lower_case(text.substr(0, colon));
  if (colon == text.npos) {
    url.port = url.scheme == "https" ? "443" : "80";
  } else {
    url.port = text.substr(colon + 1);
  }
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-._[]:").find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !url.host.empty() && std::ranges::all_of(url.host, fits) && !url.port.empty() && url.port.size() <= 5 &&
         std::ranges::all_of(url.port, is_digit);
}

void split_target(std::string_view text, Url& url) {
  text = text.substr(0, text.find('#'));
  const size_t question = text.find('?');
  url.path = text.substr(0, question);
  if (url.path.empty()) url.path = "/";
  url.query = question == text.npos ? "" : std::string(text.substr(question + 1));
}

}  // namespace

std::string Url::text() const { return shown() + (query.empty() ? "" : "?" + query); }

std::string Url::shown() const {
  const bool usual = port == (scheme == "https" ? "443" : "80");
  return fmt::format("{}://{}{}{}", scheme, host, usual ? "" : ":" + port, path == "/" ? "" : path);
}

bool Url::is_this_host() const {
  if (host == "localhost" || host == "[::1]") return true;
  const bool numbers = host.find_first_not_of("0123456789.") == host.npos;
  return numbers && host.starts_with("127.") && std::ranges::count(host, '.') == 3;
}

Url parse_url(std::string_view text) {
  Url url;
  const size_t colon = text.find("://");
  const bool clean = std::ranges::none_of(text, [](unsigned char c) { return c <= 0x20 || c == 0x7F; });
  bool good = clean && colon != text.npos;
  if (good) {
    url.scheme = lower_case(text.substr(0, colon));
    const std::string_view rest = text.substr(colon + 3);
    const size_t end = std::min(rest.find_first_of("/?#"), rest.size());
    good = (url.scheme == "https" || url.scheme == "http") && split_authority(rest.substr(0, end), url);
    split_target(rest.substr(end), url);
  }
  require(good, ErrorKind::data, "\"{}\" is not a URL of a hub; expected https://HOST/...",
          text.substr(0, text.find_first_of("?@")));
  return url;
}

Url redirected(const Url& base, std::string_view location) {
  if (location.find("://") != location.npos && location.find("://") < location.find_first_of("/?#"))
    return parse_url(location);
  if (location.starts_with("//")) return parse_url(base.scheme + ":" + std::string(location));
  Url url = base;
  const bool clean = std::ranges::none_of(location, [](unsigned char c) { return c <= 0x20 || c == 0x7F; });
  require(clean && !location.empty(), ErrorKind::data, "{} redirects to \"{}\", which is not a URL", base.shown(),
          location);
  if (location.starts_with('/')) {
    split_target(location, url);
  } else {
    split_target(base.path.substr(0, base.path.rfind('/') + 1) + std::string(location), url);
  }
  return url;
}

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTokenBytes = 4096;

std::string value_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

bool is_true(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text == "1" || text == "ON" || text == "YES" || text == "TRUE";
}

/// Expands "~/x" as shells and Python do.
std::string expanded(std::string path, const std::string& home) {
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, home);
  return path;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string read_token(const Environment& environment, const std::string& home, const std::string& folder) {
  if (is_true(value_of(environment, {"HF_HUB_DISABLE_IMPLICIT_TOKEN"}))) return "";
  std::string token = trimmed(value_of(environment, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (token.empty()) {
    std::string path = expanded(value_of(environment, {"HF_TOKEN_PATH"}), home);
    if (path.empty()) path = folder + "/token";
    std::error_code unreadable;
    if (fs::is_regular_file(path, unreadable)) token = trimmed(read_text(path, kMostTokenBytes));
  }
  // It becomes a line of a request, so it must not contain line breaks.
  const bool plain = std::ranges::all_of(token, [](unsigned char c) { return c > 0x20 && c < 0x7F; });
  require(plain, ErrorKind::config,
          "the token of the Hugging Face hub (HF_TOKEN or its file) contains blanks or control characters; expected "
          "one word like hf_...");
  return token;
}

int seconds(const Environment& environment, const char* name, int otherwise) {
  const std::string text = value_of(environment, {name});
  if (text.empty()) return otherwise;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size() && value > 0 && value <= 86400, ErrorKind::config,
          "{} is \"{}\", expected seconds from 1 to 86400", name, text);
  return value;
}

std::string checked_endpoint(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  const Url url = parse_url(text);
  require(url.query.empty(), ErrorKind::config, "HF_ENDPOINT {} has a query; expected https://HOST", url.shown());
  require(url.may_be_asked(), ErrorKind::config,
          "HF_ENDPOINT is {}; expected an https URL (http is for a hub on this host only)", url.shown());
  return text;
}

}  // namespace

Settings read_settings(const Environment& environment) {
  const std::string home = value_of(environment, {"HOME"});
  std::string folder = expanded(value_of(environment, {"HF_HOME"}), home);
  if (folder.empty()) {
    const std::string base = value_of(environment, {"XDG_CACHE_HOME"});
    require(!base.empty() || !home.empty(), ErrorKind::config,
            "neither HF_HOME nor HOME is set: cannot locate the cache of models and data sets; set HF_HOME");
    folder = (base.empty() ? home + "/.cache" : base) + "/huggingface";
  }
  Settings settings;
  settings.cache = expanded(value_of(environment, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}), home);
  if (settings.cache.empty()) settings.cache = folder + "/hub";
  std::string endpoint = value_of(environment, {"HF_ENDPOINT"});
  settings.endpoint = checked_endpoint(endpoint.empty() ? "https://huggingface.co" : endpoint);
  settings.offline = is_true(value_of(environment, {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  settings.token = read_token(environment, home, folder);
  settings.certificates = value_of(environment, {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"});
  settings.connect_seconds = seconds(environment, "HF_HUB_ETAG_TIMEOUT", settings.connect_seconds);
  settings.stalled_seconds = seconds(environment, "HF_HUB_DOWNLOAD_TIMEOUT", settings.stalled_seconds);
  return settings;
}

Settings read_settings() { return read_settings(environment_variable); }

Settings settings_for_names() {
  constexpr int kConnectSeconds = 3;
  Settings settings = read_settings();
  settings.first_attempts = 1;
  settings.connect_seconds = seconds(environment_variable, "HF_HUB_ETAG_TIMEOUT", kConnectSeconds);
  return settings;
}

std::span<const char* const> passed_variables() {
  static constexpr const char* kNames[] = {
      "HF_HOME",       "HF_HUB_CACHE",   "HF_ENDPOINT",         "HF_TOKEN",
      "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT",
      "https_proxy",   "HTTPS_PROXY",    "all_proxy",           "ALL_PROXY",
      "no_proxy",      "NO_PROXY"};
  return kNames;
}

}  // namespace trireme::hub
