#pragma once
// One attempt of a job: the starter as a child, its output prefixed, stop signals turned into a stop request.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "cluster/launch/starter.h"
#include "cluster/launch/stop_signals.h"
#include "comm/control/stop_request.h"

namespace trireme::launch {

struct AttemptEnd {
  int code = 0;                  ///< of the starter; 128 + signal
  bool not_started = false;      ///< the starter said that a host cannot start the command
  bool stop_requested = false;   ///< we got TERM, INT or USR1, or somebody asked by other means
  bool stop_forced = false;      ///< and the job did not stop in time, or a second signal came
  std::string refusal;           ///< the starter does not take its hostfile, which ended it
  std::string not_begun;         ///< why no rank had begun within the limit, which ended it; one line per cause
  std::string traces;            ///< OutputPrefixer::traces()
  std::string first_error;       ///< OutputPrefixer::first_error(); empty: none
  std::optional<int> lost_rank;  ///< OutputPrefixer::lost_rank()
  std::set<int> arrived;         ///< ranks that came to MPI's start; none: no rank is of trireme, or none uses MPI
  std::string verdict;           ///< what mpirun said of a code that is not 0, kept back: a stop has one, too
};

struct AttemptLimits {
  double stop_seconds = 120;     ///< that a stop may take
  std::string log_folder;        ///< where each rank's lines go, too: rank-0003.log; empty: nowhere
  double start_seconds = 0;      ///< until the first sign of a rank; 0: any time
  bool times = false;            ///< in front of every line
  bool foreign_program = false;  ///< the ranks run a program that need not be trireme
};

/// Somebody who asked for a stop by other means than a signal, which tells that this was so.
struct StopCaller {
  std::string who;
  bool now = false;  ///< without a word to the ranks
};

/// What can be done with a job beside its starter, and who wants to know of it.
struct JobChannel {
  /// Asks the running job itself to stop; false where that is not possible.
  std::function<bool(const StopRequest&)> ask_to_stop;
  /// When no rank has given a sign in time: what keeps them from beginning, one line per cause; empty: they have begun.
  std::function<std::string()> not_begun = [] { return std::string(); };
  /// Once the job says that it is over: seconds that its starter may take to end; below 0 before. A starter may wait
  /// for ever for a host that does not answer.
  std::function<double()> over;
  /// Behind a TERM: who else asked; nothing: the signal is one.
  std::function<std::optional<StopCaller>()> caller = [] { return std::nullopt; };
  /// What the ranks and the starter say, as it is passed on.
  std::function<void(std::string_view)> said = [](std::string_view) {};
};

/// Runs the starter until it ends. TERM, INT and USR1 to this process become a call of ask_to_stop(), and where that
/// gives false SIGUSR1 to the starter, which every starter passes on to the ranks (Open MPI's mpirun turns TERM into a
/// kill after 1 s, so TERM is never sent first);
/// signals within 5 s of the first are the same request. A later TERM or INT, or `stop_seconds` without an end, ends
/// the starter with TERM, and KILL 5 s later; so does a start that takes longer than its limit, and a hostfile that the
/// starter refuses (it may hang then). Throws Error::io, also where a log cannot be written.
AttemptEnd run_attempt(const StartCommand& command, StarterKind kind, const std::vector<Placement>& placement,
                       const AttemptLimits& limits, const JobChannel& job, const StopSignals& signals);

/// "2 of 3 ranks came to MPI_Init; rank 2 on h3 did not ..."; empty when all came, or none.
std::string describe_absent(const std::vector<Placement>& placement, const std::set<int>& arrived);

/// Whether an attempt that ended with `code` may be tried again: 76 (a peer was lost) and deaths by signal.
bool may_restart(int code);

}  // namespace trireme::launch
