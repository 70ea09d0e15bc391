#include <algorithm>
#include <cassert>
#include <filesystem>
#include <map>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/json_text.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/huggingface/tensor_source.h"
#include "checkpoint/safetensors/safetensors.h"
#include "text/tokenizer.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

/// A tensor of the exported file.
struct Exported {
  SafetensorsEntry entry;
  const Parameter* parameter;  ///< null: ours lacks it, it is zero
  Shape shape;                 ///< ours
  FileLayout layout;
  std::function<std::span<const std::byte>()> carried = {};  ///< of another part of the model: its bytes
  size_t their_count() const {
    size_t count = 1;
    for (const int64_t size : entry.shape) count *= static_cast<size_t>(size);
    return count;
  }
};

std::vector<Exported> plan_export(const Family& family, const Spec& spec, const ParameterTable& table, DType dtype) {
  const std::vector<NamedRule> rules = numbered_rules(family.names, spec.layers);

  std::vector<Exported> tensors;
  const ParameterTable full(family.exported(spec));
  for (const Parameter& parameter : full.all()) {
    const size_t before = tensors.size();
    const Parameter* ours = table.look_up(parameter.name);
    assert(!ours || ours->is_whole());
    std::vector<int64_t> sizes;
    for (int d = 0; d < parameter.stored_shape.dims(); ++d) sizes.push_back(parameter.stored_shape[d]);
    const auto add = [&](const auto& rule) {
      tensors.push_back({{std::string(rule.outside ? "" : family.prefixes.front()) + rule.theirs,
                          dtype == DType::bf16 ? "BF16" : "F32", their_shape(rule.layout, groups_of(spec), sizes)},
                         ours,
                         parameter.stored_shape,
                         rule.layout});
    };
    for (const NamedRule& rule : rules) {
      if (rule.ours == parameter.name) add(rule);
    }
    if (const NameRule* copy = untied_copy(family, spec, parameter.name)) add(*copy);
    require(tensors.size() > before, ErrorKind::config, "cannot export {}: the family {} has no such parameter",
            parameter.name, family.model_type);
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const Exported& a, const Exported& b) { return a.entry.name < b.entry.name; });
  return tensors;
}

/// The tensors under the names that the folder has, with all of its other ones.
void add_other_parts(const Family& family, const TensorSource& base, const std::string& folder,
                     std::vector<Exported>& tensors) {
  std::map<std::string, Exported*> own;  // by plain name
  for (Exported& tensor : tensors) own.emplace(plain_name(family, tensor.entry.name), &tensor);
  std::vector<Exported> others;
  for (const SourceTensor& tensor : base.all()) {
    const std::string plain = plain_name(family, tensor.name);
    if (const auto found = own.find(plain); found != own.end() && !is_of_another_part(family, tensor.name)) {
      found->second->entry.name = tensor.name;
      continue;
    }
    const auto copy = std::ranges::find(family.copies, plain, &NameRule::theirs);
    const auto original = std::ranges::find_if(tensors, [&](const Exported& one) {
      return copy != family.copies.end() && one.parameter && one.parameter->name == copy->ours;
    });
    if (original != tensors.end()) {
      others.push_back(*original);
      others.back().entry.name = tensor.name;
      continue;
    }
    require(
        tensor.bytes != nullptr, ErrorKind::data,
        "{}: {} is of another part of the model, but its file is not one of safetensors, so that its bytes cannot be "
        "carried through; save the model as safetensors first",
        folder, tensor.name);
    others.push_back({{tensor.name, tensor.dtype, tensor.shape}, nullptr, {}, FileLayout::same, tensor.bytes});
  }
  std::ranges::move(others, std::back_inserter(tensors));
  std::ranges::sort(tensors, {}, [](const Exported& one) { return one.entry.name; });
}

void write_weights(const std::string& path, const std::vector<Exported>& tensors, const Spec& spec,
                   const TrainingState& state, DType dtype, const std::function<bool()>& stop) {
  std::vector<SafetensorsEntry> entries;
  for (const Exported& tensor : tensors) entries.push_back(tensor.entry);
  SafetensorsWriter writer(path, std::move(entries), {{"format", "pt"}});
  std::vector<float> ours, theirs;
  std::vector<bf16_t> rounded;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (stop && stop())
      fail(ErrorKind::stopped, "the export was stopped after {} of {}", i, count_text(tensors.size(), "tensor"));
    if (tensors[i].carried) {
      writer.write(i, tensors[i].carried());
      continue;
    }
    const Shape& shape = tensors[i].shape;
    const auto count = static_cast<size_t>(shape.count());
    ours.assign(count, 0.0f);
    theirs.resize(tensors[i].their_count());
    if (tensors[i].parameter) state.read_master(*tensors[i].parameter, ours);
    export_values(tensors[i].layout, groups_of(spec), shape[0], shape.count() / shape[0], ours, theirs);
    if (dtype == DType::bf16) {
      rounded.resize(theirs.size());
      std::transform(theirs.begin(), theirs.end(), rounded.begin(), to_bf16_master);
      writer.write(i, std::as_bytes(std::span(rounded)));
    } else {
      writer.write(i, std::as_bytes(std::span(theirs)));
    }
  }
  writer.commit();
}

/// Ids of the added tokens by their text.
std::map<std::string, int64_t> added_tokens(const std::string& tokenizer_json) {
  std::map<std::string, int64_t> ids;
  if (tokenizer_json.empty()) return ids;
  const Json json = parse_json(tokenizer_json, "tokenizer.json");
  const auto added = json.find("added_tokens");
  if (added == json.end() || !added->is_array()) return ids;
  for (const Json& token : *added)
    ids[json_field<std::string>(token, "content", "tokenizer.json")] =
        json_field<int64_t>(token, "id", "tokenizer.json");
  return ids;
}

/// The first of the texts that is an added token, or null.
Json first_added(const std::map<std::string, int64_t>& added, std::initializer_list<const char*> texts) {
  for (const char* text : texts)
    if (added.contains(text)) return text;
  return nullptr;
}

/// The added token that ends a document, or null.
Json end_token(const std::map<std::string, int64_t>& added) {
  const char* name = end_of_text_name([&](const char* text) -> std::optional<TokenId> {
    const auto found = added.find(text);
    return found == added.end() ? std::nullopt : std::optional(static_cast<TokenId>(found->second));
  });
  return name ? Json(name) : Json(nullptr);
}

/// Settings missing from tokenizer.json: the roles of tokens, and the model's inputs.
Json tokenizer_config(const Spec& spec, const std::map<std::string, int64_t>& added) {
  Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"model_max_length", spec.context},
              {"clean_up_tokenization_spaces", false},
              {"model_input_names", {"input_ids", "attention_mask"}}};
  if (spec.token_types > 1) config["model_input_names"].push_back("token_type_ids");
  const auto set = [&](const char* role, const Json& text) {
    if (!text.is_null()) config[role] = text;
  };
  const auto name = [&](const char* role, std::initializer_list<const char*> texts) {
    set(role, first_added(added, texts));
  };
  name("pad_token", {"[PAD]", "<pad>"});
  if (spec.mask == Mask::causal) {
    for (const char* role : {"bos_token", "eos_token", "unk_token"}) set(role, end_token(added));
    return config;
  }
  name("cls_token", {"[CLS]", "<s>"});
  name("sep_token", {"[SEP]", "</s>"});
  name("mask_token", {"[MASK]", "<mask>"});
  name("unk_token", {"[UNK]", "<unk>"});
  name("bos_token", {"<s>"});
  name("eos_token", {"</s>"});
  return config;
}

/// The generation settings of config.json and generation_config.json.
struct GenerationFields {
  Json config = Json::object(), file;
  Json tokenizer_files = Json::object();  ///< {name: text} of the folder that the model began as
};

/// As the files were that the model began as; where they name no end of a text, and the model writes any, that of the
/// tokenizer, as sampling takes it.
GenerationFields generation_fields(const std::string& files, bool generates, const Json& end) {
  GenerationFields fields;
  if (!files.empty()) {
    const Json all = parse_json(files, "the model's generation settings");
    fields.config = json_member(all, "config", "the model's generation settings");
    fields.file = json_member(all, "generation_config", "the model's generation settings");
    if (const auto found = all.find("tokenizer_files"); found != all.end()) fields.tokenizer_files = *found;
    for (const auto& [name, text] : fields.tokenizer_files.items())
      require(
          is_tokenizer_file(name) && text.is_string(), ErrorKind::data,
          "the checkpoint holds {} among its tokenizer's files, which is not a tokenizer's file: the checkpoint was "
          "changed; use another one",
          name);
  }
  if (fields.config.empty() && fields.file.is_null()) {
    if (!generates) return fields;
    fields.config = {{"bos_token_id", end}, {"eos_token_id", end}};
  } else {
    const auto is_named = [](const Json& object) { return !object.value("eos_token_id", Json()).is_null(); };
    const bool has_file = fields.file.is_object();
    if (generates && !end.is_null() && !is_named(fields.config) && !(has_file && is_named(fields.file))) {
      fields.config["eos_token_id"] = end;
      if (has_file) fields.file["eos_token_id"] = end;
    }
  }
  if (!fields.file.is_null() || !generates) return fields;
  fields.file = {{"_from_model_config", true}};
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (const auto found = fields.config.find(name); found != fields.config.end()) fields.file[name] = *found;
  }
  return fields;
}

/// A kept tokenizer_config.json byte for byte; one without a token that ends a text gets the tokenizer's.
std::string with_end(const std::string& text, const Json& end) {
  Json config = parse_json(text, "the model's tokenizer_config.json");
  if (end.is_null() || !config.is_object() || config.contains("eos_token")) return text;
  config["eos_token"] = end;
  return dump_json(config, 2) + "\n";
}

void write_json(const std::string& path, const Json& json) { write_text(path, dump_json(json, 2) + "\n"); }

/// Whether both files hold the same JSON; no: one is not JSON.
bool is_same_json(const std::string& a, const std::string& b) {
  try {
    return parse_json(read_text(a), a) == parse_json(read_text(b), b);
  } catch (const Error&) {
    return false;
  }
}

bool is_weights_file(std::string_view name) {
  return name.ends_with(".safetensors") || name.ends_with(".bin") || name.ends_with(".safetensors.index.json") ||
         name.ends_with(".bin.index.json");
}

/// The folder's other files with the same bytes, those that were written with the same JSON, too.
void copy_other_files(const std::string& from, const std::string& to) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const std::string name = entry.path().filename().string(), path = to + "/" + name;
    if (!entry.is_regular_file() || is_weights_file(name) || name == "config.json") continue;
    if (fs::exists(path) && !is_same_json(entry.path().string(), path)) continue;
    fs::copy_file(entry.path(), path, fs::copy_options::overwrite_existing, error);
    require(!error, ErrorKind::io, "cannot copy {} to {}: {}", entry.path().string(), path, error.message());
  }
}

constexpr const char* kKeptConfig = "the config.json that the model began with";

/// config.json of a model with other parts: the folder's, with what is different now.
Json wrapper_config(const Wrapper& wrapper, const Json& kept, std::string_view dtype) {
  Json config = parse_json(wrapper.config, kKeptConfig);
  Json& text = config.at("text_config");
  const auto set = [&](const char* key, const Json& value) {
    if (Json& there = config.contains(key) || !text.contains(key) ? config : text; there.value(key, Json()) != value)
      there[key] = value;
  };
  for (const auto& [key, value] : kept.items()) set(key.c_str(), value);
  for (Json* part : {&config, &text})
    for (const char* key : {"dtype", "torch_dtype"})
      if (part->contains(key)) (*part)[key] = dtype;
  return config;
}

}  // namespace

Json export_text_files(const std::string& folder, const Spec& spec, const std::string& tokenizer_json,
                       const std::string& generation) {
  const auto added = added_tokens(tokenizer_json);
  const Json end = end_token(added);
  const Json end_id = end.is_null() ? end : Json(added.at(end));
  const bool generates = spec.head == HeadKind::language_model;
  const GenerationFields said = generation_fields(generation, generates, end_id);
  if (!tokenizer_json.empty()) {
    write_text(folder + "/tokenizer.json", tokenizer_json);
    for (const auto& [name, value] : said.tokenizer_files.items()) {
      const std::string text = value.get<std::string>();
      std::error_code error;
      if (const size_t slash = name.find('/'); slash != name.npos)
        fs::create_directory(folder + "/" + name.substr(0, slash), error);
      write_text(folder + "/" + name, name == "tokenizer_config.json" && generates ? with_end(text, end) : text);
    }
    if (!said.tokenizer_files.contains("tokenizer_config.json"))
      write_json(folder + "/tokenizer_config.json", tokenizer_config(spec, added));
  }
  if (!said.file.is_null()) write_json(folder + "/generation_config.json", said.file);
  return said.config;
}

namespace {

/// A type of text models, or empty.
std::string text_type(const std::string& generation) {
  const std::string type = kept_model_type(generation);
  const auto found = std::ranges::find(families(), type, &Family::model_type);
  return found != families().end() && (*found)->wrapper ? std::string() : type;
}

/// The folder with the model's other parts must be there, and its text model must be this one.
void require_base(const Wrapper& wrapper, const Family& family, const Spec& spec) {
  const std::string path = wrapper.folder + "/config.json";
  require(fs::exists(path) && dump_json(read_json(path)) == wrapper.config, ErrorKind::config,
          "the model began as {}, whose other parts (tensors beside the text model's, other files) go into the export, "
          "but {}; put the folder back",
          wrapper.folder, fs::exists(path) ? "its config.json is another one now" : "it is not there");
  const Spec own = family.read_config(parse_json(wrapper.config, kKeptConfig), HeadKind::language_model, path);
  require(own.vocabulary == spec.vocabulary, ErrorKind::config,
          "the export has {} ids, but the config.json of {}, which it carries, has {}; export all of them",
          spec.vocabulary, wrapper.folder, own.vocabulary);
}

}  // namespace

void export_huggingface(const std::string& folder, const Spec& spec, const ParameterTable& table,
                        const TrainingState& state, const std::string& tokenizer_json, DType dtype,
                        const std::function<bool()>& stop, const std::string& generation) {
  require(dtype == DType::f32 || dtype == DType::bf16, ErrorKind::config,
          "cannot export weights as {}; use f32 or bf16", name_of(dtype));
  const std::optional<Wrapper> wrapper = kept_wrapper(generation);
  const Family& family = family_for(spec, wrapper ? kept_model_type(generation) : text_type(generation));
  if (wrapper) require_base(*wrapper, family, spec);
  for (const char* name : {"config.json", "model.safetensors"}) {
    require(!fs::exists(folder + "/" + name), ErrorKind::io, "{} already holds a model ({}); export to a new folder",
            folder, name);
  }
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, ErrorKind::io, "cannot create {}: {}", folder, error.message());
  std::vector<Exported> tensors = plan_export(family, spec, table, dtype);
  std::optional<TensorSource> base;
  if (wrapper) base.emplace(TensorSource::of_folder(wrapper->folder));
  if (wrapper) add_other_parts(family, *base, wrapper->folder, tensors);
  write_weights(folder + "/model.safetensors", tensors, spec, state, dtype, stop);
  const Json kept = export_text_files(folder, spec, tokenizer_json, generation);
  if (wrapper) {
    copy_other_files(wrapper->folder, folder);
    return write_json(folder + "/config.json",
                      wrapper_config(*wrapper, kept, dtype == DType::bf16 ? "bfloat16" : "float32"));
  }
  const auto architecture = std::find_if(family.architectures.begin(), family.architectures.end(),
                                         [&](const Architecture& a) { return a.head == spec.head; });
  Json config{{"architectures", {architecture->name}}, {"model_type", family.model_type}};
  family.write_config(spec, config);
  if (spec.has_decoder()) config["tie_word_embeddings"] = spec.tied_head;
  config.update(kept);
  for (const char* key : {"dtype", "torch_dtype"}) config[key] = dtype == DType::bf16 ? "bfloat16" : "float32";
  if (spec.head == HeadKind::language_model) config["use_cache"] = true;
  write_json(folder + "/config.json", config);  // last: a folder with it is complete
}

}  // namespace trireme
