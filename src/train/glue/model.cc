#include "train/glue/model.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/family.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/model_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",        "vocab.txt",        "vocab.json", "merges.txt", "special_tokens_map.json",
    "tokenizer_config.json", "added_tokens.json"};

Json labelled_config(const std::string& path, const GlueTask& task) {
  Json config = read_json(path, size_t{16} << 20);
  if (task.name != "None") config["finetuning_task"] = task.name;
  config["problem_type"] = task.regression() ? "regression" : "single_label_classification";
  if (task.regression()) return config;
  Json names, ids;
  for (size_t i = 0; i < task.labels.size(); ++i) {
    names[std::to_string(i)] = task.labels[i];
    ids[task.labels[i]] = i;
  }
  config["id2label"] = names;
  config["label2id"] = ids;
  return config;
}

}  // namespace

PretrainedModel open_pretrained(const GlueOptions& options, int64_t classes) {
  require_no_file(options.model);
  const std::string config_path = options.model + "/config.json";
  require(fs::exists(config_path), ErrorKind::io,
          "no {}: --model takes a Hugging Face folder with config.json, weights and tokenizer; `trireme export` makes "
          "one of a run, names of models on the hub are not fetched",
          config_path);
  PretrainedModel model{options.model, read_huggingface_spec(options.model, HeadKind::classifier), nullptr, 0};
  model.spec.classes = classes;
  if (options.native.given("model.dropout")) {
    model.spec.embedding_dropout = model.spec.attention_dropout = model.spec.residual_dropout =
        model.spec.head_dropout = static_cast<float>(options.native.config.model.dropout);
  }
  model.tokenizer = load_tokenizer(options.tokenizer.empty() ? options.model : options.tokenizer);
  require(static_cast<int64_t>(model.tokenizer->vocabulary_size()) <= model.spec.vocabulary, ErrorKind::config,
          "the tokenizer has {} ids, the model of {} only {}; they do not belong together",
          model.tokenizer->vocabulary_size(), options.model, model.spec.vocabulary);
  for (const char* name : {"[PAD]", "<pad>"}) {
    if (const auto id = model.tokenizer->token_to_id(name)) model.padding = static_cast<int32_t>(*id);
  }
  return model;
}

void load_pretrained(const PretrainedModel& model, const ParameterTable& table, uint64_t seed, TrainingState& state) {
  initialize(state, table, seed);
  load_huggingface(model.folder, model.spec, table, state, MissingHead::keep);
}

void write_model(const std::string& folder, const PretrainedModel& model, const GlueTask& task,
                 const ParameterTable& table, const TrainingState& state) {
  const std::string part = folder + "/.model-part";
  fs::remove_all(part);
  export_huggingface(part, model.spec, table, state, model.tokenizer->json(), DType::f32);
  for (const char* name : kTokenizerFiles) {
    const fs::path from = fs::path(model.folder) / name;
    std::error_code error;
    if (fs::exists(from)) fs::copy_file(from, fs::path(part) / name, fs::copy_options::overwrite_existing, error);
    require(!error, ErrorKind::io, "cannot copy {} to {}: {}", from.string(), folder, error.message());
  }
  write_text(part + "/config.json", labelled_config(part + "/config.json", task).dump(2) + "\n");
  for (const auto& entry : fs::directory_iterator(part)) {
    std::error_code error;
    fs::rename(entry.path(), fs::path(folder) / entry.path().filename(), error);
    require(!error, ErrorKind::io, "cannot write {} to {}: {}", entry.path().filename().string(), folder,
            error.message());
  }
  fs::remove_all(part);
}

}  // namespace trireme
