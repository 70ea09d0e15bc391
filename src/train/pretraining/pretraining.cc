#include "train/pretraining/pretraining.h"

#include <set>

#include "base/count.h"
#include "base/log.h"
#include "base/time.h"
#include "checkpoint/finite_weights.h"
#include "config/validate.h"
#include "model/train_flops.h"
#include "text/tokenizer.h"
#include "train/facts.h"
#include "train/start/resume.h"
#include "train/start/setup.h"
#include "train/step.h"

namespace trireme {
namespace {

RunFacts run_facts(const Setup& setup, const RankContext& rank, const Backend& backend, const PeakRate& peak) {
  const BatchShape& b = setup.batch;
  RunFacts facts = plan_facts(setup, rank, backend, peak, b.sequence), own;
  const auto add = [&](const char* name, std::string value) { own.emplace_back(name, std::move(value)); };
  add("data",
      fmt::format("{} ({}){}", setup.train->name(), count_text(setup.train->tokens(), "token"),
                  setup.validation ? fmt::format(", validation {} ({})", setup.validation->name(),
                                                 count_text(setup.validation->tokens(), "token"))
                                   : "") +
          (setup.test ? fmt::format(", test {} ({})", setup.test->name(), count_text(setup.test->tokens(), "token"))
                      : ""));
  if (setup.spec.head == HeadKind::masked_language_model)
    add("masking", fmt::format("{:.3g} % of the tokens are to be predicted (8 of 10 masked, 1 replaced by a random "
                               "token, 1 unchanged), {}",
                               1e2 * setup.config().data.mask_rate,
                               setup.config().data.whole_words ? "whole words" : "single tokens"));
  if (setup.config().data.mask_end_of_text)
    add("masking", "tokens after the end of a document do not count in the loss");
  add("batch", fmt::format("{} x {} = {} per step: {} x {} of {}", b.global, b.sequence,
                           count_text(b.global * b.sequence, "token"), count_text(b.ranks, "rank"),
                           count_text(b.micro_batches, "micro-batch"), b.largest_micro()));
  const auto precision = std::ranges::find(facts, "precision", &RunFacts::value_type::first);
  facts.insert(precision, own.begin(), own.end());
  return facts;
}

class Pretraining final : public Recipe {
 public:
  explicit Pretraining(LoadedConfig loaded) { setup_.loaded = std::move(loaded); }

  const Config& config() const override { return setup_.config(); }
  void check() override { check_options(setup_.loaded); }
  ResumePlace find_start(const TrainingJob& job) override { return find_resume(setup_.loaded, job.scalars); }
  hub::Named needs(bool is_new) const override;
  RunPlan& open(const ResumePlace& place, const TrainingJob& job) override;
  void prove_data(const TrainingJob& job) override { prove_setup(setup_, job.scalars); }
  void make_weights(Run& run) override;
  void begin(Work&) override { batches_.emplace(*setup_.train, setup_.batch); }

  StepBatches& batches() override { return *batches_; }
  uint64_t tokens(uint64_t samples) const override { return samples * static_cast<uint64_t>(setup_.batch.sequence); }
  StepCost step_cost() const override {
    const auto tokens = static_cast<double>(setup_.batch.global * setup_.batch.sequence);
    return {.tokens = tokens,
            .flops = train_flops_per_token(setup_.table->whole(), setup_.batch.sequence) * tokens,
            .samples = static_cast<double>(setup_.batch.global)};
  }
  const std::vector<DataFileFact>& mapped_files() const override { return setup_.data_files; }
  RunFacts facts(const Work& work, const PeakRate& peak) const override {
    return run_facts(setup_, work.session.rank(), *backend_, peak);
  }

  bool evaluates_first() const override { return setup_.config().evaluation.every > 0; }
  bool evaluates_last() const override { return true; }
  bool saves_first() const override { return extra_snapshots_.contains(0); }
  bool saves_last() const override { return true; }
  Due due(const RunCounters& progress) const override {
    const auto every = [&](int64_t n) { return n > 0 && progress.step % n == 0; };
    const Config& config = setup_.config();
    return {.report = progress.step == 1 || every(config.log.every),
            .evaluation = every(config.evaluation.every),
            .snapshot = every(config.checkpoint.every) || extra_snapshots_.contains(progress.step)};
  }
  bool evaluate(Work& work) override;
  bool test(Work& work) override;
  void step_done(const StepResult&) override {}

 private:
  /// As trireme::evaluate(), with the evaluation's batches from number `from` on.
  std::optional<double> loss_of(Work& work, const SampleSource& data, int64_t from) const;
  int64_t first_validation_batch(int64_t step) const;

  Setup setup_;
  const Backend* backend_ = nullptr;
  std::optional<SampleBatches> batches_;
  std::set<int64_t> extra_snapshots_;
};

hub::Named Pretraining::needs(bool is_new) const {
  if (!is_new) return {};  // a resumed run needs nothing but its own folder
  const std::string &init = config().model.init, &tokenizer = config().data.tokenizer;
  return {.model = init == "scratch" ? "" : init,
          .tokenizer = tokenizer == kCharLevelTokenizer ? "" : tokenizer,
          .glue_task = ""};
}

RunPlan& Pretraining::open(const ResumePlace& place, const TrainingJob& job) {
  backend_ = &job.backend;
  setup_.mesh = job.mesh;
  open_setup(setup_, place, job.planned());
  extra_snapshots_ = extra_snapshots(setup_.loaded);
  const EvaluationOptions& evaluation = config().evaluation;
  if (evaluation.next_batches && evaluation.every > 0 && setup_.validation)
    log::info("each evaluation reads the next {} of the validation data, as NeoX does (evaluation.next-batches)",
              count_text(evaluation.batches, "batch"));
  return setup_;
}

void Pretraining::make_weights(Run& run) {
  if (setup_.init) {
    load_model(*setup_.init, setup_.spec, run.table, run.state);
    require_finite(run.state, run.table, setup_.init->path,
                   "training cannot start from them; name another --model.init");
    log::info("starting from the weights of {}", setup_.init->path);
    note_frozen_row(setup_);
  } else {
    initialize(run.state, run.table, static_cast<uint64_t>(config().run.seed));
    log::info("starting from scratch");
  }
  fill_adapters(setup_, run.table, run.state);
}

std::optional<double> Pretraining::loss_of(Work& work, const SampleSource& data, int64_t from) const {
  const Config& config = setup_.config();
  return trireme::evaluate(work.session, data, setup_.batch, config.evaluation.batches, config.optim.loss_mean, from);
}

/// A function of the step, so that a resumed run reads what the uninterrupted one reads. NeoX's first evaluation is
/// after `every` steps; one before the first step reads the same batches.
int64_t Pretraining::first_validation_batch(int64_t step) const {
  const EvaluationOptions& options = setup_.config().evaluation;
  const bool moves = options.next_batches && options.every > 0 && step > 0;
  return moves ? (step - 1) / options.every * options.batches : 0;
}

bool Pretraining::evaluate(Work& work) {
  const auto start = Clock::now();
  RunCounters& progress = work.run.progress;
  const auto train_loss = loss_of(work, *setup_.train, 0);
  if (!train_loss) return false;
  const int64_t first = first_validation_batch(progress.step);
  const auto validation_loss = setup_.validation ? loss_of(work, *setup_.validation, first) : std::nullopt;
  if (setup_.validation && !validation_loss) return false;
  if (work.saver) work.saver->record_evaluation(validation_loss.value_or(*train_loss), setup_.validation != nullptr);
  const bool exploded = work.saver && work.saver->in_streak();  // even if the loss is finite
  EvaluationMetrics metrics{.step = progress.step,
                            .train_loss = train_loss,
                            .validation_loss = validation_loss,
                            .seconds = seconds_since(start),
                            .best = validation_loss && !exploded && *validation_loss < progress.best_loss};
  if (metrics.best) {
    progress.best_loss = *validation_loss;
    progress.best_step = progress.step;
    if (work.saver && setup_.config().checkpoint.best) work.saver->mark_best();
  }
  work.run.reporter->evaluation(metrics);
  return true;
}

bool Pretraining::test(Work& work) {
  if (!setup_.test) return true;
  const auto start = Clock::now();
  const auto loss = loss_of(work, *setup_.test, 0);
  if (!loss) return false;
  work.run.reporter->test({.step = work.run.progress.step, .loss = *loss, .seconds = seconds_since(start)});
  return true;
}

}  // namespace

std::unique_ptr<Recipe> pretraining(LoadedConfig loaded) { return std::make_unique<Pretraining>(std::move(loaded)); }

}  // namespace trireme
