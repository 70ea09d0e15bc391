#include "cluster/launch/supervise.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/time.h"
#include "cluster/launch/output.h"
#include "cluster/subprocess.h"

namespace trireme::launch {

StopSignals::StopSignals() {
  sigemptyset(&set_);
  for (int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set_, number);
  sigprocmask(SIG_BLOCK, &set_, &before_);
  fd_ = signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK);
  signal(SIGHUP, SIG_IGN);  // closing a terminal must not end a job
}

StopSignals::~StopSignals() {
  close(fd_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int StopSignals::next() const {
  signalfd_siginfo info{};
  return read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

int StopSignals::wait(double seconds) const {
  pollfd polled{fd_, POLLIN, 0};
  poll(&polled, 1, static_cast<int>(seconds * 1000));
  return next();
}

namespace {

constexpr double kKillAfterSeconds = 5;
constexpr double kAskSeconds = 0.5;

struct Stream {
  int fd = -1;     ///< we read here
  int target = 1;  ///< and write here
};

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(fd, text.data(), text.size());
    if (put < 0 && errno != EINTR && errno != EAGAIN) return;  // a closed terminal does not end the job
    if (put > 0) text.remove_prefix(static_cast<size_t>(put));
  }
}

class Attempt {
 public:
  Attempt(const StartCommand& command, StarterKind kind, const std::vector<Placement>& placement,
          const AttemptLimits& limits, const JobChannel& job, const StopSignals& signals)
      : signals_(signals),
        logs_(limits.log_folder),
        out_(kind, placement, logs_, limits.times, limits.foreign_program),
        err_(kind, placement, logs_, limits.times, limits.foreign_program),
        stop_seconds_(limits.stop_seconds),
        start_seconds_(limits.start_seconds),
        job_(job) {
    start(command);
  }

  AttemptEnd finish() {
    while (streams_[0].fd >= 0 || streams_[1].fd >= 0 || !ended_) step();
    pass_on(1, out_.flush());
    pass_on(2, err_.flush());
    end_.verdict = out_.verdict() + err_.verdict();
    end_.traces = out_.traces() + err_.traces();
    end_.refusal = out_.refusal().empty() ? err_.refusal() : out_.refusal();
    end_.first_error = err_.first_error().value_or(out_.first_error().value_or(""));
    end_.lost = err_.lost() ? err_.lost() : out_.lost();
    end_.not_started = out_.not_started() || err_.not_started();
    end_.arrived = out_.arrived();
    end_.arrived.insert(err_.arrived().begin(), err_.arrived().end());
    return std::move(end_);
  }

 private:
  void start(const StartCommand& command) {
    const ChildProgram program(command.words, command.environment);
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    std::array<int, 2> out{}, err{};
    const bool made = pipe2(out.data(), O_CLOEXEC) == 0 && pipe2(err.data(), O_CLOEXEC) == 0;
    require(made, ErrorKind::io, "cannot create a pipe: {}", std::strerror(errno));
    const pid_t parent = getpid();
    child_ = fork();
    require(child_ >= 0, ErrorKind::io, "cannot start {}: {}", command.words[0], std::strerror(errno));
    if (child_ == 0) {
      setpgid(0, 0);  // Ctrl-C in the terminal reaches only us: we turn it into a stop request
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(1);
      sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
      program.run(null, out[1], err[1]);
    }
    close(null);
    close(out[1]);
    close(err[1]);
    streams_ = {Stream{out[0], 1}, Stream{err[0], 2}};
  }

  void step() {
    std::array<pollfd, 3> polled{pollfd{streams_[0].fd, POLLIN, 0}, pollfd{streams_[1].fd, POLLIN, 0},
                                 pollfd{signals_.fd(), POLLIN, 0}};
    poll(polled.data(), polled.size(), 100);
    for (size_t i = 0; i < 2; ++i) {
      if (polled[i].revents != 0) forward(streams_[i], i == 0 ? out_ : err_);
    }
    while (const int number = signals_.next()) handle(number);
    if (!ended_) {
      reap();
      enforce_start();
      enforce_stop();
    } else if (seconds_since(ended_at_) > 2) {  // a background process holds the pipes open
      for (Stream& stream : streams_) close_stream(stream);
    }
  }

  void forward(Stream& stream, OutputPrefixer& prefixer) {
    std::array<char, 65536> buffer;
    const ssize_t got = read(stream.fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) {
      close_stream(stream);
    } else {
      pass_on(stream.target, prefixer.take({buffer.data(), static_cast<size_t>(got)}));
    }
  }

  void pass_on(int target, const std::string& text) const {
    write_all(target, text);
    job_.said(text);
  }

  static void close_stream(Stream& stream) {
    if (stream.fd >= 0) close(stream.fd);
    stream.fd = -1;
  }

  void handle(int number) {
    if (ended_) return;
    const std::optional<StopCaller> caller = number == SIGTERM ? job_.caller() : std::nullopt;
    if (caller && caller->now) {
      end_.stop_requested = true;
      force(caller->who + " requested an immediate end");
    } else if (!end_.stop_requested) {
      end_.stop_requested = true;
      stop_at_ = Clock::now();
      const std::string who = caller ? caller->who : strsignal(number);
      log::info("launch: {}; asking all ranks to stop after this step", who);
      const StopRequest request{caller ? who : "launch got " + who, caller.has_value()};
      if (!job_.ask_to_stop(request)) kill(child_, SIGUSR1);
    } else if (stop::leaves_at_once(number, Clock::now() - stop_at_)) {
      force("received a second signal");
    }
  }

  void enforce_start() {
    if (ended_ || end_.stop_forced) return;
    end_.refusal = out_.refusal().empty() ? err_.refusal() : out_.refusal();
    if (!end_.refusal.empty()) return force("mpirun refuses its hostfile: " + end_.refusal);
    if (begun_ || end_.stop_requested || start_seconds_ <= 0 || seconds_since(start_at_) < start_seconds_) return;
    begun_ = out_.has_output() || err_.has_output();
    if (begun_) return;
    end_.start_problems = job_.start_problems();
    begun_ = end_.start_problems.empty();
    if (!begun_)
      force(fmt::format("no rank has started within {:g} s (--start-timeout, run.start-timeout)", start_seconds_));
  }

  void enforce_stop() {
    if (end_.stop_requested && !end_.stop_forced && seconds_since(stop_at_) > stop_seconds_) {
      force(fmt::format("the job did not stop within {} s", stop_seconds_));
    }
    if (!end_.stop_forced && seconds_since(asked_at_) > kAskSeconds) look_whether_over();
    if (end_.stop_forced && seconds_since(forced_at_) > kKillAfterSeconds) kill(-child_, SIGKILL);
  }

  void look_whether_over() {
    asked_at_ = Clock::now();
    const double grace = job_.over();
    if (grace < 0) {
      over_at_.reset();
    } else if (!over_at_) {
      over_at_ = Clock::now();
    } else if (seconds_since(*over_at_) > grace) {
      force("the job is over, but its starter is still waiting, probably for a host that does not answer");
    }
  }

  void force(const std::string& why) {
    if (end_.stop_forced) return;
    end_.stop_forced = true;
    forced_at_ = Clock::now();
    log::warning("launch: {}; ending it", why);
    kill(child_, SIGTERM);
  }

  void reap() {
    int status = 0;
    if (waitpid(child_, &status, WNOHANG) != child_) return;
    ended_ = true;
    ended_at_ = Clock::now();
    end_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const StopSignals& signals_;
  RankLogs logs_;
  OutputPrefixer out_, err_;
  double stop_seconds_, start_seconds_;
  const JobChannel& job_;
  pid_t child_ = -1;
  std::array<Stream, 2> streams_;
  bool ended_ = false, begun_ = false;
  const Clock::time_point start_at_ = Clock::now();
  Clock::time_point stop_at_, forced_at_, ended_at_, asked_at_ = Clock::now();
  std::optional<Clock::time_point> over_at_;
  AttemptEnd end_;
};

}  // namespace

AttemptEnd run_attempt(const StartCommand& command, StarterKind kind, const std::vector<Placement>& placement,
                       const AttemptLimits& limits, const JobChannel& job, const StopSignals& signals) {
  return Attempt(command, kind, placement, limits, job, signals).finish();
}

std::string describe_absent(const std::vector<Placement>& placement, const std::set<int>& arrived) {
  constexpr size_t kNamed = 16;
  const int ranks = total_processes(placement);
  const auto came = static_cast<int>(arrived.size());
  if (came == 0 || came >= ranks) return "";
  std::vector<std::string> names;
  for (int rank = 0; rank < ranks && names.size() < kNamed; ++rank) {
    if (!arrived.contains(rank)) names.push_back(fmt::format("rank {} on {}", rank, host_of_rank(placement, rank)));
  }
  const size_t rest = static_cast<size_t>(ranks - came) - names.size();
  return fmt::format("{} of {} reached MPI_Init; {}{} did not: check the process and its log there", came,
                     count_text(ranks, "rank"), fmt::join(names, ", "),
                     rest > 0 ? fmt::format(" and {} more", rest) : "");
}

bool may_restart(int code, const AttemptEnd& end) {
  constexpr int kPeerLost = 76, kSignals = 128, kAborted = kSignals + SIGABRT;
  if (code == kAborted && !end.first_error.empty() && !end.lost) return false;
  return code == kPeerLost || code > kSignals;
}

namespace {

constexpr double kLongestPause = 60, kTakenBackSeconds = 60;  // the second: time for Slurm to end a requeued job
constexpr int kStopped = 75;

}  // namespace

SlurmRestarts::SlurmRestarts(const std::string& run_folder) {
  const char* job = environment_variable("SLURM_JOB_ID");
  if (job == nullptr) return;
  job_ = job;
  if (!run_folder.empty()) file_ = fmt::format("{}/slurm-{}.restarts", run_folder, job_);
}

int SlurmRestarts::losses() const {
  std::ifstream file(file_);
  int count = 0;
  for (std::string line; std::getline(file, line);) count += line == std::to_string(kStopped) ? 0 : 1;
  return count;
}

bool SlurmRestarts::may_follow_loss(int most) const { return !file_.empty() && losses() < most; }

void SlurmRestarts::requeue(int code, const StopSignals& signals) const {
  require(!job_.empty(), ErrorKind::config, "--requeue: this is not a Slurm job");
  if (code != kStopped) {
    const double pause = std::min(kLongestPause, std::pow(2.0, losses()));
    log::warning("launch: code {}: requeueing job {} in {:g} s", code, job_, pause);
    if (signals.wait(pause) != 0) return;
  }
  if (!file_.empty()) std::ofstream(file_, std::ios::app) << code << std::endl;
  // Logged first: Slurm ends this program, too, when it requeues the job.
  log::info("launch: requeueing job {}", job_);
  ProcessRequest request;
  request.arguments = {"scontrol", "requeue", job_};
  const ProcessResult result = run_process(request);
  const bool ended_by_slurm = result.exit_code == 128 + SIGTERM || result.exit_code == 128 + SIGKILL;
  require(result.exit_code == 0 || ended_by_slurm, ErrorKind::io, "scontrol requeue {} {}: {}", job_,
          describe_end(result), result.err);
  // If we exited before Slurm has requeued the job, the job would end; so wait until Slurm ends us.
  while (signals.next() != 0) {
  }
  signals.wait(kTakenBackSeconds);
}

}  // namespace trireme::launch
