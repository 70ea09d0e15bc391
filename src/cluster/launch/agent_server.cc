#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "base/host.h"
#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "cluster/launch/agent_channel.h"
#include "cluster/subprocess.h"

namespace trireme::launch {
namespace {

constexpr size_t kMostConnections = 256;  // of those who know the secret; a launch has a few at a time
constexpr size_t kMostStrangers = 64;     // who have not proved it yet: the oldest has to go first
constexpr double kGreetingSeconds = 10, kLeaveSeconds = 5;
constexpr double kEndSeconds = 3, kEndAllSeconds = 6;  // time for one command, and for all, to end after TERM
constexpr double kStreamSeconds =
    0.2;  // of silence after its end: background processes of a command may hold its streams
constexpr size_t kMostQueued = size_t{1} << 20, kPiece = size_t{1} << 16;

/// TERM, INT and CHLD as a descriptor to poll; they are blocked in this process from now on.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() { close(fd_); }
  int fd() const { return fd_; }
  /// Whether a pending signal asks this process to end.
  bool end_asked() const {
    signalfd_siginfo info{};
    bool asked = false;
    while (read(fd_, &info, sizeof info) == sizeof info) asked = asked || info.ssi_signo != SIGCHLD;
    return asked;
  }

 private:
  int fd_ = -1;
};

/// Reaps children that have exited and removes them from `children`; `status` gets that of `wanted`. False: this
/// process has no more children.
bool reap(std::set<pid_t>& children, pid_t wanted = -1, std::optional<int>* status = nullptr) {
  int ended = 0;
  pid_t pid;
  while ((pid = waitpid(-1, &ended, WNOHANG)) > 0) {
    children.erase(pid);
    if (pid == wanted) *status = ended;
  }
  return pid == 0;
}

/// Kills all descendants of this process.
void kill_children() {
  const Clock::time_point start = Clock::now();
  for (std::set<pid_t> ignored; reap(ignored) && seconds_since(start) < 1;) {
    for (const int pid : descendants_of(getpid())) kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// The same, after TERM to its children and to `group` and some seconds.
void end_children(double seconds, pid_t group = 0) {
  if (group > 0) kill(-group, SIGTERM);
  for (const int pid : descendants_of(getpid())) {
    if (parent_of(pid) == getpid()) kill(pid, SIGTERM);
  }
  const Clock::time_point start = Clock::now();
  for (std::set<pid_t> ignored; reap(ignored) && seconds_since(start) < seconds;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill_children();
}

Socket listen_at(const std::string& address, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  const int code =
      getaddrinfo(address.empty() ? nullptr : address.c_str(), std::to_string(port).c_str(), &hints, &found);
  require(code == 0, ErrorKind::comm, "agent: --listen {}: {}; give an address of this host", address,
          gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  int error = 0;
  for (const int family : {AF_INET6, AF_INET}) {  // an IPv6 socket on all addresses also accepts IPv4
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
      if (entry->ai_family != family) continue;
      Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      const int yes = 1, no = 0;
      setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      if (family == AF_INET6) setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
      if (socket && bind(socket.fd(), entry->ai_addr, entry->ai_addrlen) == 0 && listen(socket.fd(), 256) == 0) {
        return socket;
      }
      error = errno;
    }
  }
  fail(ErrorKind::comm, "agent: cannot listen on port {}{}: {}; {}", port, address.empty() ? "" : " of " + address,
       std::strerror(error),
       error == EADDRINUSE ? "another agent may be running here; choose another port with --port"
                           : "change --port or --listen");
}

std::string own_user() {
  const passwd* entry = getpwuid(geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(geteuid());
}

/// A command: copies between its pipes and the channel.
class Command {
 public:
  Command(AgentChannel& channel, const Signals& signals, const std::string& line)
      : channel_(channel), signals_(signals) {
    const char* shell = std::getenv("SHELL");
    if (shell == nullptr || *shell == '\0') setenv("SHELL", "/bin/sh", 1);  // mpirun's daemon is started through it
    const char* home = std::getenv("HOME");                                 // as ssh does
    process_ = start_piped({std::getenv("SHELL"), "-c", line}, [home] {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (home != nullptr && chdir(home) != 0) return;
    });
    for (const int fd : {process_.in, process_.out, process_.err}) fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command() {
    for (int* fd : {&process_.in, &process_.out, &process_.err}) close_stream(*fd);
  }

  void run() {
    take_input();  // frames that came together with the run frame
    while (!status_ || (streams_open() && seconds_since(last_) < kStreamSeconds)) {
      if (!step()) return end_children(kEndSeconds, process_.pid);
    }
    const int code = WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_);
    channel_.queue(FrameKind::end, std::to_string(code));
    channel_.finish(kLeaveSeconds);
    guard();
  }

 private:
  /// Background processes of the command end with the agent, too. mpirun's daemon is one: on TERM it would ask its
  /// ranks to stop, and the job would mistake the loss of its host for a requested stop.
  void guard() {
    std::set<pid_t> ignored;
    while (reap(ignored)) {
      pollfd item{signals_.fd(), POLLIN, 0};
      poll(&item, 1, -1);
      if (signals_.end_asked()) return kill_children();
    }
  }

  bool streams_open() const { return process_.out >= 0 || process_.err >= 0; }

  /// False: the head is gone, or this process has to end.
  bool step() {
    const bool may_send = channel_.queued() < kMostQueued, may_receive = input_.size() < kMostQueued;
    std::array<pollfd, 5> items{channel_.awaited(may_receive), pollfd{signals_.fd(), POLLIN, 0},
                                pollfd{may_send ? process_.out : -1, POLLIN, 0},
                                pollfd{may_send ? process_.err : -1, POLLIN, 0},
                                pollfd{input_.empty() ? -1 : process_.in, POLLOUT, 0}};
    poll(items.data(), items.size(), status_ ? 20 : -1);
    if (signals_.end_asked() || (items[0].revents & (POLLERR | POLLHUP)) != 0) return false;
    if (!may_send) last_ = Clock::now();
    if (!status_) {
      std::set<pid_t> ignored;
      reap(ignored, process_.pid, &status_);
      last_ = Clock::now();
    }
    if (items[2].revents != 0) pass_on(process_.out, FrameKind::output);
    if (items[3].revents != 0) pass_on(process_.err, FrameKind::messages);
    if (!channel_.move(may_receive)) return false;
    take_input();
    return true;
  }

  void pass_on(int& fd, FrameKind kind) {
    std::array<char, kPiece> buffer;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got > 0) {
      channel_.queue(kind, {buffer.data(), static_cast<size_t>(got)});
      last_ = Clock::now();
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) close_stream(fd);
  }

  void take_input() {
    while (const auto frame = channel_.next()) {
      require(frame->kind == FrameKind::input, ErrorKind::comm, "agent: unexpected frame");
      input_ += frame->bytes;
      input_ends_ = input_ends_ || frame->bytes.empty();
    }
    if (process_.in < 0) return input_.clear();
    const ssize_t put = input_.empty() ? 0 : write(process_.in, input_.data(), input_.size());
    if (put > 0) input_.erase(0, static_cast<size_t>(put));
    const bool closed = put < 0 && errno != EAGAIN && errno != EINTR;
    if (closed || (input_.empty() && input_ends_)) close_stream(process_.in);
  }

  static void close_stream(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }

  AgentChannel& channel_;
  const Signals& signals_;
  PipedProcess process_;
  std::string input_;
  bool input_ends_ = false;
  std::optional<int> status_;
  Clock::time_point last_;  ///< last time when it ran or had output
};

/// Waits for the run frame.
std::optional<Frame> first_frame(AgentChannel& channel) {
  const Clock::time_point start = Clock::now();
  while (seconds_since(start) < kGreetingSeconds) {
    const bool open = channel.move();
    if (auto frame = channel.next()) return frame;
    if (!open) return std::nullopt;
    pollfd item = channel.awaited();
    poll(&item, 1, 1000);
  }
  return std::nullopt;
}

/// known: closed once the other end has proved that it knows the secret, after a byte.
void serve(Socket socket, const AgentOptions& options, Socket known) {
  const Signals signals;
  become_subreaper();
  const std::string peer = peer_address(socket);
  AgentChannel channel(std::move(socket), AgentChannel::Side::agent, options.secret);
  const auto greeting = channel.shake_hands(kGreetingSeconds);
  if (greeting == AgentChannel::Greeting::wrong_secret) {
    return log::warning("agent: refused {}: it has another secret", peer);
  }
  if (greeting != AgentChannel::Greeting::done) {
    return log::warning("agent: refused {}: it does not use the protocol of `trireme launch --agents`", peer);
  }
  const ssize_t told = write(known.fd(), "k", 1);
  if (told != 1) return;  // the agent has ended
  known = Socket();
  channel.queue(FrameKind::hello, options.version);
  const std::optional<Frame> frame = first_frame(channel);
  if (!frame || frame->kind != FrameKind::run) return;  // it does not accept our version
  const Json wanted = parse_json(frame->bytes, "agent");
  const std::string user = wanted.at("user"), own = own_user();
  if (!user.empty() && user != own) {
    channel.queue(
        FrameKind::refusal,
        fmt::format("its agent runs as {}, not as {}; write the host without a user, or start its agent as {}", own,
                    user, user));
    return channel.finish(kLeaveSeconds);
  }
  Command(channel, signals, wanted.at("line")).run();
}

/// A connection whose other end has not proved yet that it knows the secret.
struct Stranger {
  pid_t pid = -1;
  Socket proof;  ///< readable once it has, or is gone
};

/// Serves a connection in a separate process.
Stranger serve_apart(Socket socket, const Socket& listener, const AgentOptions& options) {
  std::array<int, 2> proof{-1, -1};
  if (pipe2(proof.data(), O_CLOEXEC) != 0) return {};
  Socket reads(proof[0]), writes(proof[1]);
  const pid_t parent = getpid(), pid = fork();
  if (pid != 0) return {pid, std::move(reads)};
  close(listener.fd());  // only the listening process keeps the port
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  try {
    serve(std::move(socket), options, std::move(writes));
  } catch (const std::exception& e) {
    log::warning("agent: {}", e.what());
    end_children(kEndSeconds);
  }
  _exit(0);
}

}  // namespace

int serve_agent(const AgentOptions& options) {
  const Signals signals;
  const Socket listener = listen_at(options.address, options.port);
  become_subreaper();              // background processes of commands stay descendants of this process
  unsetenv(kAgentSecretVariable);  // no command needs it
  log::info("agent: {} waits for `trireme launch --agents` on port {} of {}; stop it with TERM", host_name(),
            port_of(listener), options.address.empty() ? "every address" : options.address);
  std::set<pid_t> connections;
  std::list<Stranger> strangers;  // some of the connections, the oldest first
  for (;;) {
    std::vector<pollfd> items{{listener.fd(), POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    for (const Stranger& stranger : strangers) items.push_back({stranger.proof.fd(), POLLIN, 0});
    poll(items.data(), items.size(), -1);
    if (signals.end_asked()) break;
    size_t next = 2;
    strangers.remove_if([&](const Stranger&) { return items[next++].revents != 0; });
    reap(connections);
    strangers.remove_if([&](const Stranger& stranger) { return !connections.contains(stranger.pid); });
    for (;;) {
      Socket socket = accept_from(listener);
      if (!socket) break;
      if (strangers.size() >= kMostStrangers) {
        kill(strangers.front().pid, SIGKILL);
        connections.erase(strangers.front().pid);
        strangers.pop_front();
      }
      if (connections.size() - strangers.size() >= kMostConnections) continue;
      Stranger stranger = serve_apart(std::move(socket), listener, options);
      if (stranger.pid <= 0) continue;
      connections.insert(stranger.pid);
      strangers.push_back(std::move(stranger));
    }
  }
  reap(connections);
  log::info("agent: asked to end; ending {}", count_text(connections.size(), "command"));
  end_children(kEndAllSeconds);
  return 0;
}

}  // namespace trireme::launch
