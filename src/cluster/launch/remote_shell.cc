#include "cluster/launch/remote_shell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/write_signals.h"
#include "cluster/launch/host_alias.h"
#include "cluster/launch/node_facts.h"
#include "cluster/subprocess.h"
#include "comm/launcher.h"

namespace trireme::launch {
namespace {

struct Sign {
  const char* text;
  SshFault fault;
  const char* reason;
  const char* fix;  ///< {} is the host
};

// ssh has one code, 255, for all of its failures, so its messages are parsed, only here. First match wins; the texts
// are those of OpenSSH 9.2.
constexpr Sign kSigns[] = {
    {"IDENTIFICATION HAS CHANGED", SshFault::host_key, "its host key differs from the one in known_hosts",
     "find out why; after a reinstallation remove the old key with `ssh-keygen -R {0}`"},
    {"Host key verification failed", SshFault::host_key, "its host key is unknown",
     "connect once with `ssh {0}`, or pass --host-key accept-new to accept keys at first contact"},
    {"Permission denied", SshFault::key_refused, "it asks for a password or refuses our key",
     "install a key: `ssh-copy-id {0}`"},
    {"Too many authentication failures", SshFault::key_refused, "it refused every key of ssh-agent",
     "name one key for {0} in ~/.ssh/config"},
    {"Could not resolve hostname", SshFault::other, "its name cannot be resolved on this host",
     "correct the hostfile, or add {0} to DNS or /etc/hosts"},
    {"Connection refused", SshFault::other, "nothing listens on its ssh port", "start sshd on {0}"},
    {"No route to host", SshFault::other, "there is no route to it", "check that {0} is up and its network works"},
    {"Network is unreachable", SshFault::other, "its network cannot be reached from this host",
     "check the routes to {0}"},
    {"timed out", SshFault::other, "it does not answer", "check that {0} is up and that no firewall drops ssh"},
    {"Connection closed by", SshFault::other, "it closed the connection",
     "check the sshd log of {0}; MaxStartups may be too low"},
    {"kex_exchange_identification", SshFault::other, "it closed the connection",
     "check the sshd log of {0}; MaxStartups may be too low"},
};

/// 255 is a failure of ssh, or the code of a command that crashed on the other side.
bool is_ssh_failure(const std::string& messages) {
  return std::ranges::any_of(kSigns, [&](const Sign& sign) { return messages.find(sign.text) != std::string::npos; });
}

std::string last_line(const std::string& text) {
  size_t end = text.size();
  while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == '\r')) --end;
  const size_t begin = end == 0 ? 0 : text.rfind('\n', end - 1) + 1;
  return text.substr(begin, end - begin);
}

/// HOST and COMMAND of the words; drops options that MPI starters put before the host, except a user.
struct RemoteWords {
  std::string host;
  std::vector<std::string> command;
  explicit RemoteWords(const std::vector<std::string>& words) {
    size_t at = 0;
    std::string user;
    for (; at < words.size() && words[at].starts_with('-'); ++at) {
      if (words[at] == "-l" && at + 1 < words.size()) user = words[++at] + "@";
    }
    require(at < words.size(), ErrorKind::usage, "remote-shell: found no host among {} arguments", words.size());
    host = user + name_of_alias(words[at]);
    command.assign(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  }
};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    if (text.size() < 65536) text.append(buffer.data(), static_cast<size_t>(got));
  }
}

}  // namespace

std::vector<std::string> ssh_command(const RemoteOptions& options) {
  require(options.host_key == "yes" || options.host_key == "accept-new", ErrorKind::usage,
          "--host-key is \"{}\", expected yes or accept-new; host keys are always checked", options.host_key);
  return {"ssh", "-x",
          "-o",  "BatchMode=yes",
          "-o",  "StrictHostKeyChecking=" + options.host_key,
          "-o",  fmt::format("ConnectTimeout={}", options.connect_seconds),
          "-o",  "ServerAliveInterval=15",
          "-o",  "ServerAliveCountMax=4",
          "-o",  "LogLevel=ERROR"};
}

RemoteFailure explain_ssh_failure(const std::string& host, const std::string& messages) {
  for (const Sign& sign : kSigns) {
    if (messages.find(sign.text) != std::string::npos) {
      return {sign.fault, sign.reason, fmt::format(fmt::runtime(sign.fix), host)};
    }
  }
  return {SshFault::other, messages.empty() ? "ssh failed without a message" : "ssh says: " + last_line(messages),
          fmt::format("try `ssh -v -o BatchMode=yes {} true`", host)};
}

RemoteFailure explain_remote_failure(const RemoteOptions& options, const std::string& host,
                                     const std::string& messages) {
  if (!options.agents) return explain_ssh_failure(host, messages);
  const std::string said = last_line(messages), begin = fmt::format("error: host {}: ", host);
  const size_t at = said.find(begin), cut = said.rfind("; ");
  if (at == std::string::npos || cut == std::string::npos)
    return {SshFault::other, "its remote shell says: " + said, ""};
  return {SshFault::other, said.substr(at + begin.size(), cut - at - begin.size()), said.substr(cut + 2)};
}

std::vector<std::string> ssh_command(const RemoteOptions& options, const std::string& host) {
  std::vector<std::string> words = ssh_command(options);
  const auto port = options.ports.find(host_key(host));
  if (port != options.ports.end()) words.insert(words.end(), {"-p", std::to_string(port->second)});
  words.push_back(host);
  return words;
}

int RemoteOptions::port_of(const std::string& host) const {
  const auto found = ports.find(trireme::host_key(host));  // host_key is a member here, too
  return found != ports.end() ? found->second : agent_port;
}

std::vector<std::string> remote_shell_command(const std::string& executable, const RemoteOptions& options) {
  std::vector<std::string> words = {executable, "remote-shell"};
  const auto add = [&](const char* flag, const std::string& value) { words.insert(words.end(), {flag, value}); };
  if (options.agents) {
    words.push_back("--agents");
    if (!options.secret_file.empty()) add("--secret-file", options.secret_file);
    add("--agent-port", std::to_string(options.agent_port));
    if (options.wait_seconds > 0) add("--wait-for-agents", fmt::format("{:g}", options.wait_seconds));
  } else {
    add("--host-key", options.host_key);
  }
  add("--connect-timeout", std::to_string(options.connect_seconds));
  if (!options.daemon_mark.empty()) add("--daemon-mark", options.daemon_mark);
  if (!options.ports.empty()) add("--ports", ports_word(options.ports));
  words.push_back("--");
  return words;
}

std::vector<std::string> remote_command(const std::string& executable, const RemoteOptions& options,
                                        const std::string& host) {
  if (!options.agents) return ssh_command(options, host);
  std::vector<std::string> words = remote_shell_command(executable, options);
  words.push_back(host);
  return words;
}

std::map<std::string, int> remote_ports(const std::vector<Host>& hosts) {
  std::map<std::string, int> ports;
  for (const Host& host : hosts) {
    if (host.port > 0) ports[host_key(host.name)] = host.port;
  }
  return ports;
}

std::string ports_word(const std::map<std::string, int>& ports) {
  std::string word;
  for (const auto& [host, port] : ports) {
    word += fmt::format("{}{}={}", word.empty() ? "" : ",", name_for_starter(StarterKind::open_mpi, host), port);
  }
  return word;
}

std::map<std::string, int> read_ports_word(const std::string& word) {
  std::map<std::string, int> ports;
  std::istringstream list(word);
  for (std::string entry; std::getline(list, entry, ',');) {
    const size_t equals = entry.find('=');
    require(equals != std::string::npos && equals + 1 < entry.size(), ErrorKind::usage,
            "--ports: expected HOST=PORT,..., found \"{}\"", word);
    ports[host_key(name_of_alias(entry.substr(0, equals)))] = std::atoi(entry.c_str() + equals + 1);
  }
  return ports;
}

namespace {

/// The shell command line for that host: mpirun's command, in an environment with the mark.
std::string remote_line(const RemoteOptions& options, const RemoteWords& remote) {
  const std::string line = fmt::format("{}", fmt::join(remote.command, " "));
  if (options.daemon_mark.empty()) return line;
  return fmt::format("env {}={} \"$SHELL\" -c {}", kDaemonVariable,
                     shell_quote(options.daemon_mark + "/" + host_key(remote.host)), shell_quote(line));
}

}  // namespace

int run_remote_shell(const RemoteOptions& options, const std::vector<std::string>& words) {
  const RemoteWords remote(words);
  if (options.agents) {
    try {
      return run_through_agent(options, remote.host, remote_line(options, remote));
    } catch (const Error& e) {
      log::error("host {}: {}", remote.host, e.what());
      return kRemoteShellFailed;
    }
  }
  std::vector<std::string> command = ssh_command(options, remote.host);
  command.push_back(remote_line(options, remote));
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);

  std::array<int, 2> messages{};
  const bool made = pipe(messages.data()) == 0;
  require(made, ErrorKind::io, "cannot create a pipe: {}", std::strerror(errno));
  const pid_t child = fork();
  require(child >= 0, ErrorKind::io, "cannot start ssh: {}", std::strerror(errno));
  if (child == 0) {
    dup2(messages[1], 2);
    close(messages[0]);
    close(messages[1]);
    restore_write_signals();
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(messages[1]);
  const std::string text = read_all(messages[0]);
  close(messages[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == kRemoteShellFailed && is_ssh_failure(text)) {
    const RemoteFailure failure = explain_ssh_failure(remote.host, text);
    log::error("host {}: {}; {}", remote.host, failure.reason, failure.fix);
  } else if (code == 127 && text.empty()) {
    log::error("ssh is not installed on this host");
  } else if (!text.empty()) {
    const ssize_t ignored = write(2, text.data(), text.size());
    static_cast<void>(ignored);
  }
  return code;
}

bool is_this_host(const std::string& host) {
  const std::string name = lower_case(host.substr(host.find('@') + 1));  // npos + 1 is 0
  if (name == "localhost" || name == "::1" || name.starts_with("127.")) return true;
  std::array<char, 256> own{};
  gethostname(own.data(), own.size() - 1);
  const std::string full = lower_case(own.data());
  if (name == full || name == full.substr(0, full.find('.')) || name.substr(0, name.find('.')) == full) return true;
  const std::string key = host_key(host);
  return std::ranges::any_of(list_interfaces(), [&](const Interface& i) { return host_key(i.address) == key; });
}

}  // namespace trireme::launch
