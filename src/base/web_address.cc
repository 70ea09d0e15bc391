#include "base/web_address.h"

#include <charconv>

namespace trireme {
namespace {

/// "node1", "node1:5000", "[::1]:5000": a host and, after a colon, a port of 1 to 65535.
bool is_host_and_port(std::string_view text) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : 0, colon = text.find(':', bracket);
  if (bracket == std::string_view::npos) return false;
  const std::string_view host = text.substr(0, colon);
  if (host.empty() || host == "[]" || (bracket > 0 && host.size() != bracket + 1)) return false;
  if (colon == std::string_view::npos) return true;
  int port = 0;
  const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, port);
  return error == std::errc() && rest == end && port > 0 && port <= 65535;
}

}  // namespace

std::optional<HttpAddress> parse_http_address(std::string_view text) {
  const size_t scheme = text.starts_with("http://") ? 7 : text.starts_with("https://") ? 8 : 0;
  if (scheme == 0 || text.find_first_of(" \t\r\n?#@") != std::string_view::npos) return {};
  const size_t slash = text.find('/', scheme);
  if (!is_host_and_port(text.substr(scheme, slash == std::string_view::npos ? slash : slash - scheme))) return {};
  std::string_view path = slash == std::string_view::npos ? std::string_view() : text.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  return HttpAddress{std::string(text.substr(0, slash)), std::string(path)};
}

bool ListenAddress::is_loopback() const { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::optional<ListenAddress> parse_listen_address(std::string_view text) {
  ListenAddress address;
  const size_t colon = text.rfind(':');
  std::string_view port = text;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    port.remove_prefix(colon + 1);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    if (host.empty() || (!bracketed && host.find_first_of(":[] ") != std::string_view::npos)) return std::nullopt;
    address.host = host;
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port < 0 || address.port > 65535)
    return std::nullopt;
  return address;
}

}  // namespace trireme
