#include "hub/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
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

}  // namespace trireme::hub
