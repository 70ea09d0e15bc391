#include "train/start/recipe.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/time.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "comm/agreement.h"
#include "config/validate.h"
#include "model/train_flops.h"
#include "text/tokenizer.h"
#include "train/facts.h"
#include "train/guard/data_proof.h"
#include "train/start/data_setup.h"
#include "train/start/open.h"
#include "train/start/resume.h"
#include "train/step.h"

namespace trireme {
namespace {

/// Reading all of a large file takes longer than a batch system waits.
void check_stop() {
  require(!stop::requested(), ErrorKind::stopped, "stopped while the data was read: nothing to save");
}

/// Refuses options about masks for models without masks.
void check_masking(const Opened& opened) {
  if (opened.model.spec.head == HeadKind::masked_language_model) {
    require(!opened.config().data.mask_end_of_text, ErrorKind::config,
            "{} is set, but a masked language model does not predict the next token; remove it",
            opened.loaded.where("data.mask-end-of-text"));
    return;
  }
  for (const char* option : {"data.mask-rate", "data.whole-words"})
    require(!opened.loaded.origins.contains(option), ErrorKind::config,
            "{} is set, but the model is causal and uses no masking; remove it, or choose a masked language "
            "model (--model.preset bert-base)",
            opened.loaded.where(option));
}

/// A resumed run uses the tokenizer of its snapshot if the named one is gone.
std::string tokenizer_of_data(const Opened& opened) {
  const DataOptions& data = opened.config().data;
  if (!opened.resume || data.tokenizer.empty()) return find_tokenizer(data);
  try {
    return find_tokenizer(data);
  } catch (const Error& e) {
    const std::string& own = opened.resume->facts.tokenizer_json;
    if (e.kind() != ErrorKind::io || own.empty()) throw;
    log::write_once(log::Level::info, fmt::format("cannot read data.tokenizer {}; using the tokenizer of {}",
                                                  data.tokenizer, opened.resume->path));
    return own;
  }
}

/// What the model's first folder says about its texts, if the data has its tokens, and its family.
void take_generation(RunPlan& plan, const std::string& data_tokenizer, int rank) {
  if (plan.resume) plan.generation = plan.resume->facts.generation;
  if (!plan.init || plan.resume) return;
  const std::string others = describe_id_differences(data_tokenizer, plan.init->tokenizer_json);
  // The ids of another tokenizer mean other tokens.
  plan.generation = others.empty() ? plan.init->generation : without_tokens(plan.init->generation);
  if (!others.empty() && rank == 0)
    log::warning(
        "the data has another tokenizer than {}: {}, so the model's embeddings belong to other tokens; `trireme "
        "prepare --tokenizer {}` prepares the data with the model's tokenizer",
        plan.init->path, others, plan.config().model.init);
}

RunData open_data(const RunPlan& plan) {
  const auto vocabulary = static_cast<uint64_t>(plan.part.spec.vocabulary);
  RunData data = plan.part.spec.head == HeadKind::masked_language_model
                     ? open_masked_data(plan.loaded, plan.batch, vocabulary, plan.tokenizer_json, check_stop)
                     : open_run_data(plan.loaded, plan.batch, vocabulary, check_stop);
  if (plan.config().data.mask_end_of_text) mask_end_of_text(data, plan.tokenizer_json);
  return data;
}

/// The facts of every file, once: the test documents of a split are in files of the list already.
std::vector<DataFileFact> files_of(const RunData& data) {
  std::vector<DataFileFact> facts;
  for (const FileSource* source : {data.train.get(), data.validation.get(), data.test.get()}) {
    if (!source) continue;
    for (const SourceFile& file : source->files(check_stop)) {
      const DataFileFact fact{file.path, file.bytes, hex64(file.hash)};
      const bool listed = source == data.test.get() && std::ranges::find(facts, fact) != facts.end();
      if (!listed) facts.push_back(fact);
    }
  }
  return facts;
}

/// Also the files made from others: every host may have them in its own folder.
std::vector<std::string> index_files(const RunData& data) {
  std::vector<std::string> files;
  for (const FileSource* source : {data.train.get(), data.validation.get(), data.test.get()}) {
    if (!source) continue;
    for (std::string& file : source->index_files()) files.push_back(std::move(file));
  }
  return files;
}

std::string describe_length(const RunPlan& plan, const RunData& data) {
  const int64_t steps = plan.config().run.steps;
  const double tokens = static_cast<double>(plan.batch.global * plan.batch.sequence) * static_cast<double>(steps),
               own = static_cast<double>(std::max<uint64_t>(data.train->tokens(), 1)),
               parameters = static_cast<double>(ParameterTable(plan.part.spec).total());
  return fmt::format("{}: {:.3g} times the tokens of the data, {:.3g} per parameter{}", count_text(steps, "step"),
                     tokens / own, tokens / parameters,
                     plan.config().model.init.empty() ? " (for its cost a new model learns most from about 20)" : "");
}

RunFacts run_facts(const RunPlan& plan, const RunData& data, const TrainingJob& job, const PeakRate& peak) {
  const BatchShape& b = plan.batch;
  RunFacts facts = plan_facts(plan, job.rank, job.backend, peak, b.sequence), own;
  const auto add = [&](const char* name, std::string value) { own.emplace_back(name, std::move(value)); };
  add("data",
      fmt::format("{} ({}){}", data.train->name(), count_text(data.train->tokens(), "token"),
                  data.validation ? fmt::format(", validation {} ({})", data.validation->name(),
                                                count_text(data.validation->tokens(), "token"))
                                  : "") +
          (data.test ? fmt::format(", test {} ({})", data.test->name(), count_text(data.test->tokens(), "token"))
                     : ""));
  if (plan.part.spec.head == HeadKind::masked_language_model)
    add("masking", fmt::format("{:.3g} % of the tokens are to be predicted (8 of 10 masked, 1 replaced by a random "
                               "token, 1 unchanged), {}",
                               1e2 * plan.config().data.mask_rate,
                               plan.config().data.whole_words ? "whole words" : "single tokens"));
  if (plan.config().data.mask_end_of_text)
    add("masking", "tokens after the end of a document do not count in the loss");
  add("batch", fmt::format("{} x {} = {} per step: {} x {} of {}", b.global, b.sequence,
                           count_text(b.global * b.sequence, "token"), count_text(b.ranks, "rank"),
                           count_text(b.micro_batches, "micro-batch"), b.largest_micro()));
  if (plan.part.trains) add("length", describe_length(plan, data));
  const auto precision = std::ranges::find(facts, "precision", &RunFacts::value_type::first);
  facts.insert(precision, own.begin(), own.end());
  return facts;
}

/// As trireme::evaluate(), with the evaluation's batches from number `from` on.
std::optional<double> loss_of(Work& work, const SampleSource& data, int64_t from) {
  const RunPlan& plan = work.run.plan;
  const Config& config = plan.config();
  return evaluate(work.session, data, plan.batch, config.evaluation.batches, config.optim.loss_mean, from);
}

/// A function of the step, so that a resumed run reads what the uninterrupted one reads. NeoX's first evaluation is
/// after `every` steps; one before the first step reads the same batches.
int64_t first_validation_batch(const EvaluationOptions& options, int64_t step) {
  const bool moves = options.next_batches && options.every > 0 && step > 0;
  return moves ? (step - 1) / options.every * options.batches : 0;
}

/// False: a stop was requested meanwhile.
bool evaluate_on(const RunData& data, Work& work) {
  const auto start = Clock::now();
  const int64_t step = work.run.progress.step;
  const auto train_loss = loss_of(work, *data.train, 0);
  if (!train_loss) return false;
  const int64_t first = first_validation_batch(work.run.config().evaluation, step);
  const auto validation_loss = data.validation ? loss_of(work, *data.validation, first) : std::nullopt;
  if (data.validation && !validation_loss) return false;
  record_evaluation(
      work,
      {.step = step, .train_loss = train_loss, .validation_loss = validation_loss, .seconds = seconds_since(start)});
  return true;
}

bool test_on(const RunData& data, Work& work) {
  if (!data.test) return true;
  const auto start = Clock::now();
  const auto loss = loss_of(work, *data.test, 0);
  if (!loss) return false;
  work.run.reporter->test({.step = work.run.progress.step, .loss = *loss, .seconds = seconds_since(start)});
  return true;
}

class Pretraining final : public Recipe {
 public:
  explicit Pretraining(LoadedConfig loaded) : loaded_(std::move(loaded)) {}

  JobOptions options() const override { return {.config = loaded_.config}; }
  Resolved resolve(const TrainingJob& job) override;
  RunPlan open(const Resolved& start, const TrainingJob& job) override;
  void make_weights(Run& run) override { make_first_weights(run, "--model.init"); }
  Task begin(Work& work, const TrainingJob& job) override;

 private:
  RunPlan open_files(const ResumePlace& place, const TrainingJob& job);

  LoadedConfig loaded_;
  RunData data_;
};

Resolved Pretraining::resolve(const TrainingJob& job) {
  together(job.scalars, [&] {
    validate(loaded_);
    require_training_data(loaded_.config.data);
    for (const std::string& note : loaded_.notes) log::info("{}", note);
  });
  Resolved start{.place = find_resume(loaded_, job.scalars), .needs = {}};
  if (!start.place.path.empty()) return start;  // a resumed run needs nothing but its own folder
  const std::string &init = loaded_.config.model.init, &tokenizer = loaded_.config.data.tokenizer;
  start.needs = {.model = init == "scratch" ? "" : init,
                 .tokenizer = tokenizer == kCharLevelTokenizer ? "" : tokenizer,
                 .glue_task = ""};
  return start;
}

RunPlan Pretraining::open_files(const ResumePlace& place, const TrainingJob& job) {
  Opened opened = open_start(loaded_, job.mesh, place);
  const std::string data_tokenizer = tokenizer_of_data(opened);
  opened.tokenizer_json = data_tokenizer;
  const DataOptions data = opened.config().data;
  opened = with_model(std::move(opened), vocabulary_of_data(data, data_tokenizer));
  check_masking(opened);
  std::string& tokenizer = opened.tokenizer_json;
  if (tokenizer.empty() && opened.resume) tokenizer = opened.resume->facts.tokenizer_json;
  if (tokenizer.empty() && opened.init) tokenizer = opened.init->tokenizer_json;
  const BatchShape batch = resolve_batch(opened, job.rank.rank());
  RunPlan plan = plan_run(std::move(opened), batch, step_size(batch), job.planned());
  data_ = open_data(plan);
  plan.data_files = files_of(data_);
  if (plan.resume) check_resume(plan);
  if (!plan.config().checkpoint.allow_other_tokenizer) require_one_tokenizer(data, data_tokenizer);
  take_generation(plan, data_tokenizer, job.rank.rank());
  const EvaluationOptions& evaluation = plan.config().evaluation;
  if (evaluation.next_batches && evaluation.every > 0 && data_.validation)
    log::info("each evaluation reads the next {} of the validation data, as NeoX does (evaluation.next-batches)",
              count_text(evaluation.batches, "batch"));
  return plan;
}

RunPlan Pretraining::open(const Resolved& start, const TrainingJob& job) {
  RunPlan plan;
  together(job.scalars, [&] { plan = open_files(start.place, job); });
  prove_same_data(plan.data_files, index_files(data_), job.scalars, host_name(), check_stop);
  return plan;
}

Task Pretraining::begin(Work& work, const TrainingJob& job) {
  const RunPlan& plan = work.run.plan;
  const BatchShape& batch = plan.batch;
  const auto tokens = static_cast<double>(batch.global * batch.sequence);
  Task task;
  task.batches = std::make_unique<SampleBatches>(*data_.train, batch);
  task.cost = {.tokens = tokens,
               .flops = train_flops_per_token(plan.part.table->whole(), batch.sequence) * tokens,
               .samples = static_cast<double>(batch.global)};
  task.tokens = [&batch](uint64_t samples) { return samples * static_cast<uint64_t>(batch.sequence); };
  task.mapped_files = plan.data_files;
  task.facts = [this, &plan, &job](const PeakRate& peak) { return run_facts(plan, data_, job, peak); };
  task.evaluates_first = plan.config().evaluation.every > 0;
  task.evaluates_last = true;
  task.saves_first = plan.extra_snapshots.contains(0);
  task.due = [&plan](const RunCounters& progress) { return due_by_options(plan, progress); };
  task.is_finished = [&run = work.run] { return is_patience_over(run); };
  task.evaluate = [this](Work& of) { return evaluate_on(data_, of); };
  task.test = [this](Work& of) { return test_on(data_, of); };
  return task;
}

}  // namespace

std::unique_ptr<Recipe> pretraining(LoadedConfig loaded) { return std::make_unique<Pretraining>(std::move(loaded)); }

}  // namespace trireme
