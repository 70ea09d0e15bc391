#include "checkpoint/model_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/run_pointer.h"
#include "checkpoint/gguf/import.h"
#include "checkpoint/huggingface/folder_kind.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/nanogpt.h"
#include "checkpoint/neox/files.h"
#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/snapshot/spec_json.h"
#include "hub/place.h"
#include "text/files/declared_tokens.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// tokenizer.json with the tokens that the files beside it declare, or converted from the older files: OPT's vocab.json
/// with merges.txt, BERT's vocab.txt.
std::string tokenizer_in(const fs::path& folder) {
  if (fs::exists(folder / "tokenizer.json")) return read_tokenizer_json(folder.string());
  return holds_tokenizer(folder.string()) ? load_tokenizer(folder.string())->json() : std::string();
}

ModelFolder open_huggingface(const std::string& path) {
  return {.path = path,
          .spec = read_huggingface_spec(path),
          .tokenizer_json = tokenizer_in(path),
          .checkpoint = {},
          .nanogpt = false,
          .generation = read_generation_files(path, read_model_config(path))};
}

/// Beside the file, or of its training dataset.
std::string nanogpt_tokenizer(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::string beside = tokenizer_in(folder.empty() ? "." : folder);
  if (!beside.empty()) return beside;
  const std::string meta = find_nanogpt_meta(path);
  return meta.empty() ? meta : load_tokenizer(meta)->json();
}

ModelFolder open_nanogpt(const std::string& path) {
  return {.path = path,
          .spec = read_nanogpt_spec(path),
          .tokenizer_json = nanogpt_tokenizer(path),
          .checkpoint = {},
          .nanogpt = true};
}

ModelFolder open_gguf(const std::string& path) {
  GgufModel model = read_gguf_model(path);
  return {.path = path,
          .spec = std::move(model.spec),
          .tokenizer_json = std::move(model.tokenizer_json),
          .checkpoint = {},
          .gguf = true,
          .generation = std::move(model.generation)};
}

[[noreturn]] void refuse_file(const std::string& path) {
  const MappedFile file(path);
  const std::string format = other_format(file.bytes());
  require(format.empty() || format.starts_with("torch") || format == "pickle", ErrorKind::data,
          "{}: format {} is recognised but not supported; convert it to a Hugging Face folder (config.json with "
          "model.safetensors) with the tool that wrote it, and give that folder",
          path, format);
  fail(ErrorKind::io,
       "{} is a file; give the folder that contains it and its config.json, or a ckpt.pt of nanoGPT, or a .gguf file",
       path);
}

}  // namespace

void require_same_model(const ModelFolder& folder, const Spec& spec) {
  Spec wanted = spec;
  const Spec& found = folder.spec;
  require(wanted.context <= found.context, ErrorKind::config,
          "{} has {} positions, but {} are required; its position table can be cropped but not extended", folder.path,
          found.context, wanted.context);
  wanted.context = found.context;
  wanted.vocabulary_rows = found.vocabulary_rows;
  wanted.embedding_dropout = found.embedding_dropout;
  wanted.attention_dropout = found.attention_dropout;
  wanted.residual_dropout = found.residual_dropout;
  wanted.adapter_dropout = found.adapter_dropout;
  if (found.adapters.empty()) wanted.adapters.clear();
  require(wanted == found, ErrorKind::config,
          "{} holds a different model than the configuration describes: {}; set the options of this model, or use "
          "another folder",
          folder.path, describe_differences(found, wanted));
}

void require_no_file(const std::string& path) {
  if (fs::is_regular_file(follow_run_pointer(path))) refuse_file(path);
}

ModelFolder open_model(const std::string& given, const std::function<void()>& alive) {
  const hub::Place place = hub::place_of_model(given, alive);
  const std::string& path = place.path;
  if (fs::is_regular_file(path) && path.ends_with(".pt")) return open_nanogpt(path);
  if (fs::is_regular_file(path) && path.ends_with(".gguf")) return open_gguf(path);
  require_no_file(path);
  require(fs::exists(path) || fs::is_symlink(path), ErrorKind::io,
          "{} does not exist{}; expected the folder of a model, a run, or a name of the Hugging Face hub", path,
          place.why_not);
  require(fs::is_directory(path), ErrorKind::io,
          "{} is not a model folder: expected a run folder of `trireme train`, a step folder, a Hugging Face folder "
          "(config.json with model.safetensors or pytorch_model.bin, and a tokenizer), a checkpoint of GPT-NeoX, "
          "a ckpt.pt of nanoGPT, or a .gguf file{}",
          path, place.why_not);
  if (!fs::exists(fs::path(path) / "manifest.json") && !find_neox_step(path)) {
    const std::string nanogpt = find_nanogpt_checkpoint(path);
    if (!nanogpt.empty() && !holds_huggingface_weights(path)) return open_nanogpt(nanogpt);
    const std::string plain = plain_model_folder(path);
    if (fs::exists(fs::path(plain) / "config.json")) return open_huggingface(plain);
    require(!holds_huggingface_weights(path), ErrorKind::io,
            "{} holds weights but no config.json, which describes the model; put it beside them", path);
  }
  CheckpointFolder checkpoint = open_checkpoint(path);
  ModelFolder folder{.path = checkpoint.path,
                     .spec = checkpoint.facts.spec,
                     .tokenizer_json = checkpoint.facts.tokenizer_json,
                     .checkpoint = {},
                     .nanogpt = false,
                     .generation = checkpoint.facts.generation};
  folder.checkpoint = std::move(checkpoint);
  return folder;
}

void load_model(const ModelFolder& folder, const Spec& spec, const ParameterTable& table, TrainingState& state) {
  require_same_model(folder, spec);
  if (folder.checkpoint) {
    load_weights(*folder.checkpoint, table, state);
  } else if (folder.nanogpt) {
    load_nanogpt(folder.path, spec, table, state);
  } else if (folder.gguf) {
    load_gguf(folder.path, spec, table, state);
  } else {
    load_huggingface(folder.path, spec, table, state);
  }
}

}  // namespace trireme
