#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/stop.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/run_folder/run_control.h"
#include "comm/agreement.h"
#include "comm/launcher.h"
#include "comm/process.h"
#include "comm/proof.h"
#include "config/document.h"
#include "train/facts.h"
#include "train/guard/peer_watch.h"
#include "train/memory_watch.h"
#include "train/plan.h"
#include "train/start/live_metrics.h"
#include "train/start/ranks.h"
#include "train/start/recipe.h"
#include "train/start/resolve.h"
#include "train/start/resume.h"
#include "train/start/run_claim.h"
#include "train/start/run_forecast.h"
#include "train/trainer.h"

namespace trireme {
namespace {

struct RunEnd {
  int code = 0;  ///< 0, or that of ErrorKind::stopped
  int64_t step = 0;
};

RunStatus status_of(const Error& error) {
  return {.state = error.kind() == ErrorKind::stopped ? RunState::stopped : RunState::failed,
          .code = exit_code(error.kind()),
          .step = -1,
          .message = error.what()};
}

/// mpirun and srun take seconds and print many lines for a code other than 0; a launch reads from the run folder how
/// its ranks ended. reported: this rank has written its status there.
int code_for_starter(bool reported) {
  const bool launch_reads = std::getenv(kLaunchPlaceVariable) != nullptr;
  return reported && launch_reads ? 0 : exit_code(ErrorKind::stopped);
}

/// Runs `work`, which may fill `claim`, and writes into the folder how it ended: rank 0 writes the common result, any
/// rank its own error. After a failure of communication it waits for the peer watch to find the cause. Returns
/// the exit code (0 for a stop if a launch around this job reads it from the folder); throws what work() throws, except
/// a stop on which all ranks agreed.
int run_to_end(std::optional<RunClaim>& claim, const Process& process, PeerWatch& peers,
               const std::function<RunEnd()>& work) {
  try {
    const RunEnd end = work();
    bool reported = claim.has_value();
    if (claim && process.rank() == 0)
      reported =
          claim->end({.state = end.code == 0 ? RunState::done : RunState::stopped, .code = end.code, .step = end.step});
    return end.code == 0 ? 0 : code_for_starter(reported);
  } catch (const CommonError& e) {
    bool reported = claim.has_value();
    if (claim && process.rank() == 0) reported = claim->end(status_of(e));
    if (e.kind() != ErrorKind::stopped) throw;
    log::write_once(log::Level::info, e.what());
    return code_for_starter(reported);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::comm || e.kind() == ErrorKind::peer) peers.wait_for_verdict();
    // A GPU's connection was ended by another rank, which says why first.
    if (e.kind() == ErrorKind::peer) peers.wait_for_verdict();
    if (claim) claim->end(status_of(e));
    throw;
  } catch (const std::exception& e) {  // out of memory or a bug: the folder must record that the run has ended
    if (claim) claim->end(status_of(Error(ErrorKind::io, e.what())));
    throw;
  }
}

/// The mesh of the job's ranks.
MeshShape prove_ranks(const Recipe& recipe, const Process& process, Scalars& scalars, std::string_view version) {
  const JobOptions options = recipe.options();
  const Config& config = options.config;
  prove_one_job(scalars, process.host(), dump_json(to_json(config), 1) + options.proof, version);
  MeshShape mesh;
  together(scalars, [&] {
    mesh = mesh_of(config.mesh, process.size(), process.launcher().name);
    require_hosts(config, mesh, process.hosts());
  });
  return mesh;
}

/// No rank reads the folder before rank 0 has locked it. Claims nothing if the job writes nothing. Returns why the
/// folder cannot take snapshots, if the recipe may do without them.
std::string claim_folder(std::optional<RunClaim>& claim, const Recipe& recipe, const Process& process, PeerWatch& peers,
                         Scalars& scalars) {
  const JobOptions options = recipe.options();
  const Config& config = options.config;
  together(scalars, [&] {
    if (!config.evaluation.only) claim.emplace(config, process, peers);
  });
  if (!claim) return {};
  const std::string apart = folder_apart(config.run.dir, config.names("--run.dir"), scalars, process.host());
  if (!apart.empty() && options.shares_folder) throw CommonError(ErrorKind::mismatch, apart);
  return apart;
}

/// Everything that is decided before anything large is allocated.
RunPlan plan_job(Recipe& recipe, const TrainingJob& job) {
  const Resolved start = recipe.resolve(job);
  fetch_named(start.needs, job.rank, job.scalars, job.stop_reason);
  RunPlan plan = recipe.open(start, job);
  together(job.scalars, [&] {
    warn_of_changes(plan);
    settle_model(plan);
    plan.part.memory = memory_of(plan.part, *job.backend.ops);
    require_memory(plan.part, job.rank, job.backend.ops->device(), plan.config().names);
  });
  return plan;
}

/// A run with its first weights and progress: those of the snapshot that it resumes, or new ones.
struct Loaded {
  std::unique_ptr<Run> run;
  std::unique_ptr<Session> session;
  std::unique_ptr<Saver> saver;  ///< null where nothing is written
};

/// Borrows the plan and the claim.
Loaded load(Recipe& recipe, const RunPlan& plan, const TrainingJob& job, const RunClaim* claim) {
  Loaded loaded;
  loaded.run = std::make_unique<Run>(plan, claim != nullptr, job.backend.ops->device());
  Run& run = *loaded.run;
  loaded.session = Session::make(session_options(plan.part), run.table, run.state, *job.backend.ops, job.rank);
  together(job.scalars, [&] {
    if (!plan.resume) return recipe.make_weights(run);
    load_checkpoint(*plan.resume, run.table, run.state);
    require_finite(run.state, run.table, plan.resume->path,
                   fmt::format("training cannot resume from it; name an earlier one with {} (`trireme checkpoint list` "
                               "shows them)",
                               plan.config().names("--checkpoint.resume")));
    run.resume(plan.resume->facts.progress);
    job.rank.heartbeat->set_step(run.progress.step);
  });
  if (claim) loaded.saver = std::make_unique<Saver>(run, *loaded.session, [claim] { claim->check(); });
  return loaded;
}

/// An attempt that fails says so in its records, too.
template <class Body>
bool ends_with_a_record(Run& run, const Body& body) {
  try {
    return body();
  } catch (...) {
    if (run.reporter) run.reporter->finish("failed", run.progress.step);
    throw;
  }
}

RunEnd run_job(Recipe& recipe, const TrainingJob& job, RunClaim* claim, const std::string& apart,
               const LiveMetrics& live) {
  const RunPlan plan = plan_job(recipe, job);
  if (!apart.empty() && plan.shares_folder) throw CommonError(ErrorKind::mismatch, apart);
  if (!apart.empty())
    log::info("{} is on rank 0's host only, which keeps all results: no snapshot is due", plan.config().run.dir);
  std::optional<MemoryWatch> watch;
  together(job.scalars, [&] { watch.emplace(&job.rank.heartbeat->cpu()); });
  const Loaded loaded = load(recipe, plan, job, claim);
  Run& run = *loaded.run;
  run.board = live.board();
  if (job.backend.device) run.gpu = std::make_shared<GpuWatch>(job.backend.gpu, &job.rank.heartbeat->cpu());
  Work work{run, *loaded.session, loaded.saver.get(), apart.empty(), [claim] {
              if (claim) claim->begin();
            }};
  Task task = recipe.begin(work, job);
  const bool done = ends_with_a_record(run, [&] { return recipe.work(work, std::move(task), job); });
  if (job.backend.device)
    log_device_memory(plan.part.memory.on_device(), job.backend.device->memory());
  else
    log_memory(job.scalars, plan.part.memory.total(), watch->peak());  // after rank 0 has written everything
  if (plan.part.trains) log_step_plan(run, job.rank, job.scalars, *job.backend.ops);
  if (done && plan.part.trains && apart.empty() && job.rank.rank() == 0) recipe.close(run);
  return {done ? 0 : exit_code(ErrorKind::stopped), run.progress.step};
}

}  // namespace

bool Recipe::work(Work& work, Task task, const TrainingJob& job) {
  Trainer trainer(work, std::move(task), job.stop_reason);
  return work.run.plan.part.trains ? trainer.train() : trainer.evaluate_only();
}

int start(Recipe& recipe, Process& process, std::string_view version) {
  stop::install();
  Scalars scalars(process.world());
  const MeshShape mesh = prove_ranks(recipe, process, scalars, version);
  recipe.look(scalars);
  const Config& config = recipe.options().config;
  PeerWatch peers(config, mesh, process, scalars, process.heartbeat());
  CorePlan cores = take_cores(config.launch, config.comm.cores, process, scalars);
  std::optional<RunClaim> claim;
  const auto asked = [&] { return claim ? claim->stop_request() : peers.stop_request(); };
  RankContext rank = rank_context(process, cores.threads, [&] { return stop::requested() || asked(); });
  return run_to_end(claim, process, peers, [&] {
    const std::string apart = claim_folder(claim, recipe, process, peers, scalars);
    const Backend backend = choose_backend(config, mesh, rank, scalars);
    const PeerWatch::Connections connections(peers, backend.device ? backend.device->network() : nullptr);
    if (!backend.gpu.empty()) {
      cores = move_to_gpus(cores, backend.gpu, config.launch, config.comm.cores, process, scalars);
      rank.threads = cores.threads;
    }
    const auto reason = [&] {
      const std::optional<StopRequest> wish = asked();
      return wish ? wish->why : stop::reason();
    };
    const TrainingJob job{
        .rank = rank, .scalars = scalars, .mesh = mesh, .cores = cores, .backend = backend, .stop_reason = reason};
    std::optional<LiveMetrics> live;
    together(scalars, [&] { live.emplace(config.log, config.run.dir, rank, mesh, peers); });
    return run_job(recipe, job, claim ? &*claim : nullptr, apart, *live);
  });
}

}  // namespace trireme
