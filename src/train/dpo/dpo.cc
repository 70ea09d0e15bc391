#include "train/dpo/dpo.h"

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

class PreferenceTuning final : public ChatRecipe {
 public:
  explicit PreferenceTuning(LoadedConfig loaded) : ChatRecipe(std::move(loaded), true) { require_form(setup_.loaded); }

  void begin(Work& work) override;
  StepBatches& batches() override { return *batches_; }
  LossUnit loss_unit() const override { return LossUnit::pair; }
  NamedValues measures(Work& work) override {
    PairSums sums = std::exchange(sums_, {});
    sum_where_counted(work.session, sums.values());
    return sums.means();
  }
  RunFacts facts(const Work& work, const PeakRate& peak) const override;

 private:
  PairLossForm form() const {
    const PairOptions& dpo = config().dpo;
    return {dpo.loss, dpo.beta, dpo.label_smoothing};
  }
  chat::TrainingRows rows_of(chat::CodedIds ids) const override {
    return make_pairs(std::move(ids), static_cast<size_t>(setup_.batch.sequence));
  }
  StepSize size_of_step() const override { return size_of_step(2 * setup_.batch.sequence); }
  StepSize size_of_step(int64_t longest) const;
  void take_rows(const TrainingJob& job) override;
  void take_reference();
  std::string facts_of_pairs() const;
  std::string start_model() const;
  std::optional<double> measure(Work& work, NamedValues& measures) override;
  std::vector<double> scores(Work& work, const chat::TrainingRows& pairs) const;

  Reference reference_;
  PairSums sums_;
  std::optional<PairBatches> batches_;
};

/// longest: ids of the longest pair.
StepSize PreferenceTuning::size_of_step(int64_t longest) const {
  const int64_t micro = setup_.batch.largest_micro();
  return {.micro_batches = setup_.batch.micro_batches,
          .micro_sequences = micro,
          .micro_rows = micro * longest,
          .step_rows = setup_.batch.micro_batches * micro * longest,
          .scored = 2 * micro};
}

/// The batch and its memory follow from the pairs: a micro-batch takes the number that fits into two full sequences,
/// unless the user sets it.
void PreferenceTuning::take_rows(const TrainingJob& job) {
  int64_t longest = 2;
  for (const chat::TrainingRows* rows : {&train_, &validation_}) {
    for (const int64_t length : rows->lengths) longest = std::max(longest, length);
  }
  if (!setup_.loaded.given("batch.micro") && !setup_.loaded.given("batch.accumulation")) {
    const int64_t share = (setup_.batch.global + setup_.batch.ranks - 1) / setup_.batch.ranks,
                  micro = std::clamp<int64_t>(2 * setup_.batch.sequence / longest, 1, share);
    setup_.batch.micro_batches = (share + micro - 1) / micro;
    setup_.loaded.config.batch.micro = setup_.batch.largest_micro();
  }
  StepSize size = size_of_step(longest);
  size.uneven = true;
  plan_rank(setup_, config(), size, job.planned());
  if (setup_.resume) take_reference();
}

std::string PreferenceTuning::facts_of_pairs() const {
  std::string facts;
  for (const DataFileFact& file : setup_.data_files) facts += fmt::format("{} {}\n", file.bytes, file.hash);
  return facts;
}

/// The reference, in messages. A new adapter changes nothing before its first step.
std::string PreferenceTuning::start_model() const {
  const std::string& adapter = config().lora.adapter;
  return adapter.empty() ? setup_.init->path : fmt::format("{} with the adapter {}", setup_.init->path, adapter);
}

/// That of the run that is resumed; one of other pairs is not taken, as check_resume() names what differs.
void PreferenceTuning::take_reference() {
  const std::string path = reference_path(config().run.dir);
  std::optional<Reference> found = read_reference(path);
  require(
      found.has_value(), ErrorKind::io,
      "{} does not exist: it has the log-probabilities of the model that the run started from, without which the run "
      "cannot be resumed; copy it from where the run began, or start a new run in another folder",
      path);
  const bool same = found->pairs == facts_of_pairs();
  require(
      same || !config().checkpoint.allow_other_data, ErrorKind::config,
      "{} is set, but {} has the log-probabilities of the pairs that the run started with; use them, or start a new "
      "run in another folder",
      setup_.loaded.where("checkpoint.allow-other-data"), path);
  if (!same) return;
  reference_ = std::move(*found);
  setup_.data_files.push_back({path, bytes_of(reference_), hash_of(reference_)});
}

/// Collective. The log-probability of every answer by the weights that the run has now.
std::vector<double> PreferenceTuning::scores(Work& work, const chat::TrainingRows& pairs) const {
  std::vector<double> all(pairs.conversations.size(), 0);
  if (pairs.rows.empty()) return all;
  PairBatches batches(pairs, setup_.batch, std::nullopt, record_scores(all));
  const int64_t global = setup_.batch.global, steps = (std::ssize(pairs.rows) + global - 1) / global;
  const auto done = trireme::evaluate(work.session, batches, steps, global);
  if (!done) throw CommonError(ErrorKind::stopped, "stopped while the reference was computed: nothing to save");
  sum_where_counted(work.session, all);
  return all;
}

void PreferenceTuning::begin(Work& work) {
  if (!setup_.resume) {
    const InPhase phase(*work.session.rank().heartbeat, Phase::evaluation);
    const auto start = Clock::now();
    reference_ = {.pairs = facts_of_pairs(), .train = scores(work, train_), .validation = scores(work, validation_)};
    together(work.session.scalars(), [&] {
      const bool finite = std::ranges::all_of(reference_.train, [](double x) { return std::isfinite(x); });
      require(finite, ErrorKind::numeric, "{}: its log-probability of an answer is not finite; name another --model",
              start_model());
      if (work.run.writes && work.session.rank().rank() == 0)
        write_reference(reference_path(config().run.dir), reference_);
    });
    if (work.session.rank().rank() == 0)
      log::info("computed the log-probabilities of {} by {} in {:.1f} s",
                count_rows(train_.size() + validation_.size()), start_model(), seconds_since(start));
    setup_.data_files.push_back({reference_path(config().run.dir), bytes_of(reference_), hash_of(reference_)});
  }
  batches_.emplace(train_, setup_.batch, static_cast<uint64_t>(config().run.seed),
                   preference_loss(form(), reference_.train, sums_));
}

std::optional<double> PreferenceTuning::measure(Work& work, NamedValues& measures) {
  PairSums sums;
  PairBatches pairs(validation_, setup_.batch, std::nullopt, preference_loss(form(), reference_.validation, sums));
  const auto loss = trireme::evaluate(work.session, pairs, validation_steps(), epochs_.global);
  if (!loss) return loss;
  sum_where_counted(work.session, sums.values());
  measures = sums.means();
  return loss;
}

RunFacts PreferenceTuning::facts(const Work& work, const PeakRate& peak) const {
  const PairOptions& dpo = config().dpo;
  std::string loss = fmt::format("{} with beta {:g}", name_of(dpo.loss), dpo.beta);
  if (dpo.label_smoothing > 0) loss += fmt::format(", label smoothing {:g}", dpo.label_smoothing);
  const int64_t longest = std::ranges::max(train_.lengths);
  return chat_facts(work, peak,
                    {{"loss", fmt::format("{}; answers count on {}", loss, name_of(config().chat.loss_on))},
                     {"rows", fmt::format("{} of {:.1f} ids on average, at most {}", count_text(train_.size(), "pair"),
                                          row_length(), longest)}});
}

}  // namespace

std::vector<std::string> preference_tuning_defaults() {
  std::vector<std::string> flags;
  for (const char* value : {"batch.global=8", "optim.learning-rate=1e-6", "optim.min-learning-rate=0",
                            "optim.beta2=0.999", "optim.weight-decay=0"}) {
    flags.emplace_back("--default");
    flags.emplace_back(value);
  }
  return flags;
}

std::unique_ptr<Recipe> preference_tuning(LoadedConfig loaded) {
  return std::make_unique<PreferenceTuning>(std::move(loaded));
}

}  // namespace trireme
