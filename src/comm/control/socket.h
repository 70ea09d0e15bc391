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

  /// True if the system accepted all bytes at once. Does not wait for a peer whose buffers are full.
  bool send(std::string_view bytes) const;
  enum class Arrival { bytes, nothing, closed };
  /// Appends up to 4 KiB of received bytes to `out`.
  Arrival receive(std::string& out) const;
  /// Waits until bytes may be received; false after the limit.
  bool wait(double limit_seconds) const;

 private:
  int fd_ = -1;
};

/// Listens on a free port: of the loopback interface only, or of all interfaces. Throws Error::comm.
Socket listen_on_free_port(bool loopback);
/// The next connection; an empty socket if none is waiting.
Socket accept_from(const Socket& listener);
/// "ADDRESS:PORT" ("[ADDRESS]:PORT" for IPv6) under which `listener` can be reached: on the loopback interface, on
/// `interface`, or, if that is empty, on every interface but loopback. Throws Error::config for an interface that is
/// missing or has no address, naming the others.
std::vector<std::string> addresses_of(const Socket& listener, bool loopback, const std::string& interface);
/// Connects within the limit. An empty socket and the reason in `why` if that fails.
Socket connect_to(const std::string& address, double limit_seconds, std::string& why);

}  // namespace trireme
