#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/run_folder/run_folder.h"
#include "comm/agreement.h"
#include "model/train_flops.h"
#include "report/run_log.h"
#include "train/glue/history.h"
#include "train/glue/job.h"
#include "train/glue/predict.h"
#include "train/glue/results.h"
#include "train/local_resume.h"
#include "train/start/recipe.h"
#include "train/trainer.h"

namespace trireme {
namespace {

/// Whether a number is a timing, which differs from run to run.
bool is_timing(const std::string& name) {
  return name.find("_runtime") != std::string::npos || name.find("_per_second") != std::string::npos;
}

class FineTuning final : public Recipe {
 public:
  explicit FineTuning(GlueOptions given) : options_(std::move(given)), history_(best_rule(options_)) {}

  JobOptions options() const override;
  void look(Scalars& scalars) override;
  Resolved resolve(const TrainingJob& job) override;
  RunPlan open(const Resolved& start, const TrainingJob& job) override;
  void make_weights(Run& run) override;
  Task begin(Work& work, const TrainingJob& job) override;
  bool work(Work& work, Task task, const TrainingJob& job) override;

 private:
  /// Metrics of every validation set. False: stopped.
  bool evaluate(Work& work);
  Due due(const RunCounters& progress) const;
  RunFacts facts(const RunPlan& plan, const Backend& backend) const;
  ResumePlace find_place(const TrainingJob& job) const;
  bool needs_shared_folder(int64_t steps) const {
    return !start_.empty() || !config().checkpoint.local.empty() || keeps_snapshots(options_, steps);
  }
  /// False: stopped.
  bool train_rows(Work& work, Task task, const TrainingJob& job);
  /// The evaluation and prediction that follow training. False: stopped.
  bool classify(Work& work);
  /// Rank 0: writes the model and the results of training since this start's first step and sample.
  void write_training(const Run& run, double seconds, const RunCounters& began) const;
  /// Collective. False: stopped.
  bool predict_test(Work& work);
  /// Collective. Loads the evaluations of the run that is resumed.
  void take_history(Work& work);
  /// Collective. Loads the weights of the best evaluation, if requested.
  void load_best(Work& work);
  BatchLimit limit(int64_t rows) const { return {.rows = rows, .tokens = options_.most_tokens}; }
  /// No rank has the whole trained weights.
  bool shards_model() const { return trireme::shards_model(options_.config()); }
  LossUnit unit() const { return job_.layout.classes == 1 ? LossUnit::squared_error : LossUnit::row; }
  std::string micro_batches(int64_t data_ranks) const;
  std::string steps_fact() const;
  const Config& config() const { return options_.config(); }
  const std::string& folder() const { return config().run.dir; }
  bool due(Strategy strategy, int64_t every, const RunCounters& progress) const;
  double epochs_done(const RunCounters& progress) const {
    return static_cast<double>(progress.samples) / static_cast<double>(job_.epochs.rows);
  }
  /// Average tokens per row.
  double row_length() const {
    const EncodedRows& rows = job_.train[0].rows;
    return static_cast<double>(rows.tokens.size()) / static_cast<double>(rows.rows());
  }

  void record(Work& work, double seconds);
  std::string history_path() const { return folder() + "/trainer_state.json"; }

  GlueOptions options_;
  std::string start_;  ///< the checkpoint that look() found; empty: none
  GlueJob job_;        ///< by open(), without its plan
  EvaluationHistory history_;
  double loss_sum_ = 0;
  int64_t recorded_step_ = -1;
  NamedNumbers evaluation_;  ///< the last one
};

RunFacts FineTuning::facts(const RunPlan& plan, const Backend& backend) const {
  const EncodedRows& rows = job_.train[0].rows;
  RunFacts facts{
      {"model",
       fmt::format("{}: {:.2f}M parameters, {}", config().model.init,
                   static_cast<double>(ParameterTable(plan.part.spec).total()) / 1e6,
                   job_.task.regression() ? "a number to predict" : count_text(plan.part.spec.classes, "class"))},
      {"rows", fmt::format("{} of {:.1f} tokens on average, at most {}; {}", rows.rows(), row_length(), rows.longest,
                           options_.rows.pad ? fmt::format("padded to {}", job_.layout.length) : "packed")},
      {"batch", fmt::format("{} per step: {} x {}", count_text(job_.epochs.global, "row"),
                            count_text(plan.part.mesh.data, "rank"), micro_batches(plan.part.mesh.data))},
      {"steps", steps_fact()}};
  if (!plan.part.trained.all()) facts.emplace_back("trained", describe_trained(plan.part.table->whole()));
  if (backend.device) facts.emplace_back("gpu", backend.hardware);
  return facts;
}

std::string FineTuning::steps_fact() const {
  const int64_t epoch = job_.epochs.steps_per_epoch();
  if (options_.max_steps > 0) return fmt::format("{} (--max-steps); an epoch has {}", job_.steps, epoch);
  return fmt::format("{}: {} epoch{} of {}", job_.steps, options_.epochs, options_.epochs == 1 ? "" : "s", epoch);
}

std::string FineTuning::micro_batches(int64_t data_ranks) const {
  if (options_.most_tokens > 0)
    return fmt::format("micro-batches of at most {} and {}", count_text(config().batch.micro, "row"),
                       count_text(options_.most_tokens, "token"));
  return fmt::format(
      "{} of at most {}",
      count_text(micro_batches_for(job_.epochs.global, static_cast<int>(data_ranks), config().batch.micro),
                 "micro-batch"),
      config().batch.micro);
}

bool FineTuning::due(Strategy strategy, int64_t every, const RunCounters& progress) const {
  if (strategy == Strategy::epoch) return job_.epochs.at(progress.samples).first == 0;
  return strategy == Strategy::steps && every > 0 && progress.step % every == 0;
}

Due FineTuning::due(const RunCounters& progress) const {
  const GlueOptions& o = options_;
  const int64_t logging = interval_of(o.logging.steps, job_.steps);
  const int64_t evaluation = o.evaluation.steps > 0 ? interval_of(o.evaluation.steps, job_.steps) : logging;
  return {.report = due(o.logging.strategy, logging, progress) || (o.logging_first_step && progress.step == 1),
          .evaluation = due(o.evaluation.strategy, evaluation, progress),
          .snapshot = due(o.saving.strategy, interval_of(o.saving.steps, job_.steps), progress)};
}

/// Metrics of every validation set; names of the second set (MNLI mismatched) end in "_mm".
bool FineTuning::evaluate(Work& work) {
  Session& session = work.session;
  const RankPlan& part = work.run.plan.part;
  NamedNumbers found;
  const auto began = Clock::now();
  if (options_.trains()) found.emplace_back("epoch", epochs_done(work.run.progress));
  for (const NamedRows& set : job_.validation) {
    const auto start = Clock::now();
    log::info("evaluating {}{}", count_text(set.rows.rows(), "row"), set.name == "None" ? "" : " of " + set.name);
    const std::string end = set.name.ends_with("-mm") ? "_mm" : "";
    const auto logits = predict(session, part.dtype, set.rows, job_.layout, limit(options_.evaluation_batch));
    if (!logits) return false;
    const int64_t classes = job_.layout.classes;
    const auto add = [&](const std::string& name, Number value) { found.emplace_back("eval_" + name + end, value); };
    add("loss", mean_loss(*logits, set.rows.labels, classes, job_.layout.smoothing));
    for (const auto& [name, value] : glue_metrics(job_.task, decide(*logits, classes), set.rows.labels))
      add(name, value);
    const double seconds = seconds_since(start);
    add("runtime", seconds);
    add("samples", set.rows.rows());
    add("samples_per_second", static_cast<double>(set.rows.rows()) / seconds);
    add("steps_per_second", static_cast<double>(micro_batches_for(set.rows.rows(), static_cast<int>(part.mesh.data),
                                                                  options_.evaluation_batch)) /
                                seconds);
  }
  evaluation_ = std::move(found);
  if (session.rank().rank() == 0) print_results("eval", evaluation_);
  if (options_.trains()) record(work, seconds_since(began));
  return true;
}

/// Records an evaluation in the metrics, the history and the best-model rule, once per step.
void FineTuning::record(Work& work, double seconds) {
  const RunCounters& progress = work.run.progress;
  if (recorded_step_ == progress.step) return;
  recorded_step_ = progress.step;
  const double epoch = epochs_done(progress);
  EvaluationMetrics metrics{.step = progress.step,
                            .train_loss = {},
                            .validation_loss = {},
                            .seconds = seconds,
                            .unit = unit(),
                            .epoch = epoch};
  metrics.best = history_.add(progress.step, epoch, evaluation_);
  for (const auto& [name, value] : evaluation_) {
    const auto* number = std::get_if<double>(&value);
    if (!number || !name.starts_with("eval_") || is_timing(name)) continue;
    if (name == "eval_loss")
      metrics.validation_loss = *number;
    else
      metrics.values.emplace_back(name.substr(5), *number);
  }
  if (metrics.best && (config().checkpoint.best || options_.saving.strategy == Strategy::best)) work.saver->mark_best();
  work.run.reporter->evaluation(metrics);
  if (work.session.rank().rank() == 0) {
    const std::string records = config().run.dir + "/metrics.jsonl";
    const RunLog log = std::filesystem::exists(records) ? read_run_log(records) : RunLog();
    write_text(history_path(), history_.text(log.steps, job_.epochs.rows));
  }
  if (history_.is_patience_over())
    log::info("training ends early: {} has not improved in {} in a row; the best is {:.4f}, at step {}",
              history_.rule().metric, count_text(history_.rule().patience, "evaluation"), history_.best().value_or(NAN),
              history_.best_step().value_or(0));
}

void FineTuning::take_history(Work& work) {
  Scalars& scalars = work.session.scalars();
  std::string text;
  together(scalars, [&] {
    const bool here = scalars.rank() == 0 && work.run.plan.resume && std::filesystem::exists(history_path());
    if (here) text = read_text(history_path());
  });
  text = scalars.broadcast(text);
  together(scalars, [&] {
    if (!text.empty()) history_.restore(text, history_path(), work.run.progress.step);
  });
}

void FineTuning::load_best(Work& work) {
  const auto best = history_.best_step();
  if (!config().checkpoint.best || !best || *best == work.run.progress.step) return;
  const std::string snapshot = folder() + "/" + step_name(*best);
  together(work.session.scalars(), [&] {
    require(std::filesystem::exists(snapshot), ErrorKind::io,
            "cannot load the best model ({} {:.4f} after step {}): {} is missing; something removed it during training",
            history_.rule().metric, history_.best().value_or(NAN), *best, snapshot);
    load_checkpoint(open_checkpoint(snapshot), work.run.table, work.run.state);
  });
  log::info("loaded the best model: {} {:.4f} after step {}", history_.rule().metric, history_.best().value_or(NAN),
            *best);
}

void FineTuning::write_training(const Run& run, double seconds, const RunCounters& began) const {
  const auto rows = static_cast<double>(run.progress.samples - began.samples);
  const auto steps = static_cast<double>(run.progress.step - began.step);
  NamedNumbers numbers{{"epoch", epochs_done(run.progress)}};
  if (steps > 0) numbers.emplace_back("train_loss", loss_sum_ / steps);  // steps of this start only
  numbers.emplace_back("train_runtime", seconds);
  numbers.emplace_back("train_samples", job_.epochs.rows);
  numbers.emplace_back("train_samples_per_second", rows / seconds);
  numbers.emplace_back("train_steps_per_second", steps / seconds);
  if (shards_model()) {
    const ParameterTable whole(run.plan.part.spec);
    TrainingState weights(whole, DType::f32, false);
    const int64_t step =
        config().checkpoint.best ? history_.best_step().value_or(run.progress.step) : run.progress.step;
    load_weights(open_checkpoint(folder() + "/" + step_name(step)), whole, weights);
    write_model(folder(), job_.model, job_.task, whole, weights);
  } else {
    write_model(folder(), job_.model, job_.task, run.table, run.state);
  }
  write_results(folder(), "train", numbers);
  print_results("train", numbers);
}

bool FineTuning::predict_test(Work& work) {
  for (const NamedRows& set : job_.test) {
    log::info("predicting {}: {}", count_text(set.rows.rows(), "row"), set.name);
    const auto logits =
        predict(work.session, work.run.plan.part.dtype, set.rows, job_.layout, limit(options_.evaluation_batch));
    if (!logits) return false;
    if (work.session.rank().rank() == 0)
      write_predictions(folder(), set.name, job_.task, decide(*logits, job_.layout.classes));
  }
  return true;
}

bool FineTuning::train_rows(Work& work, Task task, const TrainingJob& job) {
  const auto start = Clock::now();
  const RunCounters began = work.run.progress;
  take_history(work);
  if (!Trainer(work, std::move(task), job.stop_reason).train()) {
    log::info("stopped after step {}: run the same command to resume", work.run.progress.step);
    return false;
  }
  load_best(work);
  if (job.rank.rank() == 0) write_training(work.run, seconds_since(start), began);
  return true;
}

bool FineTuning::classify(Work& work) {
  const bool first = work.session.rank().rank() == 0;
  const bool evaluated = !options_.evaluate || evaluate(work);
  if (options_.evaluate && evaluated && first) write_results(folder(), "eval", evaluation_);
  if (evaluated && (!options_.predict || predict_test(work))) return true;
  log::info("stopped before all rows were classified");
  return false;
}

JobOptions FineTuning::options() const {
  const GlueOptions& o = options_;
  return {.config = config(),
          .proof = fmt::format("{} {} {} {} {} {}", o.rows.task, config().data.dir, config().data.train,
                               config().batch.micro, o.epochs, o.max_steps),
          .shares_folder = needs_shared_folder(1)};
}

/// Rank 0 looks and broadcasts the result.
void FineTuning::look(Scalars& scalars) {
  together(scalars, [&] {
    if (scalars.rank() != 0) return;
    if (options_.trains()) start_ = trireme::find_start(options_);
    std::error_code error;
    std::filesystem::create_directories(folder(), error);
    require(!error, ErrorKind::io, "cannot create {}: {}", folder(), error.message());
  });
  start_ = scalars.broadcast(start_);
}

/// Finds the snapshot in the output folder, as look() saw it, and on the hosts' local disks.
ResumePlace FineTuning::find_place(const TrainingJob& job) const {
  if (!options_.trains() || options_.resumes_named_checkpoint()) return {start_, {}};
  const std::optional<LocalNote> note = agree_on_local_note(folder(), job.scalars);
  if (!note) return {start_, {}};
  if (!config().run.overwrite) return find_newest_complete(config(), *note, job.scalars).value_or(ResumePlace());
  remove_local_folder(note->folder);
  if (job.scalars.rank() == 0) forget_local_note(folder());
  return {};
}

Resolved FineTuning::resolve(const TrainingJob& job) {
  Resolved start{.place = find_place(job), .needs = {}};
  const bool on_hub = !options_.rows.task.empty() && config().data.dir.empty();
  if (on_hub) start.needs.glue_task = options_.rows.task;
  if (!start.place.path.empty()) return start;  // a resumed run needs nothing but its own folder
  start.needs.model = config().model.init;
  start.needs.tokenizer = config().data.tokenizer;
  return start;
}

RunPlan FineTuning::open(const Resolved& start, const TrainingJob& job) {
  RunPlan plan;
  together(job.scalars, [&] {
    if (options_.trains() && config().run.overwrite && !options_.resumes_named_checkpoint() && job.rank.rank() == 0)
      clear_checkpoints(folder());
    job_ = make_job(options_, start.place.path, job.mesh, job.planned());
    plan = std::move(job_.plan);
    if (plan.resume) plan.resume->nearby = start.place.nearby;
    plan.shares_folder = needs_shared_folder(job_.steps);
  });
  prove_same_rows(job_, job.scalars, job.rank.host);
  return plan;
}

void FineTuning::make_weights(Run& run) {
  const bool head_is_new = load_pretrained(job_.model, run.table, static_cast<uint64_t>(config().run.seed), run.state,
                                           run.plan.part.trains || options_.renew_head);
  require_finite(run.state, run.table, config().model.init,
                 "its predictions would be meaningless; name another --model");
  if (!run.plan.part.trains) warn_of_untrained_head(job_.model, head_is_new, job_.task);
}

Task FineTuning::begin(Work& work, const TrainingJob& job) {
  const RunPlan& plan = work.run.plan;
  const RunCounters& progress = work.run.progress;
  if (plan.resume)
    log::info("RESUMING from {}: {} and {} are done", plan.resume->path, count_text(progress.step, "step"),
              count_text(progress.samples, "row"));
  Task task;
  if (!plan.part.trains) return task;
  const MeshShape& mesh = plan.part.mesh;
  const double tokens = row_length() * static_cast<double>(job_.epochs.global);
  task.batches = std::make_unique<RowBatches>(job_.train[0].rows, job_.epochs, job_.layout, limit(config().batch.micro),
                                              static_cast<int>(mesh.data), place_of(mesh, job.rank.rank()).data,
                                              static_cast<uint64_t>(config().run.seed));
  task.unit = unit();
  task.cost = {.tokens = tokens,
               .flops = train_flops_per_token(plan.part.table->whole(), std::llround(row_length())) * tokens,
               .samples = static_cast<double>(job_.epochs.global)};
  task.tokens = [this](uint64_t samples) { return static_cast<uint64_t>(row_length() * static_cast<double>(samples)); };
  task.facts = [this, &plan, &job](const PeakRate&) { return facts(plan, job.backend); };
  task.saves_last = shards_model();  // the trained weights are then read from the last snapshot
  task.due = [this](const RunCounters& now) { return due(now); };
  task.evaluate = [this](Work& of) { return evaluate(of); };
  task.is_finished = [this] { return history_.is_patience_over(); };
  task.step_done = [this](const StepResult& result) { loss_sum_ += result.loss; };
  return task;
}

bool FineTuning::work(Work& work, Task task, const TrainingJob& job) {
  const bool trains = work.run.plan.part.trains;
  const bool done = (!trains || train_rows(work, std::move(task), job)) && classify(work);
  if (done && trains && job.rank.rank() == 0) write_card(folder(), options_, evaluation_);
  return done;
}

}  // namespace

std::unique_ptr<Recipe> fine_tuning(GlueOptions options) { return std::make_unique<FineTuning>(std::move(options)); }

}  // namespace trireme
