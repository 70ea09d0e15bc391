#pragma once
// One attempt of a job: runs the starter as a child, prefixes its output, turns stop signals into a stop request.

#include <csignal>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "cluster/launch/starter.h"
#include "comm/control/status_server.h"
#include "comm/rank_record.h"

namespace trireme::launch {

// The signals that ask a launch to stop, blocked while it has a job.

/// During its lifetime TERM, INT and USR1 are queued here instead of ending the process; HUP and PIPE are ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_; }                      ///< readable when a signal is pending
  const sigset_t& before() const { return before_; }  ///< the signal mask for children
  int next() const;                                   ///< returns a pending signal; 0: none
  int wait(double seconds) const;                     ///< waits this long for a signal; 0: none came

 private:
  sigset_t set_{}, before_{};
  int fd_ = -1;
};

struct AttemptEnd {
  int code = 0;                    ///< exit code of the starter; 128 + signal
  bool not_started = false;        ///< the starter reported that a host cannot start the command
  bool stop_requested = false;     ///< we got TERM, INT or USR1, or a request by other means
  bool stop_forced = false;        ///< the job did not stop in time, or a second signal came
  std::string refusal;             ///< the starter refused its hostfile, so we ended it
  std::string start_problems;      ///< why no rank started within the limit, so we ended it; one line per cause
  std::string traces;              ///< OutputPrefixer::traces()
  std::string first_error;         ///< OutputPrefixer::first_error(); empty: none
  std::optional<RankRecord> lost;  ///< OutputPrefixer::lost()
  std::set<int> arrived;           ///< ranks that reached MPI_Init; empty: no rank runs trireme or none uses MPI
  std::string verdict;  ///< mpirun's message about a code other than 0; not shown at once, a stop has one, too
};

struct AttemptLimits {
  double stop_seconds = 120;     ///< limit for a stop
  std::string log_folder;        ///< for files with each rank's lines: rank-0003.log; empty: none
  double start_seconds = 0;      ///< limit for the first sign of a rank; 0: none
  bool times = false;            ///< prefix every line with the time
  bool foreign_program = false;  ///< the ranks may run another program than trireme
};

/// A stop request by other means than a signal, announced by a signal.
struct StopCaller {
  std::string who;
  bool now = false;  ///< without asking the ranks
};

/// Actions on a job beside its starter, and observers of it.
struct JobChannel {
  /// Asks the running job itself to stop; false if that is not possible.
  std::function<bool(const StopRequest&)> ask_to_stop;
  /// Called if no rank has given a sign in time: what keeps them from starting, one line per cause; empty: they run.
  std::function<std::string()> start_problems = [] { return std::string(); };
  /// After the job is over: seconds that its starter may take to end; negative before. A starter may wait forever for a
  /// host that does not answer.
  std::function<double()> over;
  /// After a TERM: the request behind it; nullopt: the signal itself is the request.
  std::function<std::optional<StopCaller>()> caller = [] { return std::nullopt; };
  /// Gets the output of ranks and starter as it is passed on.
  std::function<void(std::string_view)> said = [](std::string_view) {};
};

/// Runs the starter until it ends. TERM, INT and USR1 to this process become a call of ask_to_stop(), and if that
/// returns false SIGUSR1 to the starter, which every starter passes on to the ranks (Open MPI's mpirun turns TERM into
/// a kill after 1 s, so TERM is never sent first); signals within 5 s of the first are the same request. A later TERM
/// or INT, or `stop_seconds` without an end, ends the starter with TERM, and KILL 5 s later; so does a start that takes
/// longer than its limit, and a hostfile that the starter refuses (it may hang then). Throws Error::io, also if a log
/// cannot be written.
AttemptEnd run_attempt(const StartCommand& command, StarterKind kind, const std::vector<Placement>& placement,
                       const AttemptLimits& limits, const JobChannel& job, const StopSignals& signals);

/// "2 of 3 ranks reached MPI_Init; rank 2 on h3 did not ..."; empty if all or none did.
std::string describe_absent(const std::vector<Placement>& placement, const std::set<int>& arrived);

/// Whether an attempt that ended with `code` may be repeated: 76 (a peer was lost) and deaths by signal. Not that of a
/// rank that named an error and aborted itself, with no rank lost before: it would do so again.
bool may_restart(int code, const AttemptEnd& end);

// Why a Slurm job was requeued, recorded beside its run: RUN/slurm-JOB.restarts has one line per restart: 75 after a
// stop with a snapshot, another code after a lost rank, "node" if Slurm requeued the job after losing a node. The
// scripts of `trireme slurm` (cluster/sbatch.h) read and write it, too.

class SlurmRestarts {
 public:
  /// For the current job. run_folder: empty if the command has none.
  explicit SlurmRestarts(const std::string& run_folder);

  /// Whether the job may be requeued after one more loss, with at most `most` in total; never without a run folder.
  bool may_follow_loss(int most) const;

  /// Records `code`, waits longer with each loss, and requeues the job, for which Slurm ends this process; returns if
  /// that does not happen, or on a signal. Throws Error::config outside Slurm, Error::io if Slurm refuses.
  void requeue(int code, const StopSignals& signals) const;

 private:
  int losses() const;

  std::string job_, file_;
};

}  // namespace trireme::launch
