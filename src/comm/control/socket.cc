#include "comm/control/socket.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr int kBacklog = 1024;  // all ranks of a large job connect at once

/// An IPv6 socket accepts IPv4 connections, too; hosts without IPv6 have none.
Socket bound_socket(bool loopback) {
  if (!loopback) {
    Socket v6(socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int no = 0;
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    if (v6 && setsockopt(v6.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0 &&
        bind(v6.fd(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0)
      return v6;
  }
  Socket v4(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
  const bool bound = v4 && bind(v4.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  require(bound, ErrorKind::comm, "the control channel cannot bind a TCP port: {}", std::strerror(errno));
  return v4;
}

void send_at_once(const Socket& socket) {
  const int yes = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

bool is_usable(const ifaddrs& item, bool accepts_v6) {
  if (!item.ifa_addr || !(item.ifa_flags & IFF_UP)) return false;
  if (item.ifa_addr->sa_family == AF_INET) return true;
  if (item.ifa_addr->sa_family != AF_INET6 || !accepts_v6) return false;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(item.ifa_addr)->sin6_addr);
}

std::string text_of(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.sa_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  else
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 over an IPv6 socket
  const std::string_view found = text;
  return std::string(
      found.starts_with(kMapped) && found.find('.') != std::string_view::npos ? found.substr(kMapped.size()) : found);
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

ssize_t Socket::send(std::string_view bytes) const {
  const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n >= 0) return n;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

bool Outbox::flush(const Socket& socket) {
  if (pending_.empty()) return true;
  const ssize_t sent = socket.send(pending_);
  if (sent > 0) pending_.erase(0, static_cast<size_t>(sent));
  return sent >= 0;
}

Socket::Arrival Socket::receive(std::string& out) const {
  char buffer[4096];
  const ssize_t n = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
  if (n > 0) {
    out.append(buffer, static_cast<size_t>(n));
    return Arrival::bytes;
  }
  const bool nothing = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return nothing ? Arrival::nothing : Arrival::closed;
}

bool Socket::wait(double limit_seconds) const {
  pollfd item{fd_, POLLIN, 0};
  return poll(&item, 1, static_cast<int>(limit_seconds * 1e3)) > 0;
}

Socket listen_on_free_port(bool loopback) {
  Socket listener = bound_socket(loopback);
  const bool listens = listen(listener.fd(), kBacklog) == 0;
  require(listens, ErrorKind::comm, "the control channel cannot listen: {}", std::strerror(errno));
  return listener;
}

Socket accept_from(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) send_at_once(socket);
  return socket;
}

std::vector<std::string> addresses_of(const Socket& listener, bool loopback, const std::string& interface) {
  const int port = port_of(listener);
  if (loopback) return {with_port("127.0.0.1", port)};
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&own), &length);
  ifaddrs* list = nullptr;
  require(getifaddrs(&list) == 0, ErrorKind::comm, "cannot list the network interfaces: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<std::string> addresses, others;
  for (const ifaddrs* item = list; item; item = item->ifa_next) {
    if (!is_usable(*item, own.ss_family == AF_INET6)) continue;
    const bool chosen = interface.empty() ? !(item->ifa_flags & IFF_LOOPBACK) : interface == item->ifa_name;
    chosen ? addresses.push_back(with_port(text_of(*item->ifa_addr), port)) : others.push_back(item->ifa_name);
  }
  require(!addresses.empty(), ErrorKind::config,
          "comm.interface: interface {} is missing or has no address on this host; it has {}; set --comm.interface to "
          "the one "
          "that the other hosts reach",
          interface.empty() ? "other than loopback" : "\"" + interface + "\"", fmt::join(others, ", "));
  return addresses;
}

int port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  const bool v6 = address.ss_family == AF_INET6;
  return ntohs(v6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                  : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string peer_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  return text_of(reinterpret_cast<const sockaddr&>(address));
}

std::string with_port(const std::string& address, int port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

Socket begin_connect(const std::string& address, std::string& why, int& error) {
  error = EINVAL;
  const size_t cut = address.rfind(':');
  std::string host = cut == std::string::npos ? address : address.substr(0, cut);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  const std::string port = cut == std::string::npos ? "" : address.substr(cut + 1);
  if (const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); code != 0) {
    why = fmt::format("\"{}\" is not an address: {}", address, gai_strerror(code));
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket && (connect(socket.fd(), found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS)) {
    send_at_once(socket);
    return socket;
  }
  error = errno;
  why = std::strerror(error);
  return {};
}

int finish_connect(const Socket& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

Socket connect_to(const std::string& address, double limit_seconds, std::string& why) {
  int error = 0;
  Socket socket = begin_connect(address, why, error);
  if (!socket) return {};
  pollfd item{socket.fd(), POLLOUT, 0};
  error = poll(&item, 1, static_cast<int>(limit_seconds * 1e3)) > 0 ? finish_connect(socket) : ETIMEDOUT;
  if (error == 0) return socket;
  why = std::strerror(error);
  return {};
}

}  // namespace trireme
