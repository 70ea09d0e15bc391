#pragma once
// A web server for tests on 127.0.0.1, whose answers a test sets, also wrong ones. Its certificate is made at its
// start.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace trireme {

struct WebRequest {
  std::string method, path;                    ///< path as received, with its query
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

struct WebReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<uint64_t> length = {};     ///< Content-Length instead of the body's length
  std::optional<size_t> break_after = {};  ///< the connection ends after this many bytes of the body
  double stall_seconds = 0;                ///< before the body
  double hold_seconds = 0;                 ///< after the body, before the connection ends
};

class HttpsServer {
 public:
  using Handler = std::function<WebReply(const WebRequest&)>;
  enum class Security { tls, none };

  explicit HttpsServer(Handler handler, Security security = Security::tls);
  HttpsServer(const HttpsServer&) = delete;
  HttpsServer& operator=(const HttpsServer&) = delete;
  ~HttpsServer();

  /// "https://localhost:PORT"
  std::string url() const;
  int port() const { return port_; }
  /// File of the self-signed certificate; the same for all servers of a process.
  static std::string certificate();
  /// All requests so far.
  std::vector<WebRequest> requests() const;

 private:
  class Connection;
  void accept_all();
  void serve(int socket);

  Handler handler_;
  Security security_;
  int listener_ = -1, port_ = 0;
  mutable std::mutex mutex_;
  std::vector<WebRequest> requests_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace trireme
