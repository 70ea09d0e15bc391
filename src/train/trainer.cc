#include "train/trainer.h"

#include <fmt/ranges.h>
#include <bit>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/run_status.h"
#include "comm/mesh.h"
#include "comm/proof.h"
#include "config/document.h"
#include "optim/schedule.h"
#include "report/reporter.h"
#include "train/cores.h"
#include "train/facts.h"
#include "train/machine.h"
#include "train/peer_watch.h"
#include "train/setup.h"
#include "train/skips.h"
#include "train/stop.h"
#include "train/straggler.h"

namespace trireme {
namespace {

Schedule schedule_of(const Config& config) {
  const OptimOptions& o = config.optim;
  return {.course = o.schedule == "constant" ? Schedule::Course::constant : Schedule::Course::cosine,
          .peak = o.learning_rate,
          .minimum = o.min_learning_rate,
          .warmup_steps = o.warmup_steps,
          .decay_steps = o.decay_steps > 0 ? o.decay_steps : config.run.steps};
}

OptimizerOptions optimizer_options(const Config& config, std::vector<int> progress_cpus) {
  const OptimOptions& o = config.optim;
  OptimizerOptions options;
  options.adamw.beta1 = static_cast<float>(o.beta1);
  options.adamw.beta2 = static_cast<float>(o.beta2);
  options.adamw.epsilon = static_cast<float>(o.epsilon);
  options.adamw.weight_decay = static_cast<float>(o.weight_decay);
  options.clip = o.clip;
  options.wire = config.comm.wire == "f32" ? DType::f32 : DType::bf16;
  options.bucket_bytes = static_cast<size_t>(config.comm.bucket_mb * 1e6);
  options.progress_cpus = std::move(progress_cpus);
  return options;
}

/// What an interval between two log lines adds up.
struct Interval {
  Clock::time_point start = Clock::now();
  double aside = 0;    ///< seconds spent on evaluations and snapshots
  double exposed = 0;  ///< seconds that the steps waited for communication
  double busy = 0;     ///< seconds of the steps in which this rank waited for no other
  int64_t steps = 0;
};

/// This rank's claim on the run folder, and what status.json says when it ends.
class RunFolder {
 public:
  /// control: where a launcher reaches the job.
  RunFolder(const Config& config, const Process& process, const std::vector<std::string>& control)
      : dir_(config.run.dir), process_(process) {
    if (process.rank() != 0) return;
    lock_.emplace(dir_, this_owner(), config.run.take_over);
    write({.state = "running", .control = fmt::format("{}", fmt::join(control, ","))});
  }
  /// Throws Error::locked when another job took the folder over meanwhile.
  void check() const {
    if (lock_) lock_->check();
  }
  /// The run ends on this rank.
  void end(RunStatus status) const {
    try {
      write(std::move(status));
    } catch (const Error& e) {
      log::warning("{}", e.what());  // it must hide neither why the run ends nor its exit code
    }
  }

 private:
  void write(RunStatus status) const {
    status.rank = process_.rank();
    status.host = process_.host();
    write_status(dir_, status);
  }

  std::string dir_;
  const Process& process_;
  std::optional<RunLock> lock_;
};

/// All ranks as a group of their own, which reports where the world does.
std::unique_ptr<Communicator> reporting_group(Process& process) {
  auto group = process.world().split(0, process.rank());
  group->report_to(&process.progress());
  return group;
}

/// A phase within a scope; the one around it goes on after it.
class InPhase {
 public:
  InPhase(Progress& moves, Phase phase) : moves_(moves), around_(moves.state().phase) { moves_.enter(phase); }
  ~InPhase() { moves_.enter(around_); }
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  Progress& moves_;
  Phase around_;
};

class Trainer {
 public:
  /// folder: none when only evaluating.
  Trainer(Setup setup, Process& process, const CorePlan& cores, const RunFolder* folder, const PeerWatch& peers);
  /// Exit code.
  int run();
  int64_t steps_done() const { return progress_.step; }

 private:
  void load_start();
  StepResult train_one_step(double rate);
  void account(const StepResult& result);
  void check_parameters();
  void report_step(const StepResult& result, double rate);
  void tell_straggler();
  void evaluate_now();
  void begin_save();
  void publish(bool wait);
  void link_best(const std::string& folder) const;
  int finish(bool stopped);
  bool stop_agreed();
  bool done() const { return progress_.step >= config().run.steps; }
  bool due(int64_t every) const { return every > 0 && progress_.step % every == 0; }
  const Config& config() const { return setup_.config(); }

  Setup setup_;
  Process& process_;
  const RunFolder* folder_;
  Progress& moves_;
  const PeerWatch& peers_;
  Scalars scalars_;
  int threads_;
  ParameterTable table_;
  std::unique_ptr<Ops> ops_;
  TrainingState state_;
  std::unique_ptr<Communicator> exchange_group_;
  Optimizer optimizer_;
  Stage stage_;
  TrainStep step_;
  std::optional<CheckpointWriter> writer_;  ///< none when only evaluating
  RunProgress progress_;
  Schedule schedule_;
  double peak_flops_;
  Interval interval_;
  Clock::time_point save_start_;
  bool improved_ = false;  ///< the weights as they stand have the lowest validation loss, and no snapshot has them yet
  bool saving_best_ = false;
  bool finishing_ = false;
  int64_t saved_step_ = -1;  ///< newest step that a snapshot has or will have
  int64_t published_step_ = -1;
  int64_t evaluated_step_ = -1;
  std::vector<SkippedStep> skips_;  ///< in a row, up to now
  StragglerWatch straggler_;
  std::unique_ptr<Reporter> reporter_;
};

Trainer::Trainer(Setup setup, Process& process, const CorePlan& cores, const RunFolder* folder, const PeerWatch& peers)
    : setup_(std::move(setup)),
      process_(process),
      folder_(folder),
      moves_(process.progress()),
      peers_(peers),
      scalars_(process.world()),
      threads_(cores.threads),
      table_(setup_.spec),
      ops_(make_cpu_ops()),
      state_(table_, setup_.dtype, true),
      exchange_group_(reporting_group(process)),
      optimizer_(table_, state_, *ops_, *exchange_group_, optimizer_options(config(), cores.progress_cpus)),
      stage_(setup_.spec, {&table_, state_.weights(), state_.gradients()}, setup_.dtype, model_shape(setup_), *ops_,
             threads_),
      step_(stage_, optimizer_, *ops_, state_, table_, scalars_, setup_.train->tokens(), setup_.batch,
            static_cast<uint64_t>(config().run.seed), config().model.dropout > 0),
      schedule_(schedule_of(config())) {
  progress_.best_loss = std::numeric_limits<double>::infinity();
  load_start();
  scalars_.barrier();  // all ranks of a host measure at the same time, as they will compute
  peak_flops_ =
      config().log.peak_tflops > 0 ? config().log.peak_tflops * 1e12 : measure_gemm_rate(*ops_, threads_, setup_.dtype);
  peak_flops_ = scalars_.sum(peak_flops_);
  if (folder_) writer_.emplace(config().run.dir, table_, state_, process_.world());
  reporter_ =
      std::make_unique<Reporter>(ReporterOptions{.run_dir = config().evaluation.only ? std::string() : config().run.dir,
                                                 .jsonl = config().log.jsonl,
                                                 .tensorboard = config().log.tensorboard,
                                                 .is_rank0 = process.rank() == 0},
                                 progress_.step, config().run.steps,
                                 run_facts(setup_, table_, plan_memory(setup_, table_, *ops_, process.size(), threads_),
                                           process, threads_, peak_flops_));
}

void Trainer::load_start() {
  if (setup_.resume) {
    load_checkpoint(*setup_.resume, table_, state_);
    progress_ = setup_.resume->facts.progress;
    saved_step_ = published_step_ = progress_.step;
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
  const StepResult result = step_.run(progress_.step, progress_.samples, progress_.updates + 1, rate);
  interval_.busy += seconds_since(start) - (moves_.waited_seconds() - waited);
  interval_.exposed += optimizer_.last_exchange().exposed_seconds;
  ++interval_.steps;
  account(result);
  moves_.set_step(progress_.step);
  moves_.enter(Phase::step);
  return result;
}

void Trainer::account(const StepResult& result) {
  const uint64_t first = progress_.samples;
  ++progress_.step;
  progress_.samples += static_cast<uint64_t>(setup_.batch.global);
  if (!result.skipped) {
    ++progress_.updates;
    progress_.consecutive_skips = 0;
    skips_.clear();
    return;
  }
  ++progress_.skipped;
  ++progress_.consecutive_skips;
  if (process_.rank() == 0) {
    log::warning("step {} skipped: loss {} or gradient norm {} is not finite; samples {} to {}", progress_.step,
                 result.loss, result.norm, first, progress_.samples - 1);
  }
  skips_.push_back({progress_.step, first, progress_.samples - 1, result.loss, result.norm});
  if (progress_.consecutive_skips < config().run.max_skips) return;
  const std::string where = process_.rank() == 0 ? write_skips(config().run.dir, skips_) : std::string();
  scalars_.barrier();  // the first rank to fail ends the others
  fail(ErrorKind::numeric,
       "loss or gradients were not finite {} steps in a row, up to step {} (samples {} to {}{}); lower "
       "optim.learning-rate, or resume from an earlier snapshot",
       progress_.consecutive_skips, progress_.step, skips_.front().first_sample, progress_.samples - 1, where);
}

void Trainer::check_parameters() {
  if (scalars_.size() == 1) return;
  prove_same_parameters(scalars_, process_.host(), parameter_hash(state_, table_), progress_.step);
}

void Trainer::report_step(const StepResult& result, double rate) {
  const double seconds = seconds_since(interval_.start) - interval_.aside;
  const double tokens = static_cast<double>(interval_.steps * setup_.batch.global * setup_.batch.sequence);
  const double flops = train_flops_per_token(setup_.spec, setup_.batch.sequence) * tokens / seconds;
  Metrics metrics;
  metrics.step = progress_.step;
  metrics.loss = result.loss;
  metrics.learning_rate = rate;
  metrics.gradient_norm = result.norm;
  metrics.tokens_per_second = tokens / seconds;
  metrics.ms_per_step = 1e3 * seconds / static_cast<double>(interval_.steps);
  metrics.exposed_share = interval_.exposed / seconds;
  metrics.mfu = flops / peak_flops_;
  metrics.samples = progress_.samples;
  metrics.tokens = progress_.samples * static_cast<uint64_t>(setup_.batch.sequence);
  metrics.skipped = progress_.skipped;
  reporter_->step(metrics);
  tell_straggler();
  interval_ = {};
}

void Trainer::tell_straggler() {
  if (scalars_.size() == 1) return;
  const auto busy = scalars_.gather(std::bit_cast<uint64_t>(interval_.busy / static_cast<double>(interval_.steps)));
  const auto slow = straggler_.judge(busy, interval_.steps);
  if (!slow) return;
  const std::string host = scalars_.broadcast(process_.host(), slow->rank);
  log::info(
      "warning: rank {} on {} is slow: {:.1f} ms of work per step where the others need {:.1f} ms; the job loses "
      "{:.0f} "
      "% of its time waiting for it",
      slow->rank, host, 1e3 * slow->busy, 1e3 * slow->others, 100 * slow->lost);
}

void Trainer::evaluate_now() {
  if (evaluated_step_ == progress_.step) return;
  const InPhase phase(moves_, Phase::evaluation);
  const auto start = Clock::now();
  const auto seed = static_cast<uint64_t>(config().run.seed);
  const int64_t batches = config().evaluation.batches;
  const auto train_loss = evaluate(stage_, scalars_, setup_.train->tokens(), setup_.batch, seed, batches);
  const auto loss = !train_loss ? train_loss
                    : setup_.validation
                        ? evaluate(stage_, scalars_, setup_.validation->tokens(), setup_.batch, seed, batches)
                        : train_loss;
  interval_.aside += seconds_since(start);
  if (!loss) return;  // a stop was asked for
  evaluated_step_ = progress_.step;
  EvaluationMetrics metrics{.step = progress_.step,
                            .train_loss = train_loss,
                            .validation_loss = *loss,
                            .seconds = seconds_since(start),
                            .best = *loss < progress_.best_loss};
  if (metrics.best) {
    progress_.best_loss = *loss;
    progress_.best_step = progress_.step;
    improved_ = config().checkpoint.best;
  }
  reporter_->evaluation(metrics);
}

void Trainer::begin_save() {
  if (saved_step_ == progress_.step && !improved_) return;
  const InPhase phase(moves_, Phase::save);
  publish(true);  // one save at a time
  folder_->check();
  const auto start = Clock::now();
  CheckpointFacts facts{.spec = setup_.spec,
                        .progress = progress_,
                        .config_json = to_json(config()).dump(),
                        .tokenizer_json = setup_.tokenizer_json,
                        .data_files = setup_.data_files};
  writer_->begin(facts);
  saving_best_ = improved_;
  improved_ = false;
  saved_step_ = progress_.step;
  save_start_ = start;
  interval_.aside += seconds_since(start);
}

void Trainer::publish(bool wait) {
  if (!writer_->pending()) return;
  if (!wait && scalars_.any(!writer_->idle())) return;
  const InPhase phase(moves_, Phase::save);
  const auto start = Clock::now();
  std::optional<std::string> folder;
  try {
    folder = writer_->publish(config().checkpoint.keep, saving_best_);
  } catch (const Error& e) {
    if (finishing_ || config().checkpoint.on_error == "stop") throw;
    log::info("warning: the snapshot of step {} is lost, training goes on (checkpoint.on-error is continue): {}",
              saved_step_, e.what());
    saved_step_ = published_step_;
  }
  if (folder) {
    published_step_ = saved_step_;
    if (saving_best_) link_best(*folder);
    reporter_->checkpoint(
        {.step = saved_step_, .path = *folder, .seconds = seconds_since(save_start_), .best = saving_best_});
  }
  interval_.aside += seconds_since(start);
}

void Trainer::link_best(const std::string& folder) const {
  namespace fs = std::filesystem;
  const std::string& link = config().checkpoint.best_link;
  if (link.empty() || process_.rank() != 0) return;
  std::error_code error;
  if (fs::exists(fs::symlink_status(link, error)) && !fs::is_symlink(link, error)) {
    log::warning("{} exists and is not a link, so it was left alone; the best snapshot is {}", link, folder);
    return;
  }
  const std::string temporary = link + ".tmp";
  fs::remove(temporary, error);
  fs::create_directory_symlink(fs::absolute(folder), temporary, error);
  if (!error) fs::rename(temporary, link, error);
  if (error) log::warning("cannot make the link {} to the best snapshot {}: {}", link, folder, error.message());
}

int Trainer::finish(bool stopped) {
  if (writer_) {
    publish(true);
    finishing_ = true;  // from here on a snapshot that fails is an error
    if (!stopped) evaluate_now();
    if (progress_.step > 0) begin_save();
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
  improved_ = false;  // what a run starts from is not its best result
  interval_ = {};
  bool stopped = stop_agreed();
  while (!done() && !stopped) {
    const double rate = learning_rate(schedule_, progress_.step);
    const StepResult result = train_one_step(rate);
    if (progress_.step == 1 || due(config().run.hash_every)) check_parameters();
    if (due(config().log.every) || progress_.step == 1 || done()) report_step(result, rate);
    reporter_->progress(progress_.step, result.loss);
    if (due(config().evaluation.every)) evaluate_now();
    if (due(config().checkpoint.every) || improved_) begin_save();
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
  require_memory(plan_memory(setup, table, *make_cpu_ops(), process.size(), cores.threads), setup, process);
  return setup;
}

}  // namespace

int train(LoadedConfig loaded, Process& process, std::string_view version) {
  stop::install();
  Scalars scalars(process.world());
  const Config config = loaded.config;
  prove_one_job(scalars, process.host(), to_json(config).dump(1), version);
  (void)resolve_mesh({.data = config.mesh.data, .tensor = config.mesh.tensor, .pipeline = config.mesh.pipeline},
                     process.size(), process.launcher().name);
  const PeerWatch peers(config, process, scalars, process.progress());
  const CorePlan cores = take_cores(config, process, scalars);
  std::optional<RunFolder> folder;
  try {
    if (!config.evaluation.only) folder.emplace(config, process, peers.addresses());
    scalars.barrier();  // nobody looks into the folder before rank 0 owns it
    Trainer trainer(make_fitting_setup(std::move(loaded), process, cores, scalars), process, cores,
                    folder ? &*folder : nullptr, peers);
    const int code = trainer.run();
    if (folder && process.rank() == 0)
      folder->end({.state = code == 0 ? "done" : "stopped", .code = code, .step = trainer.steps_done()});
    return code;
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::comm) peers.wait_for_verdict();
    if (folder) folder->end({.state = "failed", .code = exit_code(e.kind()), .step = -1, .message = e.what()});
    throw;
  }
}

}  // namespace trireme
