#pragma once
// The bash that runs those lines of an NHC configuration that only a shell can run.

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/health/check.h"

namespace trireme::health {

/// The results of one line, each with the text that names it: the line, a check that it called, or a file.
struct LineResult {
  std::string check;
  Outcome outcome;
};

/// One bash for all lines of a run, as in NHC: later lines see what a line sets, sources or defines. It is started for
/// the first line, with the environment of this process and the site's scripts of INCDIR (nhc_environment.sh defines
/// what they use). Native checks that it calls run in this process. Reads only files that why_not_trusted() accepts.
class BashHost {
 public:
  struct Callbacks {
    /// A known check and its words.
    std::function<Outcome(const std::vector<std::string>& words)> check;
    /// Why a check that bash does not find is not checked.
    std::function<std::string(const std::string& name)> why_unknown;
  };

  BashHost(const Machine& machine, Callbacks callbacks);
  ~BashHost();
  BashHost(const BashHost&) = delete;
  BashHost& operator=(const BashHost&) = delete;

  /// Sets an exported variable for the following lines.
  void set(const std::string& name, const std::string& value);

  /// Runs the line; returns its results, one pass if there are none. `number`: for messages about lines that cannot be
  /// checked.
  std::vector<LineResult> run(const std::string& line, int number);

  /// The line ended the shell with `exit`. A later run() starts another one.
  bool ended() const { return ended_; }
  pid_t pid() const { return pid_; }  ///< 0: none

 private:
  void start(std::vector<LineResult>& results);
  void say(const std::vector<std::string>& words);
  std::string next();  ///< a word from bash; sets ended_ at the end of its output
  bool receive(std::vector<LineResult>& results, int number);
  void answer(const std::vector<std::string>& asked, std::vector<LineResult>& results);
  LineResult failure(const std::string& line) const;

  const Machine& machine_;
  Callbacks callbacks_;
  std::vector<std::pair<std::string, std::string>> variables_;
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1, out_ = -1, err_ = -1;
  std::string text_;  ///< read but not yet used
  std::string loading_, remarks_, last_check_;
  std::vector<std::string> called_;  ///< in the line: names of checks
  bool started_ = false, ended_ = false;
  bool passed_ = false, explained_ = false;  ///< in the line: a check passed; its exit code is explained
  int code_ = 0;                             ///< of the line, or of a shell that exited
};

/// nhc_environment.sh.
const char* nhc_environment_script();

}  // namespace trireme::health
