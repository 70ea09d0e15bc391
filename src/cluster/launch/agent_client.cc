#include "cluster/launch/remote_shell.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time.h"
#include "cluster/launch/agent_channel.h"

namespace trireme::launch {
namespace {

constexpr size_t kMostQueued = size_t{1} << 20;
constexpr auto kPause = std::chrono::milliseconds(300);  // before the next attempt

/// Why an agent was not reached, and whether a retry may succeed while it starts.
struct Refusal {
  std::string reason, fix;
  bool may_pass = false;
};

std::vector<std::string> addresses_of_name(const std::string& name, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
    addresses.push_back(fmt::format("[{}]:{}", text.data(), port));
  }
  return addresses;
}

Refusal explain_connection(const std::string& name, int port, const std::string& error) {
  if (error == std::strerror(ECONNREFUSED)) {
    return {
        fmt::format("no agent listens on its port {}", port),
        "start `trireme agent` there, give its port (port= in the hostfile, --agent-port), or use --wait-for-agents",
        true};
  }
  if (error == std::strerror(ETIMEDOUT)) {
    return {fmt::format("its agent's port {} does not answer", port),
            fmt::format("check that {} is up and that no firewall drops this port", name), true};
  }
  return {fmt::format("its agent's port {} cannot be reached: {}", port, error),
          fmt::format("check that {} is up and its network works", name), true};
}

Refusal explain_greeting(AgentChannel::Greeting greeting, int port) {
  switch (greeting) {
    case AgentChannel::Greeting::wrong_secret:
      return {"its agent has another secret", "give the same secret to every agent and to launch"};
    case AgentChannel::Greeting::closed:
      return {fmt::format("its port {} closes the connection", port), "check the output of its agent", true};
    case AgentChannel::Greeting::silent:
      return {fmt::format("the program on its port {} does not answer", port), "check whether that is `trireme agent`",
              true};
    default:
      return {fmt::format("the program on its port {} is not `trireme agent`", port),
              "give the agent's port: port= in the hostfile, or --agent-port"};
  }
}

/// The agent's first frame; nullopt if it does not come.
std::optional<Frame> take_frame(AgentChannel& channel, double seconds) {
  const Clock::time_point start = Clock::now();
  for (;;) {
    const bool open = channel.move();
    if (auto frame = channel.next()) return frame;
    const double left = seconds - seconds_since(start);
    if (!open || left <= 0) return std::nullopt;
    pollfd item = channel.awaited();
    poll(&item, 1, static_cast<int>(left * 1e3) + 1);
  }
}

/// One attempt. Null: `refusal` says why.
std::unique_ptr<AgentChannel> reach(const RemoteOptions& options, const std::string& secret, const std::string& name,
                                    Refusal& refusal) {
  const int port = options.port_of(name);
  const auto addresses = addresses_of_name(name, port);
  refusal = {"its name cannot be resolved on this host",
             fmt::format("correct the hostfile, or add {} to DNS or /etc/hosts", name), true};
  for (const std::string& address : addresses) {
    std::string error;
    Socket socket = connect_to(address, options.connect_seconds, error);
    if (!socket) {
      refusal = explain_connection(name, port, error);
      continue;
    }
    auto channel = std::make_unique<AgentChannel>(std::move(socket), AgentChannel::Side::head, secret);
    const auto greeting = channel->shake_hands(options.connect_seconds);
    if (greeting != AgentChannel::Greeting::done) {
      refusal = explain_greeting(greeting, port);
      continue;
    }
    const auto hello = take_frame(*channel, options.connect_seconds);
    if (hello && hello->bytes == options.version) return channel;
    refusal = hello ? Refusal{fmt::format("its agent is {}, but this program is {}", hello->bytes, options.version),
                              "start an agent of the same build there"}
                    : explain_greeting(AgentChannel::Greeting::closed, port);
  }
  return nullptr;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) {  // as set by whoever passed the stream
      pollfd item{fd, POLLOUT, 0};
      poll(&item, 1, -1);
      continue;
    }
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

/// Copies the streams until the command has ended.
int relay(AgentChannel& channel) {
  bool input_open = true;
  for (;;) {
    std::array<pollfd, 2> items{channel.awaited(),
                                pollfd{input_open && channel.queued() < kMostQueued ? 0 : -1, POLLIN, 0}};
    poll(items.data(), items.size(), -1);
    if (items[1].revents != 0) {
      std::array<char, 65536> buffer;
      const ssize_t got = read(0, buffer.data(), buffer.size());
      input_open = got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
      if (got > 0 || !input_open)
        channel.queue(FrameKind::input, {buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))});
    }
    const bool open = channel.move();
    while (const auto frame = channel.next()) {
      if (frame->kind == FrameKind::end) return std::atoi(frame->bytes.c_str());
      require(frame->kind != FrameKind::refusal, ErrorKind::comm, "{}", frame->bytes);
      // If the reader of our output is gone, the command ends with the connection.
      if (!write_all(frame->kind == FrameKind::output ? 1 : 2, frame->bytes)) return 128 + SIGPIPE;
    }
    require(open, ErrorKind::comm,
            "the connection to its agent was lost; check that the host is up and its agent runs");
  }
}

}  // namespace

int run_through_agent(const RemoteOptions& options, const std::string& host, const std::string& line) {
  const std::string secret = read_agent_secret(options.secret_file);
  const size_t at = host.find('@');
  const std::string user = at == std::string::npos ? "" : host.substr(0, at);
  const std::string name = host.substr(at + 1);  // npos + 1 is 0
  const Clock::time_point start = Clock::now();
  Refusal refusal;
  std::unique_ptr<AgentChannel> channel;
  while (!(channel = reach(options, secret, name, refusal))) {
    const bool over = seconds_since(start) >= options.wait_seconds;
    require(refusal.may_pass && !over, ErrorKind::comm, "{}{}; {}", refusal.reason,
            refusal.may_pass && options.wait_seconds > 0 ? fmt::format(" after {:g} s", options.wait_seconds) : "",
            refusal.fix);
    std::this_thread::sleep_for(kPause);
  }
  channel->queue(FrameKind::run, dump_json({{"line", line}, {"user", user}}));
  return relay(*channel);
}

}  // namespace trireme::launch
