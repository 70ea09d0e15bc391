#pragma once
// Runs a program with a deadline and reads its output. The program gets its own process group, so that nothing that it
// started outlives the deadline.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

struct ProcessRequest {
  std::vector<std::string> arguments;  ///< [0] is looked up in PATH
  std::chrono::duration<double> timeout = std::chrono::seconds(30);
  std::string input;                                           ///< for its standard input
  std::vector<std::pair<std::string, std::string>> variables;  ///< added to our environment
  std::string user;                                            ///< run as this user; empty: ours
  size_t max_output = size_t{16} << 20;                        ///< per stream; later bytes are dropped
};

struct ProcessResult {
  int exit_code = 0;  ///< 128 + signal if a signal ended it, 127 if the program does not exist
  bool timed_out = false;
  std::string out, err;
  double seconds = 0;
};

/// A program as a child executes it, prepared before fork(): another thread may hold any lock at that moment, so the
/// child calls async-signal-safe functions only.
class ChildProgram {
 public:
  /// words: [0] is looked up in PATH, that of `variables` if it is there. variables: added to our environment. user: as
  /// which it runs; empty: ours. Throws Error::io for a user that does not exist here.
  ChildProgram(std::vector<std::string> words, const std::vector<std::pair<std::string, std::string>>& variables,
               const std::string& user = {});
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;
  /// In the child: becomes the program with these standard streams, or exits: 127 if there is none, 126 if it cannot be
  /// that user.
  [[noreturn]] void run(int in, int out, int err) const;

 private:
  bool become_user() const;

  std::vector<std::string> words_, environment_;
  std::string path_;
  std::vector<char*> argv_, shell_argv_, envp_;
  bool changes_user_ = false;
  uid_t uid_ = 0;
  gid_t gid_ = 0;
  std::vector<gid_t> groups_;
};

/// Returns after the program has ended and its outputs are closed, or 0.2 s later (a daemon that it started may hold
/// them). After the timeout its group gets SIGTERM, and SIGKILL 1 s later. Throws Error::io if no process can be
/// created.
ProcessResult run_process(const ProcessRequest& request);

/// A running program and our ends of its standard streams; the owner closes them and waits for the program.
struct PipedProcess {
  pid_t pid = -1;
  int in = -1, out = -1, err = -1;
};
/// Starts it in its own process group; [0] is looked up in PATH, its exit code is 127 if it does not exist. in_child:
/// called in the child before, async-signal-safe. Throws Error::io if no process can be created.
PipedProcess start_piped(std::vector<std::string> words, const std::function<void()>& in_child = {});

/// "ended with code 3", "ended by signal 9 (Killed)", "did not end within 5 s".
std::string describe_end(const ProcessResult& result);

/// Path of a program in PATH, or in these folders, separated by colons; empty if it is missing.
std::string find_program(const std::string& name);
std::string find_program(const std::string& name, std::string_view folders);

/// A word for a POSIX shell, quoted if necessary.
std::string shell_quote(const std::string& word);
std::string shell_join(const std::vector<std::string>& words);

// The descendants of a process, even after setsid and double forks.

/// The parent's pid; 0 if the process is gone.
int parent_of(int pid);

/// All descendants except zombies. Processes whose parents have exited are children of the nearest ancestor that called
/// become_subreaper().
std::set<int> descendants_of(int pid);

/// Processes with this assignment ("NAME=VALUE") in their environment, as far as we may read it.
std::set<int> processes_with(const std::string& assignment);

/// From now on orphaned descendants become children of this process, even after setsid and double forks.
void become_subreaper();

/// Stops `pid`, a subreaper, kills all its descendants except `spared` and theirs, then `pid`. Waits at most a second:
/// a process that hangs in the kernel ends later.
void end_tree(int pid, const std::set<int>& spared);

}  // namespace trireme
