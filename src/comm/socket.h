#pragma once
// TCP sockets for the control channel: never blocking, never raising signals.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  /// True if all bytes went to the system at once. A peer that takes nothing for so long that they do not fit is not
  /// waited for.
  bool send(std::string_view bytes) const;
  enum class Arrival { bytes, nothing, closed };
  /// What has arrived, at most 4 KiB, appended to `out`.
  Arrival receive(std::string& out) const;
  /// Waits until bytes may be received; false after the limit.
  bool wait(double limit_seconds) const;

 private:
  int fd_ = -1;
};

/// Listens on a free port: of the loopback interface only, or of all interfaces. Throws Error::comm.
Socket listen_on_free_port(bool loopback);
/// The next connection; an empty socket if there is none.
Socket accept_from(const Socket& listener);
/// "ADDRESS:PORT" ("[ADDRESS]:PORT" for IPv6) under which `listener` can be reached: on the loopback interface, on
/// `interface`, or, if that is empty, on every interface but loopback. Throws Error::config for an interface that is
/// not there or has no address, naming those that are.
std::vector<std::string> addresses_of(const Socket& listener, bool loopback, const std::string& interface);
/// Connects within the limit. An empty socket and the reason in `why` if that fails.
Socket connect_to(const std::string& address, double limit_seconds, std::string& why);

}  // namespace trireme
