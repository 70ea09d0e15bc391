#include "train/trainer.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/run_folder.h"
#include "comm/agreement.h"
#include "comm/mesh.h"
#include "comm/proof.h"
#include "config/document.h"
#include "ops/backend.h"
#include "report/reporter.h"
#include "train/cores.h"
#include "train/data_guard.h"
#include "train/data_proof.h"
#include "train/facts.h"
#include "train/healing.h"
#include "train/machine.h"
#include "train/meter.h"
#include "train/optim_options.h"
#include "train/peer_watch.h"
#include "train/profile.h"
#include "train/run_claim.h"
#include "train/run_end.h"
#include "train/saver.h"
#include "train/setup.h"
#include "train/shared_folder.h"
#include "train/skips.h"
#include "train/spikes.h"
#include "train/step.h"
#include "train/stop.h"
#include "train/straggler.h"

namespace trireme {
namespace {

constexpr int64_t kMostRollBacks = 3;  // to one snapshot: the samples are not to blame then

class Trainer {
 public:
  /// claim: none when only evaluating.
  Trainer(Setup setup, Process& process, const CorePlan& cores, const RunClaim* claim, const PeerWatch& peers);
  /// Exit code.
  int run();
  int64_t steps_done() const { return progress_.step; }

 private:
  void load_start();
  StepResult train_one_step(double rate);
  void show_profile();
  void account(const StepResult& result, double limit);
  bool roll_back();
  void make_reporter();
  void report_step(const StepResult& result, double rate);
  void evaluate_now();
  void save();
  void publish(bool wait);
  int finish(bool stopped);
  bool stop_agreed();
  bool done() const { return progress_.step >= config().run.steps; }
  bool due(int64_t every) const { return every > 0 && progress_.step % every == 0; }
  const Config& config() const { return setup_.config(); }

  Setup setup_;
  Process& process_;
  Progress& moves_;
  const PeerWatch& peers_;
  Scalars scalars_;
  int threads_;
  ParameterTable table_;
  StepProfile profile_;
  Backend backend_;
  Ops& ops_;
  TrainingState state_;
  std::unique_ptr<Communicator> exchange_group_;
  Optimizer optimizer_;
  Stage stage_;
  SampleBatches batches_;
  TrainStep step_;
  RunProgress progress_;
  Schedule schedule_;
  double peak_flops_;
  int64_t rolled_back_ = 0;     ///< times since the newest snapshot
  std::optional<Saver> saver_;  ///< none when only evaluating
  SkipWatch skips_;
  StepMeter meter_;
  std::optional<DataGuard> data_guard_;
  std::optional<DataWindows> data_windows_;
  StragglerWatch straggler_;
  int64_t evaluated_step_ = -1;
  std::unique_ptr<Reporter> reporter_;
};

Trainer::Trainer(Setup setup, Process& process, const CorePlan& cores, const RunClaim* claim, const PeerWatch& peers)
    : setup_(std::move(setup)),
      process_(process),
      moves_(process.progress()),
      peers_(peers),
      scalars_(process.world()),
      threads_(cores.threads),
      table_(setup_.spec, setup_.init_scheme),
      profile_(config().log.profile),
      backend_(make_backend()),
      ops_(*backend_.ops),
      state_(table_, setup_.dtype, true),
      exchange_group_(process.reporting_group()),
      optimizer_(table_, state_, ops_, *exchange_group_, optimizer_options(config(), process, cores.progress_cpus)),
      stage_(setup_.spec, {&table_, state_.weights(), state_.gradients()}, setup_.dtype, model_shape(setup_), ops_,
             threads_),
      batches_(*setup_.train, setup_.batch),
      step_(stage_, optimizer_, ops_, state_, table_, scalars_, batches_, static_cast<uint64_t>(config().run.seed),
            setup_.spec.has_dropout()),
      schedule_(schedule_of(config())),
      skips_(config().run.dir, config().run.max_skips) {
  if (config().log.profile > 0) ops_.report_to(&profile_);
  progress_.best_loss = std::numeric_limits<double>::infinity();
  together(scalars_, [&] { load_start(); });
  scalars_.barrier();  // all ranks of a host measure at the same time, as they will compute
  peak_flops_ =
      config().log.peak_tflops > 0 ? config().log.peak_tflops * 1e12 : measure_gemm_rate(ops_, threads_, setup_.dtype);
  peak_flops_ = scalars_.sum(peak_flops_);
  if (claim) saver_.emplace(setup_, table_, state_, process_.world(), *claim, process_.progress());
  if (saver_ && setup_.resume) saver_->start_from(progress_.step);
  data_guard_.emplace(setup_.data_files);
  data_windows_.emplace(setup_.data_files, static_cast<uint64_t>(config().run.seed), process_.size());
  make_reporter();
}

void Trainer::make_reporter() {
  reporter_ =
      std::make_unique<Reporter>(ReporterOptions{.run_dir = config().evaluation.only ? std::string() : config().run.dir,
                                                 .jsonl = config().log.jsonl,
                                                 .tensorboard = config().log.tensorboard,
                                                 .is_rank0 = process_.rank() == 0},
                                 progress_.step, config().run.steps,
                                 run_facts(setup_, table_, plan_memory(setup_, table_, ops_, process_.size(), threads_),
                                           process_, backend_, threads_, peak_flops_));
}

void Trainer::load_start() {
  if (setup_.resume) {
    load_checkpoint(*setup_.resume, table_, state_);
    progress_ = setup_.resume->facts.progress;
    moves_.set_step(progress_.step);
  } else if (setup_.init) {
    load_model(*setup_.init, setup_.spec, table_, state_);
    log::info("starting from the weights of {}", setup_.init->path);
  } else {
    initialize(state_, table_, static_cast<uint64_t>(config().run.seed));
    log::info("starting from scratch");
  }
}

StepResult Trainer::train_one_step(double rate) {
  const auto start = Clock::now();
  const double waited = moves_.waited_seconds();
  const double limit = spike_limit(progress_.losses, config().run.spike_score);
  const double most_loss = config().run.on_spike == "warn" ? std::numeric_limits<double>::infinity() : limit;
  profile_.begin_step();
  const StepResult result = step_.run(progress_.step, progress_.samples, progress_.updates + 1, rate, most_loss);
  meter_.add_step(seconds_since(start) - (moves_.waited_seconds() - waited),
                  optimizer_.last_exchange().exposed_seconds);
  if (profile_.end_step(optimizer_.last_exchange().exposed_seconds)) show_profile();
  account(result, limit);
  moves_.set_step(progress_.step);
  moves_.enter(Phase::step);
  return result;
}

void Trainer::show_profile() {
  const Aside aside(meter_);
  const ProfileCeilings ceilings{peak_flops_ / process_.size(), measure_copy_rate(ops_, threads_)};
  if (process_.rank() != 0) return;
  log::info("where the time of {} steps of rank 0 went\n{}", config().log.profile, profile_.table(ceilings));
  const std::string trace = config().run.dir + "/trace.json";
  try {
    profile_.write_trace(trace, process_.rank());
    log::info("every call is in {}: open it in chrome://tracing or ui.perfetto.dev", trace);
  } catch (const Error& error) {  // a report that cannot be written does not stop training
    log::warning("{}", error.what());
  }
}

void Trainer::account(const StepResult& result, double limit) {
  const uint64_t first = progress_.samples;
  skips_.account(result, setup_.batch.global, limit, progress_, scalars_);
  if (result.skipped) return;
  if (result.loss > limit) {
    log::write_once(log::Level::warning, fmt::format("step {}: loss {:.4f} is a spike above {:.4f}; samples {} to {}",
                                                     progress_.step, result.loss, limit, first, progress_.samples - 1));
  }
  add_loss(progress_.losses, result.loss);
}

/// Back to the newest snapshot's weights; the samples since then are passed over. False if there is no snapshot yet.
bool Trainer::roll_back() {
  publish(true);
  const int64_t step = saver_->published_step();
  if (step < 0) return false;
  if (++rolled_back_ > kMostRollBacks) {
    throw CommonError(ErrorKind::numeric,
                      fmt::format("the loss was a spike again after going back to step {} {} times; lower "
                                  "optim.learning-rate or resume from an earlier snapshot",
                                  step, kMostRollBacks));
  }
  reporter_->finish("rolled-back", progress_.step);
  const uint64_t samples = progress_.samples;
  const int64_t skipped = progress_.skipped;
  together(scalars_, [&] {
    const CheckpointFolder folder = open_checkpoint(config().run.dir + "/" + step_name(step));
    load_checkpoint(folder, table_, state_);
    progress_ = folder.facts.progress;
  });
  log::write_once(log::Level::warning,
                  fmt::format("rolled back to the snapshot of step {}; samples {} to {} are passed over", step,
                              progress_.samples, samples - 1));
  progress_.samples = samples;
  progress_.skipped = skipped;
  moves_.set_step(progress_.step);
  make_reporter();
  return true;
}

void Trainer::report_step(const StepResult& result, double rate) {
  Metrics metrics;
  metrics.step = progress_.step;
  metrics.loss = result.loss;
  metrics.learning_rate = rate;
  metrics.gradient_norm = result.norm;
  metrics.samples = progress_.samples;
  metrics.tokens = progress_.samples * static_cast<uint64_t>(setup_.batch.sequence);
  metrics.skipped = progress_.skipped;
  const auto tokens_per_step = static_cast<double>(setup_.batch.global * setup_.batch.sequence);
  meter_.fill(metrics, tokens_per_step, train_flops_per_token(setup_.spec, setup_.batch.sequence) * tokens_per_step,
              peak_flops_);
  reporter_->step(metrics);
  straggler_.tell(scalars_, process_.host(), meter_.busy_per_step(), meter_.steps());
  together(scalars_, [&] { data_guard_->check(); });
  meter_.restart();
}

void Trainer::evaluate_now() {
  if (evaluated_step_ == progress_.step) return;
  const InPhase phase(moves_, Phase::evaluation);
  const Aside aside(meter_);
  const int64_t batches = config().evaluation.batches;
  const auto train_loss = evaluate(stage_, scalars_, *setup_.train, setup_.batch, batches);
  const auto loss = !train_loss         ? train_loss
                    : setup_.validation ? evaluate(stage_, scalars_, *setup_.validation, setup_.batch, batches)
                                        : train_loss;
  if (!loss) return;  // a stop was asked for
  evaluated_step_ = progress_.step;
  EvaluationMetrics metrics{.step = progress_.step,
                            .train_loss = train_loss,
                            .validation_loss = *loss,
                            .seconds = aside.seconds(),
                            .best = *loss < progress_.best_loss};
  if (metrics.best) {
    progress_.best_loss = *loss;
    progress_.best_step = progress_.step;
    if (saver_ && config().checkpoint.best) saver_->mark_best();
  }
  reporter_->evaluation(metrics);
}

void Trainer::save() {
  if (saver_->has(progress_.step)) return;
  publish(true);  // one save at a time
  const InPhase phase(moves_, Phase::save);
  const Aside aside(meter_);
  saver_->begin(progress_);
}

void Trainer::publish(bool wait) {
  if (!saver_->pending() || (!wait && !saver_->written())) return;
  const InPhase phase(moves_, Phase::save);
  const Aside aside(meter_);
  if (const auto snapshot = saver_->publish()) {
    rolled_back_ = 0;
    reporter_->checkpoint(*snapshot);
  }
}

int Trainer::finish(bool stopped) {
  if (saver_) {
    publish(true);
    saver_->insist();
    if (!stopped) evaluate_now();
    if (progress_.step > 0) save();
    publish(true);
  }
  if (stopped && progress_.step == 0) log::info("stopped before the first step: nothing to save");
  reporter_->finish(stopped ? "stopped" : "done", progress_.step);
  return stopped ? exit_code(ErrorKind::stopped) : 0;
}

/// Asked for by a signal to any rank, or by a launcher.
bool Trainer::stop_agreed() { return scalars_.any(stop::requested() || peers_.stop_request()); }

int Trainer::run() {
  if (config().evaluation.only) {
    evaluate_now();
    return finish(stop_agreed());
  }
  if (progress_.step == 0 && config().evaluation.every > 0) evaluate_now();
  saver_->forget_best();  // what a run starts from is not its best result
  meter_.restart();
  bool stopped = stop_agreed();
  while (!done() && !stopped) {
    const double rate = learning_rate(schedule_, progress_.step);
    const StepResult result = train_one_step(rate);
    const bool spike = result.skipped && result.finite;
    if (spike && config().run.on_spike == "roll-back" && roll_back()) continue;
    data_windows_->hash_next();
    const bool compared = progress_.step == 1 || due(config().run.hash_every);
    if (compared)
      check_parameters(scalars_, process_.host(), state_, table_, progress_.step, config().run.on_difference == "heal");
    if (compared || done()) data_windows_->compare(scalars_, process_.host(), progress_.step);
    if (due(config().log.every) || progress_.step == 1 || done()) report_step(result, rate);
    reporter_->progress(progress_.step, result.loss);
    if (due(config().evaluation.every)) evaluate_now();
    if (due(config().checkpoint.every) || saver_->has_best()) save();
    publish(false);
    stopped = stop_agreed();
  }
  if (stopped) {
    const std::string reason = peers_.stop_request().value_or(stop::reason());
    log::info("stop requested{}{}: saving after step {}", reason.empty() ? "" : " by ", reason, progress_.step);
  }
  return finish(stopped);
}

/// make_setup(), refused when the run would not fit in memory: before anything large is allocated.
Setup make_fitting_setup(LoadedConfig loaded, const Process& process, const CorePlan& cores, Scalars& scalars) {
  Setup setup = make_setup(std::move(loaded), scalars);
  const ParameterTable table(setup.spec);
  together(scalars, [&] {
    require_memory(plan_memory(setup, table, *make_backend().ops, process.size(), cores.threads), setup, process);
  });
  return setup;
}

}  // namespace

int train(LoadedConfig loaded, Process& process, std::string_view version) {
  stop::install();
  Scalars scalars(process.world());
  const Config config = loaded.config;
  prove_one_job(scalars, process.host(), to_json(config).dump(1), version);
  together(scalars, [&] {
    (void)resolve_mesh({.data = config.mesh.data, .tensor = config.mesh.tensor, .pipeline = config.mesh.pipeline},
                       process.size(), process.launcher().name);
  });
  const PeerWatch peers(config, process, scalars, process.progress());
  const CorePlan cores = take_cores(config, process, scalars);
  std::optional<RunClaim> claim;
  return run_to_end(claim, process, peers, [&]() -> RunEnd {
    // Nobody looks into the folder before rank 0 owns it.
    together(scalars, [&] {
      if (!config.evaluation.only) claim.emplace(config, process, peers.addresses());
    });
    if (claim) prove_shared_folder(config.run.dir, "--run.dir", scalars, process.host());
    Trainer trainer(make_fitting_setup(std::move(loaded), process, cores, scalars), process, cores,
                    claim ? &*claim : nullptr, peers);
    const int code = trainer.run();
    return {code, trainer.steps_done()};
  });
}

}  // namespace trireme
