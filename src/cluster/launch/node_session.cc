#include "cluster/launch/node_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/time.h"
#include "cluster/hostlist.h"
#include "cluster/launch/node_agent.h"
#include "cluster/subprocess.h"

namespace trireme::launch {
namespace {

constexpr double kSayAgain = 5;  // seconds between log lines while waiting for agents

}  // namespace

std::string to_text(const Problem& problem) {
  return fmt::format("{}: {}{}{}", problem.host, problem.what, problem.fix.empty() ? "" : "; ", problem.fix);
}

std::vector<std::string> group(const std::vector<Problem>& problems) {
  std::vector<std::pair<Problem, std::vector<std::string>>> groups;
  for (const Problem& problem : problems) {
    const auto same = std::ranges::find_if(
        groups, [&](const auto& entry) { return entry.first.what == problem.what && entry.first.fix == problem.fix; });
    if (same == groups.end()) {
      groups.emplace_back(problem, std::vector<std::string>{problem.host});
    } else {
      same->second.push_back(problem.host);
    }
  }
  std::vector<std::string> lines;
  for (auto& [problem, hosts] : groups) {
    Problem whole = problem;
    if (hosts.size() > 1)
      whole.host = fmt::format("{} ({})", compress_hostlist(hosts), count_text(hosts.size(), "host"));
    lines.push_back(to_text(whole));
  }
  return lines;
}

std::vector<std::string> hosts_to_drop(const std::vector<Problem>& problems,
                                       const std::function<bool(const std::string&)>& stays) {
  std::vector<std::string> dropped, order;  // the order of their first problem
  std::set<std::pair<std::string, std::string>> cuts;
  for (const Problem& problem : problems) {
    if (std::ranges::find(order, problem.host) == order.end()) order.push_back(problem.host);
    if (!problem.peer.empty()) {
      cuts.insert(std::pair(std::min(problem.host, problem.peer), std::max(problem.host, problem.peer)));
    } else if (std::ranges::find(dropped, problem.host) == dropped.end()) {
      dropped.push_back(problem.host);
    }
  }
  for (const Problem& problem : problems) {
    if (!problem.peer.empty() && std::ranges::find(order, problem.peer) == order.end()) order.push_back(problem.peer);
  }
  const auto has = [](const auto& cut, const std::string& host) { return cut.first == host || cut.second == host; };
  for (;;) {
    std::erase_if(cuts, [&](const auto& cut) {
      return std::ranges::any_of(dropped, [&](const std::string& host) { return has(cut, host); });
    });
    if (cuts.empty()) return dropped;
    const auto worth = [&](const std::string& host) {
      return std::pair(std::ranges::count_if(cuts, [&](const auto& cut) { return has(cut, host); }), !stays(host));
    };
    // The last of equal ones.
    dropped.push_back(*std::ranges::max_element(order.rbegin(), order.rend(), {}, worth));
  }
}

AgentFailure explain_agent_failure(const std::string& executable, int code, const std::string& messages) {
  std::string said = messages;
  while (!said.empty() && (said.back() == '\n' || said.back() == '\r')) said.pop_back();
  const size_t last = said.rfind('\n');
  const std::string line = said.substr(last == std::string::npos ? 0 : last + 1, 300);
  const auto says = [&](const char* text) { return messages.find(text) != std::string::npos; };
  constexpr const char* kSameBuild = "put the same build at the same path on every host";
  if (says("error while loading shared libraries") || says("version `GLIBC")) {
    return {fmt::format("{} does not start there: {}", executable, line),
            "run scripts/bootstrap there, or install the package of that library"};
  }
  if (code == 126 && says("Permission denied")) {
    return {fmt::format("{} is not executable there", executable),
            fmt::format("chmod +x {}, or mount its file system without noexec", executable)};
  }
  if (code == 126) return {fmt::format("{} does not start there: {}", executable, line), kSameBuild};
  if (code == 127) return {fmt::format("{} does not exist there", executable), kSameBuild};
  return {fmt::format("its {} is not an agent of this version: it ended with code {}{}{}", executable, code,
                      line.empty() ? "" : ": ", line),
          kSameBuild};
}

struct NodeSessions::Session {
  pid_t pid = -1;
  int in = -1, out = -1, err = -1;
  std::string text, messages;
  bool open = false;

  Session() = default;
  Session(Session&& other) noexcept { swap(other); }
  Session& operator=(Session&&) = delete;
  ~Session() {
    for (int fd : {in, out, err}) {
      if (fd >= 0) close(fd);
    }
    if (pid <= 0) return;
    // The agent ends when its input closes; ssh may hang on a dead link.
    for (int i = 0; i < 100; ++i) {
      if (waitpid(pid, nullptr, WNOHANG) != 0) return;
      usleep(10'000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, WNOHANG);
  }
  void swap(Session& other) {
    std::swap(pid, other.pid);
    std::swap(in, other.in);
    std::swap(out, other.out);
    std::swap(err, other.err);
    std::swap(text, other.text);
    std::swap(messages, other.messages);
    std::swap(open, other.open);
  }

  void start(std::vector<std::string> words) {
    const PipedProcess process = start_piped(std::move(words));
    pid = process.pid, in = process.in, out = process.out, err = process.err;
    open = true;
  }

  std::optional<std::string> take_line() {
    const size_t end = text.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = text.substr(0, end);
    text.erase(0, end + 1);
    return line;
  }

  /// The exit code of the other side after it has ended; waits a short time for it.
  int exit_code() {
    int status = 0;
    for (int i = 0; i < 100; ++i) {
      if (waitpid(pid, &status, WNOHANG) == pid) {
        pid = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      usleep(10'000);
    }
    return -1;
  }
};

namespace {

std::vector<std::string> agent_command(const std::string& host, const std::string& executable,
                                       const RemoteOptions& options) {
  if (is_this_host(host)) return {executable, "node-agent"};
  if (options.through_srun) {
    return {"srun",       "--nodes=1",    "--ntasks=1",   "--nodelist=" + host, "--overlap",
            "--mpi=none", "--export=ALL", "--unbuffered", executable,           "node-agent"};
  }
  std::vector<std::string> words = remote_command(executable, options, host);
  words.push_back(shell_join({executable, "node-agent"}));
  return words;
}

/// Three pipes per host: above 340 hosts more than the default limit of 1024 open files.
void raise_file_limit(size_t hosts) {
  const rlim_t wanted = 3 * hosts + 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

void read_some(int& fd, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return;
  if (got > 0) {
    text.append(buffer.data(), static_cast<size_t>(got));
  } else {
    close(fd);
    fd = -1;
  }
}

}  // namespace

NodeSessions::NodeSessions(const std::vector<std::string>& hosts, const std::string& executable,
                           const RemoteOptions& options)
    : hosts_(hosts),
      sessions_(hosts.size()),
      round_trips_(hosts.size(), 0),
      executable_(executable),
      options_(options) {
  raise_file_limit(hosts_.size());
  for (size_t i = 0; i < hosts_.size(); ++i) {
    sessions_[i].start(agent_command(hosts_[i], executable, options));
  }
  std::vector<std::optional<std::string>> greetings(hosts_.size());
  receive(options.connect_seconds + 10 + options.wait_seconds, std::vector<bool>(hosts_.size(), true), greetings,
          options.wait_seconds > 0);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (!sessions_[i].open || !greetings[i]) continue;
    if (*greetings[i] != kAgentGreeting && !greets_later(i)) {
      lose(i, fmt::format("its {} is another program: it prints \"{}\"", executable_, greetings[i]->substr(0, 80)),
           "put the same build at the same path on every host");
    } else if (*greetings[i] != kAgentGreeting) {
      lose(i, fmt::format("its shell prints \"{}\" at login, which breaks mpirun", greetings[i]->substr(0, 80)),
           "make its shell start-up files print to terminals only");
    }
  }
}

/// Whether the agent's greeting comes after other lines.
bool NodeSessions::greets_later(size_t i) {
  std::vector<bool> expected(hosts_.size(), false);
  expected[i] = true;
  constexpr int kMostLines = 200;
  for (int line = 0; line < kMostLines && sessions_[i].open; ++line) {
    std::vector<std::optional<std::string>> lines(hosts_.size());
    lines[i] = sessions_[i].take_line();
    if (!lines[i]) {
      pollfd polled{sessions_[i].out, POLLIN, 0};
      if (sessions_[i].out < 0 || poll(&polled, 1, 2000) <= 0) return false;
      read_some(sessions_[i].out, sessions_[i].text);
      lines[i] = sessions_[i].take_line();
      if (!lines[i]) return false;
    }
    if (*lines[i] == kAgentGreeting) return true;
  }
  return false;
}

NodeSessions::~NodeSessions() {
  for (Session& session : sessions_) {  // all inputs first, so that the agents end at the same time
    if (session.in >= 0) close(std::exchange(session.in, -1));
  }
}

std::string NodeSessions::why_no_answer(const std::string& host) const {
  for (const Problem& problem : problems_) {
    if (problem.host == host) return problem.fix.empty() ? problem.what : problem.what + "; " + problem.fix;
  }
  return "no answer";
}

void NodeSessions::lose(size_t i, std::string what, std::string fix) {
  sessions_[i].open = false;
  if (sessions_[i].in >= 0) close(std::exchange(sessions_[i].in, -1));
  problems_.push_back({hosts_[i], std::move(what), std::move(fix)});
}

void NodeSessions::receive(double seconds, const std::vector<bool>& expected,
                           std::vector<std::optional<std::string>>& lines, bool says_who_is_missing) {
  const Clock::time_point start = Clock::now();
  Clock::time_point said = start;
  for (;;) {
    std::vector<pollfd> polled;
    std::vector<size_t> owner;
    for (size_t i = 0; i < sessions_.size(); ++i) {
      Session& session = sessions_[i];
      if (!session.open || !expected[i] || lines[i]) continue;
      for (int fd : {session.out, session.err}) {
        if (fd < 0) continue;
        polled.push_back({fd, POLLIN, 0});
        owner.push_back(i);
      }
    }
    const double left = seconds - seconds_since(start);
    if (polled.empty() || left <= 0) break;
    if (says_who_is_missing && seconds_since(said) >= kSayAgain) {
      said = Clock::now();
      std::vector<std::string> missing;
      for (size_t i = 0; i < hosts_.size(); ++i) {
        if (sessions_[i].open && !lines[i]) missing.push_back(hosts_[i]);
      }
      log::info("waiting for {} of {} agents: {}; up to {:.0f} s more", missing.size(), hosts_.size(),
                compress_hostlist(missing), left);
    }
    const double next = says_who_is_missing ? std::min(left, kSayAgain) : left;
    poll(polled.data(), polled.size(), static_cast<int>(next * 1000) + 1);
    for (size_t p = 0; p < polled.size(); ++p) {
      if (polled[p].revents == 0) continue;
      Session& session = sessions_[owner[p]];
      const bool is_out = polled[p].fd == session.out;
      read_some(is_out ? session.out : session.err, is_out ? session.text : session.messages);
      if (is_out) {
        lines[owner[p]] = session.take_line();
        round_trips_[owner[p]] = seconds_since(start);
      }
      if (session.out >= 0 || session.err >= 0 || lines[owner[p]]) continue;
      const int code = session.exit_code();
      if (code == kRemoteShellFailed && !is_this_host(hosts_[owner[p]])) {
        const RemoteFailure failure = explain_remote_failure(options_, hosts_[owner[p]], session.messages);
        lose(owner[p], failure.reason, failure.fix);
      } else {
        const AgentFailure failure = explain_agent_failure(executable_, code, session.messages);
        lose(owner[p], failure.reason, failure.fix);
      }
    }
  }
  for (size_t i = 0; i < sessions_.size(); ++i) {
    if (sessions_[i].open && expected[i] && !lines[i]) {
      lose(i, fmt::format("no answer within {:.0f} s", seconds), "check its load, its network and its file systems");
    }
  }
}

std::vector<Json> NodeSessions::ask(const std::vector<Json>& requests, double seconds) {
  std::vector<bool> expected(hosts_.size(), false);
  std::vector<std::optional<std::string>> lines(hosts_.size());
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (!sessions_[i].open || requests[i].is_null()) continue;
    const std::string line = dump_json(requests[i]) + "\n";
    expected[i] = write(sessions_[i].in, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    if (!expected[i]) lose(i, "its agent has exited", "");
  }
  receive(seconds, expected, lines);
  std::vector<Json> answers(hosts_.size());
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (!lines[i]) continue;
    try {
      answers[i] = parse_json(*lines[i], hosts_[i]);
    } catch (const Error&) {
    }
    if (answers[i].is_object() && !answers[i].contains("error")) continue;
    problems_.push_back(
        {hosts_[i],
         answers[i].is_object() ? answers[i]["error"].get<std::string>() : "its agent sent an invalid answer", ""});
    answers[i] = nullptr;
  }
  return answers;
}

std::vector<Json> NodeSessions::ask_all(const Json& request, double seconds) {
  return ask(std::vector<Json>(hosts_.size(), request), seconds);
}

}  // namespace trireme::launch
