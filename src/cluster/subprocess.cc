#include "cluster/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/time.h"
#include "base/write_signals.h"

namespace trireme {
namespace {

constexpr const char* kUsualPath = "/usr/bin:/bin";

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    const bool made = pipe2(ends.data(), O_CLOEXEC) == 0;
    require(made, ErrorKind::io, "cannot create a pipe: {}", std::strerror(errno));
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(size_t i) {
    if (ends[i] >= 0) close(ends[i]);
    ends[i] = -1;
  }
};

/// Writes the input, reads the outputs, waits, and kills the group after the timeout.
class Running {
 public:
  Running(const ProcessRequest& request, pid_t pid, Pipe& in, Pipe& out, Pipe& err)
      : request_(request), pid_(pid), in_(in), out_(out), err_(err) {
    fcntl(in_.ends[1], F_SETFL, O_NONBLOCK);
    fcntl(out_.ends[0], F_SETFL, O_NONBLOCK);
    fcntl(err_.ends[0], F_SETFL, O_NONBLOCK);
  }

  ProcessResult finish() {
    while (!exit_code_ || (streams_open() && seconds_since(ended_) < 0.2)) step();
    // Kill what it left in its group, too; as long as the process is not reaped, the group's number is no other's.
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    result_.seconds = std::chrono::duration<double>(ended_ - start_).count();
    result_.exit_code = *exit_code_;
    return std::move(result_);
  }

 private:
  bool streams_open() const { return out_.ends[0] >= 0 || err_.ends[0] >= 0; }

  void step() {
    std::array<pollfd, 3> polled{pollfd{out_.ends[0], POLLIN, 0}, pollfd{err_.ends[0], POLLIN, 0},
                                 pollfd{in_.ends[1], POLLOUT, 0}};
    poll(polled.data(), polled.size(), 20);
    if (polled[0].revents != 0) take(out_, result_.out);
    if (polled[1].revents != 0) take(err_, result_.err);
    if (in_.ends[1] >= 0) give();
    if (!exit_code_) look();
    if (!exit_code_) enforce_deadline();
  }

  void take(Pipe& pipe, std::string& text) const {
    std::array<char, 16384> buffer;
    const ssize_t got = read(pipe.ends[0], buffer.data(), buffer.size());
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) pipe.close_end(0);
    if (got <= 0) return;
    text.append(buffer.data(), std::min(static_cast<size_t>(got), request_.max_output - text.size()));
  }

  void give() {
    const size_t left = request_.input.size() - given_;
    const ssize_t put = left > 0 ? write(in_.ends[1], request_.input.data() + given_, left) : 0;
    if (put > 0) given_ += static_cast<size_t>(put);
    if (given_ == request_.input.size() || (put < 0 && errno != EAGAIN && errno != EINTR)) in_.close_end(1);
  }

  void look() {
    siginfo_t end{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid != pid_) return;
    exit_code_ = end.si_code == CLD_EXITED ? end.si_status : 128 + end.si_status;
    ended_ = Clock::now();
  }

  void enforce_deadline() {
    const double over = seconds_since(start_) - request_.timeout.count();
    if (over < 0) return;
    if (!result_.timed_out) kill(-pid_, SIGTERM);
    result_.timed_out = true;
    if (over > 1) kill(-pid_, SIGKILL);
  }

  const ProcessRequest& request_;
  pid_t pid_;
  Pipe &in_, &out_, &err_;
  Clock::time_point start_ = Clock::now(), ended_ = start_;
  size_t given_ = 0;
  std::optional<int> exit_code_;
  ProcessResult result_;
};

/// In a process group of its own, without blocked signals.
pid_t start(const ChildProgram& program, const std::string& name, const std::function<void()>& in_child, const Pipe& in,
            const Pipe& out, const Pipe& err) {
  sigset_t none;
  sigemptyset(&none);
  const pid_t pid = fork();
  require(pid >= 0, ErrorKind::io, "cannot start {}: {}", name, std::strerror(errno));
  if (pid == 0) {
    if (in_child) in_child();
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    program.run(in.ends[0], out.ends[1], err.ends[1]);
  }
  setpgid(pid, pid);
  return pid;
}

}  // namespace

ChildProgram::ChildProgram(std::vector<std::string> words,
                           const std::vector<std::pair<std::string, std::string>>& variables, const std::string& user)
    : words_(std::move(words)) {
  require(!words_.empty(), ErrorKind::io, "the program to run is missing");
  if (!user.empty()) {
    const passwd* entry = getpwnam(user.c_str());
    require(entry != nullptr, ErrorKind::io, "user \"{}\" does not exist on this host", user);
    changes_user_ = true;
    uid_ = entry->pw_uid;
    gid_ = entry->pw_gid;
    int count = 64;
    groups_.resize(static_cast<size_t>(count));
    while (getgrouplist(user.c_str(), gid_, groups_.data(), &count) < 0)
      groups_.resize(std::max(static_cast<size_t>(count), 2 * groups_.size()));
    groups_.resize(static_cast<size_t>(count));
  }
  const char* folders = std::getenv("PATH");
  std::string_view path = folders != nullptr ? folders : kUsualPath;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    if (std::ranges::none_of(variables, [&](const auto& own) { return own.first == name; }))
      environment_.emplace_back(*entry);
  }
  for (auto own = variables.begin(); own != variables.end(); ++own) {
    // The last of several values counts.
    if (std::any_of(own + 1, variables.end(), [&](const auto& later) { return later.first == own->first; })) continue;
    environment_.push_back(own->first + "=" + own->second);
    if (own->first == "PATH") path = own->second;
  }
  path_ = find_program(words_[0], path);
  if (path_.empty()) path_ = words_[0].find('/') != std::string::npos ? words_[0] : "";
  for (std::string& word : words_) argv_.push_back(word.data());
  argv_.push_back(nullptr);
  // A script without "#!" is one of the shell.
  shell_argv_ = {const_cast<char*>("sh"), path_.data()};
  shell_argv_.insert(shell_argv_.end(), argv_.begin() + 1, argv_.end());
  for (std::string& entry : environment_) envp_.push_back(entry.data());
  envp_.push_back(nullptr);
}

bool ChildProgram::become_user() const {
  return setgroups(groups_.size(), groups_.data()) == 0 && setgid(gid_) == 0 && setuid(uid_) == 0;
}

void ChildProgram::run(int in, int out, int err) const {
  restore_write_signals();
  dup2(in, 0);
  dup2(out, 1);
  dup2(err, 2);
  if (changes_user_ && !become_user()) _exit(126);
  execve(path_.c_str(), argv_.data(), envp_.data());
  if (errno == ENOEXEC) execve("/bin/sh", shell_argv_.data(), envp_.data());
  _exit(127);
}

PipedProcess start_piped(std::vector<std::string> words, const std::function<void()>& in_child) {
  const std::string name = words.empty() ? "" : words[0];
  const ChildProgram program(std::move(words), {});
  Pipe in, out, err;
  const pid_t pid = start(program, name, in_child, in, out, err);
  return {pid, std::exchange(in.ends[1], -1), std::exchange(out.ends[0], -1), std::exchange(err.ends[0], -1)};
}

ProcessResult run_process(const ProcessRequest& request) {
  const ChildProgram program(request.arguments, request.variables, request.user);
  Pipe in, out, err;
  const pid_t pid = start(program, request.arguments[0], {}, in, out, err);
  in.close_end(0);
  out.close_end(1);
  err.close_end(1);
  return Running(request, pid, in, out, err).finish();
}

std::string describe_end(const ProcessResult& result) {
  if (result.timed_out) return fmt::format("did not end within {:.3g} s", result.seconds);
  if (result.exit_code == 127) return "does not exist (code 127)";
  if (result.exit_code > 128 && result.exit_code <= 128 + 64) {
    const int number = result.exit_code - 128;
    return fmt::format("ended by signal {} ({})", number, strsignal(number));
  }
  return fmt::format("ended with code {}", result.exit_code);
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  return find_program(name, path != nullptr ? path : kUsualPath);
}

std::string find_program(const std::string& name, std::string_view folders) {
  const auto is_program = [](const std::string& path) {
    struct stat facts {};
    return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    const std::string candidate = end == 0 ? "./" + name : fmt::format("{}/{}", folders.substr(0, end), name);
    if (is_program(candidate)) return candidate;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return "";
}

std::string shell_quote(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_join(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quote(word);
  return line;
}

namespace {

struct Stat {
  int parent = 0;
  char state = '?';
};

std::optional<Stat> read_stat(int pid) {
  const std::string text = read_text_if_there("/proc/" + std::to_string(pid) + "/stat");
  const size_t close = text.rfind(')');  // the name before it may contain any character
  if (close == std::string::npos || close + 4 > text.size()) return std::nullopt;
  return Stat{std::atoi(text.c_str() + close + 4), text[close + 2]};
}

}  // namespace

int parent_of(int pid) {
  const auto stat = read_stat(pid);
  return stat ? stat->parent : 0;
}

std::set<int> descendants_of(int pid) {
  std::multimap<int, int> children;
  std::set<int> ended;
  std::error_code error;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = folder.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const int candidate = std::atoi(name.c_str());
    const auto stat = read_stat(candidate);
    if (!stat) continue;
    children.emplace(stat->parent, candidate);
    if (stat->state == 'Z' || stat->state == 'X') ended.insert(candidate);
  }
  std::set<int> found;
  std::vector<int> open = {pid};
  while (!open.empty()) {
    const auto [first, last] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = first; child != last; ++child) {
      open.push_back(child->second);
      if (!ended.contains(child->second)) found.insert(child->second);
    }
  }
  return found;
}

std::set<int> processes_with(const std::string& assignment) {
  std::set<int> found;
  std::error_code error;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = folder.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string text = read_text_if_there(folder.path() / "environ");
    if (('\0' + text).find('\0' + assignment + '\0') != std::string::npos) found.insert(std::atoi(name.c_str()));
  }
  return found;
}

void become_subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void end_tree(int pid, const std::set<int>& spared) {
  kill(pid, SIGSTOP);
  const Clock::time_point start = Clock::now();
  for (;;) {
    std::set<int> doomed = descendants_of(pid);
    for (int root : spared) {
      doomed.erase(root);
      for (int below : descendants_of(root)) doomed.erase(below);
    }
    for (int victim : doomed) kill(victim, SIGKILL);
    if (doomed.empty() || seconds_since(start) > 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(pid, SIGKILL);
}

}  // namespace trireme
