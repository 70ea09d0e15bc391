#pragma once
// A small process beside rank 0 that outlives it for a moment: a rank that is killed (kill -9, out of memory, the
// second Ctrl-C of mpirun) cannot write into RUN/status.json how it ended, so this process does. It is in a separate
// session, holds no file and no lock of the run, and ends with its rank. It does not survive the end of its host or
// control group (as by Slurm).

#include <string>

namespace trireme {

class RunGuard {
 public:
  struct Texts {
    std::string running;   ///< content of status.json now; any other content is never replaced
    std::string killed;    ///< its new content when this process ends without dismiss()
    std::string stopping;  ///< the same after stop::requested()
  };
  /// If the process cannot be created there is no guard; only the status of a killed run is then missing.
  RunGuard(const std::string& run_dir, Texts texts);
  RunGuard(const RunGuard&) = delete;
  RunGuard& operator=(const RunGuard&) = delete;
  ~RunGuard();
  /// The end was recorded: the guard exits now and writes nothing.
  void dismiss();

 private:
  int pipe_ = -1;
  int process_ = -1;
};

}  // namespace trireme
