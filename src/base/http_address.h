#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

/// The place of a web service.
struct HttpAddress {
  std::string origin;  ///< "http://host:5000"
  std::string path;    ///< "" or "/folder", without a slash at its end
};

/// "http://host:5000", "https://host/folder/"; nullopt for any other text, names and passwords in it included.
std::optional<HttpAddress> parse_http_address(std::string_view text);

}  // namespace trireme
