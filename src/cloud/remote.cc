#include "cloud/remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/time.h"
#include "cluster/hostlist.h"

namespace trireme::cloud {
namespace {

using launch::SshFault;

/// The exit code of ssh for its own failures.
constexpr int kSshFailed = 255;
/// Each connection is a local process with its pipes.
constexpr size_t kMostAtOnce = 32;

std::string last_lines(const std::string& text, size_t most) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  std::string result;
  for (size_t i = lines.size() > most ? lines.size() - most : 0; i < lines.size(); ++i) {
    result += (result.empty() ? "" : "; ") + lines[i];
  }
  return result;
}

std::string require_done(const Node& node, const std::string& command, const ProcessResult& result) {
  if (result.exit_code == 0 && !result.timed_out) return result.out;
  const std::string said = last_lines(result.err.empty() ? result.out : result.err, 3);
  fail(ErrorKind::io, "{}: `{}` {}{}", node.name, command.substr(0, command.find('\n')), describe_end(result),
       said.empty() ? "" : ": " + said);
}

/// Escapes for a ProxyCommand of ssh.
std::string with_percents_kept(std::string word) {
  for (size_t at = 0; (at = word.find('%', at)) != std::string::npos; at += 2) word.insert(at, 1, '%');
  return word;
}

}  // namespace

Remote::Remote(const Cluster& cluster, std::string known_hosts)
    : user_(cluster.options.access.user),
      known_hosts_(std::move(known_hosts)),
      key_(expand_home(cluster.options.access.key)) {
  if (key_.ends_with(".pub") && std::filesystem::exists(key_.substr(0, key_.size() - 4)))
    identity_ = key_.substr(0, key_.size() - 4);
}

std::string Remote::key_shown() const {
  if (!identity_.empty()) return fmt::format("user {}, key {}", user_, identity_);
  return fmt::format("user {}; found no private key beside {}, so the keys of ssh-agent and ssh's defaults were tried",
                     user_, key_);
}

std::vector<std::string> Remote::ssh_words(const Node& node) const {
  std::vector<std::string> words = launch::ssh_command({});
  if (!identity_.empty()) words.insert(words.end(), {"-i", identity_});
  if (!known_hosts_.empty()) {
    words.insert(words.end(), {"-o", "UserKnownHostsFile=" + known_hosts_, "-o", "GlobalKnownHostsFile=/dev/null"});
  }
  if (!node.jump.empty()) {
    std::vector<std::string> jump = words;
    for (std::string& word : jump) word = with_percents_kept(word);
    jump.insert(jump.end(), {"-W", "[%h]:%p", user_ + "@" + node.jump});
    words.insert(words.end(), {"-o", "ProxyCommand=" + shell_join(jump)});
  }
  words.push_back(user_ + "@" + node.login);
  return words;
}

RemoteResult Remote::run(const Node& node, const std::string& command, const std::string& input,
                         std::chrono::duration<double> timeout) const {
  ProcessRequest request;
  request.arguments = ssh_words(node);
  request.arguments.push_back(command);
  request.input = input;
  request.timeout = timeout;
  RemoteResult result{run_process(request)};
  if (result.exit_code == kSshFailed) {
    const launch::RemoteFailure failure = launch::explain_ssh_failure(node.login, result.err);
    result.fault = failure.fault;
    const std::string shown = failure.fault == SshFault::key_refused ? " (" + key_shown() + ")" : "";
    const bool pinned = !known_hosts_.empty() && failure.fault == SshFault::host_key;
    result.err = failure.reason + shown + "; " +
                 (pinned ? fmt::format("it was pinned in {} when the machine was created: find out why it changed, and "
                                       "remove its line only if you know the reason",
                                       known_hosts_)
                         : failure.fix);
  }
  return result;
}

RemoteResult Remote::run_as_root(const Node& node, const std::string& command, const std::string& input,
                                 std::chrono::duration<double> timeout) const {
  return run(node, user_ == "root" ? command : "sudo -n sh -c " + shell_quote(command), input, timeout);
}

std::string Remote::require_as_root(const Node& node, const std::string& command, const std::string& input,
                                    std::chrono::duration<double> timeout) const {
  return require_done(node, command, run_as_root(node, command, input, timeout));
}

std::string Remote::require_as_user(const Node& node, const std::string& command, const std::string& input) const {
  return require_done(node, command, run(node, command, input));
}

std::vector<std::string> Remote::host_keys(const Node& node) const {
  std::vector<std::string> words = {"ssh-keygen", "-F", node.login};
  if (!known_hosts_.empty()) words.insert(words.end(), {"-f", known_hosts_});
  ProcessResult found = run_process({.arguments = words, .input = "", .variables = {}, .user = ""});
  if (found.out.empty() && known_hosts_.empty()) {
    words.insert(words.end(), {"-f", "/etc/ssh/ssh_known_hosts"});
    found = run_process({.arguments = words, .input = "", .variables = {}, .user = ""});
  }
  std::vector<std::string> keys;
  std::istringstream lines(found.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);
    std::string names, type, key;
    if (line.starts_with('#') || line.starts_with('@') || !(parts >> names >> type >> key)) continue;
    keys.push_back(type + " " + key);
  }
  return keys;
}

Failures for_each_node(const std::vector<Node>& nodes, const std::function<void(const Node&)>& work) {
  Failures failures;
  std::mutex guard;
  for (size_t begin = 0; begin < nodes.size(); begin += kMostAtOnce) {
    std::vector<std::thread> threads;
    for (size_t i = begin; i < std::min(nodes.size(), begin + kMostAtOnce); ++i) {
      threads.emplace_back([&, i] {
        std::string problem;
        try {
          work(nodes[i]);
          return;
        } catch (const std::exception& e) {
          problem = e.what();
        }
        const std::lock_guard lock(guard);
        failures[nodes[i].name] = problem;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  return failures;
}

Failures wait_for_nodes(const Remote& remote, std::vector<Node>& nodes, const Patience& patience,
                        const std::function<void(Node&)>& before) {
  constexpr auto kPause = std::chrono::seconds(5);
  constexpr double kLogEvery = 30;
  const auto start = Clock::now();
  return for_each_node(nodes, [&](const Node& given) {
    Node& node = nodes[static_cast<size_t>(&given - nodes.data())];
    double reported = -kLogEvery, refused_since = -1;
    for (;;) {
      std::string problem;
      SshFault fault = SshFault::other;
      bool final = false;
      try {
        before(node);
        const RemoteResult result = remote.run(node, "true", "", std::chrono::seconds(30));
        if (result.exit_code == 0 && !result.timed_out) return;
        fault = result.fault;
        problem = result.timed_out ? "ssh " + describe_end(result) : result.err;
        if (result.exit_code == 127 && !result.timed_out) problem = "ssh is not installed here", final = true;
      } catch (const Error& e) {
        problem = e.what();
      }
      const double now = seconds_since(start);
      // A host that answers but refuses us: some minutes after its machine was created that is final, too.
      if (fault != SshFault::key_refused) refused_since = -1;
      if (fault == SshFault::key_refused && refused_since < 0) refused_since = now;
      final = final || fault == SshFault::host_key ||
              now + std::chrono::duration<double>(kPause).count() > patience.seconds ||
              (refused_since >= 0 && now - refused_since >= patience.refused);
      if (final) fail(ErrorKind::io, "{}: {}", node.name, problem);
      if (now - reported >= kLogEvery) {
        log::info("{}: not reached yet after {:.0f} of at most {:.0f} s: {}", node.name, now, patience.seconds,
                  problem);
        reported = now;
      }
      std::this_thread::sleep_for(kPause);
    }
  });
}

std::string folded(const std::vector<std::pair<std::string, std::string>>& answers) {
  constexpr size_t kMostBytes = size_t{1} << 20;  // of an answer
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const auto& [node, text] : answers) {
    auto group = std::ranges::find(groups, text, [](const auto& one) { return one.first; });
    if (group == groups.end()) group = groups.insert(groups.end(), {text, {}});
    group->second.push_back(node);
  }
  std::string out;
  for (const auto& [text, nodes] : groups) {
    out += fmt::format("---- {} ({}) ----\n{}", compress_hostlist(nodes), nodes.size(), printable(text, kMostBytes));
    if (!out.ends_with('\n')) out += '\n';
  }
  return out;
}

}  // namespace trireme::cloud
