#include "base/http_address.h"

namespace trireme {

std::optional<HttpAddress> parse_http_address(std::string_view text) {
  const size_t scheme = text.starts_with("http://") ? 7 : text.starts_with("https://") ? 8 : 0;
  if (scheme == 0 || text.find_first_of(" \t\r\n?#@") != std::string_view::npos) return {};
  const size_t slash = text.find('/', scheme);
  if (text.size() == scheme || slash == scheme) return {};
  std::string_view path = slash == std::string_view::npos ? std::string_view() : text.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  return HttpAddress{std::string(text.substr(0, slash)), std::string(path)};
}

}  // namespace trireme
