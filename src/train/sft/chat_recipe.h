#pragma once
// What training tasks on conversations have in common (sft.cc, train/dpo/dpo.cc): the start model with its template,
// tokenised files, a share for validation, epochs of rows.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/chat/training_rows.h"
#include "text/chat/chat_files.h"
#include "train/sft/tokenise.h"
#include "train/start/recipe.h"
#include "train/start/setup.h"
#include "train/step_batches.h"

namespace trireme {

class ChatRecipe : public Recipe {
 public:
  /// pairs: every row of the files is a pair of answers. Throws Error::usage and Error::config for what conversations
  /// cannot be trained on with, before the run folder is touched.
  ChatRecipe(LoadedConfig loaded, bool pairs);

  const Config& config() const override { return setup_.config(); }
  void check() override;
  ResumePlace find_start(const TrainingJob& job) override;
  hub::Named needs(bool is_new) const override {
    return {.model = is_new ? config().model.init : ""};  // a resumed run needs the conversations only
  }
  RunPlan& open(const ResumePlace& place, const TrainingJob& job) override;
  void read_data(const TrainingJob& job) override;
  void prove_data(const TrainingJob& job) override;
  void make_weights(Run& run) override;

  uint64_t tokens(uint64_t samples) const override;
  StepCost step_cost() const override;
  const std::vector<DataFileFact>& mapped_files() const override { return no_files_; }

  bool evaluates_first() const override { return !validation_.rows.empty(); }
  bool evaluates_last() const override { return !validation_.rows.empty(); }
  bool saves_first() const override { return extra_snapshots_.contains(0); }
  bool saves_last() const override { return true; }
  Due due(const RunCounters& progress) const override;
  bool evaluate(Work& work) override;
  void step_done(const StepResult&) override {}

 protected:
  /// The largest step of setup_.batch, as far as it is known before the files are read.
  virtual StepSize size_of_step() const { return step_size(setup_.batch); }
  virtual chat::TrainingRows rows_of(chat::CodedIds ids) const = 0;
  /// The rows are there, but neither the steps nor whether the run fits the snapshot that it resumes. Not collective.
  virtual void take_rows(const TrainingJob&) {}
  /// Collective: the loss over validation_, and the task's measures. Nullopt: a stop was requested.
  virtual std::optional<double> measure(Work& work, NamedValues& measures) = 0;

  double row_length() const { return static_cast<double>(train_.ids()) / static_cast<double>(train_.size()); }
  /// "1 conversation", "3 pairs".
  std::string count_rows(uint64_t rows) const;
  /// The head of the report. own: the task's facts.
  RunFacts chat_facts(const Work& work, const PeakRate& peak, RunFacts own) const;
  int64_t validation_steps() const;

  Setup setup_;
  chat::TrainingRows train_, validation_;
  EpochPlan epochs_;

 private:
  void take_template();
  std::vector<std::string> files_of(const std::string& given, const char* option, const TrainingJob& job) const;
  TokenisedConversations tokenise_files(const std::string& given, const char* option, const TrainingJob& job) const;
  /// What the conversations teach to end with ends the model's texts, in samples and exports, too.
  void take_end_of_turns(const chat::CodedIds& conversations);
  /// Resolves the steps, and when something happens.
  void plan_steps();
  void warn_of(const chat::TrainingRows& rows, const char* name) const;
  /// The tokenizer may have more tokens than the model has rows.
  void require_known_ids(const chat::CodedIds& ids, const Tokenizer& tokenizer, const std::string& given) const;
  DataFileFact fact_of(const std::string& path, const chat::TrainingRows& rows) const;

  bool pairs_;
  std::string today_;
  chat::ChatFiles files_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string read_;  ///< where the conversations come from
  const Backend* backend_ = nullptr;
  std::set<int64_t> extra_snapshots_;
  const std::vector<DataFileFact> no_files_;  ///< conversations are read at the start
};

/// Collective: values of the ranks that count the loss, summed over them.
void sum_where_counted(Session& session, std::span<double> values);

}  // namespace trireme
