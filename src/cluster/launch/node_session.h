#pragma once
// The head's side: one node agent per host, over ssh, srun or the host's agent, all queried at the same time.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/launch/remote_shell.h"

namespace trireme::launch {

struct Problem {
  std::string host, what, fix;
  std::string peer = {};  ///< to which the host has no connection; empty: the host itself has the problem
};
/// "n2: its host key is unknown; connect once with ..."
std::string to_text(const Problem& problem);
/// One line per different problem, naming all hosts that have it: "h[2-5] (4 hosts): ...".
std::vector<std::string> group(const std::vector<Problem>& problems);

/// Hosts without which none of these problems is left: those that have one themselves, and as few as possible of those
/// that cannot reach each other, the later of two, but not one that `stays` if there is a choice.
std::vector<std::string> hosts_to_drop(const std::vector<Problem>& problems,
                                       const std::function<bool(const std::string&)>& stays);

struct AgentFailure {
  std::string reason, fix;
};
/// Why no agent answered, by the exit code and the standard error of the shell or the loader.
AgentFailure explain_agent_failure(const std::string& executable, int code, const std::string& messages);

class NodeSessions {
 public:
  /// Starts `executable node-agent` on every host (through ssh, srun or its agent, directly on this one); waits for the
  /// greetings. Hosts without a greeting are in problems() and get no requests.
  NodeSessions(const std::vector<std::string>& hosts, const std::string& executable, const RemoteOptions& options);
  /// Closes the streams; then the agents exit.
  ~NodeSessions();
  NodeSessions(const NodeSessions&) = delete;
  NodeSessions& operator=(const NodeSessions&) = delete;

  const std::vector<std::string>& hosts() const { return hosts_; }
  const std::vector<Problem>& problems() const { return problems_; }
  /// What problems() says of the host, with what to do; "no answer" if it says nothing.
  std::string why_no_answer(const std::string& host) const;

  /// Sends requests[i] to host i (null: nothing) and returns the answers; null if the host failed before, did not
  /// answer within `seconds`, or answered {"error"}: problems() says why.
  std::vector<Json> ask(const std::vector<Json>& requests, double seconds);
  std::vector<Json> ask_all(const Json& request, double seconds);
  /// Round-trip seconds of the last answer of each host.
  const std::vector<double>& round_trips() const { return round_trips_; }

 private:
  struct Session;
  void receive(double seconds, const std::vector<bool>& expected, std::vector<std::optional<std::string>>& lines,
               bool says_who_is_missing = false);
  bool greets_later(size_t i);
  void lose(size_t i, std::string what, std::string fix);

  std::vector<std::string> hosts_;
  std::vector<Session> sessions_;
  std::vector<Problem> problems_;
  std::vector<double> round_trips_;
  std::string executable_;
  RemoteOptions options_;
};

}  // namespace trireme::launch
