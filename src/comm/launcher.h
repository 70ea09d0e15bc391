#pragma once
// What started this process, according to its environment: text only, no MPI.

#include <functional>
#include <string>

#include "base/error.h"

namespace trireme {

// Environment variables that `trireme launch` sets for the ranks that it starts.

/// The id of the launch.
inline constexpr const char* kLaunchIdVariable = "TRIREME_LAUNCH_ID";
/// The launch's address for `trireme status`, `stop` and `attach`: ControlPlace as one word
/// (checkpoint/run_folder/run_control.h).
inline constexpr const char* kLaunchPlaceVariable = "TRIREME_LAUNCH_PLACE";
/// The secret of the job's control channel.
inline constexpr const char* kControlSecretVariable = "TRIREME_CONTROL_SECRET";
/// The owner of the run folder: the job, and the number of this attempt.
inline constexpr const char* kJobIdVariable = "TRIREME_JOB_ID";
inline constexpr const char* kAttemptVariable = "TRIREME_ATTEMPT";
/// Set for processes that mpirun starts on a host through Trireme's remote shell: "MARK/host".
inline constexpr const char* kDaemonVariable = "TRIREME_DAEMON";

/// Which launcher it was.
struct Launcher {
  enum class Kind { none, open_mpi, pmi, mvapich, slurm, pmix, torch } kind = Kind::none;
  std::string name;      ///< "mpirun of Open MPI", ...; empty for none
  std::string variable;  ///< the variable that shows it
  int size = 0;          ///< processes of the job; 0: unknown
  int rank = -1;         ///< of this process; -1: unknown
  int host_size = 0;     ///< processes of the job on this host; 0: unknown
  bool connects = true;  ///< false: processes that cannot find each other: an srun step without PMI, torchrun's
};

/// nullptr for a variable that is not set.
using Environment = std::function<const char*(const char*)>;

/// A Slurm allocation alone is not a job step: SLURM_NTASKS does not count, SLURM_STEP_ID with SLURM_PROCID does (but
/// not those of the batch script or of an interactive shell). Throws Error::config for a size or rank that is not a
/// number.
Launcher detect_launcher(const Environment& environment);
/// The launcher of this process.
Launcher detect_launcher();

/// Ends a rank whose error rank 0 reports: returns the exit code of `kind` a second later. At the first rank that ends
/// with an error a launcher ends the others, and Open MPI 5 then loses what they have just written.
int exit_after_report(ErrorKind kind);

}  // namespace trireme
