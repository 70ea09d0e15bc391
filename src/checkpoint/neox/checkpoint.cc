#include "checkpoint/neox/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "checkpoint/element_source.h"
#include "checkpoint/neox/files.h"
#include "checkpoint/neox/join.h"
#include "checkpoint/neox/names.h"
#include "checkpoint/neox/optimizer.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/torch/value.h"
#include "config/document.h"
#include "config/gpt_neox.h"
#include "config/load.h"
#include "model/model_options.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostTokenizerBytes = size_t{64} << 20;

}  // namespace

class NeoxCheckpoint::Implementation {
 public:
  explicit Implementation(const std::string& path) {
    const auto folder = find_neox_step(path);
    require(folder.has_value(), ErrorKind::io, "{} holds no checkpoint of GPT-NeoX: neither `latest` nor mp_rank files",
            path);
    files_ = list_neox_files(*folder);
    open_files();
    check_ranks();
    check_one_step();
    read_model();
    read_weights();
    read_optimizer();
    read_progress();
  }

  const std::string& path() const { return files_.folder; }
  const CheckpointFacts& facts() const { return facts_; }
  bool has_optimizer() const { return !optimizers_.empty(); }
  const std::vector<std::string>& notes() const { return notes_; }

  uint64_t load(const ParameterTable& table, TrainingState& state, bool moments) const {
    require(!moments || has_optimizer(), ErrorKind::data,
            "{} holds weights only; training cannot go on from it without the optimizer's state", path());
    NeoxJoiner joiner(tables_, files_.folder);
    for (const NeoxRule& rule : rules_) {
      const Parameter* own = table.look_up(rule.ours);
      if (!own) continue;
      const auto store = [&](int64_t at, std::span<const float> values) {
        state.write_weights(own->offset + at, values);
      };
      joiner.join(rule, *own, rule.join, pieces(rule, &NeoxState::master), store);
      if (!moments || !own->gradient_offset) continue;
      // Moments of parameters that all ranks hold are equal on every rank.
      const NeoxJoin alike = rule.join == NeoxJoin::shares ? NeoxJoin::copies : rule.join;
      const auto into = [&](Moment moment) {
        return [&state, moment, first = *own->gradient_offset](int64_t at, std::span<const float> values) {
          state.write_moment(moment, first + at, values);
        };
      };
      joiner.join(rule, *own, alike, pieces(rule, &NeoxState::m), into(Moment::first));
      joiner.join(rule, *own, alike, pieces(rule, &NeoxState::v), into(Moment::second));
    }
    for (const Parameter& parameter : table.all()) state.clear_padding(parameter);
    joiner.tell();
    return joiner.bytes_read();
  }

 private:
  using Weights = std::map<std::string, std::pair<TorchTensor, const std::string*>>;  // with the file

  const TorchArchive& states(int64_t rank) const { return model_states_.at(rank); }
  int64_t ranks() const { return static_cast<int64_t>(model_states_.size()); }
  int64_t stages() const { return ranks() / tensor_ranks_; }

  // ---- files

  void open_files() {
    for (const auto& [rank, file] : files_.model_states) model_states_.try_emplace(rank, file);
    for (const auto& [place, file] : files_.layers) layers_.try_emplace(place, file);
  }

  std::string beside(const std::string& name) const { return (fs::path(path()) / name).string(); }

  void check_ranks() {
    int64_t most = 0;
    for (const auto& [rank, file] : files_.model_states) most = std::max(most, rank);
    for (int64_t rank = 0; rank <= most; ++rank) {
      require(files_.model_states.contains(rank), ErrorKind::data, "{} is missing; the folder has those of {}",
              beside(neox_model_states_file(rank)), count_text(files_.model_states.size(), "rank"));
    }
    tensor_ranks_ = ranks();
    if (files_.pipelined()) {
      tensor_ranks_ = 1;
      for (const auto& [place, file] : files_.layers) tensor_ranks_ = std::max(tensor_ranks_, place.second + 1);
    }
    const TorchValue root = states(0).root();
    if (!root.is_dict()) root.fail_with("is no dictionary");
    if (const auto world = root.find("mp_world_size"); world && world->integer() != ranks())
      world->fail_with(fmt::format("is {}, and the folder has {} mp_rank files", world->integer(), ranks()));
    const auto args = root.find("args");
    const auto size = args && args->is_dict() ? args->find("model_parallel_size") : std::nullopt;
    if (size && size->integer() != tensor_ranks_)
      size->fail_with(fmt::format("is {}, and the folder has the weights of {}", size->integer(),
                                  count_text(tensor_ranks_, "tensor rank")));
    require(ranks() % tensor_ranks_ == 0, ErrorKind::data,
            "{}: {} mp_rank files, which {} tensor ranks do not divide; files are missing", path(), ranks(),
            tensor_ranks_);
  }

  /// Mixed steps in one folder are detected by the step that each file records.
  void check_one_step() const {
    for (const char* key : {"iteration", "global_steps", "skipped_steps", "dp_world_size"}) {
      const auto first = states(0).root().find(key);
      for (int64_t rank = 1; rank < ranks(); ++rank) {
        const auto other = states(rank).root().find(key);
        if (!other || !first || other->integer() == first->integer()) continue;
        other->fail_with(fmt::format("is {}, in {} it is {}: the files are of different checkpoints", other->integer(),
                                     neox_model_states_file(0), first->integer()));
      }
    }
    const auto iteration = states(0).root().find("iteration");
    if (iteration && files_.step && iteration->integer() != *files_.step)
      iteration->fail_with(fmt::format("is {}, and the folder is that of step {}", iteration->integer(), *files_.step));
  }

  // ---- model

  std::vector<std::string> config_files() const {
    if (!files_.configs.empty()) return files_.configs;
    const std::vector<std::string> above = list_neox_files(fs::path(path()).parent_path().string()).configs;
    require(!above.empty(), ErrorKind::data,
            "{} holds no configs/*.yml, which say what the tensors do not (rotary, residual, activation); put the YAML "
            "files that the model was trained with into {}",
            path(), beside("configs"));
    return above;
  }

  void read_model() {
    const std::vector<std::string> files = config_files();
    loaded_ = load_saved_config(files, "gpt-neox", gpt_neox_saved_keys());
    ModelOptions& model = loaded_.config.model;
    check_arguments(files.front());
    const int64_t rows = vocabulary_rows();
    model.vocabulary = vocabulary(rows);
    model.vocabulary_multiple = 1;
    spec_ = spec_from_options(loaded_, model.vocabulary);
    spec_.vocabulary_rows = rows;
    rules_ = neox_rules(spec_);
    for (int rank = 0; rank < static_cast<int>(tensor_ranks_); ++rank) {
      const Layout layout{.part = {}, .tensor_rank = rank, .tensor_size = static_cast<int>(tensor_ranks_)};
      tables_.emplace_back(spec_, InitScheme::gpt2, layout);
    }
  }

  /// The fields that NeoX itself compares when it loads.
  void check_arguments(const std::string& config) const {
    const auto args = states(0).root().find("args");
    if (!args || !args->is_dict()) return;
    const ModelOptions& model = loaded_.config.model;
    const std::pair<const char*, int64_t> known[] = {{"num_layers", model.layers},
                                                     {"hidden_size", model.width},
                                                     {"num_attention_heads", model.heads},
                                                     {"max_position_embeddings", model.context}};
    for (const auto& [key, value] : known) {
      const auto found = args->find(key);
      if (found && found->integer() != value)
        found->fail_with(fmt::format("is {}, in {} it is {}", found->integer(), config, value));
    }
  }

  /// The padded one, which NeoX trains with; for our exports (neox_export.h), that of the model.
  int64_t vocabulary(int64_t rows) const {
    const auto own = states(0).root().find(kNeoxOwnKey);
    if (!own) return rows;
    const TorchValue said = own->at("vocabulary");
    const int64_t vocabulary = said.integer();
    if (vocabulary < 1 || vocabulary > rows)
      said.fail_with(fmt::format("is {}, word_embeddings.weight has {} rows", vocabulary, rows));
    return vocabulary;
  }

  int64_t vocabulary_rows() {
    int64_t rows = 0;
    for (int64_t rank = 0; rank < tensor_ranks_; ++rank) {
      weights_.push_back(weights_of(rank));
      const auto found = weights_.back().find("0.word_embeddings.weight");
      const std::string where = files_.pipelined() ? neox_layer_file(0, rank) : neox_model_states_file(rank);
      require(found != weights_.back().end(), ErrorKind::data, "{}: word_embeddings.weight is missing", beside(where));
      require(found->second.first.shape.size() == 2, ErrorKind::data,
              "{}: word_embeddings.weight has shape {}, expected "
              "rows and columns",
              *found->second.second, found->second.first.shape);
      rows += found->second.first.shape[0];
    }
    const auto args = states(0).root().find("args");
    const auto padded = args && args->is_dict() ? args->find("padded_vocab_size") : std::nullopt;
    if (padded && padded->integer() != rows)
      padded->fail_with(fmt::format("is {}, and word_embeddings.weight has {} rows over {} tensor ranks",
                                    padded->integer(), rows, tensor_ranks_));
    return rows;
  }

  Weights weights_of(int64_t tensor_rank) const {
    Weights weights;
    const auto add = [&](const std::string& name, const TorchValue& value, const std::string& file) {
      if (is_neox_buffer(name)) return;
      const auto [at, added] = weights.emplace(neox_name(name), std::pair(value.tensor(), &file));
      if (!added)
        value.fail_with(fmt::format("stands twice, also as {} in {}", at->second.first.name, *at->second.second));
    };
    if (files_.pipelined()) {
      for (const auto& [place, file] : layers_) {
        if (place.second != tensor_rank) continue;
        for (const auto& [key, value] : file.root().entries())
          add(fmt::format("{}.{}", place.first, key), value, file.path());
      }
      return weights;
    }
    for (const auto& [key, value] : states(tensor_rank).root().at("module").entries())
      add(key, value, states(tensor_rank).path());
    return weights;
  }

  void read_weights() {
    std::vector<std::string> faults;
    check_layers(faults);
    for (int64_t rank = 0; rank < tensor_ranks_; ++rank) {
      Weights& weights = weights_[static_cast<size_t>(rank)];
      for (const NeoxRule& rule : rules_) {
        const Shape& expected = tables_[static_cast<size_t>(rank)].find(rule.ours).shape;
        const auto found = weights.find(rule.theirs);
        if (found == weights.end()) {
          const std::string file =
              files_.pipelined() ? neox_layer_file(rule.layer, rank) : neox_model_states_file(rank);
          if (!files_.pipelined() || files_.layers.contains({rule.layer, rank}))
            faults.push_back(fmt::format("{}: {} is missing, expected {}", file, rule.key(), expected.to_string()));
          continue;
        }
        const auto& [tensor, file] = found->second;
        check_tensor(tensor, *file, std::string(rule.key()), expected, faults);
        weights.extract(found);
      }
      for (const auto& [name, weight] : weights)
        faults.push_back(fmt::format("{}: {} is unexpected, {} {}", fs::path(*weight.second).filename().string(), name,
                                     weight.first.dtype, weight.first.shape));
    }
    require(faults.empty(), ErrorKind::data, "{} does not fit its configs ({}):\n  {}", path(),
            count_text(faults.size(), "tensor"), fmt::join(faults, "\n  "));
  }

  /// Files that are missing or too many.
  void check_layers(std::vector<std::string>& faults) const {
    if (!files_.pipelined()) return;
    for (const NeoxRule& rule : rules_) {
      for (int64_t rank = 0; rank < tensor_ranks_; ++rank) {
        const std::string line = neox_layer_file(rule.layer, rank) + ": the file is missing";
        if (!files_.layers.contains({rule.layer, rank}) && (faults.empty() || faults.back() != line))
          faults.push_back(line);
      }
    }
    for (const auto& [place, file] : files_.layers) {
      if (place.first > neox_last_layer(spec_))
        faults.push_back(fmt::format("{}: a layer too many, a model of {} ends with layer {}",
                                     fs::path(file).filename().string(), count_text(spec_.layers, "layer"),
                                     neox_last_layer(spec_)));
    }
  }

  void check_tensor(const TorchTensor& tensor, const std::string& file, const std::string& key, const Shape& expected,
                    std::vector<std::string>& faults) {
    const std::string name = fs::path(file).filename().string();
    std::vector<int64_t> sizes;
    for (int d = 0; d < expected.dims(); ++d) sizes.push_back(expected[d]);
    if (tensor.shape != sizes) {
      faults.push_back(fmt::format("{}: {} has shape {}, expected {}", name, key, tensor.shape, sizes));
    } else if (!is_float_type(tensor.dtype)) {
      faults.push_back(fmt::format("{}: {} has type {}, expected F32, F16, BF16 or F64", name, key, tensor.dtype));
    } else {
      auto source = std::make_unique<ElementSource>();
      source->add(tensor, element_count(tensor.shape), file);
      sources_.push_back(std::move(source));
      return;
    }
    sources_.push_back(nullptr);
  }

  // ---- optimizer

  void read_optimizer() {
    if (!files_.optimizers.empty()) {
      open_data_ranks();
      for (int64_t rank = 0; rank < ranks(); ++rank) {
        std::vector<const TorchArchive*> data_ranks;
        for (int64_t data = 0; data < data_ranks_; ++data) data_ranks.push_back(&archives_.at({rank, data}));
        optimizers_.push_back(std::make_unique<NeoxOptimizer>(data_ranks, groups_of(rank)));
      }
    } else if (states(0).root().find("optimizer")) {
      for (int64_t rank = 0; rank < ranks(); ++rank)
        optimizers_.push_back(
            std::make_unique<NeoxOptimizer>(states(rank).root().at("optimizer"), groups_of(rank), states(rank).path()));
    }
    for (const auto& optimizer : optimizers_) {
      const auto rank = static_cast<int64_t>(&optimizer - optimizers_.data());
      require(optimizer->step() == optimizers_.front()->step(), ErrorKind::data,
              "{}: Adam made {} updates by the files of mp_rank {:02}, {} by those of mp_rank 00: the files are of "
              "different steps",
              path(), optimizer->step(), rank, optimizers_.front()->step());
    }
    if (has_optimizer()) check_states();
  }

  void open_data_ranks() {
    data_ranks_ = 1;
    const auto said = states(0).root().find("dp_world_size");
    for (const auto& [place, file] : files_.optimizers) data_ranks_ = std::max(data_ranks_, place.second + 1);
    if (said && said->integer() > 0) data_ranks_ = said->integer();
    const std::string by = said ? fmt::format("dp_world_size is {} in {}", data_ranks_, neox_model_states_file(0))
                                : fmt::format("others are of {}", count_text(data_ranks_, "data rank"));
    const bool bf16 = fs::path(files_.optimizers.begin()->second).filename().string().starts_with("bf16_");
    for (const auto& [place, file] : files_.optimizers) {
      require(place.first < ranks() && place.second < data_ranks_, ErrorKind::data,
              "{}: a file too many, {} and the folder has {} mp_rank files", file, by, ranks());
    }
    for (int64_t rank = 0; rank < ranks(); ++rank) {
      for (int64_t data = 0; data < data_ranks_; ++data) {
        const auto file = files_.optimizers.find({rank, data});
        require(file != files_.optimizers.end(), ErrorKind::data, "{} is missing; {}",
                beside(neox_optimizer_file(data, rank, bf16)), by);
        archives_.try_emplace({rank, data}, file->second);
      }
    }
  }

  NeoxGroups groups_of(int64_t rank) const {
    const auto said = states(rank).root().find("param_shapes");
    if (!said) return derived_groups(rank);
    NeoxGroups groups;
    for (const TorchValue& group : said->is_dict() ? std::vector{*said} : said->items()) {
      groups.emplace_back();
      for (const auto& [name, shape] : group.entries())
        groups.back().push_back({neox_name(name), shape.sizes(), shape.path()});
    }
    return groups;
  }

  /// Without ZeRO the shapes are not saved: the stages of the pipeline are as long as their states.
  NeoxGroups derived_groups(int64_t rank) const {
    const int64_t stage = rank / tensor_ranks_, tensor_rank = rank % tensor_ranks_;
    const ParameterTable& table = tables_[static_cast<size_t>(tensor_rank)];
    const auto count = [&](const NeoxRule& rule) { return static_cast<uint64_t>(table.find(rule.ours).shape.count()); };
    auto next = rules_.begin();
    std::vector<const NeoxRule*> own;
    for (int64_t s = 0; s <= stage; ++s) {
      own.clear();
      const TorchValue optimizer = states(s * tensor_ranks_ + tensor_rank).root().at("optimizer");
      const uint64_t all = neox_state_elements(optimizer);
      uint64_t taken = 0;
      if (spec_.tied_head && s > 0 && s + 1 == stages()) {
        own.push_back(&rules_.front());
        taken = count(rules_.front());
      }
      for (; next != rules_.end() && taken < all; ++next) {
        own.push_back(&*next);
        taken += count(*next);
      }
      if (taken != all)
        optimizer.fail_with(fmt::format("holds {} elements; the parameters from layer {} on have {} or more", all,
                                        own.empty() ? 0 : own.front()->layer, taken));
    }
    const size_t groups = optimizer_groups(states(rank).root().at("optimizer"));
    NeoxGroups out(groups);
    for (const NeoxRule* rule : own) {
      const Shape& shape = table.find(rule->ours).shape;
      NeoxShape entry{rule->theirs, {}, states(rank).path()};
      for (int d = 0; d < shape.dims(); ++d) entry.shape.push_back(shape[d]);
      out[groups > 1 && shape.dims() < 2 ? 1 : 0].push_back(std::move(entry));
    }
    return out;
  }

  static size_t optimizer_groups(const TorchValue& optimizer) {
    const TorchValue inner = optimizer.find("optimizer_state_dict").value_or(optimizer),
                     groups = inner.at("param_groups");
    const size_t count = groups.items().size();
    if (count < 1 || count > 2)
      groups.fail_with(fmt::format("has {} groups, expected one or two: with weight decay and without", count));
    return count;
  }

  void check_states() const {
    std::vector<std::string> faults;
    for (int64_t rank = 0; rank < tensor_ranks_; ++rank) {
      for (const NeoxRule& rule : rules_) {
        if (!state_of(rule, rank)) faults.push_back(fmt::format("{} of tensor rank {}: no state", rule.theirs, rank));
      }
    }
    for (int64_t rank = 0; rank < ranks(); ++rank) {
      const ParameterTable& table = tables_[static_cast<size_t>(rank % tensor_ranks_)];
      for (const auto& group : groups_of(rank)) {
        for (const NeoxShape& found : group) {
          const auto rule = std::ranges::find(rules_, found.name, &NeoxRule::theirs);
          if (rule == rules_.end()) {
            faults.push_back(fmt::format("{}: {}: the model has no such parameter", states(rank).path(), found.path));
            continue;
          }
          const Shape& shape = table.find(rule->ours).shape;
          std::vector<int64_t> expected;
          for (int d = 0; d < shape.dims(); ++d) expected.push_back(shape[d]);
          if (found.shape != expected)
            faults.push_back(
                fmt::format("{}: {} is {}, expected {}", states(rank).path(), found.path, found.shape, expected));
        }
      }
    }
    require(faults.empty(), ErrorKind::data, "{}: the optimizer's state does not fit the model:\n  {}", path(),
            fmt::join(faults, "\n  "));
  }

  /// Of a parameter of a tensor rank, whichever stage has it.
  const NeoxState* state_of(const NeoxRule& rule, int64_t tensor_rank) const {
    for (int64_t stage = 0; stage < stages(); ++stage) {
      if (const NeoxState* state =
              optimizers_[static_cast<size_t>(stage * tensor_ranks_ + tensor_rank)]->find(rule.theirs))
        return state;
    }
    return nullptr;
  }

  std::vector<NeoxPiece> pieces(const NeoxRule& rule, const ElementSource* NeoxState::*part) const {
    std::vector<NeoxPiece> pieces;
    const auto index = static_cast<size_t>(&rule - rules_.data());
    for (int64_t rank = 0; rank < tensor_ranks_; ++rank) {
      const NeoxState* state = has_optimizer() ? state_of(rule, rank) : nullptr;
      if (state && state->*part) {
        pieces.push_back({state->*part, state->first});
      } else {  // without masters the weights are f32 themselves
        pieces.push_back({sources_[static_cast<size_t>(rank) * rules_.size() + index].get(), 0});
      }
    }
    return pieces;
  }

  // ---- progress

  static int64_t count_or(const TorchValue& root, const char* key, int64_t otherwise) {
    const auto found = root.find(key);
    if (!found) return otherwise;
    const int64_t count = found->integer();
    if (count < 0) found->fail_with(fmt::format("is {}, it must not be negative", count));
    return count;
  }

  void read_progress() {
    const TorchValue root = states(0).root();
    RunCounters& progress = facts_.progress;
    progress.step = count_or(root, "iteration", count_or(root, "global_steps", files_.step.value_or(0)));
    const auto deepspeed = root.find("ds_config");
    int64_t batch = 0;
    if (deepspeed && deepspeed->is_dict()) batch = count_or(*deepspeed, "train_batch_size", 0);
    progress.samples = static_cast<uint64_t>(count_or(root, "global_samples", progress.step * batch));
    progress.skipped = count_or(root, "skipped_steps", 0);
    progress.best_loss = std::numeric_limits<double>::infinity();
    progress.updates = has_optimizer() ? optimizers_.front()->step() : progress.step - progress.skipped;
    facts_.spec = spec_;
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
        notes_.push_back(
            fmt::format("its learning rate stood at step {}, Adam at update {}: the rate goes on from the "
                        "latter",
                        stood, progress.updates));
    }
    if (const double scale = optimizers_.front()->loss_scale(); scale > 0)
      notes_.push_back(fmt::format("its loss scale of {} belongs to fp16: bf16 and f32 need none", scale));
  }

  NeoxFiles files_;
  std::map<int64_t, TorchArchive> model_states_;
  std::map<std::pair<int64_t, int64_t>, TorchArchive> layers_, archives_;
  int64_t tensor_ranks_ = 1, data_ranks_ = 1;
  LoadedConfig loaded_;
  Spec spec_;
  std::vector<NeoxRule> rules_;
  std::vector<ParameterTable> tables_;                      // by tensor rank
  std::vector<Weights> weights_;                            // by tensor rank; not matched by any rule
  std::vector<std::unique_ptr<ElementSource>> sources_;     // by tensor rank, then rule
  std::vector<std::unique_ptr<NeoxOptimizer>> optimizers_;  // by mp_rank
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

}  // namespace trireme
