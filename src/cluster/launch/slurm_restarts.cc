#include "cluster/launch/slurm_restarts.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "cluster/subprocess.h"

namespace trireme::launch {
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
