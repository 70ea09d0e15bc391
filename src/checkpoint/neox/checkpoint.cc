#include "checkpoint/neox/checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "checkpoint/neox/names.h"
#include "checkpoint/neox/states.h"
#include "checkpoint/neox/step.h"
#include "checkpoint/neox/weights.h"
#include "checkpoint/torch/zip_archive.h"
#include "config/document.h"
#include "config/gpt_neox.h"
#include "config/load.h"
#include "model/model_options.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostTokenizerBytes = size_t{64} << 20;

/// Every file is asked, though opening the checkpoint ends with the first that is bad.
void check_bytes(const std::string& path, std::vector<std::string>& faults) {
  const MappedFile file(path);
  if (!looks_like_zip(file.bytes())) return;
  for (const ZipMember& member : read_zip(file.bytes(), path)) {
    if (std::string fault = zip_fault(member, path); !fault.empty()) faults.push_back(std::move(fault));
  }
}

}  // namespace

class NeoxCheckpoint::Implementation {
 public:
  explicit Implementation(const std::string& path) : step_(path), weights_(step_) {
    read_model();
    weights_.check(model_);
    states_ = std::make_unique<NeoxStates>(step_, model_);
    read_progress();
  }

  const std::string& path() const { return step_.files().folder; }
  const CheckpointFacts& facts() const { return facts_; }
  bool has_optimizer() const { return !states_->empty(); }
  const std::vector<std::string>& notes() const { return notes_; }

  uint64_t load(const ParameterTable& table, TrainingState& state, bool moments) const {
    require(!moments || has_optimizer(), ErrorKind::data,
            "{} has only weights; resuming a run needs the optimizer's state", path());
    NeoxJoiner joiner(model_.tables, path());
    for (const NeoxRule& rule : model_.rules) {
      const Parameter* own = table.look_up(rule.ours);
      if (!own) continue;
      const auto store = [&](int64_t at, std::span<const float> values) {
        state.write_weights(own->offset + at, values);
      };
      joiner.join(rule, *own, rule.join, pieces(rule, &NeoxState::master), store);
      if (!moments || !own->trained()) continue;
      // Moments of parameters that all ranks hold are equal on every rank.
      const NeoxJoin alike = rule.join == NeoxJoin::shares ? NeoxJoin::copies : rule.join;
      const auto into = [&](std::string_view name) {
        return [&state, own, name](int64_t at, std::span<const float> values) {
          state.write_state(name, *own, at, values);
        };
      };
      joiner.join(rule, *own, alike, pieces(rule, &NeoxState::m), into(kAdamM));
      joiner.join(rule, *own, alike, pieces(rule, &NeoxState::v), into(kAdamV));
    }
    for (const Parameter& parameter : table.all()) state.clear_padding(parameter);
    joiner.tell();
    return joiner.bytes_read();
  }

 private:
  void read_model() {
    const std::vector<std::string> files = step_.config_files();
    loaded_ = load_saved_config(files, "gpt-neox", gpt_neox_saved_keys());
    ModelOptions& model = loaded_.config.model;
    check_arguments(files.front());
    const int64_t rows = weights_.vocabulary_rows();
    model.vocabulary = vocabulary(rows);
    model.vocabulary_multiple = 1;
    model_.spec = spec_from_options(loaded_, model.vocabulary);
    require(model_.spec.is_plain(), ErrorKind::data,
            "{}: checkpoints of NeoX with rmsnorm, gated activations, num_kv_heads or sliding windows cannot be read; "
            "convert them with NeoX's tools/ckpts/convert_neox_to_hf.py and read the folder that it writes",
            files.front());
    model_.spec.vocabulary_rows = rows;
    model_.rules = neox_rules(model_.spec);
    const auto tensor_ranks = static_cast<int>(step_.tensor_ranks());
    for (int rank = 0; rank < tensor_ranks; ++rank) {
      const Layout layout{.part = {}, .tensor_rank = rank, .tensor_size = tensor_ranks};
      model_.tables.emplace_back(model_.spec, InitScheme::gpt2, layout);
    }
  }

  /// The fields that NeoX itself compares when it loads.
  void check_arguments(const std::string& config) const {
    const auto args = step_.states(0).root().find("args");
    if (!args || !args->is_dict()) return;
    const ModelOptions& model = loaded_.config.model;
    const std::pair<const char*, int64_t> known[] = {{"num_layers", model.layers},
                                                     {"hidden_size", model.width},
                                                     {"num_attention_heads", model.heads},
                                                     {"max_position_embeddings", model.context}};
    for (const auto& [key, value] : known) {
      const auto found = args->find(key);
      if (found && found->integer() != value)
        found->fail_with(fmt::format("is {}, but in {} it is {}", found->integer(), config, value));
    }
  }

  /// The padded one, which NeoX trains with; for our exports (export.h), that of the model.
  int64_t vocabulary(int64_t rows) const {
    const auto own = step_.states(0).root().find(kNeoxOwnKey);
    if (!own) return rows;
    const TorchValue said = own->at("vocabulary");
    const int64_t vocabulary = said.integer();
    if (vocabulary < 1 || vocabulary > rows)
      said.fail_with(fmt::format("is {}, but word_embeddings.weight has {} rows", vocabulary, rows));
    return vocabulary;
  }

  std::vector<NeoxPiece> pieces(const NeoxRule& rule, const ElementSource* NeoxState::*part) const {
    std::vector<NeoxPiece> pieces;
    const auto index = static_cast<size_t>(&rule - model_.rules.data());
    for (int64_t rank = 0; rank < step_.tensor_ranks(); ++rank) {
      const NeoxState* state = states_->find(rule, rank);
      if (state && state->*part) {
        pieces.push_back({state->*part, state->first});
      } else {  // without masters the weights are f32 themselves
        pieces.push_back({&weights_.source(index, rank), 0});
      }
    }
    return pieces;
  }

  static int64_t count_or(const TorchValue& root, const char* key, int64_t otherwise) {
    const auto found = root.find(key);
    if (!found) return otherwise;
    const int64_t count = found->integer();
    if (count < 0) found->fail_with(fmt::format("is {}, it must not be negative", count));
    return count;
  }

  void read_progress() {
    const TorchValue root = step_.states(0).root();
    RunCounters& progress = facts_.progress;
    progress.step = count_or(root, "iteration", count_or(root, "global_steps", step_.files().step.value_or(0)));
    const auto deepspeed = root.find("ds_config");
    int64_t batch = 0;
    if (deepspeed && deepspeed->is_dict()) batch = count_or(*deepspeed, "train_batch_size", 0);
    progress.samples = static_cast<uint64_t>(count_or(root, "global_samples", progress.step * batch));
    progress.skipped = count_or(root, "skipped_steps", 0);
    progress.best_loss = std::numeric_limits<double>::infinity();
    progress.updates = has_optimizer() ? states_->updates() : progress.step - progress.skipped;
    facts_.spec = model_.spec;
    if (batch > 0) loaded_.config.batch.global = batch;
    facts_.config_json = dump_json(to_json(loaded_.config), 1);
    for (const fs::path& folder : {fs::path(path()), fs::path(path()).parent_path()}) {
      const fs::path tokenizer = folder / "tokenizer.json";
      if (facts_.tokenizer_json.empty() && fs::exists(tokenizer))
        facts_.tokenizer_json = read_text(tokenizer.string(), kMostTokenizerBytes);
    }
    if (!has_optimizer()) return;
    if (const auto schedule = root.find("lr_scheduler"); schedule && schedule->is_dict()) {
      const int64_t stood = count_or(*schedule, "num_iters", progress.updates);
      if (stood != progress.updates)
        notes_.push_back(fmt::format(
            "its learning rate was at step {}, but Adam at update {}; the learning rate resumes from the latter", stood,
            progress.updates));
    }
    progress.loss_scale = states_->loss_scale();
    if (!progress.loss_scale) return;
    notes_.push_back(
        fmt::format("its loss scale of {} is used only with precision.dtype f16", progress.loss_scale->scale));
  }

  NeoxStep step_;
  NeoxWeights weights_;
  LoadedConfig loaded_;
  NeoxModel model_;
  std::unique_ptr<NeoxStates> states_;
  CheckpointFacts facts_;
  std::vector<std::string> notes_;
};

NeoxCheckpoint::NeoxCheckpoint(const std::string& path) : implementation_(std::make_unique<Implementation>(path)) {}
NeoxCheckpoint::~NeoxCheckpoint() = default;
const std::string& NeoxCheckpoint::path() const { return implementation_->path(); }
const CheckpointFacts& NeoxCheckpoint::facts() const { return implementation_->facts(); }
bool NeoxCheckpoint::has_optimizer() const { return implementation_->has_optimizer(); }
const std::vector<std::string>& NeoxCheckpoint::notes() const { return implementation_->notes(); }
uint64_t NeoxCheckpoint::load(const ParameterTable& table, TrainingState& state, bool moments) const {
  return implementation_->load(table, state, moments);
}

std::vector<std::string> verify_neox_checkpoint(const std::string& step_folder) {
  std::vector<std::string> faults;
  const auto keep = [&](const Error& e) {
    if (std::ranges::find(faults, e.what()) == faults.end()) faults.emplace_back(e.what());
  };
  try {
    NeoxCheckpoint opened(step_folder);
  } catch (const Error& e) {
    keep(e);
  }
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(step_folder)) {
    if (entry.path().extension() == ".pt") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  for (const std::string& file : files) {
    try {
      check_bytes(file, faults);
    } catch (const Error& e) {
      keep(e);
    }
  }
  return faults;
}

}  // namespace trireme
