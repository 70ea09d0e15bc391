#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/time.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/local_disk.h"
#include "checkpoint/model_folder.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/mesh_flags.h"
#include "cli/sample_prompts.h"
#include "comm/scalars.h"
#include "generate/generator.h"
#include "model/mesh_layout.h"
#include "ops/backend.h"
#include "optim/optimizer.h"
#include "optim/shared_weights.h"

namespace trireme {
namespace {

struct SampleOptions {
  MeshFlags mesh;
  std::string model, prompt, start, prompt_file, output, dtype = "f32";
  GenerateOptions generate;
  int64_t samples = 1, threads = 0;
  bool interactive = false, jsonl = false, stop_at_end = true, force = false;
};

/// Lines that are in PATH.partial as soon as they are written, and in PATH at commit().
class SampleFile {
 public:
  explicit SampleFile(std::string path) : path_(std::move(path)), partial_(path_ + ".partial") {
    file_ = std::fopen(partial_.c_str(), "we");
    require(file_ != nullptr, ErrorKind::io, "cannot create {}: {}", partial_, std::strerror(errno));
  }
  SampleFile(const SampleFile&) = delete;
  SampleFile& operator=(const SampleFile&) = delete;
  ~SampleFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  void write(const std::string& line) {
    const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0;
    require(written, ErrorKind::io, "cannot write {}: {}", partial_, std::strerror(errno));
    ++lines_;
  }
  void commit() {
    const bool flushed = fsync(fileno(file_)) == 0;
    require(flushed && std::rename(partial_.c_str(), path_.c_str()) == 0, ErrorKind::io, "cannot publish {}: {}", path_,
            std::strerror(errno));
    log::info("{} samples are in {}", lines_, path_);
  }

 private:
  std::string path_, partial_;
  std::FILE* file_ = nullptr;
  int64_t lines_ = 0;
};

/// What ranks that hold a model between them print: the first one does.
class Printer {
 public:
  explicit Printer(Process& process) : scalars_(process.world()) {}
  bool prints() const { return scalars_.rank() == 0; }
  /// The first rank's text on every rank.
  std::string shared(const std::string& text) { return scalars_.size() == 1 ? text : scalars_.broadcast(text); }
  void put(std::string_view text) const {
    if (!prints()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

 private:
  Scalars scalars_;
};

/// With rows of the token matrix that every tensor rank can have as many of.
Spec with_rows_for(Spec spec, const Mesh* mesh) {
  const int64_t ranks = mesh ? mesh->shape().tensor : 1;
  spec.vocabulary_rows = (spec.vocabulary_rows + ranks - 1) / ranks * ranks;
  return spec;
}

OptimizerOptions shared() {
  OptimizerOptions options;
  options.shard = ShardChoice::parameters;
  return options;
}

/// What this rank keeps of weights that data ranks share; all where it is alone.
KeptState kept_weights(const ParameterTable& table, Mesh* mesh) {
  if (!mesh) return {};
  return kept_states(table, shared(), mesh->data().size(), mesh->data_rank());
}

std::unique_ptr<Communicator> own_group(Communicator& axis) {
  auto group = axis.split(0, axis.rank());
  group->report_to(axis.heartbeat());
  return group;
}

/// A model ready to sample, or a rank's part of it, with all that it borrows.
struct Sampler {
  ModelFolder folder;
  Spec spec;
  ParameterTable table;
  TrainingState state;
  Backend backend;
  std::unique_ptr<Communicator> weights_group;
  std::unique_ptr<SharedWeights> shared_weights;  ///< where data ranks share the weights
  std::unique_ptr<Tokenizer> tokenizer;
  Generator generator;
  Printer& printer;

  Sampler(ModelFolder opened, DType dtype, int threads, bool force, Mesh* mesh, Printer& to)
      : folder(std::move(opened)),
        spec(with_rows_for(folder.spec, mesh)),
        table(spec, InitScheme::gpt2, mesh ? layout_of(spec, mesh->shape(), mesh->world().rank()) : Layout()),
        state(table, dtype, false, kept_weights(table, mesh)),
        backend(make_backend()),
        weights_group(state.shares_weights() ? own_group(mesh->data()) : nullptr),
        shared_weights(weights_group ? std::make_unique<SharedWeights>(
                                           state, *weights_group, ownership_of(table, shared(), weights_group->size()),
                                           backend.ops->device(), std::vector<int>())
                                     : nullptr),
        tokenizer(tokenizer_from_json(folder.tokenizer_json, folder.path + "/tokenizer.json")),
        generator(spec, {&table, state.weights(), {}}, dtype, *backend.ops, threads, mesh, shared_weights.get()),
        printer(to) {
    load_model(folder, spec, table, state);
    if (!force)
      require_finite(state, table, folder.path, "what it would write is no text of the model's; --force samples it");
  }
};

/// The hosts of several ranks may have different parts of a snapshot.
ModelFolder open_with_tokenizer(const std::string& path, int ranks) {
  ModelFolder folder = open_model(newest_on_either_side(path, ranks == 1));
  require(!folder.tokenizer_json.empty(), ErrorKind::data,
          "{} has no tokenizer, so text cannot become tokens; put the model's there: tokenizer.json, vocab.json with "
          "merges.txt, or vocab.txt",
          folder.path);
  return folder;
}

std::vector<TokenId> prompt_ids(const Sampler& sampler, const std::string& prompt) {
  std::vector<TokenId> ids = sampler.tokenizer->encode(prompt, {.padding = false}).ids;
  if (ids.empty() && sampler.tokenizer->end_of_text())
    ids.push_back(*sampler.tokenizer->end_of_text());  // an empty prompt starts a document
  return ids;
}

/// Length of the longest prefix that does not end within a UTF-8 character.
size_t complete_utf8(const std::string& text) {
  size_t i = text.size();
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) break;
    if (byte >= 0xC0) {
      const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      if (length > back) i = text.size() - back;
      break;
    }
  }
  return i;
}

/// Streams one continuation; returns its text.
std::string stream_sample(Sampler& sampler, const std::vector<TokenId>& prompt, const SampleOptions& options,
                          uint64_t index, bool& finished, int64_t& count) {
  std::string text, pending;
  count = 0;
  sampler.generator.run(prompt, options.generate, index, [&](TokenId id) {
    ++count;
    const std::string piece = sampler.tokenizer->decode(std::span(&id, 1));
    text += piece;
    if (options.jsonl) return true;
    pending += piece;
    const size_t ready = complete_utf8(pending);  // a character may be spread over several tokens
    sampler.printer.put(std::string_view(pending).substr(0, ready));
    pending.erase(0, ready);
    return true;
  });
  if (!options.jsonl) sampler.printer.put(pending);
  finished = count < options.generate.max_new_tokens;
  return text;
}

/// Every sample of a prompt: streamed as text, or a JSON object each, to `file` where there is one.
void sample_prompt(Sampler& sampler, const std::string& prompt, const SampleOptions& options, SampleFile* file) {
  const std::vector<TokenId> ids = prompt_ids(sampler, prompt);
  const Printer& printer = sampler.printer;
  for (int64_t i = 0; i < options.samples; ++i) {
    if (!options.jsonl && options.samples > 1)
      printer.put(fmt::format("--- sample {} of {}\n", i + 1, options.samples));
    if (!options.jsonl) printer.put(prompt);
    const auto start = Clock::now();
    bool finished = false;
    int64_t count = 0;
    const std::string text = stream_sample(sampler, ids, options, static_cast<uint64_t>(i), finished, count);
    const double seconds = seconds_since(start);
    if (options.jsonl) {
      const Json record = {{"context", prompt},    {"text", text},       {"length", count},
                           {"finished", finished}, {"message", nullptr}, {"duration_seconds", seconds}};
      const std::string line = dump_json(record) + "\n";
      file == nullptr ? printer.put(line) : file->write(line);
    } else {
      printer.put("\n");
    }
    if (!printer.prints() || (options.jsonl && file == nullptr)) continue;
    log::info("{} tokens in {:.2f} s, {:.1f} tokens/s", count, seconds,
              static_cast<double>(count) / std::max(seconds, 1e-9));
  }
}

void sample_interactively(Sampler& sampler, const SampleOptions& options, SampleFile* file) {
  Printer& printer = sampler.printer;
  while (true) {
    if (isatty(STDIN_FILENO)) printer.put("prompt> ");
    std::string line;
    const bool read = printer.prints() && std::getline(std::cin, line);
    const std::string said = printer.shared(read ? "+" + line : "");  // to ranks that have no terminal
    if (said.empty()) return;
    sample_prompt(sampler, said.substr(1), options, file);
  }
}

void sample_all(Sampler& sampler, const std::vector<std::string>& prompts, const SampleOptions& options,
                SampleFile* file) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::string heading = fmt::format("prompt {} of {}", i + 1, prompts.size());
    if (prompts.size() > 1 && !options.jsonl) sampler.printer.put(fmt::format("--- {}\n", heading));
    if (prompts.size() > 1 && file != nullptr) log::info("{}", heading);
    sample_prompt(sampler, prompts[i], options, file);
  }
}

void declare(Flags& app, SampleOptions& options) {
  app.add("--model", options.model, "run folder, step folder, Hugging Face folder, or a name of its hub such as gpt2")
      .required();
  app.add("--prompt", options.prompt, "text to continue (default: start of a document)");
  app.add("--start", options.start, "the same in nanoGPT's words; FILE:PATH is all of that file as one prompt");
  app.add("--prompt-file", options.prompt_file,
          "file with one prompt per line; .jsonl: a line is a JSON text, or an object with \"prompt\" or \"text\"");
  app.add_switch("--interactive", options.interactive, "read a prompt from each line of standard input");
  app.add("--max-new-tokens", options.generate.max_new_tokens, "tokens to add at most").not_negative().show_default();
  app.add("--temperature", options.generate.sampling.temperature,
          "logits are divided by this; below 1 is bolder towards likely tokens, 0 is --greedy")
      .show_default();
  app.add("--top-k", options.generate.sampling.top_k, "keep the k most probable tokens (0: all)").show_default();
  app.add("--top-p", options.generate.sampling.top_p, "keep the most probable tokens up to this total probability")
      .show_default();
  app.add_switch("--greedy", options.generate.sampling.greedy, "always the most probable token");
  app.add("--seed", options.generate.seed, "the same seed, model and prompt give the same text").show_default();
  app.add("--num-samples", options.samples, "continuations per prompt").positive().show_default();
  app.add_switch("--stop-at-end,!--no-stop-at-end", options.stop_at_end,
                 "end a sample at the end-of-text token (default)");
  app.add_switch("--jsonl", options.jsonl, "one JSON object per sample instead of streamed text");
  app.add("--output", options.output,
          "write those objects to this file instead; FILE.partial has what is done of one that was ended before");
  app.add("--dtype", options.dtype, "weights and activations: f32 or bf16").one_of({"f32", "bf16"}).show_default();
  app.add_switch("--force", options.force, "sample a model although weights of it are NaN or infinite");
  app.add("--threads", options.threads, "compute threads of each rank (0: its share of the physical cores)")
      .in_range(0, 1024)
      .show_default();
  options.mesh.declare(app);
  options.mesh.declare_shard(app);
  app.set_footer(
      "A model that is too large for one rank: `mpirun -n 4 trireme sample --mesh.tensor 2 --mesh.pipeline 2 ...`, "
      "or with --optim.shard parameters alone (docs/layouts.md).");
}

/// What the flags ask to continue; none with --interactive.
std::vector<std::string> read_all_prompts(const Flags& app, const SampleOptions& options) {
  constexpr const char* kSources[] = {"--prompt", "--start", "--prompt-file"};
  const char* given = nullptr;
  for (const char* source : kSources) {
    if (app.count(source) == 0) continue;
    require(given == nullptr, ErrorKind::usage, "{} and {} were both given; use one", given, source);
    given = source;
  }
  require(!options.interactive || given == nullptr, ErrorKind::usage,
          "--interactive reads its prompts from standard input; remove {}", given == nullptr ? "" : given);
  if (options.interactive) return {};
  if (!options.prompt_file.empty()) return read_prompts(options.prompt_file);
  if (!options.start.empty()) return {read_start(options.start)};
  constexpr std::string_view kFile = "FILE:";
  const std::string named = options.prompt.starts_with(kFile) ? options.prompt.substr(kFile.size()) : "";
  require(named.empty(), ErrorKind::usage,
          "--prompt {} would be continued as it stands; use --start FILE:{} for all of the file as one prompt, or "
          "--prompt-file {} for one prompt per line",
          options.prompt, named, named);
  return {options.prompt};
}

int sample(Process& process, SampleOptions& options, const std::vector<std::string>& prompts) {
  const std::unique_ptr<Mesh> mesh = options.mesh.mesh(process);
  const int threads = rank_threads(process, options.threads);
  Printer printer(process);
  Sampler sampler(open_with_tokenizer(options.model, process.size()),
                  options.dtype == "bf16" ? DType::bf16 : DType::f32, threads, options.force, mesh.get(), printer);
  if (options.stop_at_end) options.generate.stop_at = sampler.tokenizer->end_of_text();
  std::optional<SampleFile> file;
  if (!options.output.empty() && printer.prints()) file.emplace(options.output);
  SampleFile* target = file ? &*file : nullptr;
  if (options.interactive) {
    sample_interactively(sampler, options, target);
  } else {
    sample_all(sampler, prompts, options, target);
  }
  if (file) file->commit();
  return 0;
}

}  // namespace

int run_sample(std::vector<std::string> arguments) {
  SampleOptions options;
  Flags app("trireme sample", "Continues a prompt with a trained model. Text goes to standard output as it is made.");
  declare(app, options);
  if (const auto code = app.parse(std::move(arguments))) return *code;
  options.generate.sampling.validate();
  const std::vector<std::string> prompts = read_all_prompts(app, options);
  options.jsonl = options.jsonl || !options.output.empty();
  Process process;
  return process.run([&] { return sample(process, options, prompts); });
}

}  // namespace trireme
