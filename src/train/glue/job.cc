#include "train/glue/job.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "base/count.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/size.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_steps.h"
#include "checkpoint/snapshot/local_disk.h"
#include "checkpoint/snapshot/spec_json.h"
#include "comm/proof.h"
#include "model/mesh_layout.h"
#include "train/start/resume.h"

namespace trireme {
namespace {

int64_t longest(const std::vector<NamedRows>& sets) {
  int64_t most = 0;
  for (const NamedRows& set : sets) most = std::max(most, set.rows.longest);
  return most;
}

/// What the labels of a training are beside its rows, recorded with them in snapshots.
constexpr std::string_view kSmoothed = "label smoothing factor ";

DataFileFact smoothing_fact(double factor) {
  const std::string text = fmt::format("{}{}", kSmoothed, factor);
  return {text, 0, hex64(xxh3(std::as_bytes(std::span(text))))};
}

/// "0" where none is recorded.
std::string smoothing_of(const std::vector<DataFileFact>& facts) {
  for (const DataFileFact& fact : facts) {
    if (fact.path.starts_with(kSmoothed)) return fact.path.substr(kSmoothed.size());
  }
  return "0";
}

/// Refuses a checkpoint of another training.
void check_same_training(const RunPlan& plan, const Spec& wanted, int ranks) {
  const CheckpointFacts& facts = plan.resume->facts;
  const Config& then = plan.resumed;
  Spec spec = wanted;
  spec.vocabulary_rows = facts.spec.vocabulary_rows;
  require(facts.spec == spec, ErrorKind::config,
          "{} holds a different model than --model and the task need: {}; name another --output-dir or add "
          "--overwrite-output-dir",
          plan.resume->path, describe_differences(facts.spec, spec));
  constexpr const char* kElse = "or name another --output-dir or add --overwrite-output-dir";
  const DataFileFact before = facts.data_files.empty() ? DataFileFact() : facts.data_files[0],
                     &now = plan.data_files[0];
  require(before.hash == now.hash, ErrorKind::config,
          "{} was trained on other rows: {} ids of {} (XXH3 {}), now {} ids of {} (XXH3 {}); use the same file, "
          "--max-train-samples, --max-seq-length and tokenizer, {}",
          plan.resume->path, before.bytes / sizeof(int32_t), before.path, before.hash, now.bytes / sizeof(int32_t),
          now.path, now.hash, kElse);
  const std::string smoothed = smoothing_of(facts.data_files), smooths = smoothing_of(plan.data_files);
  require(smoothed == smooths, ErrorKind::config,
          "{} was trained with --label-smoothing-factor {}, now it is {}; use the same factor, {}", plan.resume->path,
          smoothed, smooths, kElse);
  require(then.run.seed == plan.config().run.seed, ErrorKind::config,
          "{} was trained with --seed {}, now it is {}; use the same seed, {}", plan.resume->path, then.run.seed,
          plan.config().run.seed, kElse);
  // Checkpoints of the first releases do not record their batch per rank.
  const int64_t batch = plan.config().batch.per_rank;
  require(then.batch.per_rank == 0 || then.batch.per_rank == batch || then.batch.global == batch * ranks,
          ErrorKind::config,
          "{} was trained with {} per rank and step (--per-device-train-batch-size x --gradient-accumulation-steps), "
          "{} over all ranks, now with {} and {}; use the same values, {}",
          plan.resume->path, count_text(then.batch.per_rank, "row"), then.batch.global, batch, batch * ranks, kElse);
}

/// XXH3 of the ids and labels of the training rows.
DataFileFact fact_of(const GlueSet& set, const EncodedRows& rows) {
  const uint64_t tokens = xxh3(std::as_bytes(std::span(rows.tokens))),
                 labels = xxh3(std::as_bytes(std::span(rows.labels)));
  return {set.path, rows.tokens.size() * sizeof(int32_t), hex64(tokens ^ (labels * 3))};
}

/// The global batch: that of the resumed run, if any.
int64_t global_batch(const BatchOptions& batch, const RunPlan& plan, int64_t data_ranks) {
  if (plan.resume) return plan.resumed.batch.global;
  return checked_product({batch.micro, batch.accumulation, data_ranks},
                         "--per-device-train-batch-size x --gradient-accumulation-steps x ranks");
}

/// The largest there will be.
StepSize step_size(const GlueJob& job, const GlueOptions& options, int64_t data_ranks) {
  const int64_t train_batch = options.config().batch.micro;
  const int64_t most_rows = std::max(options.trains() ? train_batch : 0,
                                     job.validation.empty() && job.test.empty() ? 0 : options.evaluation_batch);
  const int64_t length = job.layout.length > 0
                             ? job.layout.length
                             : std::max({longest(job.train), longest(job.validation), longest(job.test)});
  const bool by_tokens = options.most_tokens > 0;
  return {.micro_batches =
              options.trains() ? micro_batches_for(job.epochs.global, static_cast<int>(data_ranks), train_batch) : 1,
          .varies = by_tokens,
          .micro_sequences = by_tokens ? 1 : most_rows,
          .micro_rows =
              by_tokens ? std::min(most_rows * length, std::max(options.most_tokens, length)) : most_rows * length,
          .step_rows = (job.epochs.global + data_ranks - 1) / data_ranks * length};
}

}  // namespace

GlueJob make_job(const GlueOptions& options, const std::string& start, const MeshShape& mesh, const PlannedRank& rank) {
  GlueJob job;
  RunPlan& plan = job.plan;
  const GlueData data = read_data(options);
  job.task = data.task;
  if (!start.empty()) {
    plan.resume = open_checkpoint(start);
    plan.resumed = resumed_config(*plan.resume);
  }
  job.model = plan.resume ? resumed_model(options, data.task, *plan.resume) : open_pretrained(options, data.task);
  const int64_t wanted = options.config().batch.sequence, most = std::min(wanted, job.model.spec.context);
  if (most < wanted)
    log::info("rows are cut to {}: the model has no more positions (--max-seq-length {})", count_text(most, "id"),
              wanted);
  job.train = encode_sets(data.train, job.task, job.model, most);
  job.validation = encode_sets(data.validation, job.task, job.model, most);
  job.test = encode_sets(data.test, job.task, job.model, most);

  const PlannedModel model{.spec = with_rows_for(job.model.spec, mesh.tensor), .mesh = mesh};
  plan.tokenizer_json = job.model.tokenizer->json();
  plan.generation = job.model.generation;
  if (options.trains()) {
    plan.data_files.push_back(fact_of(data.train[0], job.train[0].rows));
    if (options.label_smoothing > 0) plan.data_files.push_back(smoothing_fact(options.label_smoothing));
    job.epochs = {job.train[0].rows.rows(), global_batch(options.config().batch, plan, mesh.data)};
    job.steps = job.epochs.total_steps(options.epochs, options.max_steps);
  }
  plan.loaded = options.loaded;
  plan.warms_from_zero = true;
  plan.loaded.config = config_of(options, job.steps, job.epochs.global);
  plan.loaded.config.batch.sequence = most;
  if (plan.resume) check_same_training(plan, model.spec, static_cast<int>(mesh.data));
  require(options.label_smoothing == 0 || !job.task.regression(), ErrorKind::usage,
          "--label-smoothing-factor is {}, but this task predicts a number and has no classes; remove it",
          options.label_smoothing);
  job.layout = {.length = options.rows.pad ? most : 0,
                .padding = job.model.padding,
                .classes = model.spec.classes,
                .smoothing = options.label_smoothing};
  plan.part = plan_rank(model, plan.config(), step_size(job, options, mesh.data), rank);
  if (plan.resume) check_same_trained(plan, "--model");
  return job;
}

namespace {

constexpr size_t kParts = 64;  // one line each

template <class T>
uint64_t hash_of(const std::vector<T>& values, size_t begin, size_t end) {
  return xxh3(std::as_bytes(std::span(values).subspan(begin, end - begin)));
}

std::string lines_of(const NamedRows& set) {
  const EncodedRows& rows = set.rows;
  const size_t count = rows.labels.size(), parts = std::min(kParts, count);
  std::string lines = fmt::format("{}: {} rows\n", set.path, count);
  for (size_t part = 0; part < parts; ++part) {
    const size_t first = count * part / parts, last = count * (part + 1) / parts;
    const size_t begin = rows.offsets[first], end = rows.offsets[last];
    lines +=
        fmt::format("{}: rows {} to {} have {} ids with XXH3 {}, labels with XXH3 {}\n", set.path, first + 1, last,
                    end - begin, hex64(hash_of(rows.tokens, begin, end)), hex64(hash_of(rows.labels, first, last)));
  }
  return lines;
}

}  // namespace

void prove_same_rows(const GlueJob& job, Scalars& scalars, std::string_view host) {
  if (scalars.size() == 1) return;
  std::string text;
  for (const auto* sets : {&job.train, &job.validation, &job.test}) {
    for (const NamedRows& set : *sets) text += lines_of(set);
  }
  prove_same_text(scalars, host, text, "have the same rows", "copy the files and the tokenizer to that host again");
}

namespace {

namespace fs = std::filesystem;

/// Files that a run leaves when it is stopped before its first checkpoint.
constexpr std::array<std::string_view, 12> kLeftBehind{
    "lock",           "status.json", "status.reserve",     "control.json",
    "metrics.jsonl",  "tensorboard", "trainer_state.json", "mlflow.json",
    "products.jsonl", "log.txt",     "log.txt.1",          "attempts.jsonl"};

bool holds_files(const std::string& folder) {
  if (!fs::is_directory(folder)) return false;
  return std::ranges::any_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return !name.starts_with('.') && !name.starts_with("status.json.tmp-") && !name.starts_with("control.json.tmp-") &&
           std::ranges::find(kLeftBehind, name) == kLeftBehind.end();
  });
}

}  // namespace

std::string find_start(const GlueOptions& options) {
  const std::string& folder = options.config().run.dir;
  if (options.resumes_named_checkpoint())
    return open_checkpoint(options.config().checkpoint.resume, options.config().names).path;
  if (options.config().run.overwrite) return {};
  if (read_local_note(folder)) return {};
  if (const auto found = find_resumable(folder, options.config().names)) return found->path;
  require(
      !holds_files(folder), ErrorKind::config,
      "{} exists and holds files, but no checkpoint to resume; name another --output-dir or add --overwrite-output-dir",
      folder);
  return {};
}

void clear_checkpoints(const std::string& folder) {
  for (const int64_t step : list_steps(folder)) remove_folder(folder, step_name(step));
  forget_steps(folder);
}

}  // namespace trireme
