#include "train/glue/finetune.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/proof.h"
#include "config/document.h"
#include "ops/backend.h"
#include "report/reporter.h"
#include "train/cores.h"
#include "train/facts.h"
#include "train/glue/job.h"
#include "train/glue/output_dir.h"
#include "train/glue/predict.h"
#include "train/glue/results.h"
#include "train/glue/row_proof.h"
#include "train/healing.h"
#include "train/machine.h"
#include "train/meter.h"
#include "train/optim_options.h"
#include "train/peer_watch.h"
#include "train/run_claim.h"
#include "train/run_end.h"
#include "train/saver.h"
#include "train/shared_folder.h"
#include "train/skips.h"
#include "train/step.h"
#include "train/stop.h"

namespace trireme {
namespace {

class FineTuner {
 public:
  FineTuner(GlueJob job, Process& process, const CorePlan& cores, const RunClaim* claim, const PeerWatch& peers);
  /// Exit code.
  int run();
  int64_t steps_done() const { return progress_.step; }

 private:
  bool train();
  void train_one_step();
  void report(const StepResult& result, double rate);
  bool evaluate();
  bool predict_test();
  void save();
  void publish(bool wait);
  void finish_training(double seconds, uint64_t first_sample, int64_t first_step);
  bool due(const std::string& strategy, int64_t every) const;
  bool stop_agreed() { return scalars_.any(stop::requested() || peers_.stop_request()); }
  std::string micro_batches() const;
  double epochs_done() const { return static_cast<double>(progress_.samples) / static_cast<double>(job_.epochs.rows); }
  const GlueOptions& options() const { return job_.options; }
  BatchLimit limit(int64_t rows) const { return {.rows = rows, .tokens = options().most_tokens}; }
  const Config& config() const { return job_.setup.config(); }

  GlueJob job_;
  Process& process_;
  const PeerWatch& peers_;
  Scalars scalars_;
  ParameterTable table_;
  Backend backend_;
  Ops& ops_;
  TrainingState state_;
  Stage stage_;
  std::unique_ptr<Communicator> exchange_group_;  ///< this and what follows: when training
  std::optional<Optimizer> optimizer_;
  std::optional<RowBatches> batches_;
  std::optional<TrainStep> step_;
  std::optional<Saver> saver_;
  std::unique_ptr<Reporter> reporter_;
  RunProgress progress_;
  Schedule schedule_;
  SkipWatch skips_;
  StepMeter meter_;
  double peak_flops_ = 0, loss_sum_ = 0;
  NamedMetrics evaluation_;
};

FineTuner::FineTuner(GlueJob job, Process& process, const CorePlan& cores, const RunClaim* claim,
                     const PeerWatch& peers)
    : job_(std::move(job)),
      process_(process),
      peers_(peers),
      scalars_(process.world()),
      table_(job_.setup.spec),
      backend_(make_backend()),
      ops_(*backend_.ops),
      state_(table_, job_.setup.dtype, options().train),
      stage_(job_.setup.spec, {&table_, state_.weights(), state_.gradients()}, job_.setup.dtype, shape_of(job_), ops_,
             cores.threads),
      skips_(config().run.dir, config().run.max_skips) {
  const auto seed = static_cast<uint64_t>(options().seed);
  progress_.best_loss = std::numeric_limits<double>::infinity();
  together(scalars_, [&] {
    if (job_.setup.resume) {
      load_checkpoint(*job_.setup.resume, table_, state_);
      progress_ = job_.setup.resume->facts.progress;
      process_.progress().set_step(progress_.step);
      log::info("RESUMING from {}: {} steps and {} rows are done", job_.setup.resume->path, progress_.step,
                progress_.samples);
    } else {
      load_pretrained(job_.model, table_, seed, state_);
    }
  });
  if (!options().train) return;
  scalars_.barrier();
  peak_flops_ = scalars_.sum(measure_gemm_rate(ops_, cores.threads, job_.setup.dtype));
  exchange_group_ = process.reporting_group();
  optimizer_.emplace(table_, state_, ops_, *exchange_group_, optimizer_options(config(), process, cores.progress_cpus));
  batches_.emplace(job_.train[0].rows, job_.epochs, job_.layout, limit(options().train_batch), scalars_.size(),
                   scalars_.rank(), seed);
  const Spec& spec = job_.setup.spec;
  step_.emplace(stage_, *optimizer_, ops_, state_, table_, scalars_, *batches_, seed, spec.has_dropout());
  schedule_ = schedule_of(config());
  schedule_.warms_from_zero = true;
  saver_.emplace(job_.setup, table_, state_, process_.world(), *claim, process_.progress());
  if (job_.setup.resume) saver_->start_from(progress_.step);
  const EncodedRows& rows = job_.train[0].rows;
  RunFacts facts{
      {"model", fmt::format("{}: {:.2f}M parameters, {} classes", options().model,
                            static_cast<double>(table_.total()) / 1e6, spec.classes)},
      {"rows", fmt::format("{} of {:.1f} tokens on average, the longest has {}; {}", rows.rows(),
                           static_cast<double>(rows.tokens.size()) / static_cast<double>(rows.rows()), rows.longest,
                           options().pad ? fmt::format("padded to {}", options().max_length) : "packed")},
      {"batch", fmt::format("{} rows per step: {} ranks x {}", job_.epochs.global, scalars_.size(), micro_batches())},
      {"steps", fmt::format("{}: {} epochs of {}", job_.steps, options().epochs, job_.epochs.steps_per_epoch())}};
  reporter_ = std::make_unique<Reporter>(ReporterOptions{.run_dir = options().output_dir,
                                                         .jsonl = config().log.jsonl,
                                                         .tensorboard = config().log.tensorboard,
                                                         .is_rank0 = process.rank() == 0},
                                         progress_.step, job_.steps, facts);
}

std::string FineTuner::micro_batches() const {
  if (options().most_tokens > 0)
    return fmt::format("micro-batches of at most {} rows and {} tokens", options().train_batch, options().most_tokens);
  return fmt::format("{} micro-batches of at most {}", batches_->micro_batches(), options().train_batch);
}

bool FineTuner::due(const std::string& strategy, int64_t every) const {
  if (strategy == "epoch") return job_.epochs.at(progress_.samples).first == 0;
  return strategy == "steps" && every > 0 && progress_.step % every == 0;
}

void FineTuner::train_one_step() {
  const auto start = Clock::now();
  Progress& moves = process_.progress();
  const double waited = moves.waited_seconds(), rate = learning_rate(schedule_, progress_.step);
  const uint64_t first = progress_.samples;
  const StepResult result =
      step_->run(progress_.step, first, progress_.updates + 1, rate, std::numeric_limits<double>::infinity());
  meter_.add_step(seconds_since(start) - (moves.waited_seconds() - waited),
                  optimizer_->last_exchange().exposed_seconds);
  loss_sum_ += result.loss;
  skips_.account(result, job_.epochs.at(first).count, std::numeric_limits<double>::infinity(), progress_, scalars_);
  moves.set_step(progress_.step);
  moves.enter(Phase::step);
  if (progress_.step == 1 || progress_.step % config().run.hash_every == 0)
    check_parameters(scalars_, process_.host(), state_, table_, progress_.step, config().run.on_difference == "heal");
  if (due(options().logging, options().logging_steps) || (options().logging_first_step && progress_.step == 1) ||
      progress_.step == job_.steps)
    report(result, rate);
  reporter_->progress(progress_.step, result.loss);
}

void FineTuner::report(const StepResult& result, double rate) {
  const EncodedRows& rows = job_.train[0].rows;
  const double length = static_cast<double>(rows.tokens.size()) / static_cast<double>(rows.rows()),
               per_step = length * static_cast<double>(job_.epochs.global);
  Metrics metrics;
  metrics.step = progress_.step;
  metrics.loss = result.loss;
  metrics.learning_rate = rate;
  metrics.gradient_norm = result.norm;
  metrics.samples = progress_.samples;
  metrics.tokens = static_cast<uint64_t>(length * static_cast<double>(progress_.samples));
  metrics.skipped = progress_.skipped;
  meter_.fill(metrics, per_step, train_flops_per_token(job_.setup.spec, std::llround(length)) * per_step, peak_flops_);
  reporter_->step(metrics);
  meter_.restart();
}

/// Metrics of every validation set; those of the second, MNLI's mismatched one, end in "_mm". False: stopped.
bool FineTuner::evaluate() {
  const Aside aside(meter_);
  const InPhase phase(process_.progress(), Phase::evaluation);
  NamedMetrics found;
  if (options().train) found.emplace_back("epoch", epochs_done());
  for (const NamedRows& set : job_.validation) {
    const auto start = Clock::now();
    log::info("evaluating {} rows: {}", set.rows.rows(), set.name);
    const std::string end = set.name.ends_with("-mm") ? "_mm" : "";
    const auto logits =
        predict(stage_, ops_, job_.setup.dtype, set.rows, job_.layout, limit(options().eval_batch), scalars_);
    if (!logits) return false;
    const int64_t classes = job_.layout.classes;
    const auto add = [&](const std::string& name, double value) { found.emplace_back("eval_" + name + end, value); };
    add("loss", mean_loss(*logits, set.rows.labels, classes));
    for (const auto& [name, value] : glue_metrics(job_.task, decide(*logits, classes), set.rows.labels))
      add(name, value);
    const double seconds = seconds_since(start);
    add("runtime", seconds);
    add("samples", static_cast<double>(set.rows.rows()));
    add("samples_per_second", static_cast<double>(set.rows.rows()) / seconds);
    add("steps_per_second",
        static_cast<double>(micro_batches_for(set.rows.rows(), scalars_.size(), options().eval_batch)) / seconds);
  }
  evaluation_ = std::move(found);
  if (process_.rank() == 0) print_results("eval", evaluation_);
  return true;
}

void FineTuner::save() {
  if (saver_->has(progress_.step)) return;
  publish(true);
  const Aside aside(meter_);
  const InPhase phase(process_.progress(), Phase::save);
  saver_->begin(progress_);
}

void FineTuner::publish(bool wait) {
  if (!saver_->pending() || (!wait && !saver_->written())) return;
  const Aside aside(meter_);
  const InPhase phase(process_.progress(), Phase::save);
  if (const auto snapshot = saver_->publish()) reporter_->checkpoint(*snapshot);
}

/// False: stopped.
bool FineTuner::train() {
  const auto start = Clock::now();
  const uint64_t first_sample = progress_.samples;
  const int64_t first_step = progress_.step;
  meter_.restart();
  bool stopped = stop_agreed();
  while (progress_.step < job_.steps && !stopped) {
    train_one_step();
    const int64_t every = options().eval_steps > 0 ? options().eval_steps : options().logging_steps;
    if (due(options().evaluation, every)) evaluate();
    if (due(options().saving, options().save_steps)) save();
    publish(false);
    stopped = stop_agreed();
  }
  saver_->insist();
  if (stopped && progress_.step > 0) save();
  publish(true);
  reporter_->finish(stopped ? "stopped" : "done", progress_.step);
  if (!stopped) finish_training(seconds_since(start), first_sample, first_step);
  return !stopped;
}

void FineTuner::finish_training(double seconds, uint64_t first_sample, int64_t first_step) {
  if (process_.rank() != 0) return;
  const auto rows = static_cast<double>(progress_.samples - first_sample);
  const auto steps = static_cast<double>(progress_.step - first_step);
  NamedMetrics numbers{{"epoch", epochs_done()}};
  if (steps > 0) numbers.emplace_back("train_loss", loss_sum_ / steps);  // of this start
  numbers.emplace_back("train_runtime", seconds);
  numbers.emplace_back("train_samples", static_cast<double>(job_.epochs.rows));
  numbers.emplace_back("train_samples_per_second", rows / seconds);
  numbers.emplace_back("train_steps_per_second", steps / seconds);
  write_model(options().output_dir, job_.model, job_.task, table_, state_);
  write_results(options().output_dir, "train", numbers);
  print_results("train", numbers);
}

/// False: stopped.
bool FineTuner::predict_test() {
  for (const NamedRows& set : job_.test) {
    log::info("predicting {} rows: {}", set.rows.rows(), set.name);
    const auto logits =
        predict(stage_, ops_, job_.setup.dtype, set.rows, job_.layout, limit(options().eval_batch), scalars_);
    if (!logits) return false;
    if (process_.rank() == 0)
      write_predictions(options().output_dir, set.name, job_.task, decide(*logits, job_.layout.classes));
  }
  return true;
}

int FineTuner::run() {
  if (options().train && !train()) {
    log::info("stopped after step {}: the same command goes on", progress_.step);
    return exit_code(ErrorKind::stopped);
  }
  const bool evaluated = !options().evaluate || evaluate();
  if (options().evaluate && evaluated && process_.rank() == 0) write_results(options().output_dir, "eval", evaluation_);
  if (!evaluated || (options().predict && !predict_test())) {
    log::info("stopped before every row was classified");
    return exit_code(ErrorKind::stopped);
  }
  if (options().train && process_.rank() == 0) write_card(options().output_dir, options(), evaluation_);
  scalars_.barrier();
  return 0;
}

/// Rank 0 looks, all hear.
std::string agree_on_start(const GlueOptions& options, Scalars& scalars) {
  std::string start;
  together(scalars, [&] {
    if (scalars.rank() != 0) return;
    if (options.train) start = find_start(options);
    std::error_code error;
    std::filesystem::create_directories(options.output_dir, error);
    require(!error, ErrorKind::io, "cannot create {}: {}", options.output_dir, error.message());
  });
  return scalars.broadcast(start);
}

}  // namespace

int finetune(const GlueOptions& options, Process& process, std::string_view version) {
  stop::install();
  Scalars scalars(process.world());
  const Config config = config_of(options, 0, 1);
  const std::string what = fmt::format("{} {} {} {} {} {}", options.task, options.data_dir, options.train_file,
                                       options.train_batch, options.epochs, options.max_steps);
  prove_one_job(scalars, process.host(), to_json(config).dump(1) + what, version);
  const std::string start = agree_on_start(options, scalars);
  const PeerWatch peers(config, process, scalars, process.progress());
  const CorePlan cores = take_cores(config, process, scalars);
  std::optional<RunClaim> claim;
  return run_to_end(claim, process, peers, [&]() -> RunEnd {
    // Nobody looks into the folder before rank 0 owns it.
    together(scalars, [&] {
      if (options.train) claim.emplace(config, process, peers.addresses());
      if (options.train && options.overwrite && options.resume.empty() && process.rank() == 0)
        clear_checkpoints(options.output_dir);
    });
    if (claim) prove_shared_folder(options.output_dir, "--output-dir", scalars, process.host());
    GlueJob job;
    together(scalars, [&] {
      job = make_job(options, start, scalars);
      const ParameterTable table(job.setup.spec);
      require_memory(plan_memory(job.setup, table, *make_backend().ops, process.size(), cores.threads), job.setup,
                     process);
    });
    prove_same_rows(job, scalars, process.host());
    FineTuner tuner(std::move(job), process, cores, claim ? &*claim : nullptr, peers);
    const int code = tuner.run();
    return {code, tuner.steps_done()};
  });
}

}  // namespace trireme
