#pragma once
// One training job from its start to its exit code: the ranks prove that they are one, watch each other, take their
// cores, and rank 0 claims the run folder; then the work begins.

#include <functional>
#include <string>

#include "base/affinity.h"
#include "comm/process.h"
#include "comm/rank_context.h"
#include "train/guard/peer_watch.h"
#include "train/optim_options.h"
#include "train/run_claim.h"
#include "train/run_end.h"
#include "train/run_plan.h"

namespace trireme {

struct JobRequest {
  Config config;
  std::string proof;                             ///< what ranks must have in common beside their configuration
  std::string_view version;                      ///< identifies the program: all ranks must run the same one
  bool writes = true;                            ///< into the run folder, which it takes
  const char* folder_option = "--run.dir";       ///< what names the run folder
  std::function<void(Scalars&)> look = nullptr;  ///< collective: at the folder as it is found, before it is taken
};

/// What the work of a job is handed.
struct Job {
  const RankContext& rank;
  Scalars& scalars;
  MeshShape mesh;  ///< with every axis filled in
  const CorePlan& cores;
  RunClaim* claim;  ///< none where nothing is written
  std::function<std::string()> stop_reason;

  PlannedRank planned() const { return trireme::planned(rank, cores.exchange_cores); }
};

/// Collective. Returns the exit code. Throws Error.
int run_job(const JobRequest& request, Process& process, const std::function<RunEnd(const Job&)>& work);

}  // namespace trireme
