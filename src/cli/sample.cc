#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "checkpoint/model_folder.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/threads.h"
#include "generate/generator.h"
#include "ops/backend.h"

namespace trireme {
namespace {

struct SampleOptions {
  std::string model, prompt, prompt_file, dtype = "f32";
  GenerateOptions generate;
  int64_t samples = 1, threads = 0;
  bool interactive = false, jsonl = false, stop_at_end = true;
};

/// A model ready to sample, with all that it borrows.
struct Sampler {
  ModelFolder folder;
  ParameterTable table;
  TrainingState state;
  Backend backend;
  std::unique_ptr<Tokenizer> tokenizer;
  Generator generator;

  Sampler(ModelFolder opened, DType dtype, int threads)
      : folder(std::move(opened)),
        table(folder.spec),
        state(table, dtype, false),
        backend(make_backend()),
        tokenizer(tokenizer_from_json(folder.tokenizer_json, folder.path + "/tokenizer.json")),
        generator(folder.spec, {&table, state.weights(), {}}, dtype, *backend.ops, threads) {
    load_model(folder, folder.spec, table, state);
  }
};

ModelFolder open_with_tokenizer(const std::string& path) {
  ModelFolder folder = open_model(path);
  require(!folder.tokenizer_json.empty(), ErrorKind::data,
          "{} has no tokenizer.json, so text cannot become tokens; put the model's tokenizer.json there", folder.path);
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

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
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
    put(std::string_view(pending).substr(0, ready));
    pending.erase(0, ready);
    return true;
  });
  if (!options.jsonl) put(pending);
  finished = count < options.generate.max_new_tokens;
  return text;
}

void sample_prompt(Sampler& sampler, const std::string& prompt, const SampleOptions& options) {
  const std::vector<TokenId> ids = prompt_ids(sampler, prompt);
  for (int64_t i = 0; i < options.samples; ++i) {
    if (!options.jsonl && options.samples > 1) put(fmt::format("--- sample {} of {}\n", i + 1, options.samples));
    if (!options.jsonl) put(prompt);
    const auto start = Clock::now();
    bool finished = false;
    int64_t count = 0;
    const std::string text = stream_sample(sampler, ids, options, static_cast<uint64_t>(i), finished, count);
    const double seconds = seconds_since(start);
    if (options.jsonl) {
      const Json line = {{"context", prompt},    {"text", text},       {"length", count},
                         {"finished", finished}, {"message", nullptr}, {"duration_seconds", seconds}};
      put(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    } else {
      put("\n");
      log::info("{} tokens in {:.2f} s, {:.1f} tokens/s", count, seconds,
                static_cast<double>(count) / std::max(seconds, 1e-9));
    }
  }
}

void sample_interactively(Sampler& sampler, const SampleOptions& options) {
  std::string line;
  while (true) {
    if (isatty(STDIN_FILENO)) put("prompt> ");
    if (!std::getline(std::cin, line)) return;
    sample_prompt(sampler, line, options);
  }
}

void declare(Flags& app, SampleOptions& options) {
  app.add("--model", options.model, "run folder, step folder or Hugging Face folder").required();
  app.add("--prompt", options.prompt, "text to continue (default: start of a document)");
  app.add("--prompt-file", options.prompt_file, "file with the text to continue");
  app.add_switch("--interactive", options.interactive, "read a prompt from each line of standard input");
  app.add("--max-new-tokens", options.generate.max_new_tokens, "tokens to add at most").not_negative().show_default();
  app.add("--temperature", options.generate.sampling.temperature,
          "logits are divided by this; below 1 is bolder towards likely tokens")
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
  app.add("--dtype", options.dtype, "weights and activations: f32 or bf16").one_of({"f32", "bf16"}).show_default();
  app.add("--threads", options.threads, "compute threads (0: all physical cores)").not_negative().show_default();
}

}  // namespace

int run_sample(std::vector<std::string> arguments) {
  SampleOptions options;
  Flags app("trireme sample", "Continues a prompt with a trained model. Text goes to standard output as it is made.");
  declare(app, options);
  if (const auto code = app.parse(std::move(arguments))) return *code;
  options.generate.sampling.validate();
  require(options.prompt.empty() || options.prompt_file.empty(), ErrorKind::usage,
          "--prompt and --prompt-file were both given; use one");
  require(!options.interactive || (options.prompt.empty() && options.prompt_file.empty()), ErrorKind::usage,
          "--interactive reads its prompts from standard input; remove --prompt and --prompt-file");
  if (!options.prompt_file.empty()) options.prompt = read_text(options.prompt_file);

  Sampler sampler(open_with_tokenizer(options.model), options.dtype == "bf16" ? DType::bf16 : DType::f32,
                  compute_threads(options.threads));
  if (options.stop_at_end) options.generate.stop_at = sampler.tokenizer->end_of_text();
  if (options.interactive) {
    sample_interactively(sampler, options);
  } else {
    sample_prompt(sampler, options.prompt, options);
  }
  return 0;
}

}  // namespace trireme
