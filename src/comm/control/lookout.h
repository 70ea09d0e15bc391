#pragma once
// Which hosts reach each other, found out when nothing moves: ranks connect to each other beside MPI. A rank that runs
// answers with the time since it last heard rank 0, so others learn whether rank 0 or a connection is lost.

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/control/socket.h"

namespace trireme {

/// Accepts such connections. What it says is no secret and needs none.
class Witness {
 public:
  /// Throws Error::comm.
  explicit Witness(bool loopback) : listener_(listen_on_free_port(loopback)) {}
  int fd() const { return listener_.fd(); }
  int port() const { return port_of(listener_); }
  /// Answers those that wait. Never waits itself.
  void answer(double hub_silent) const;

 private:
  Socket listener_;
};

struct LookoutTarget {
  int rank = 0;
  std::string address;
};

struct Sight {
  int rank = 0;
  std::string failed;              ///< why no connection could be made; empty: the host is reached
  std::optional<double> answered;  ///< the witness' hub_silent
};

/// "RANK ADDRESS" lines and back; other lines are left out.
std::string to_lines(const std::vector<LookoutTarget>& targets);
std::vector<LookoutTarget> targets_in(std::string_view lines);
/// "RANK f REASON" for what failed, "RANK a SECONDS" for an answer, "RANK c" for a host that is only reached.
std::string to_lines(const std::vector<Sight>& sights);
std::vector<Sight> sights_in(std::string_view lines);
/// Whole lines, in parts of at most that many bytes.
std::vector<std::string> split_lines(const std::string& lines, size_t most_bytes);

/// Tries all targets at the same time, for at most `seconds`.
std::vector<Sight> look(const std::vector<LookoutTarget>& targets, double seconds);

/// look() on a thread of its own.
class Lookout {
 public:
  Lookout() = default;
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;
  /// Waits for a look under way.
  ~Lookout();
  bool busy() const { return thread_.joinable(); }
  /// Not while busy. done: called on that thread at the end.
  void begin(std::vector<LookoutTarget> targets, double seconds, std::function<void()> done);
  /// What was seen, once; empty while it looks.
  std::optional<std::vector<Sight>> take();

 private:
  std::thread thread_;
  std::atomic<bool> ready_ = false;
  std::vector<Sight> sights_;
};

}  // namespace trireme
