#pragma once
// The HTTP port on which rank 0 shows a running job (log.metrics): GET /metrics for monitoring
// systems, GET / for people: a page that renews itself by GET /body. A monitoring system that scrapes too
// often, reads slowly or does not end its requests waits itself: two threads of the lowest priority answer one request
// each, a limited number per second, and training never waits for them.

#include <memory>
#include <string>

#include "base/web_address.h"
#include "report/live/run_board.h"

namespace trireme {

/// What a client has to send as "Authorization: Bearer TOKEN": the first line of a file. Throws Error::io,
/// Error::config naming the option if the line is empty.
std::string read_token(const std::string& path, const std::string& option);

class MetricsServer {
 public:
  /// token: empty: everybody may read who addresses it as this host. Throws Error::io if it cannot listen there.
  MetricsServer(const ListenAddress& address, std::string token, std::shared_ptr<const RunBoard> board);
  /// Closes all connections.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// "http://127.0.0.1:9464/"
  std::string url() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace trireme
