#pragma once
// Runs the program as a user does: in its own process, with a time limit, keeping its output.

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {

/// A build with the address sanitizer delays the release of memory: its memory use is meaningless.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kMemoryCounts = false;
#else
inline constexpr bool kMemoryCounts = true;
#endif

/// What only a hang takes, beside a load of several programs per core, too.
inline constexpr double kHangSeconds = 300;

struct Outcome {
  int code = -1;                 ///< exit code; 128 + signal for a death by signal
  std::string output;            ///< standard output and error together
  size_t peak_rss = 0;           ///< bytes, of this process alone
  double processor_seconds = 0;  ///< of this process and of what it waited for: the same on a busy machine
};

/// A started command. Its output goes to a file, so that it can be read while it runs.
class Program {
 public:
  Program(std::vector<std::string> command, const std::vector<std::string>& environment = {})
      : log_(folder_ / "output") {
    const int fd = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(fd, STDOUT_FILENO);
      dup2(fd, STDERR_FILENO);
      const int null = open("/dev/null", O_RDONLY);
      dup2(null, STDIN_FILENO);
      for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
      std::vector<char*> words;
      for (std::string& word : command) words.push_back(word.data());
      words.push_back(nullptr);
      execvp(words[0], words.data());
      _exit(127);
    }
    close(fd);
  }
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Program(const Program&) = delete;

  /// Throws when it has been waited for: a signal to -1 goes to every process of the machine.
  pid_t pid() const {
    if (pid_ <= 0) throw std::logic_error("the program has ended");
    return pid_;
  }
  std::string output() const { return read_text(log_); }

  /// Whether the process still runs; does not reap it.
  bool running() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
  }

  /// Waits until the condition on the output holds, the program ends or the limit passes.
  bool wait_for(const std::function<bool(const std::string&)>& condition, double limit_seconds = kHangSeconds) {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::duration<double>(limit_seconds)) {
      if (condition(output())) return true;
      if (!running()) return condition(output());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  /// Waits for the end; kills it after the limit, which gives code 137.
  Outcome finish(double limit_seconds = kHangSeconds) {
    const auto start = std::chrono::steady_clock::now();
    int status = 0;
    rusage usage{};
    while (wait4(pid_, &status, WNOHANG, &usage) == 0) {
      if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(limit_seconds)) kill(pid_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    pid_ = -1;
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), output(),
            static_cast<size_t>(usage.ru_maxrss) * 1024, seconds(usage.ru_utime) + seconds(usage.ru_stime)};
  }

 private:
  TemporaryFolder folder_;
  std::string log_;
  pid_t pid_ = -1;
};

inline std::vector<std::string> trireme_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), trireme_path());
  return arguments;
}

inline std::vector<std::string> mpirun_command(int ranks, std::vector<std::string> arguments) {
  std::vector<std::string> words = {mpirun_path(), "-n", std::to_string(ranks), trireme_path()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

/// Sends TERM twice, as Slurm and `timeout` do: the second as soon as the first was taken, since two that wait are one.
inline void terminate_twice(const Program& program) {
  const std::string status = fmt::format("/proc/{}/status", program.pid());
  const auto waits = [&] {
    const std::string text = read_text(status);
    for (const char* line : {"\nSigPnd:", "\nShdPnd:"}) {
      const size_t at = text.find(line);
      if (at != text.npos && (std::stoull(text.substr(at + 8), nullptr, 16) >> (SIGTERM - 1) & 1) != 0) return true;
    }
    return false;
  };
  kill(program.pid(), SIGTERM);
  while (program.running() && waits()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  kill(program.pid(), SIGTERM);
}

/// Process id of one rank under mpirun: Open MPI's children are the ranks, Hydra's is a proxy whose children are.
inline std::vector<pid_t> ranks_of(const Program& mpirun) {
  const auto children = [](pid_t pid) {
    std::istringstream text(read_text(fmt::format("/proc/{0}/task/{0}/children", pid)));
    return std::vector<pid_t>(std::istream_iterator<pid_t>(text), {});
  };
  const std::vector<pid_t> ranks = children(mpirun.pid());
  const bool is_proxy = read_text(fmt::format("/proc/{}/cmdline", ranks.at(0))).find("hydra") != std::string::npos;
  return is_proxy ? children(ranks[0]) : ranks;
}
inline pid_t first_rank_of(const Program& mpirun) { return ranks_of(mpirun).at(0); }

/// By the launcher's variables.
inline pid_t rank_of(const Program& mpirun, int rank) {
  for (const pid_t pid : ranks_of(mpirun)) {
    const std::string environment = '\0' + read_text(fmt::format("/proc/{}/environ", pid));
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
      if (environment.find(fmt::format("{}{}={}{}", '\0', name, rank, '\0')) != std::string::npos) return pid;
    }
  }
  throw std::runtime_error(fmt::format("no rank {}", rank));
}

inline Outcome run(std::vector<std::string> command, const std::vector<std::string>& environment = {}) {
  return Program(std::move(command), environment).finish();
}

/// Hydra ends the survivors of a death within milliseconds, so that their last line is best effort.
inline bool mpirun_is_hydra() { return run({mpirun_path(), "--version"}).output.find("HYDRA") != std::string::npos; }

}  // namespace trireme
