#pragma once
// What `trireme launch` sets in the environment of the ranks that it starts, and what those read of it.

namespace trireme {

/// Which launch it was.
inline constexpr const char* kLaunchIdVariable = "TRIREME_LAUNCH_ID";
/// Where the launch answers `trireme status` and the like: ControlPlace as one word (checkpoint/run_control.h).
inline constexpr const char* kLaunchPlaceVariable = "TRIREME_LAUNCH_PLACE";
/// What joins the job's control channel.
inline constexpr const char* kControlSecretVariable = "TRIREME_CONTROL_SECRET";
/// Who owns the run folder: the job, and which of its starts this is.
inline constexpr const char* kJobIdVariable = "TRIREME_JOB_ID";
inline constexpr const char* kAttemptVariable = "TRIREME_ATTEMPT";
/// Set for what mpirun starts on a host through our remote shell: "MARK/host".
inline constexpr const char* kDaemonVariable = "TRIREME_DAEMON";

}  // namespace trireme
