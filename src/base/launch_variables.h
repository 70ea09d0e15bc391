#pragma once
// Environment variables that `trireme launch` sets for the ranks that it starts.

namespace trireme {

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

}  // namespace trireme
