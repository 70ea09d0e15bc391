#include "report/live/metrics_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/printable.h"
#include "base/text.h"
#include "base/time.h"
#include "comm/control/socket.h"
#include "comm/control/thread.h"

namespace trireme {
namespace {

constexpr size_t kConnections = 64;  // then the oldest goes
constexpr size_t kMostRequestBytes = size_t{16} << 10;
constexpr double kRequestSeconds = 5, kAnswerSeconds = 30;  // in all, however slowly bytes come or go
constexpr double kCloseSeconds = 1;                         // until the client has closed after its answer
constexpr auto kPause = std::chrono::milliseconds(10);      // after an answer: at most 100 per second, however many ask
constexpr double kTurnSeconds = 0.5;
constexpr int kLowestPriority = 19;

/// Takes the same time wherever the two differ.
bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    different |= static_cast<unsigned>(a[i] ^ b[b.empty() ? 0 : i % b.size()]) & 0xFFU;
  return different == 0;
}

struct Request {
  std::string method, path;
  std::map<std::string, std::string> parameters, headers;  ///< names of headers in lower case

  std::string header(const char* name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  std::string parameter(const char* name) const {
    const auto found = parameters.find(name);
    return found == parameters.end() ? "" : found->second;
  }
};

struct Response {
  int status = 200;
  std::string type = "text/plain", body = {};
  std::string headers = {};  ///< more of them, each with its line end
};

std::string decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const std::string_view digits = text.substr(std::min(i + 1, text.size()), 2);
    if (text[i] == '%' && digits.size() == 2 &&
        std::from_chars(digits.data(), digits.data() + 2, code, 16).ptr == digits.data() + 2) {
      out += static_cast<char>(code);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

/// The part up to `separator`, which is removed from the text with it.
std::string_view cut(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

/// text: up to the empty line.
Request parse_request(std::string_view text) {
  Request request;
  std::string_view first = trim_blanks(cut(text, '\n'));
  request.method = cut(first, ' ');
  std::string_view target = cut(first, ' ');
  request.path = decoded(cut(target, '?'));
  while (!target.empty()) {
    std::string_view value = cut(target, '&');
    const std::string name = decoded(cut(value, '='));
    request.parameters[name] = decoded(value);
  }
  while (!text.empty()) {
    std::string_view value = cut(text, '\n');
    const std::string name = lower_case(trim_blanks(cut(value, ':')));
    request.headers[name] = trim_blanks(value);
  }
  return request;
}

/// Whether a browser was not lured here by the name of another site, which somebody let lead to this host (DNS
/// rebinding): addresses, names without dots and this host's own name cannot be such a name.
bool is_own_name(std::string_view host, const std::string& configured) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else if (std::ranges::count(host, ':') == 1) {
    host = host.substr(0, host.find(':'));
  }
  const std::string name = lower_case(host);
  in_addr four{};
  in6_addr six{};
  return name.find('.') == std::string::npos || inet_pton(AF_INET, name.c_str(), &four) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &six) == 1 || name == lower_case(configured) ||
         name == lower_case(host_name());
}

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    default:
      return "Method Not Allowed";
  }
}

std::string text_of(const Response& response, bool with_body) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}",
                     response.status, reason_of(response.status), response.type, response.body.size(), response.headers,
                     with_body ? response.body : "");
}

/// An empty socket if that fails, with errno.
Socket listen_at(const ListenAddress& address) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) != 0) {
    errno = EADDRNOTAVAIL;
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Socket socket(::socket(entry->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1;  // without SO_REUSEPORT, by which two jobs would share the port
    setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (socket && bind(socket.fd(), entry->ai_addr, entry->ai_addrlen) == 0 && listen(socket.fd(), 64) == 0)
      return socket;
  }
  return {};
}

}  // namespace

std::string read_token(const std::string& path, const std::string& option) {
  std::string token = read_text(path, 1 << 16);
  token = token.substr(0, token.find_first_of("\r\n"));
  // Blanks around it do not arrive: Prometheus sends its file's text without them, and HTTP drops them.
  token = token.substr(std::min(token.find_first_not_of(" \t"), token.size()));
  token.erase(token.find_last_not_of(" \t") + 1);
  require(!token.empty(), ErrorKind::config, "{}: the first line of {} is empty, expected the token", option, path);
  return token;
}

class MetricsServer::Implementation {
 public:
  Implementation(const ListenAddress& address, std::string token, std::shared_ptr<const RunBoard> board)
      : host_(address.host), token_(std::move(token)), board_(std::move(board)), listener_(listen_at(address)) {
    require(static_cast<bool>(listener_), ErrorKind::io, "cannot listen on {}:{}: {}", address.host, address.port,
            std::strerror(errno));
    thread_.start(nullptr, [this] { run(); });
  }
  ~Implementation() { thread_.stop(); }

  std::string url() const { return fmt::format("http://{}/", with_port(host_, port_of(listener_))); }

 private:
  struct Connection {
    Socket socket;
    Clock::time_point since = Clock::now();
    std::string request;
    Outbox answer;
    enum class Place { asks, reads, closes } place = Place::asks;
    bool open = true;
  };

  void run() {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowestPriority);
    while (!thread_.ending()) {
      std::vector<pollfd> items = {{listener_.fd(), POLLIN, 0}};
      for (const Connection& c : connections_)
        items.push_back({c.socket.fd(), c.answer.empty() ? short{POLLIN} : short{POLLOUT}, 0});
      thread_.wait(items, kTurnSeconds);
      accept_new();
      for (Connection& c : connections_) serve(c);
      connections_.remove_if([](const Connection& c) { return !c.open; });
    }
  }

  void accept_new() {
    while (Socket socket = accept_from(listener_)) {
      if (connections_.size() >= kConnections) connections_.pop_front();
      connections_.emplace_back().socket = std::move(socket);
    }
  }

  void serve(Connection& c) {
    using Place = Connection::Place;
    std::string bytes;
    const Socket::Arrival arrival = c.socket.receive(bytes);
    if (arrival == Socket::Arrival::closed && c.place != Place::reads) c.open = false;
    if (c.place == Place::asks) take(c, bytes);
    if (c.place == Place::reads) {
      if (!c.answer.flush(c.socket)) c.open = false;
      if (c.answer.empty()) {
        shutdown(c.socket.fd(), SHUT_WR);  // what the client still sends must not discard its answer
        c.place = Place::closes;
        c.since = Clock::now();
      }
    }
    const double limit = c.place == Place::asks    ? kRequestSeconds
                         : c.place == Place::reads ? kAnswerSeconds
                                                   : kCloseSeconds;
    if (seconds_since(c.since) > limit) c.open = false;
  }

  void take(Connection& c, const std::string& bytes) {
    c.request += bytes;
    size_t end = c.request.find("\r\n\r\n");
    if (end == std::string::npos) end = c.request.find("\n\n");
    if (end == std::string::npos) {
      if (c.request.size() > kMostRequestBytes) c.open = false;
      return;
    }
    const Request request = parse_request(std::string_view(c.request).substr(0, end));
    c.answer.add(text_of(answer(request), request.method != "HEAD"));
    c.place = Connection::Place::reads;
    c.since = Clock::now();
    std::this_thread::sleep_for(kPause);
  }

  bool admits(const Request& request) const {
    return token_.empty() || equal_secrets(request.header("authorization"), "Bearer " + token_) ||
           equal_secrets(request.parameter("token"), token_);  // a browser's way
  }

  Response answer(const Request& request) const {
    if (request.method != "GET" && request.method != "HEAD")
      return {.status = 405, .body = "only GET is supported\n", .headers = "Allow: GET, HEAD\r\n"};
    const std::string host = request.header("host");
    if (token_.empty() && !is_own_name(host, host_)) {
      return {
          .status = 403,
          .body = fmt::format("this server does not answer as \"{}\"; use an IP address or the name of its host, or "
                              "set log.metrics-token\n",
                              printable(host, 300))};
    }
    if (!admits(request)) {
      return {.status = 401,
              .body = "a token is required: Authorization: Bearer TOKEN, or ?token=TOKEN in a browser\n",
              .headers = "WWW-Authenticate: Bearer\r\n"};
    }
    Response response;
    // The page's script and style are in it, and it asks this server only.
    response.headers =
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'\r\nCache-Control: no-store\r\n";
    response.type = "text/html; charset=utf-8";
    if (request.path == "/") {
      response.body = board_->page();
    } else if (request.path == "/body") {
      response.body = board_->page_body();
    } else if (request.path == "/metrics") {
      const MetricFormat format = format_for(request.header("accept"));
      response.type = content_type(format);
      response.body = board_->exposition(format);
    } else {
      return {.status = 404, .body = "there is /, /body and /metrics\n"};
    }
    return response;
  }

  const std::string host_, token_;
  const std::shared_ptr<const RunBoard> board_;
  const Socket listener_;
  std::list<Connection> connections_;
  ControlThread thread_;
};

MetricsServer::MetricsServer(const ListenAddress& address, std::string token, std::shared_ptr<const RunBoard> board)
    : implementation_(std::make_unique<Implementation>(address, std::move(token), std::move(board))) {}

MetricsServer::~MetricsServer() = default;

std::string MetricsServer::url() const { return implementation_->url(); }

}  // namespace trireme
