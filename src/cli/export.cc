// trireme export: a model as a Hugging Face folder, a checkpoint of GPT-NeoX or files of llama.cpp.

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/stop.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/neox/checkpoint.h"
#include "checkpoint/peft/adapter.h"
#include "checkpoint/peft/export.h"
#include "checkpoint/peft/targets.h"
#include "checkpoint/snapshot/local_disk.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "config/document.h"
#include "report/run_log.h"
#include "report/trainer_state.h"
#include "text/chat/turn_end.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// A folder that commit() renames to `target`; without commit() it is removed.
class PartialFolder {
 public:
  explicit PartialFolder(const std::string& target) : target_(fs::path(target).lexically_normal().string()), path_() {
    while (target_.size() > 1 && target_.ends_with('/')) target_.pop_back();
    require(!fs::exists(target_) || (fs::is_directory(target_) && fs::is_empty(target_)), ErrorKind::io,
            "{} exists and is not an empty folder; export to a new one", target);
    std::error_code error;
    if (fs::exists(target_)) target_ = fs::canonical(target_).string();  // a link stays one
    if (const fs::path parent = fs::path(target_).parent_path(); !parent.empty()) fs::create_directories(parent, error);
    path_ = target_ + ".partial" + temporary_suffix();
    if (!error) fs::create_directory(path_, error);
    require(!error, ErrorKind::io, "cannot create {}: {}", path_, error.message());
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  ~PartialFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  void commit() {
    if (rename(path_.c_str(), target_.c_str()) == 0) return;
    fail(ErrorKind::io, "cannot rename {} to {}: {}", path_, target_, std::strerror(errno));
  }

 private:
  std::string target_, path_;
};

/// The model with only its first ids.
struct Cut {
  Spec spec;
  ParameterTable table;
  TrainingState state;

  Cut(const Spec& whole, int64_t vocabulary, const ParameterTable& from, const TrainingState& weights)
      : spec(with_vocabulary(whole, vocabulary)), table(spec), state(table, DType::f32, false) {
    std::vector<float> values;
    for (const Parameter& own : table.all()) {
      const Parameter& parameter = from.find(own.name);
      values.resize(static_cast<size_t>(parameter.stored_shape.count()));
      weights.read_master(parameter, values);
      values.resize(static_cast<size_t>(own.stored_shape.count()));
      state.write_master(own, values);
    }
  }

  static Spec with_vocabulary(Spec spec, int64_t vocabulary) {
    require(vocabulary <= spec.vocabulary && spec.has_decoder(), ErrorKind::config,
            "--vocabulary is {}, but the model has {}; ids can only be removed, not added", vocabulary,
            count_text(spec.vocabulary, "id"));
    spec.vocabulary = spec.vocabulary_rows = vocabulary;
    return spec;
  }
};

struct Wanted {
  std::string output, format = "huggingface";
  DType dtype = DType::f32;
  int tensor = 1, pipeline = 1;
  std::vector<std::string> gguf;  ///< types; empty: another format
  std::string gguf_pre;
};

/// A file for each type.
void write_gguf(const Wanted& wanted, const std::string& path, const ModelFolder& folder, const Spec& spec,
                const ParameterTable& table, const TrainingState& state) {
  const std::string name = fs::path(wanted.output + "/").lexically_normal().parent_path().filename().string();
  GgufExport options{.name = name,
                     .types = {},
                     .tokenizer_json = folder.tokenizer_json,
                     .generation = folder.generation,
                     .pre_tokenizer = wanted.gguf_pre};
  for (const std::string& type : wanted.gguf) options.types.push_back(*value_named<GgufFileType>(type));
  export_gguf(path, options, spec, table, state, stop::requested);
}

void write_model(const Wanted& wanted, const std::string& path, const ModelFolder& folder, const Spec& spec,
                 const ParameterTable& table, const TrainingState& state) {
  if (wanted.format == "huggingface" && folder.tokenizer_json.empty())
    log::warning("{} has no tokenizer; the export has none either", folder.path);
  if (!wanted.gguf.empty()) return write_gguf(wanted, path, folder, spec, table, state);
  if (wanted.format == "huggingface") {
    return export_huggingface(path, spec, table, state, folder.tokenizer_json, wanted.dtype, stop::requested,
                              folder.generation);
  }
  NeoxExport options{
      .tensor = wanted.tensor, .pipeline = wanted.pipeline, .dtype = wanted.dtype, .progress = {}, .config_json = {}};
  if (folder.checkpoint) {
    options.progress = folder.checkpoint->facts.progress;
    options.config_json = folder.checkpoint->facts.config_json;
  }
  export_neox(path, spec, table, state, options, stop::requested);
  if (!folder.tokenizer_json.empty()) write_text(path + "/tokenizer.json", folder.tokenizer_json);
}

/// The options of the run that a step belongs to.
Config run_config(const ModelFolder& folder) {
  return config_from_json(parse_json(folder.checkpoint->facts.config_json, folder.path), folder.path);
}

/// Which parameters of the model are its run's result. Of a run with adapters only they are written.
Trained results_of(const ModelFolder& folder) {
  if (folder.spec.adapters.empty()) return {};
  return {trained_beside_adapters(folder.spec, run_config(folder).lora.modules_to_save), ""};
}

/// The model's settings with those of the adapter that is merged into it: what its folder names as the ends of texts,
/// and the template that it was trained with.
std::string with_files_of_adapter(const std::string& generation, const std::string& adapter,
                                  const std::string& tokenizer_json) {
  std::string made = generation;
  const chat::ChatFiles files = chat::read_chat_files(adapter);
  std::vector<TokenId> ends = generation_settings(read_generation_files(adapter, Json::object()), adapter).end;
  if (const auto usual = files.templates.find("default"); usual != files.templates.end() && !tokenizer_json.empty()) {
    made = with_tokenizer_file(made, "chat_template.jinja", usual->second.text);
    const auto tokenizer = tokenizer_from_json(tokenizer_json, "the model's tokenizer.json");
    const auto turn = chat::end_of_turn(chat::ChatFormat(files, usual->second), *tokenizer);
    if (turn && std::ranges::find(ends, *turn) == ends.end()) ends.insert(ends.begin(), *turn);
  }
  const std::vector<TokenId> before = generation_settings(made, adapter).end;
  std::erase_if(ends, [&](TokenId id) { return std::ranges::find(before, id) != before.end(); });
  return ends.empty() ? made : with_end_tokens(made, ends, std::nullopt);
}

/// The base model that an adapter of a run names; PEFT cannot load a run.
std::string base_of_adapter(const std::string& given, const std::string& init, const std::string& output) {
  if (!given.empty()) return given;
  if (fs::exists(init) && !fs::exists(init + "/config.json"))
    log::warning(
        "the adapter names {} as its base model, which PEFT cannot load; export that, too, and name it: `trireme "
        "export "
        "--model {} --output BASE`, then --base BASE with --output {}",
        init, init, output);
  return init;
}

/// trainer_state.json beside the model, where the run's records are still there.
void write_trainer_state(const ModelFolder& folder, const std::string& path) {
  if (!folder.checkpoint) return;
  const fs::path records = fs::absolute(folder.path).lexically_normal().parent_path() / "metrics.jsonl";
  if (!fs::exists(records)) return;
  write_text(path + "/trainer_state.json",
             trainer_state_json(read_run_log(records.string()), folder.checkpoint->facts.progress.step));
}

}  // namespace

int run_export(CommandLine line) {
  Flags app(std::move(line), "trireme export",
            "Writes a model as a folder that Hugging Face transformers or GPT-NeoX loads, or for llama.cpp.");
  Wanted wanted;
  std::string model;
  std::optional<int64_t> vocabulary;
  app.add(
         "--checkpoint,--model", model,
         "run folder (its latest checkpoint), step folder, or another model to convert: a Hugging Face folder with any "
         "weights, a checkpoint of GPT-NeoX, a ckpt.pt of nanoGPT")
      .required();
  app.add("--output", wanted.output, "folder to write, new or empty").required();
  app.add("--format", wanted.format, "huggingface, or neox: weights, to be loaded with `finetune: true`")
      .one_of({"huggingface", "neox"})
      .show_default();
  app.add("--tensor", wanted.tensor, "neox: model_parallel_size, the number of parts of the tensors")
      .in_range(1, 1 << 10)
      .show_default();
  app.add("--pipeline", wanted.pipeline, "neox: pipe_parallel_size; 0: one stage without the pipeline engine")
      .in_range(0, 1 << 10)
      .show_default();
  app.choice("--dtype", wanted.dtype, "type of the written weights", {DType::f32, DType::bf16});
  std::vector<std::string> types;
  for (const auto& known : Names<GgufFileType>::kAll) types.emplace_back(known.name);
  app.add("--gguf", wanted.gguf, "write GGUF files for llama.cpp and ollama: one of each type, NAME-TYPE.gguf")
      .one_of(types)
      .separated_by(',');
  app.add("--gguf-pre", wanted.gguf_pre, "llama.cpp's name of the pre-tokenizer, where it is not recognised")
      .not_empty();
  app.add("--vocabulary", vocabulary, "write only this number of ids: without the padding of another program")
      .positive();
  std::string adapter, base;
  bool merge = false, force = false;
  app.add("--adapter", adapter, "folder of a LoRA adapter of PEFT for this model; needs --merge");
  app.add_switch(
      "--merge", merge,
      "add the adapter to the weights: that of --adapter, or those of a run with adapters, which without this are "
      "written as a folder of PEFT");
  app.add("--base", base,
          "of a run with adapters: the folder or hub name of the base model that the adapter names; without it the one "
          "that the run started from");
  app.add_switch("--force", force, "export a model although some weights are NaN or infinite");
  if (const auto code = app.parse()) return *code;

  for (const char* flag : {"--tensor", "--pipeline"})
    require(wanted.format == "neox" || app.count(flag) == 0, ErrorKind::usage,
            "{} needs --format neox; a Hugging Face folder is not split", flag);

  for (const char* flag : {"--format", "--dtype"})
    require(wanted.gguf.empty() || app.count(flag) == 0, ErrorKind::usage,
            "{} has no effect on GGUF files, whose types --gguf names; remove it", flag);
  require(!wanted.gguf.empty() || wanted.gguf_pre.empty(), ErrorKind::usage, "--gguf-pre needs --gguf");

  require(adapter.empty() || merge, ErrorKind::usage,
          "--adapter needs --merge: an export is a model, into which the adapter is merged");

  stop::install();
  ModelFolder folder = open_model(newest_on_either_side(model, true));
  const bool has_adapters = !folder.spec.adapters.empty(), writes_adapter = has_adapters && !merge;
  require(!merge || has_adapters || !adapter.empty(), ErrorKind::usage,
          "--merge needs --adapter DIR, the adapter to add to the weights: {} has no adapters", folder.path);
  require(
      !has_adapters || adapter.empty(), ErrorKind::usage,
      "--adapter {}: {} is a run with adapters already; export it with --merge first, or merge the adapter into its "
      "base model",
      adapter, folder.path);
  for (const char* flag : {"--vocabulary", "--format", "--dtype", "--gguf"})
    require(!writes_adapter || app.count(flag) == 0, ErrorKind::usage,
            "{} has no effect on adapters, which are written as PEFT's, in f32; remove it, or add --merge for a whole "
            "model",
            flag);
  require(writes_adapter || base.empty(), ErrorKind::usage,
          "--base is of an adapter, but the export is a whole model; remove it");
  // f32 has no more than the bits of a base in bf16, and peers load what config.json says.
  if (app.count("--dtype") == 0 && wanted.format == "huggingface" && kept_dtype(folder.generation) == "bfloat16")
    wanted.dtype = DType::bf16;
  PartialFolder partial(wanted.output);
  const ParameterTable table(folder.spec, InitScheme::gpt2, {}, results_of(folder));
  TrainingState state(table, DType::f32, false);
  load_model(folder, folder.spec, table, state);
  if (!adapter.empty()) {
    PeftAdapter(adapter).merge(folder, table, state);
    folder.generation = with_files_of_adapter(folder.generation, adapter, folder.tokenizer_json);
  }
  if (has_adapters && merge) merge_adapters(table, state);
  const Spec spec = writes_adapter ? folder.spec : base_of(folder.spec);
  if (!force)
    require_finite(
        state, table, folder.path,
        "export an earlier step of the run (`trireme checkpoint list` shows them); --force exports this one anyway");
  int64_t parameters = writes_adapter ? table.total_trained() : ParameterTable(spec).total();
  if (writes_adapter) {
    const Config config = run_config(folder);
    export_adapter(partial.path(), table, state, config.lora, base_of_adapter(base, config.model.init, wanted.output),
                   kept_model_type(folder.generation));
    (void)export_text_files(partial.path(), base_of(folder.spec), folder.tokenizer_json, folder.generation);
  } else if (vocabulary) {
    const Cut cut(spec, *vocabulary, table, state);
    parameters = cut.table.total();
    write_model(wanted, partial.path(), folder, cut.spec, cut.table, cut.state);
  } else {
    write_model(wanted, partial.path(), folder, spec, table, state);
  }
  if (wanted.format == "huggingface" && wanted.gguf.empty()) write_trainer_state(folder, partial.path());
  partial.commit();
  const std::string step = folder.checkpoint ? fmt::format("step {}, ", folder.checkpoint->facts.progress.step) : "";
  const std::string what = writes_adapter    ? fmt::format("the adapters of {}", folder.path)
                           : adapter.empty() ? folder.path
                                             : fmt::format("{} with the adapter {}", folder.path, adapter);
  fmt::print("exported {}{} ({}{:.2f} M parameters, {}) to {}\n", what,
             has_adapters && merge ? " with its adapters" : "", step, static_cast<double>(parameters) / 1e6,
             wanted.gguf.empty() ? std::string(name_of(writes_adapter ? DType::f32 : wanted.dtype))
                                 : fmt::format("{}", fmt::join(wanted.gguf, ", ")),
             wanted.output);
  return 0;
}

}  // namespace trireme
