#pragma once
// TCP sockets for the control channel: never blocking, never raising signals.

#include <sys/types.h>

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

  /// How many bytes the system accepted at once; negative: the connection has failed. Does not wait for a peer whose
  /// buffers are full.
  ssize_t send(std::string_view bytes) const;
  enum class Arrival { bytes, nothing, closed };
  /// Appends up to 4 KiB of received bytes to `out`.
  Arrival receive(std::string& out) const;
  /// Waits until bytes may be received; false after the limit.
  bool wait(double limit_seconds) const;

 private:
  int fd_ = -1;
};

/// What goes out on a connection: keeps what the system does not accept at once, so that no message arrives in part.
class Outbox {
 public:
  void add(std::string_view bytes) { pending_ += bytes; }
  bool empty() const { return pending_.empty(); }
  size_t size() const { return pending_.size(); }
  /// Sends what the system accepts now. False: the connection has failed.
  bool flush(const Socket& socket);

 private:
  std::string pending_;
};

/// Listens on a free port: of the loopback interface only, or of all interfaces. Throws Error::comm.
Socket listen_on_free_port(bool loopback);
/// The next connection; an empty socket if none is waiting.
Socket accept_from(const Socket& listener);
/// "ADDRESS:PORT" ("[ADDRESS]:PORT" for IPv6) under which `listener` can be reached: on the loopback interface, on
/// `interface`, or, if that is empty, on every interface but loopback. Throws Error::config for an interface that is
/// missing or has no address, naming the others.
std::vector<std::string> addresses_of(const Socket& listener, bool loopback, const std::string& interface);
int port_of(const Socket& socket);
/// The address of the other end of a connection, without its port; empty if it has none any more.
std::string peer_address(const Socket& socket);
/// "ADDRESS:PORT", "[ADDRESS]:PORT" for IPv6.
std::string with_port(const std::string& address, int port);
/// A connection that is being made; empty, with the reason in `why` and `error` (of errno), if that fails at once.
/// finish_connect() says what became of it when it is writable.
Socket begin_connect(const std::string& address, std::string& why, int& error);
/// 0: it is connected; else the error (of errno).
int finish_connect(const Socket& socket);
/// Connects within the limit. An empty socket and the reason in `why` if that fails.
Socket connect_to(const std::string& address, double limit_seconds, std::string& why);

}  // namespace trireme
