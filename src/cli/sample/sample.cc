#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/time.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft/adapter.h"
#include "checkpoint/peft/export.h"
#include "checkpoint/peft/targets.h"
#include "checkpoint/snapshot/local_disk.h"
#include "cli/command.h"
#include "cli/sample/options.h"
#include "cli/sample/output.h"
#include "cli/sample/stop_text.h"
#include "cli/sample/talk.h"
#include "data/chat/rows.h"
#include "generate/generator.h"
#include "model/mesh_layout.h"
#include "ops/backend.h"
#include "optim/optimizer.h"
#include "optim/shared_weights.h"
#include "text/chat/conversation.h"
#include "text/chat/said.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

/// With rows of the token matrix that can be divided evenly among the tensor ranks.
Spec with_rows_for(Spec spec, const Mesh* mesh) {
  const int64_t ranks = mesh ? mesh->shape().tensor : 1;
  spec.vocabulary_rows = (spec.vocabulary_rows + ranks - 1) / ranks * ranks;
  return spec;
}

/// Whether adapters are merged before a model is sampled: the lengths of rows that magnitudes (DoRA) need would be
/// computed again for every token. Ranks that hold a part each do not merge.
bool merges(const ModelFolder& folder, const Mesh* mesh) { return !mesh && adapter_sizes(folder.spec, 1).magnitudes; }

void load_merged(const ModelFolder& folder, const ParameterTable& table, TrainingState& state) {
  const ParameterTable whole(folder.spec);
  TrainingState all(whole, DType::f32, false);
  load_model(folder, folder.spec, whole, all);
  merge_adapters(whole, all);
  std::vector<float> values;
  for (const Parameter& parameter : table.all()) {
    values.resize(static_cast<size_t>(parameter.stored_shape.count()));
    all.read_master(whole.find(parameter.name), values);
    state.write_master(parameter, values);
  }
}

OptimizerOptions shared() {
  OptimizerOptions options;
  options.shard = ShardChoice::parameters;
  return options;
}

/// This rank's part of the weights that data ranks shard; all weights if it is alone.
KeptState kept_weights(const ParameterTable& table, Mesh* mesh) {
  if (!mesh) return {};
  return kept_states(table, shared(), mesh->data().size(), mesh->data_rank());
}

std::unique_ptr<Tokenizer> tokenizer_of(const ModelFolder& folder, const SampleOptions& options) {
  if (!options.tokenizer.empty()) return load_tokenizer(options.tokenizer, load_options(options.tokenizer_load));
  return tokenizer_from_json(folder.tokenizer_json, folder.path + "/tokenizer.json");
}

/// A model ready to sample, or a rank's part of it, with everything that it refers to.
struct Sampler {
  ModelFolder folder;
  Spec spec;
  ParameterTable table;
  Backend backend;
  TrainingState state;
  std::unique_ptr<SharedWeights> shared_weights;  ///< if data ranks shard the weights
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<TokenId> begin = {};  ///< token that begins a document, from the model's folder
  DType dtype;
  Generator generator;
  Printer& printer;
  std::unique_ptr<Talk> talk = {};  ///< with --chat

  Sampler(ModelFolder opened, const SampleOptions& options, int threads, Mesh* mesh, Printer& to)
      : folder(std::move(opened)),
        spec(with_rows_for(merges(folder, mesh) ? base_of(folder.spec) : folder.spec, mesh)),
        table(spec, InitScheme::gpt2, mesh ? layout_of(spec, mesh->shape(), mesh->world().rank()) : Layout()),
        backend(make_backend_of_one(options.device, mesh ? mesh->world().size() : 1, "--device")),
        state(table, options.dtype, false, kept_weights(table, mesh), backend.ops->device()),
        shared_weights(state.shards_weights()
                           ? std::make_unique<SharedWeights>(state, mesh->data(),
                                                             ownership_of(table, shared(), mesh->data().size()),
                                                             *backend.ops, std::vector<int>())
                           : nullptr),
        tokenizer(tokenizer_of(folder, options)),
        dtype(options.dtype),
        generator(spec, {&table, state.weights(), {}}, dtype, *backend.ops, threads, mesh, shared_weights.get()),
        printer(to) {
    if (merges(folder, mesh))
      load_merged(folder, table, state);
    else
      load_model(folder, spec, table, state);
    if (!options.adapter.empty()) PeftAdapter(options.adapter).merge(folder, table, state);
    if (!options.force)
      require_finite(state, table, folder.path, "its output would be meaningless; --force samples it anyway");
  }
};

/// The hosts of several ranks may have different parts of a snapshot.
ModelFolder open_with_tokenizer(const SampleOptions& options, int ranks) {
  ModelFolder folder = open_model(newest_on_either_side(options.model, ranks == 1));
  require(!folder.tokenizer_json.empty() || !options.tokenizer.empty(), ErrorKind::data,
          "{} has no tokenizer; add the model's tokenizer.json, vocab.json with merges.txt, or vocab.txt to the "
          "folder, or use --tokenizer FILE",
          folder.path);
  return folder;
}

std::vector<TokenId> prompt_ids(const Sampler& sampler, const std::string& prompt) {
  if (sampler.talk != nullptr) return sampler.talk->ask(prompt, *sampler.tokenizer);
  std::vector<TokenId> ids = sampler.tokenizer->encode(prompt, {.padding = false}).ids;
  if (!ids.empty()) return ids;
  // An empty prompt starts a document: with the token from the model's folder, in Trireme's runs after an end-of-text
  // token.
  const std::optional<TokenId> end = sampler.tokenizer->end_of_text();
  const std::optional<TokenId> begin = sampler.begin && !(end && sampler.folder.checkpoint) ? sampler.begin : end;
  if (begin) ids.push_back(*begin);
  return ids;
}

/// What is asked: texts, or conversations.
struct Prompts {
  std::vector<std::string> texts;
  std::vector<chat::Conversation> questions;
};

/// Streams one continuation; returns its text.
std::string stream_sample(Sampler& sampler, const std::vector<TokenId>& prompt, const SampleOptions& options,
                          uint64_t index, const std::atomic<bool>* stop, bool& finished, int64_t& count) {
  GenerateOptions generate = options.generate;
  if (options.max_length > 0)
    generate.max_new_tokens = std::clamp<int64_t>(options.max_length - std::ssize(prompt), 0, generate.max_new_tokens);
  Continuation continuation(*sampler.tokenizer, prompt);
  std::string text;
  const auto put = [&](const std::string& part) {
    text += part;
    if (!options.jsonl) sampler.printer.put(part);
  };
  count = 0;
  bool stopped = false;
  StopText ending(options.stop);
  sampler.generator.run(prompt, generate, index, [&](TokenId id) {
    ++count;
    put(ending.feed(continuation.feed(id)));
    stopped = stop != nullptr && *stop;
    return !stopped && !ending.reached();
  });
  put(ending.feed(continuation.finish()));
  put(ending.finish());
  finished = ending.reached() || (!stopped && count < generate.max_new_tokens);
  return text;
}

/// Writes every sample of a prompt: streamed as text, or as a JSON object each, to `file` if there is one. Throws
/// Error::stopped when `stop`, which may be null, is set.
void sample_ids(Sampler& sampler, const std::vector<TokenId>& ids, const std::string& prompt,
                const SampleOptions& options, SampleFile* file, const std::atomic<bool>* stop) {
  const Printer& printer = sampler.printer;
  for (int64_t i = 0; i < options.samples; ++i) {
    if (!options.jsonl && options.samples > 1)
      printer.put(fmt::format("--- sample {} of {}\n", i + 1, options.samples));
    if (!options.jsonl && sampler.talk == nullptr) printer.put(prompt);
    const auto start = Clock::now();
    bool finished = false;
    int64_t count = 0;
    const std::string text = stream_sample(sampler, ids, options, static_cast<uint64_t>(i), stop, finished, count);
    const double seconds = seconds_since(start);
    if (options.jsonl) {
      const Json record = {{"context", prompt},    {"text", text},       {"length", count},
                           {"finished", finished}, {"message", nullptr}, {"duration_seconds", seconds}};
      const std::string line = dump_json(record) + "\n";
      file == nullptr ? printer.put(line) : file->write(line);
    } else {
      printer.put("\n");
    }
    if (printer.prints() && (!options.jsonl || file != nullptr))
      log::info("{} in {:.2f} s, {:.1f} tokens/s", count_text(count, "token"), seconds,
                static_cast<double>(count) / std::max(seconds, 1e-9));
    require(stop == nullptr || !*stop, ErrorKind::stopped, "stopped by a signal");
    if (sampler.talk != nullptr && i + 1 == options.samples) sampler.talk->answered(text);
  }
}

void sample_prompt(Sampler& sampler, const std::string& prompt, const SampleOptions& options, SampleFile* file,
                   const std::atomic<bool>* stop) {
  sample_ids(sampler, prompt_ids(sampler, prompt), prompt, options, file, stop);
}

/// The typed text up to `end`; nothing if the input ends before any text.
std::optional<std::string> read_prompt(const std::string& end) {
  std::string text;
  for (std::string line; std::getline(std::cin, line);) {
    text += line;
    if (end == "\n") return text;
    if (const size_t at = text.find(end); at != std::string::npos) return text.substr(0, at);
    text += '\n';
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

void sample_interactively(Sampler& sampler, const SampleOptions& options, SampleFile* file) {
  Printer& printer = sampler.printer;
  while (true) {
    if (isatty(STDIN_FILENO)) printer.put("prompt> ");
    const std::optional<std::string> read = printer.prints() ? read_prompt(options.prompt_end) : std::nullopt;
    const std::string said = printer.shared(read ? "+" + *read : "");  // to ranks without a terminal
    if (said.empty()) return;
    sample_prompt(sampler, said.substr(1), options, file, nullptr);
  }
}

void sample_all(Sampler& sampler, const Prompts& prompts, const SampleOptions& options, SampleFile* file,
                const std::atomic<bool>* stop) {
  const size_t count = prompts.questions.empty() ? prompts.texts.size() : prompts.questions.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string heading = fmt::format("prompt {} of {}", i + 1, count);
    if (count > 1 && !options.jsonl) sampler.printer.put(fmt::format("--- {}\n", heading));
    if (count > 1 && file != nullptr) log::info("{}", heading);
    if (!prompts.questions.empty()) {
      const chat::Conversation& asked = prompts.questions[i];
      const auto last = asked.messages.back().find("content");
      const std::string question = last == asked.messages.back().end() ? "" : chat::content_text(*last);
      sample_ids(sampler, sampler.talk->take(asked, *sampler.tokenizer), question, options, file, stop);
      continue;
    }
    if (sampler.talk != nullptr) sampler.talk->begin();  // each prompt is a conversation
    sample_prompt(sampler, prompts.texts[i], options, file, stop);
  }
}

int sample(Process& process, SampleOptions& options, const Prompts& prompts) {
  const std::unique_ptr<Mesh> mesh = options.mesh.mesh(process);
  const int threads = rank_threads(process, options.threads);
  Printer printer(process);
  Sampler sampler(open_with_tokenizer(options, process.size()), options, threads, mesh.get(), printer);
  const std::string& path = sampler.folder.path;
  const GenerationSettings settings = generation_settings(sampler.folder.generation, path);
  const auto lines = take_model_settings(sampler.folder, *sampler.tokenizer, settings, options);
  if (printer.prints()) {
    for (const std::string& line : lines) log::info("{}", line);
  }
  if (settings.begin && sampler.tokenizer->has_token(*settings.begin)) sampler.begin = settings.begin;
  if (options.chat) {
    sampler.talk = std::make_unique<Talk>(sampler.folder, options);
    if (options.stop_at_end) sampler.talk->stop_at_end(*sampler.tokenizer, options.generate);
  }
  // Ranks that compute together would notice a signal at different tokens.
  const bool stoppable = !options.output.empty() && printer.alone() && !options.interactive;
  const std::atomic<bool>* stop = stoppable ? &stop::watch() : nullptr;
  std::optional<SampleFile> file;
  if (!options.output.empty() && printer.prints()) file.emplace(options.output);
  SampleFile* target = file ? &*file : nullptr;
  if (options.interactive) {
    sample_interactively(sampler, options, target);
  } else {
    sample_all(sampler, prompts, options, target, stop);
  }
  if (file) file->commit();
  return 0;
}

}  // namespace

int run_sample(CommandLine line) {
  SampleOptions options;
  if (const auto code = read_sample_options(std::move(line), options)) return *code;
  Prompts prompts;
  if (options.chat && !options.prompt_file.empty() && chat::is_row_file(options.prompt_file))
    prompts.questions = read_questions(options.prompt_file);
  if (prompts.questions.empty()) prompts.texts = read_all_prompts(options);
  Process process;
  return process.run([&] { return sample(process, options, prompts); });
}

}  // namespace trireme
