#include "base/listen_address.h"

#include <charconv>

namespace trireme {

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
