#pragma once
// What training tasks on conversations have in common (sft.cc, train/dpo/dpo.cc): the start model with its template,
// tokenised files, a share for validation, epochs of rows.

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/training_rows.h"
#include "text/chat/chat_files.h"
#include "train/sft/tokenise.h"
#include "train/start/open.h"
#include "train/start/recipe.h"

namespace trireme {

/// A task on conversations gives its rows, the batches of its steps, its loss over a validation set and its part of the
/// report.
class ChatRecipe : public Recipe {
 public:
  /// pairs: every row of the files is a pair of answers. Throws Error::usage and Error::config for what conversations
  /// cannot be trained on with, before the run folder is touched.
  ChatRecipe(LoadedConfig loaded, bool pairs);

  JobOptions options() const override { return {.config = loaded_.config}; }
  Resolved resolve(const TrainingJob& job) override;
  RunPlan open(const Resolved& start, const TrainingJob& job) override;
  void make_weights(Run& run) override { make_first_weights(run, "--model"); }
  Task begin(Work& work, const TrainingJob& job) override;
  void close(const Run& run) const override;

 protected:
  /// The largest step, as far as it is known before the files are read.
  virtual StepSize size_of_step(const BatchShape& batch) const { return step_size(batch); }
  /// sequence: most ids of a row.
  virtual chat::TrainingRows rows_of(chat::CodedIds ids, size_t sequence) const = 0;
  /// The rows are there, but neither the steps nor whether the run fits the snapshot that it resumes. Not collective.
  virtual void take_rows(RunPlan&, const TrainingJob&) {}
  /// Collective. The batches of the run's steps.
  virtual std::unique_ptr<StepBatches> batches_of(Work& work) = 0;
  /// Collective: the loss over validation_, and the task's measures. Nullopt: a stop was requested.
  virtual std::optional<double> measure(Work& work, NamedValues& measures) = 0;
  /// Collective: the measures over the steps since the last call.
  virtual NamedValues measures_of_steps(Work&) { return {}; }
  /// Of the report's head.
  virtual RunFacts facts_of(const RunPlan& plan) const = 0;

  double row_length() const { return static_cast<double>(train_.ids()) / static_cast<double>(train_.size()); }
  /// "1 conversation", "3 pairs".
  std::string count_rows(uint64_t rows) const;
  int64_t validation_steps() const;

  LoadedConfig loaded_;  ///< before anything is opened
  chat::TrainingRows train_, validation_;
  EpochPlan epochs_;

 private:
  /// The model with its template, before the files are read.
  RunPlan open_model_to_train(const ResumePlace& place, const TrainingJob& job);
  void take_template(Opened& opened);
  void read_rows(RunPlan& plan, const TrainingJob& job);
  std::vector<std::string> files_of(const std::string& given, const char* option, const TrainingJob& job) const;
  TokenisedConversations tokenise_files(const RunPlan& plan, const std::string& given, const char* option,
                                        const TrainingJob& job) const;
  /// Of several files or data sets (data_parts.h).
  TokenisedConversations tokenise_parts(const RunPlan& plan, const std::string& given, const char* option,
                                        const TrainingJob& job) const;
  /// What the conversations teach to end with ends the model's texts, in samples and exports, too.
  void take_end_of_turns(RunPlan& plan, const chat::CodedIds& conversations);
  /// Resolves the steps, and when something happens.
  void plan_steps(RunPlan& plan);
  void warn_of(const chat::TrainingRows& rows, const char* name) const;
  /// The tokenizer may have more tokens than the model has rows.
  void require_known_ids(const RunPlan& plan, const chat::CodedIds& ids, const std::string& given) const;
  RunFacts report_facts(const RunPlan& plan, const TrainingJob& job, const PeakRate& peak) const;
  bool evaluate_rows(Work& work);
  int64_t sequence_length() const { return std::llround(row_length() / (pairs_ ? 2 : 1)); }

  bool pairs_;
  std::string today_;
  chat::ChatFiles files_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

/// As chat_tuning_defaults(), with this learning rate.
std::vector<std::string> defaults_with_rate(const std::string& learning_rate);

/// Collective: values of the ranks that count the loss, summed over them.
void sum_where_counted(Session& session, std::span<double> values);

}  // namespace trireme
