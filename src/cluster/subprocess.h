#pragma once
// Runs a program with a deadline and takes its output. The program gets its own process group, so that nothing it
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
  std::vector<std::pair<std::string, std::string>> variables;  ///< set on top of ours
  std::string user;                                            ///< run as this user; empty: ours
  size_t max_output = size_t{16} << 20;                        ///< per stream; what comes later is dropped
};

struct ProcessResult {
  int exit_code = 0;  ///< 128 + signal when a signal ended it, 127 when the program does not exist
  bool timed_out = false;
  std::string out, err;
  double seconds = 0;
};

/// Returns when the program ended and its outputs are closed or 0.2 s later (a daemon it left behind may hold them).
/// After the timeout its group gets SIGTERM, and SIGKILL 1 s later. Throws Error::io when no process can be made.
ProcessResult run_process(const ProcessRequest& request);

/// A running program and our ends of its standard streams; whoever has it closes them and waits for the program.
struct PipedProcess {
  pid_t pid = -1;
  int in = -1, out = -1, err = -1;
};
/// Starts it in its own process group; [0] is looked up in PATH, 127 is its exit code where it does not exist.
/// in_child: also done there before. Throws Error::io when no process can be made.
PipedProcess start_piped(std::vector<std::string> words, const std::function<void()>& in_child = {});

/// "ended with code 3", "ended by signal 9 (Killed)", "did not end within 5 s".
std::string describe_end(const ProcessResult& result);

/// Path of a program in PATH; empty when it is not there.
std::string find_program(const std::string& name);

/// One word for a POSIX shell, quoted when it needs to be.
std::string shell_quote(const std::string& word);
std::string shell_join(const std::vector<std::string>& words);

}  // namespace trireme
