#include "train/glue/model.h"

#include <fmt/ranges.h>

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/folder_kind.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/model_folder.h"
#include "hub/place.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",        "vocab.txt",        "vocab.json", "merges.txt", "special_tokens_map.json",
    "tokenizer_config.json", "added_tokens.json"};

constexpr size_t kMostConfigBytes = size_t{16} << 20;

Json labelled_config(const std::string& path, const GlueTask& task) {
  Json config = read_json(path, kMostConfigBytes);
  if (task.name != "None") config["finetuning_task"] = task.name;
  config["problem_type"] = task.regression() ? "regression" : "single_label_classification";
  if (task.regression()) return config;
  Json names = Json::object(), ids = Json::object();  // appended to: a search of each name takes minutes for 100,000
  for (size_t i = 0; i < task.labels.size(); ++i) {
    names.get_ref<Json::object_t&>().emplace_back(std::to_string(i), task.labels[i]);
    ids.get_ref<Json::object_t&>().emplace_back(task.labels[i], i);
  }
  config["id2label"] = names;
  config["label2id"] = ids;
  return config;
}

/// Lower-case names of the classes of the folder's head; empty if they are only numbered.
std::vector<std::string> class_names(const Json& config) {
  std::vector<std::string> names;
  const auto labels = config.find("id2label");
  if (labels == config.end() || !labels->is_object()) return {};
  std::unordered_map<std::string_view, const Json*> by_id;
  for (const auto& [id, name] : labels->items()) by_id.emplace(id, &name);
  for (size_t i = 0; i < labels->size(); ++i) {
    const auto name = by_id.find(std::to_string(i));
    if (name == by_id.end() || !name->second->is_string()) return {};
    names.push_back(lower_case(name->second->get<std::string>()));
    if (names.back() == fmt::format("label_{}", i)) return {};
  }
  return names;
}

std::vector<int64_t> class_order(const Json& config, const GlueTask& task, const std::string& where) {
  const std::vector<std::string> theirs = class_names(config);
  if (theirs.empty() || task.regression()) return {};
  std::vector<int64_t> order;
  std::unordered_map<std::string_view, int64_t> place;  // of the first of equal names
  for (size_t i = 0; i < theirs.size(); ++i) place.emplace(theirs[i], static_cast<int64_t>(i));
  for (const std::string& label : task.labels) {
    const auto found = place.find(lower_case(label));
    if (found != place.end()) order.push_back(found->second);
  }
  if (theirs.size() != task.labels.size()) return {};  // the head is re-initialized, which is logged when it is loaded
  if (order.size() == task.labels.size() && order.size() == theirs.size())
    return std::ranges::is_sorted(order) ? std::vector<int64_t>() : order;
  log::write_once(
      log::Level::warning,
      fmt::format("{}: the model was fine-tuned on the classes {}, but the rows have the classes {}, in this order",
                  where, fmt::join(theirs, ", "), fmt::join(task.labels, ", ")));
  return {};
}

/// Reads the whole head again: in a sharded state no rank has all of it.
void reorder_classes(const PretrainedModel& model, const ParameterTable& table, TrainingState& state) {
  const std::vector<int64_t>& order = model.class_order;
  const int64_t layers = model.spec.layers;
  const ParameterTable last(model.spec, InitScheme::gpt2, {.part = {layers - 1, layers, false, true}});
  TrainingState read(last, DType::f32, false);
  load_huggingface(model.folder, model.spec, last, read, MissingHead::keep);
  for (const char* name : {"head.out.weight", "head.out.bias"}) {
    const Parameter* own = table.look_up(name);
    if (!own) continue;
    const Parameter& parameter = last.find(name);
    const auto count = static_cast<size_t>(parameter.stored_shape.count()), width = count / order.size();
    std::vector<float> theirs(count), ours(count);
    read.read_master(parameter, theirs);
    for (size_t i = 0; i < order.size(); ++i)
      std::copy_n(theirs.begin() + static_cast<ptrdiff_t>(order[i] * static_cast<int64_t>(width)), width,
                  ours.begin() + static_cast<ptrdiff_t>(i * width));
    state.write_master(*own, ours);
  }
}

void set_dropout(PretrainedModel& model, const GlueOptions& options) {
  if (!options.loaded.given("model.dropout")) return;
  model.spec.embedding_dropout = model.spec.attention_dropout = model.spec.residual_dropout = model.spec.head_dropout =
      static_cast<float>(options.config().model.dropout);
}

/// Once the tokenizer is known.
void set_padding(PretrainedModel& model, const std::string& source) {
  require(static_cast<int64_t>(model.tokenizer->vocabulary_size()) <= model.spec.vocabulary, ErrorKind::config,
          "the tokenizer has {} ids, but the model of {} has only {}; use the tokenizer of this model",
          model.tokenizer->vocabulary_size(), source, model.spec.vocabulary);
  for (const char* name : {"[PAD]", "<pad>"}) {
    if (const auto id = model.tokenizer->token_to_id(name)) model.padding = static_cast<int32_t>(*id);
  }
}

/// Whether config.json and tokenizer of the model can still be read.
bool is_still_there(const std::string& model, const std::string& tokenizer) {
  if (!hub::still_to_fetch({.model = model, .tokenizer = tokenizer}).empty()) return false;
  return fs::exists(hub::place_of_model(model).path + "/config.json") &&
         (tokenizer.empty() || fs::exists(hub::place_of_tokenizer(tokenizer).path));
}

}  // namespace

PretrainedModel resumed_model(const GlueOptions& options, const GlueTask& task, const CheckpointFolder& resume) {
  if (is_still_there(options.config().model.init, options.config().data.tokenizer) ||
      resume.facts.tokenizer_json.empty())
    return open_pretrained(options, task);
  log::write_once(log::Level::info, fmt::format("the model {} no longer exists; model and tokenizer are taken from {}",
                                                options.config().model.init, resume.path));
  PretrainedModel model{{}, resume.facts.spec, nullptr, 0, {}};
  model.spec.classes = task.classes();
  set_dropout(model, options);
  model.tokenizer = tokenizer_from_json(resume.facts.tokenizer_json, resume.path + "/tokenizer.json");
  set_padding(model, options.config().model.init);
  model.generation = resume.facts.generation;
  return model;
}

PretrainedModel open_pretrained(const GlueOptions& options, const GlueTask& task) {
  require_no_file(options.config().model.init);
  const hub::Place place = hub::place_of_model(options.config().model.init);
  const std::string folder = plain_model_folder(place.path);
  const std::string config_path = folder + "/config.json";
  require(fs::exists(config_path), ErrorKind::io,
          "{} is missing: --model takes a Hugging Face folder with config.json, weights and tokenizer; `trireme "
          "export` makes one from a run{}",
          config_path, place.why_not);
  PretrainedModel model{folder, read_huggingface_spec(folder, HeadKind::classifier), nullptr, 0, {}};
  model.spec.classes = task.classes();
  const Json config = read_json(config_path, kMostConfigBytes);
  model.class_order = class_order(config, task, config_path);
  if (options.config().data.tokenizer.empty()) model.generation = read_generation_files(folder, config);
  set_dropout(model, options);
  model.tokenizer = load_tokenizer(options.config().data.tokenizer.empty() ? folder : options.config().data.tokenizer,
                                   options.tokenizer_load);
  set_padding(model, options.config().model.init);
  return model;
}

bool load_pretrained(const PretrainedModel& model, const ParameterTable& table, uint64_t seed, TrainingState& state,
                     bool renews) {
  initialize(state, table, seed);
  const MissingHead head = renews ? MissingHead::renew : MissingHead::keep;
  const bool head_is_new = !load_huggingface(model.folder, model.spec, table, state, head).empty();
  if (!model.class_order.empty() && !head_is_new) reorder_classes(model, table, state);
  return head_is_new;
}

void warn_of_untrained_head(const PretrainedModel& model, bool head_is_new, const GlueTask& task) {
  const Json config = read_json(model.folder + "/config.json", kMostConfigBytes);
  const std::string why = why_untrained(config, head_is_new, task);
  if (why.empty()) return;
  const std::string wanted = task.name == "ax" ? "mnli" : task.name == "None" ? "these rows" : task.name;
  log::write_once(log::Level::warning,
                  fmt::format("{} was not trained on {}: {}. Its predictions are meaningless; fine-tune it first "
                              "(--do_train{}), or name a model that was",
                              model.folder, wanted, why, task.name == "None" ? "" : " --task_name " + wanted));
}

void write_model(const std::string& folder, const PretrainedModel& model, const GlueTask& task,
                 const ParameterTable& table, const TrainingState& state) {
  const std::string part = folder + "/.model-part";
  fs::remove_all(part);
  export_huggingface(part, model.spec, table, state, model.tokenizer->json(), DType::f32, {}, model.generation);
  for (const char* name : kTokenizerFiles) {
    const fs::path from = fs::path(model.folder) / name;
    std::error_code error;
    if (!model.folder.empty() && fs::exists(from))
      fs::copy_file(from, fs::path(part) / name, fs::copy_options::overwrite_existing, error);
    require(!error, ErrorKind::io, "cannot copy {} to {}: {}", from.string(), folder, error.message());
  }
  write_text(part + "/config.json", dump_json(labelled_config(part + "/config.json", task), 2) + "\n");
  for (const auto& entry : fs::directory_iterator(part)) {
    std::error_code error;
    fs::rename(entry.path(), fs::path(folder) / entry.path().filename(), error);
    require(!error, ErrorKind::io, "cannot write {} to {}: {}", entry.path().filename().string(), folder,
            error.message());
  }
  fs::remove_all(part);
}

namespace {

/// "mnli" of "MNLI", "glue:mnli" and "mnli-mm".
std::string plain_task(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon != std::string_view::npos) name.remove_prefix(colon + 1);
  std::string plain = lower_case(name);
  std::erase_if(plain, [](char c) { return c == '-' || c == '_'; });
  if (plain.starts_with("glue")) plain.erase(0, 4);
  return plain == "mnlimm" ? "mnli" : plain;
}

/// Whether the head's classes have the names of the task's classes, in any order.
bool has_classes_of(const Json& config, const GlueTask& task) {
  const auto names = config.find("id2label");
  if (names == config.end() || !names->is_object()) return false;
  std::vector<std::string> theirs, ours;
  for (const auto& name : *names) {
    if (!name.is_string()) return false;
    theirs.push_back(plain_task(name.get<std::string>()));
  }
  for (const std::string& name : task.labels) ours.push_back(plain_task(name));
  std::ranges::sort(theirs);
  std::ranges::sort(ours);
  return theirs == ours;
}

constexpr const char* kNoClassifier = "it has no classifier, so a new one gets random weights";

}  // namespace

std::string why_untrained(const Json& config, bool head_is_new, const GlueTask& task) {
  const std::string wanted = task.name == "ax" ? "mnli" : task.name;
  const auto recorded = config.find("finetuning_task");
  if (recorded != config.end() && recorded->is_string() && !recorded->get<std::string>().empty()) {
    const std::string task_there = plain_task(recorded->get<std::string>());
    if (head_is_new && task_there != wanted)
      return fmt::format("it was fine-tuned on {}, whose classifier does not fit, so a new one gets random weights",
                         task_there);
    if (head_is_new) return kNoClassifier;
    if (task.name == "None") return "";
    return task_there == wanted ? "" : fmt::format("it was fine-tuned on {}", task_there);
  }
  if (head_is_new) return kNoClassifier;
  if (task.name != "ax" || has_classes_of(config, task)) return "";
  return "its config.json has neither finetuning_task mnli nor the classes entailment, neutral, contradiction";
}

}  // namespace trireme
