#pragma once
// Runs a program with a deadline and reads its output. The program gets its own process group, so that nothing that it
// started outlives the deadline.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
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
/// called in the child before. Throws Error::io if no process can be created.
PipedProcess start_piped(std::vector<std::string> words, const std::function<void()>& in_child = {});

/// "ended with code 3", "ended by signal 9 (Killed)", "did not end within 5 s".
std::string describe_end(const ProcessResult& result);

/// Path of a program in PATH; empty if it is missing.
std::string find_program(const std::string& name);

/// A word for a POSIX shell, quoted if necessary.
std::string shell_quote(const std::string& word);
std::string shell_join(const std::vector<std::string>& words);

}  // namespace trireme
