#pragma once
// The bash that runs those lines of an NHC configuration that only a shell can run.

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/health/check.h"

namespace trireme::health {

/// What came out of one line, each with the text that names it: the line's, that of a check it called, a file's.
struct LineResult {
  std::string check;
  Outcome outcome;
};

/// One bash for all lines of a run, as in NHC: what a line sets, sources or defines is there for the next ones. It is
/// started for the first line, with the environment of this process and the site's scripts of INCDIR
/// (nhc_environment.sh has what they find). Native checks that it calls are run here. Only files that
/// why_not_trusted() accepts are read.
class BashHost {
 public:
  struct Callbacks {
    /// A known check and its words.
    std::function<Outcome(const std::vector<std::string>& words)> check;
    /// Of a check that bash does not find: why it is not checked.
    std::function<std::string(const std::string& name)> why_unknown;
  };

  BashHost(const Machine& machine, Callbacks callbacks);
  ~BashHost();
  BashHost(const BashHost&) = delete;
  BashHost& operator=(const BashHost&) = delete;

  /// Sets an exported variable for the lines that follow.
  void set(const std::string& name, const std::string& value);

  /// What came out of the line, one pass if nothing. `number` is named in what cannot be checked.
  std::vector<LineResult> run(const std::string& line, int number);

  /// The line, by `exit`, ended the shell. A later run() starts another one.
  bool ended() const { return ended_; }
  pid_t pid() const { return pid_; }  ///< 0: none

 private:
  void start(std::vector<LineResult>& results);
  void say(const std::vector<std::string>& words);
  std::string next();  ///< a word from bash; sets ended_ when there is none any more
  bool receive(std::vector<LineResult>& results, int number);
  void answer(const std::vector<std::string>& asked, std::vector<LineResult>& results);
  LineResult failure(const std::string& line) const;

  const Machine& machine_;
  Callbacks callbacks_;
  std::vector<std::pair<std::string, std::string>> variables_;
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1, out_ = -1, err_ = -1;
  std::string text_;  ///< read, not yet taken
  std::string loading_, remarks_, last_check_;
  bool started_ = false, ended_ = false;
  bool passed_ = false, explained_ = false;  ///< of the line: a check passed; its code has been told why
  int code_ = 0;                             ///< of the line, or of a shell that ended
};

/// nhc_environment.sh.
const char* nhc_environment_script();

}  // namespace trireme::health
