#pragma once
// A small process beside rank 0 that outlives it for a moment: a rank that is killed (kill -9, out of memory, the
// second Ctrl-C of mpirun) cannot say in RUN/status.json how it ended, so this one does. It is in a session of its own,
// holds no file and no lock of the run, and ends with its rank. What ends a whole host or a whole control group, as
// Slurm does, ends it as well.

#include <string>

namespace trireme {

class RunGuard {
 public:
  struct Texts {
    std::string running;   ///< what status.json has now; another text there is never replaced
    std::string killed;    ///< what it gets when this process ends without dismiss()
    std::string stopping;  ///< the same after stop::requested()
  };
  /// Where the process cannot be made there is no guard, which costs nothing but the truth of that file.
  RunGuard(const std::string& run_dir, Texts texts);
  RunGuard(const RunGuard&) = delete;
  RunGuard& operator=(const RunGuard&) = delete;
  ~RunGuard();
  /// The end was told: the guard ends now and writes nothing.
  void dismiss();

 private:
  int pipe_ = -1;
  int process_ = -1;
};

}  // namespace trireme
