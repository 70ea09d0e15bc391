#include "train/start/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "base/time.h"
#include "comm/agreement.h"
#include "comm/heartbeat.h"
#include "train/dpo/batches.h"
#include "train/dpo/reference.h"
#include "train/sft/chat_recipe.h"
#include "train/step.h"

namespace trireme {
namespace {

/// Options that pairs leave without effect.
constexpr const char* kNotOfPairs[] = {"chat.packing", "optim.loss-mean"};

void require_form(const LoadedConfig& loaded) {
  for (const char* option : kNotOfPairs)
    require(!loaded.given(option), ErrorKind::config,
            "{} has no effect when training on pairs: each pair is one sample; remove it", loaded.where(option));
  const PairOptions& dpo = loaded.config.dpo;
  require(dpo.label_smoothing == 0 || dpo.loss == PairLoss::sigmoid || dpo.loss == PairLoss::robust, ErrorKind::config,
          "{} is for the losses sigmoid and robust, but dpo.loss is {}; remove it, or choose one of them",
          loaded.where("dpo.label-smoothing"), name_of(dpo.loss));
}

PairLossForm form_of(const PairOptions& dpo) { return {dpo.loss, dpo.beta, dpo.label_smoothing}; }

/// longest: ids of the longest pair.
StepSize size_of_pairs(const BatchShape& batch, int64_t longest) {
  const int64_t micro = batch.largest_micro();
  return {.micro_batches = batch.micro_batches,
          .micro_sequences = micro,
          .micro_rows = micro * longest,
          .step_rows = batch.micro_batches * micro * longest,
          .scored = 2 * micro};
}

std::string facts_of_pairs(const RunPlan& plan) {
  std::string facts;
  for (const DataFileFact& file : plan.data_files) facts += fmt::format("{} {}\n", file.bytes, file.hash);
  return facts;
}

/// The reference, in messages. A new adapter changes nothing before its first step.
std::string start_model(const RunPlan& plan) {
  const std::string& adapter = plan.config().lora.adapter;
  return adapter.empty() ? plan.path() : fmt::format("{} with the adapter {}", plan.path(), adapter);
}

class PreferenceTuning final : public ChatRecipe {
 public:
  explicit PreferenceTuning(LoadedConfig loaded) : ChatRecipe(std::move(loaded), true) { require_form(loaded_); }

 private:
  StepSize size_of_step(const BatchShape& batch) const override { return size_of_pairs(batch, 2 * batch.sequence); }
  chat::TrainingRows rows_of(chat::CodedIds ids, size_t sequence) const override {
    return make_pairs(std::move(ids), sequence);
  }
  void take_rows(RunPlan& plan, const TrainingJob& job) override;
  std::unique_ptr<StepBatches> batches_of(Work& work) override;
  std::optional<double> measure(Work& work, NamedValues& measures) override;
  NamedValues measures_of_steps(Work& work) override {
    PairSums sums = std::exchange(sums_, {});
    sum_where_counted(work.session, sums.values());
    return sums.means();
  }
  RunFacts facts_of(const RunPlan& plan) const override;

  void take_reference(RunPlan& plan);
  void make_reference(Work& work);
  std::vector<double> scores(Work& work, const chat::TrainingRows& pairs) const;

  Reference reference_;
  PairSums sums_;
};

/// The batch and its memory follow from the pairs: a micro-batch takes the number that fits into two full sequences,
/// unless the user sets it.
void PreferenceTuning::take_rows(RunPlan& plan, const TrainingJob& job) {
  int64_t longest = 2;
  for (const chat::TrainingRows* rows : {&train_, &validation_}) {
    for (const int64_t length : rows->lengths) longest = std::max(longest, length);
  }
  if (!plan.loaded.given("batch.micro") && !plan.loaded.given("batch.accumulation")) {
    const int64_t share = (plan.batch.global + plan.batch.ranks - 1) / plan.batch.ranks,
                  micro = std::clamp<int64_t>(2 * plan.batch.sequence / longest, 1, share);
    plan.batch.micro_batches = (share + micro - 1) / micro;
    plan.loaded.config.batch.micro = plan.batch.largest_micro();
  }
  StepSize size = size_of_pairs(plan.batch, longest);
  size.uneven = true;
  plan.part = plan_rank(plan.part.model(), plan.config(), size, job.planned());
  if (plan.resume) take_reference(plan);
}

/// That of the run that is resumed; one of other pairs is not taken, as check_resume() names what differs.
void PreferenceTuning::take_reference(RunPlan& plan) {
  const std::string path = reference_path(plan.config().run.dir);
  std::optional<Reference> found = read_reference(path);
  require(
      found.has_value(), ErrorKind::io,
      "{} does not exist: it has the log-probabilities of the model that the run started from, without which the run "
      "cannot be resumed; copy it from where the run began, or start a new run in another folder",
      path);
  const bool same = found->pairs == facts_of_pairs(plan);
  require(
      same || !plan.config().checkpoint.allow_other_data, ErrorKind::config,
      "{} is set, but {} has the log-probabilities of the pairs that the run started with; use them, or start a new "
      "run in another folder",
      plan.loaded.where("checkpoint.allow-other-data"), path);
  if (!same) return;
  reference_ = std::move(*found);
  plan.data_files.push_back({path, bytes_of(reference_), hash_of(reference_)});
}

/// Collective. The log-probability of every answer by the weights that the run has now.
std::vector<double> PreferenceTuning::scores(Work& work, const chat::TrainingRows& pairs) const {
  std::vector<double> all(pairs.conversations.size(), 0);
  if (pairs.rows.empty()) return all;
  const BatchShape& batch = work.run.plan.batch;
  PairBatches batches(pairs, batch, std::nullopt, record_scores(all));
  const int64_t global = batch.global, steps = (std::ssize(pairs.rows) + global - 1) / global;
  const auto done = evaluate(work.session, batches, steps, global);
  if (!done) throw CommonError(ErrorKind::stopped, "stopped while the reference was computed: nothing to save");
  sum_where_counted(work.session, all);
  return all;
}

/// Collective. By the model that the run starts from, whose weights it has now.
void PreferenceTuning::make_reference(Work& work) {
  const RunPlan& plan = work.run.plan;
  const InPhase phase(*work.session.rank().heartbeat, Phase::evaluation);
  const auto start = Clock::now();
  reference_ = {.pairs = facts_of_pairs(plan), .train = scores(work, train_), .validation = scores(work, validation_)};
  together(work.session.scalars(), [&] {
    const bool finite = std::ranges::all_of(reference_.train, [](double x) { return std::isfinite(x); });
    require(finite, ErrorKind::numeric, "{}: its log-probability of an answer is not finite; name another --model",
            start_model(plan));
    if (work.run.writes && work.session.rank().rank() == 0)
      write_reference(reference_path(plan.config().run.dir), reference_);
  });
  if (work.session.rank().rank() == 0)
    log::info("computed the log-probabilities of {} by {} in {:.1f} s", count_rows(train_.size() + validation_.size()),
              start_model(plan), seconds_since(start));
  work.run.data_files.push_back({reference_path(plan.config().run.dir), bytes_of(reference_), hash_of(reference_)});
}

std::unique_ptr<StepBatches> PreferenceTuning::batches_of(Work& work) {
  const RunPlan& plan = work.run.plan;
  if (!plan.resume) make_reference(work);
  return std::make_unique<PairBatches>(train_, plan.batch, static_cast<uint64_t>(plan.config().run.seed),
                                       preference_loss(form_of(plan.config().dpo), reference_.train, sums_));
}

std::optional<double> PreferenceTuning::measure(Work& work, NamedValues& measures) {
  const RunPlan& plan = work.run.plan;
  PairSums sums;
  PairBatches pairs(validation_, plan.batch, std::nullopt,
                    preference_loss(form_of(plan.config().dpo), reference_.validation, sums));
  const auto loss = evaluate(work.session, pairs, validation_steps(), epochs_.global);
  if (!loss) return loss;
  sum_where_counted(work.session, sums.values());
  measures = sums.means();
  return loss;
}

RunFacts PreferenceTuning::facts_of(const RunPlan& plan) const {
  const PairOptions& dpo = plan.config().dpo;
  std::string loss = fmt::format("{} with beta {:g}", name_of(dpo.loss), dpo.beta);
  if (dpo.label_smoothing > 0) loss += fmt::format(", label smoothing {:g}", dpo.label_smoothing);
  const int64_t longest = std::ranges::max(train_.lengths);
  return {{"loss", fmt::format("{}; answers count on {}", loss, name_of(plan.config().chat.loss_on))},
          {"rows", fmt::format("{} of {:.1f} ids on average, at most {}", count_text(train_.size(), "pair"),
                               row_length(), longest)}};
}

}  // namespace

std::vector<std::string> preference_tuning_defaults() { return defaults_with_rate("1e-6"); }

std::unique_ptr<Recipe> preference_tuning(LoadedConfig loaded) {
  return std::make_unique<PreferenceTuning>(std::move(loaded));
}

}  // namespace trireme
