#include "cluster/launch/node_agent.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/folder_token.h"
#include "base/json_text.h"
#include "base/time.h"
#include "cluster/health/generate.h"
#include "cluster/health/run.h"
#include "cluster/health/slurm_state.h"
#include "cluster/launch/node_facts.h"
#include "cluster/launch/node_gpus.h"
#include "cluster/launch/remote_shell.h"
#include "cluster/launch/start_probe.h"
#include "cluster/subprocess.h"
#include "comm/launcher.h"

namespace trireme::launch {
namespace {

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// A listening socket on all addresses of both families; the kernel's backlog accepts connections.
class Listener {
 public:
  /// Returns the port. Throws Error::comm.
  int open(int port) {
    socket_ = Socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    bool v6 = socket_.fd() >= 0;
    if (!v6) socket_ = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int off = 0;
    if (v6) setsockopt(socket_.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_storage address{};
    socklen_t size = 0;
    if (v6) {
      auto& any = reinterpret_cast<sockaddr_in6&>(address);
      any.sin6_family = AF_INET6;
      any.sin6_port = htons(static_cast<uint16_t>(port));
      size = sizeof any;
    } else {
      auto& any = reinterpret_cast<sockaddr_in&>(address);
      any.sin_family = AF_INET;
      any.sin_port = htons(static_cast<uint16_t>(port));
      size = sizeof any;
    }
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    const bool taken = bind(socket_.fd(), generic, size) == 0 && listen(socket_.fd(), 1024) == 0;
    require(taken, ErrorKind::comm, "port {}: {}", port, std::strerror(errno));
    size = sizeof address;
    getsockname(socket_.fd(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(v6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                    : reinterpret_cast<sockaddr_in&>(address).sin_port);
  }

 private:
  Socket socket_;
};

/// Why a TCP connection failed within `seconds`; empty if it succeeded.
std::string try_connect(const std::string& address, int port, double seconds) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return "not an address";
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int started = connect(socket.fd(), found->ai_addr, found->ai_addrlen);
  const int error = errno;
  freeaddrinfo(found);
  if (started == 0) return "";
  if (error != EINPROGRESS) return std::strerror(error);
  pollfd polled{socket.fd(), POLLOUT, 0};
  if (poll(&polled, 1, static_cast<int>(seconds * 1000)) == 0) {
    return "no answer: a firewall drops the packets, or the route is missing";
  }
  int outcome = 0;
  socklen_t size = sizeof outcome;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &outcome, &size);
  return outcome == 0 ? "" : std::strerror(outcome);
}

Json connect_all(const Json& targets) {
  Json failed = Json::array();
  std::vector<std::string> reasons(targets.size());
  {
    std::vector<std::jthread> tries;
    for (size_t i = 0; i < targets.size(); ++i) {
      tries.emplace_back([&targets, &reasons, i] {
        reasons[i] = try_connect(targets[i].at(1).get<std::string>(), targets[i].at(2).get<int>(), 4);
      });
    }
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!reasons[i].empty()) failed.push_back({targets[i].at(0), reasons[i]});
  }
  return {{"failed", failed}};
}

Json check_health(const Json& request) {
  using namespace health;
  Machine machine = Machine::local();
  machine.repair = request.value("repair", true);
  machine.skip_gpu = request.value("skip_gpu", false);
  const Settings settings = read_settings(machine.full_host, request.value("variables", Variables{}));
  const Plan plan = make_plan(parse_nhc_config(request.at("config").get<std::string>()), machine.full_host, settings);
  health::CheckOptions options;
  options.all = request.value("all", false);
  options.seconds = watchdog_seconds(request.value("seconds", -1.0), plan);
  health::Report report = run_plan(plan, machine, options);
  if (request.value("drain", false)) {
    mark_in_slurm(machine, {machine.host, request.value("dry_run", false), request.value("require_all", false)},
                  report);
  }
  return to_json(report);
}

/// Folders that must be created for this one, outermost first.
std::vector<std::string> missing_folders(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder) || !folder.has_relative_path()) return {};
  std::vector<std::string> missing = missing_folders(folder.parent_path());
  missing.push_back(folder);
  return missing;
}

Json leave(const std::string& folder, const std::string& name) {
  const std::vector<std::string> made = missing_folders(std::filesystem::path(folder).lexically_normal());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, ErrorKind::io, "cannot create the run folder {}: {}", folder, error.message());
  leave_token(folder, name);
  return {{"made", made}};
}

Json take(const Json& request) {
  take_token(request.at("folder"), request.at("name"));
  const auto made = request.at("made").get<std::vector<std::string>>();
  std::error_code ignored;  // another process may use it now
  for (auto folder = made.rbegin(); folder != made.rend(); ++folder) std::filesystem::remove(*folder, ignored);
  return Json::object();
}

Json describe() {
  const health::Machine machine = health::Machine::local();
  Json lines = Json::array();
  for (const auto& [section, check] : health::describe_node(machine)) lines.push_back({section, check});
  return {{"host", machine.host}, {"lines", lines}};
}

std::string launch_assignment(const std::string& id) { return fmt::format("{}={}", kLaunchIdVariable, id); }
std::string daemon_assignment(const std::string& mark) { return fmt::format("{}={}", kDaemonVariable, mark); }

Json answer(const Json& request, Listener& listener) {
  const std::string what = request.at("do");
  if (what == "facts") {
    NodeFacts facts = gather_facts(request.at("folder"), request.at("files").get<std::vector<std::string>>());
    const hub::Named named{request.at("model"), request.at("tokenizer"), request.at("glue_task")};
    if (named != hub::Named{}) check_cache(named, request.at("variables").get<std::vector<std::string>>(), facts);
    return to_json(facts);
  }
  if (what == "leave-token") return leave(request.at("folder"), request.at("name"));
  if (what == "find-token") {
    return {{"found", find_token(request.at("folder"), request.at("name"), kTokenSeconds)}};
  }
  if (what == "take-token") return take(request);
  if (what == "clock") {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return {{"time", std::chrono::duration<double>(now).count()}};
  }
  if (what == "listen") return {{"port", listener.open(request.at("port"))}};
  if (what == "connect") return connect_all(request.at("targets"));
  if (what == "sweep") {
    return {{"killed", sweep(request.at("id"), request.value("daemon", ""))},
            {"memory_kills", to_json(read_memory_kills())}};
  }
  if (what == "start") {
    return probe_start(daemon_assignment(request.at("daemon")), launch_assignment(request.at("id")));
  }
  if (what == "health") return check_health(request);
  if (what == "starter") return probe_starter(request.at("program"), request.at("daemon"));
  if (what == "describe") return describe();
  if (what == "gpus") return to_json(read_host_gpus());
  fail(ErrorKind::data, "node-agent: unknown request \"{}\"", what);
}

}  // namespace

int sweep(const std::string& launch_id, const std::string& daemon) {
  std::vector<std::string> assignments = {launch_assignment(launch_id)};
  if (!daemon.empty()) assignments.push_back(daemon_assignment(daemon));
  std::set<int> spared;
  for (int pid = getpid(); pid > 1; pid = parent_of(pid)) spared.insert(pid);
  const auto marked = [&] {
    std::set<int> found;
    for (const std::string& assignment : assignments) found.merge(processes_with(assignment));
    std::erase_if(found, [&](int pid) { return spared.contains(pid); });
    return found;
  };
  const std::set<int> first = marked();
  for (int pid : first) kill(pid, SIGTERM);
  const Clock::time_point start = Clock::now();
  std::set<int> left = first;
  while (!left.empty() && seconds_since(start) < 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    left = marked();
  }
  for (int pid : left) kill(pid, SIGKILL);
  return static_cast<int>(first.size());
}

void serve_node(std::istream& in, std::ostream& out) {
  out << kAgentGreeting << std::endl;
  Listener listener;
  for (std::string line; std::getline(in, line);) {
    Json reply;
    try {
      reply = answer(parse_json(line, "node-agent"), listener);
    } catch (const std::exception& e) {
      reply = Json{{"error", e.what()}};
    }
    out << dump_json(reply) << std::endl;
  }
}

}  // namespace trireme::launch
