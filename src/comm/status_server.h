#pragma once
// Answers `trireme status`, `stop` and `attach` from any terminal: a TCP port of rank 0, and of the launch around the
// job. Whoever connects sends one line of JSON that shows the job's secret (checkpoint/run_control.h: where it stands)
// and gets lines of JSON:
//   -> {"secret": ..., "do": "status" | "stop" | "attach", "now": false, "who": "ann on h1"}
//   <- {"accepted": true}
//   <- status: {"status": {...}}; attach: {"line": TEXT} for the last lines of the log and all that follow
//   <- stop, attach: {"end": {...}} when the job has ended in order
// It is beside the control channel (comm/control.h), so that nothing that happens here can be taken for a lost rank.
// Strangers are dropped; who reads too slowly loses the connection; nobody is ever waited for.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/socket.h"

#include "comm/cpu_account.h"

namespace trireme {

struct StatusServerOptions {
  bool this_host_only = true;  ///< listens on the loopback interface
  std::string interface;       ///< else: whose addresses are told; empty: of all
  std::string secret;          ///< empty: a new one
  /// A JSON object: how the job is doing. Runs on the server's thread, as what follows does.
  std::function<std::string()> status;
  /// A stop was asked for, by "trireme stop (ann on h1)"; again when one that was not `now` is followed by one that is.
  /// True: leave() is called as soon as all who wait have been told the end.
  std::function<bool(const std::string& who, bool now)> on_stop;
  std::function<void()> leave;
  CpuAccount* cpu = nullptr;  ///< counts what its thread uses
};

class StatusServer {
 public:
  /// Throws Error::comm, Error::config.
  explicit StatusServer(StatusServerOptions options);
  /// Closes every connection once what was to be sent is gone, at the latest after a second.
  ~StatusServer();
  const std::string& secret() const;
  /// ADDRESS:PORT; the loopback interface's is the last.
  std::vector<std::string> addresses() const;
  /// A line of the log. From any thread.
  void say(std::string_view line);
  /// The last line that was said; empty before one.
  std::string last_line() const;
  /// The job's last word, a JSON object.
  void end(std::string json);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

/// A request to a status server.
class StatusClient {
 public:
  /// request: a JSON object without line breaks. Throws Error::comm with the reason for each address that was tried.
  StatusClient(const std::vector<std::string>& addresses, const std::string& request);
  /// The next line; nothing when none came within that time or the other end has closed.
  std::optional<std::string> next(double seconds);
  bool closed() const { return closed_; }

 private:
  bool greet(std::string& why);
  std::optional<std::string> take_line();

  Socket socket_;
  std::string request_, bytes_;
  bool closed_ = false;
};

}  // namespace trireme
