#pragma once
// Answers `trireme status`, `stop` and `attach` from any terminal: a TCP port of rank 0, and of the launch around the
// job. Both ends prove that they know the job's secret (from the file of checkpoint/run_folder/run_control.h) without
// sending it (comm/control/secret.h), in lines of JSON:
//   <- {"challenge": NONCE}
//   -> {"nonce": NONCE, "proof": PROOF} and, as the next line, what the proof is about:
//      {"do": "status" | "stop" | "attach", "now": false, "who": "ann on h1"}
//   <- {"accepted": PROOF}
//   <- status: {"status": {...}}; attach: {"line": TEXT} for the last lines of the log and all that follow
//   <- stop, attach: {"end": {...}} when the job has ended normally
// It is separate from the control channel (comm/control/control.h), so that nothing here can be mistaken for a lost
// rank. Connections without the secret and slow readers are closed; the server never waits for a client.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/control/socket.h"

#include "comm/cpu_account.h"

namespace trireme {

/// A request to stop the job at its next step boundary.
struct StopRequest {
  std::string why;             ///< for messages: "trireme stop (ann on h1)"
  bool stays_stopped = false;  ///< the job must not be queued again
  bool operator==(const StopRequest&) const = default;
};

struct StatusServerOptions {
  bool this_host_only = true;  ///< listens on the loopback interface
  std::string interface;       ///< otherwise the interface whose addresses are published; empty: all
  std::string secret;          ///< empty: a new one
  /// A JSON object: the job's state. This and the following functions run on the server's thread.
  std::function<std::string()> status;
  /// A stop request by "trireme stop (ann on h1)"; called again if one without `now` is followed by one with it. True:
  /// leave() is called as soon as all waiting clients have received the end.
  std::function<bool(const std::string& who, bool now)> on_stop;
  std::function<void()> leave;
  CpuAccount* cpu = nullptr;  ///< counts what its thread uses
};

class StatusServer {
 public:
  /// Throws Error::comm, Error::config.
  explicit StatusServer(StatusServerOptions options);
  /// Closes every connection once its pending data is sent, at the latest after a second.
  ~StatusServer();
  const std::string& secret() const;
  /// ADDRESS:PORT; the loopback address is the last.
  std::vector<std::string> addresses() const;
  /// Adds a line of the log. From any thread.
  void say(std::string_view line);
  /// The last line; empty before the first.
  std::string last_line() const;
  /// The job's final state, a JSON object.
  void end(std::string json);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

/// A request to a status server.
class StatusClient {
 public:
  /// request: a JSON object without line breaks. Throws Error::comm with the reason for each address tried.
  StatusClient(const std::vector<std::string>& addresses, const std::string& secret, std::string request);
  /// The next line; empty if none arrived within that time or the other end has closed.
  std::optional<std::string> next(double seconds);
  bool closed() const { return closed_; }

 private:
  /// Why the other end is not the job's server; empty: it is.
  std::string greet(const std::string& secret, const std::string& request);
  std::optional<std::string> take_line();

  Socket socket_;
  std::string bytes_;
  bool closed_ = false;
};

}  // namespace trireme
