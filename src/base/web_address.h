#pragma once
// Addresses of web services as texts: where one is, and where one listens.

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

/// Where a server listens.
struct ListenAddress {
  std::string host = "127.0.0.1";  ///< an IPv6 address without brackets
  int port = 0;                    ///< 0: any free one

  bool is_loopback() const;
  bool operator==(const ListenAddress&) const = default;
};

/// "9464" (on 127.0.0.1), "0.0.0.0:9464", "node1:9464", "[::1]:9464"; nullopt for any other text.
std::optional<ListenAddress> parse_listen_address(std::string_view text);

}  // namespace trireme
