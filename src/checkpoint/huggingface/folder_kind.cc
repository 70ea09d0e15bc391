#include "checkpoint/huggingface/folder_kind.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "checkpoint/huggingface/family.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostConfigBytes = size_t{16} << 20;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::optional<int64_t> number(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// STEM[.VARIANT][-00001-of-00003].ENDING
struct WeightName {
  std::string variant;
  int64_t shard = 0, shards = 0;  ///< 0: not sharded
};

std::optional<WeightName> read_name(std::string_view name, std::string_view stem, std::string_view ending) {
  if (!name.starts_with(stem) || !name.ends_with(ending) || name.size() < stem.size() + ending.size())
    return std::nullopt;
  std::string_view middle = name.substr(stem.size(), name.size() - stem.size() - ending.size());
  WeightName read;
  constexpr std::string_view kOf = "-of-";
  if (const size_t of = middle.rfind(kOf); of != middle.npos) {
    const std::string_view before = middle.substr(0, of);
    const size_t dash = before.rfind('-');
    if (dash == before.npos) return std::nullopt;
    const auto shard = number(before.substr(dash + 1)), shards = number(middle.substr(of + kOf.size()));
    if (!shard || !shards || *shard < 1 || *shard > *shards) return std::nullopt;
    read.shard = *shard;
    read.shards = *shards;
    middle = before.substr(0, dash);
  }
  if (!middle.empty() && !middle.starts_with('.')) return std::nullopt;
  read.variant = middle.empty() ? "" : middle.substr(1);
  if (read.variant.find('.') != std::string::npos) return std::nullopt;
  return read;
}

/// The files of one variant and number of shards.
struct WeightSet {
  std::map<int64_t, std::string> files;  // by shard
  int64_t shards = 0;
};

std::vector<std::string> complete(const std::string& folder, const WeightSet& set) {
  std::vector<std::string> paths, missing;
  for (const auto& [shard, name] : set.files) paths.push_back((fs::path(folder) / name).string());
  if (set.shards == 0) return paths;
  for (int64_t shard = 1; shard <= set.shards; ++shard) {
    if (!set.files.contains(shard)) missing.push_back(std::to_string(shard));
  }
  require(missing.empty(), ErrorKind::io, "{}: found {} of weights, but {} of {} are missing; copy the missing files",
          folder, count_text(set.files.size(), "shard"), fmt::join(missing, ", "), set.shards);
  return paths;
}

struct OtherWeights {
  const char* ending;
  const char* what;
  const char* to_do;
};
constexpr OtherWeights kOthers[] = {
    {".gguf", "a GGUF file of llama.cpp", "use the model from which it was made, or give the path of the file itself"},
    {".h5", "weights of TensorFlow (Keras)",
     "in Python: AutoModel.from_pretrained(FOLDER, from_tf=True).save_pretrained(NEW), with the class of its head"},
    {".ckpt.index", "a checkpoint of TensorFlow 1",
     "`transformers-cli convert` or transformers' convert_bert_original_tf_checkpoint_to_pytorch.py converts it to "
     "pytorch_model.bin"},
    {".msgpack", "weights of Flax",
     "in Python: AutoModel.from_pretrained(FOLDER, from_flax=True).save_pretrained(NEW), with the class of its head"},
    {".onnx", "an ONNX graph", "use the model from which it was exported"},
    {".ot", "weights of rust-bert", "use model.safetensors or pytorch_model.bin of the same model"},
    {".tflite", "a TensorFlow Lite graph", "use the model from which it was made"},
    {".nemo", "an archive of NeMo", "export it to a Hugging Face folder with NeMo"},
    {".distcp", "a sharded checkpoint of PyTorch (FSDP)",
     "`accelerate merge-weights FOLDER NEW` makes model.safetensors"},
};

/// The files that Meta and Mistral publish beside the Hugging Face ones.
void refuse_original_weights(const std::string& folder, const std::vector<std::string>& names) {
  const bool found = std::ranges::any_of(names, [](const std::string& name) {
    return name.starts_with("consolidated") && (name.ends_with(".pth") || name.ends_with(".safetensors"));
  });
  if (!found || !fs::exists(folder + "/params.json")) return;
  fail(ErrorKind::data,
       "{}: weights in the form of Meta or Mistral (params.json, consolidated...), which is not supported; use the "
       "model's Hugging Face folder, or convert it with transformers' convert_llama_weights_to_hf.py",
       folder);
}

bool is_state_of_trainer(std::string_view name) {
  constexpr std::string_view kStates[] = {"training_args", "optimizer", "scheduler", "rng_state", "scaler"};
  return std::ranges::any_of(kStates, [&](std::string_view state) { return name.starts_with(state); });
}

/// With a configuration, a file that may be the weights under another name.
void refuse_other_name(const std::string& folder, const std::vector<std::string>& names) {
  if (!fs::exists(folder + "/config.json")) return;
  for (const auto& [ending, plain] : {std::pair{".safetensors", "model.safetensors"},
                                      {".bin", "pytorch_model.bin"},
                                      {".pt", "pytorch_model.bin"},
                                      {".pth", "pytorch_model.bin"},
                                      {".ckpt", "pytorch_model.bin"}}) {
    std::vector<std::string> found;
    std::ranges::copy_if(names, std::back_inserter(found), [&, &ending = ending](const std::string& name) {
      return name.ends_with(ending) && !is_state_of_trainer(name);
    });
    if (found.empty()) continue;
    fail(ErrorKind::data,
         "{0} has config.json, but no weights under a name that Hugging Face uses; if {1} holds them, run "
         "`cp {0}/{2} {0}/{3}`",
         folder, fmt::join(found, ", "), found.front(), plain);
  }
}

bool is_model_folder(const fs::path& folder) {
  return fs::exists(folder / "config.json") && holds_huggingface_weights(folder.string());
}

/// Folders in this one that are a model, or hold one of the other formats: a copied cache of the hub has
/// snapshots/HASH.
void refuse_models_below(const std::string& folder, const std::vector<std::string>& names) {
  const bool is_run = std::ranges::any_of(
      names, [](const std::string& name) { return name.starts_with("step-") || name == "status.json"; });
  if (is_run || fs::exists(folder + "/config.json")) return;
  std::vector<std::string> below;
  for (const std::string& name : names) {
    const fs::path path = fs::path(folder) / name;
    if (is_model_folder(path)) below.push_back(path.string());
    if (name != "snapshots") continue;
    for (const std::string& snapshot : names_in(path.string())) {
      if (is_model_folder(path / snapshot)) below.push_back((path / snapshot).string());
    }
  }
  require(below.empty(), ErrorKind::data, "{} is not a model itself, but {} in it {}: {}; name {}", folder,
          count_text(below.size(), "folder"), below.size() == 1 ? "is" : "are", fmt::join(below, ", "),
          below.size() == 1 ? "that one" : "one of them");
}

void refuse_adapter(const std::string& folder) {
  const std::string path = folder + "/adapter_config.json";
  if (!fs::exists(path)) return;
  const Json config = read_json(path, kMostConfigBytes);
  const std::string kind = config.is_object() ? config.value("peft_type", Json("LORA")).dump() : "\"LORA\"";
  const auto base = config.find("base_model_name_or_path");
  const std::string of = base != config.end() && base->is_string() ? base->get<std::string>() : "its base model";
  fail(ErrorKind::data,
       "{0} is an adapter (PEFT, {1}) of {2}, not a complete model; name the model, and the adapter beside it: "
       "`trireme sample --model MODEL --adapter {0}`; `trireme export --model MODEL --adapter {0} --merge --output "
       "NEW` makes one model of both",
       folder, kind, of);
}

/// Fields that one family alone has in its config.json.
struct FamilyField {
  const char* field;
  const char* model_type;
};
constexpr FamilyField kFamilyFields[] = {{"n_embd", "gpt2"},
                                         {"n_layer", "gpt2"},
                                         {"ffn_dim", "opt"},
                                         {"do_layer_norm_before", "opt"},
                                         {"rotary_pct", "gpt_neox"},
                                         {"use_parallel_residual", "gpt_neox"},
                                         {"sinusoidal_pos_embds", "distilbert"},
                                         {"qa_dropout", "distilbert"},
                                         {"hidden_dim", "distilbert"}};

/// BERT's has two token types, RoBERTa's one.
std::optional<std::string> encoder_type(const Json& config) {
  const auto types = config.find("type_vocab_size");
  if (types == config.end() || !config.contains("num_hidden_layers") || !types->is_number_integer())
    return std::nullopt;
  if (types->get<int64_t>() >= 2) return "bert";
  return std::nullopt;
}

std::set<std::string> possible_types(const Json& config) {
  std::set<std::string> types;
  const auto named = config.find("architectures");
  if (named != config.end() && named->is_array()) {
    for (const Family* family : families()) {
      for (const Architecture& architecture : family->architectures) {
        if (std::ranges::find(*named, Json(architecture.name)) != named->end()) types.insert(family->model_type);
      }
    }
    if (!types.empty()) return types;
    if (!named->empty()) return {};  // a model of another family
  }
  for (const auto& [field, type] : kFamilyFields) {
    if (config.contains(field)) types.insert(type);
  }
  if (types.empty()) {
    if (const auto type = encoder_type(config)) types.insert(*type);
  }
  return types;
}

/// Empty: the folder is not one of checkpoints.
std::string newest_trainer_checkpoint(const std::string& folder) {
  constexpr std::string_view kPrefix = "checkpoint-";
  if (holds_huggingface_weights(folder) || fs::exists(folder + "/adapter_config.json")) return {};
  int64_t newest = -1;
  std::string path;
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with(kPrefix)) continue;
    const auto step = number(std::string_view(name).substr(kPrefix.size()));
    const std::string step_folder = (fs::path(folder) / name).string();
    const bool is_model = fs::exists(step_folder + "/config.json") || fs::exists(step_folder + "/adapter_config.json");
    if (!step || *step <= newest || !is_model) continue;
    newest = *step;
    path = step_folder;
  }
  return path;
}

}  // namespace

std::vector<std::string> find_unnamed_weights(const std::string& folder) {
  for (const auto& [stem, ending] : {std::pair{"model", ".safetensors"}, {"pytorch_model", ".bin"}}) {
    std::map<std::pair<std::string, int64_t>, WeightSet> sets;
    for (const std::string& name : names_in(folder)) {
      const auto read = read_name(name, stem, ending);
      if (!read) continue;
      WeightSet& set = sets[{read->variant, read->shards}];
      set.shards = read->shards;
      set.files[read->shard] = name;
    }
    if (sets.empty()) continue;
    std::vector<std::string> names;
    for (const auto& [key, set] : sets) names.push_back(set.files.begin()->second);
    require(sets.size() == 1, ErrorKind::data,
            "{} holds several variants of the weights, but none is named {}{}: {}; rename the one to use", folder, stem,
            ending, fmt::join(names, ", "));
    std::vector<std::string> paths = complete(folder, sets.begin()->second);
    log::write_once(log::Level::info,
                    fmt::format("{}: reading the weights from {}{}", folder, names.front(),
                                paths.size() > 1 ? fmt::format(" and {} more", paths.size() - 1) : ""));
    return paths;
  }
  return {};
}

bool holds_huggingface_weights(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder);
  return std::ranges::any_of(names, [](const std::string& name) {
    return read_name(name, "model", ".safetensors") || read_name(name, "pytorch_model", ".bin") ||
           name == "model.safetensors.index.json" || name == "pytorch_model.bin.index.json";
  });
}

std::string plain_model_folder(const std::string& folder) {
  const std::string newest = newest_trainer_checkpoint(folder);
  if (!newest.empty())
    log::write_once(
        log::Level::info,
        fmt::format("{} is a folder of checkpoints of transformers' Trainer; using the newest: {}", folder, newest));
  const std::string& chosen = newest.empty() ? folder : newest;
  refuse_other_folder(chosen);
  return chosen;
}

void refuse_other_folder(const std::string& folder) {
  if (holds_huggingface_weights(folder) && fs::exists(folder + "/config.json")) {
    if (fs::exists(folder + "/adapter_config.json"))
      log::write_once(log::Level::warning,
                      fmt::format("{}: the adapter in this folder (adapter_config.json) is not applied", folder));
    return;
  }
  refuse_adapter(folder);
  const std::vector<std::string> names = names_in(folder);
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  if (holds_huggingface_weights(folder) && has("bert_config.json"))
    fail(ErrorKind::data,
         "{0} has bert_config.json, an old name of the configuration, but no config.json; run `cp {0}/bert_config.json "
         "{0}/config.json`",
         folder);
  if (holds_huggingface_weights(folder)) return;
  for (const OtherWeights& other : kOthers) {
    const auto found =
        std::ranges::find_if(names, [&](const std::string& name) { return name.ends_with(other.ending); });
    if (found == names.end()) continue;
    fail(ErrorKind::data, "{}/{}: {}, which is not supported; {}", folder, *found, other.what, other.to_do);
  }
  refuse_original_weights(folder, names);
  refuse_other_name(folder, names);
  refuse_models_below(folder, names);
  for (const std::string& name : names) {  // onnx/model.onnx, pytorch_model_fsdp_0/__0_0.distcp
    if (name == "onnx" || name.starts_with("pytorch_model_fsdp"))
      refuse_other_folder((fs::path(folder) / name).string());
  }
}

Json read_model_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  Json config = read_json(path, kMostConfigBytes);
  require(config.is_object(), ErrorKind::data, "{}: expected an object, found {}", path, config.type_name());
  const auto said = config.find("model_type");
  if (said != config.end() && !said->is_null()) return config;
  const std::set<std::string> types = possible_types(config);
  std::vector<std::string> known;
  for (const Family* family : families()) known.emplace_back(family->model_type);
  require(types.size() == 1, ErrorKind::data,
          "{}: \"model_type\" is missing, and neither \"architectures\" nor the other fields identify the family; add "
          "\"model_type\" with one of {}",
          path, fmt::join(known, ", "));
  config["model_type"] = *types.begin();
  log::write_once(log::Level::info,
                  fmt::format("{}: model_type is missing; its {} indicate {}", path,
                              config.contains("architectures") ? "architectures" : "fields", *types.begin()));
  return config;
}

}  // namespace trireme
