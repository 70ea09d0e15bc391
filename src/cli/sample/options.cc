#include "cli/sample/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_folder.h"
#include "cli/sample/words.h"
#include "config/load.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostSamples = 1'000'000;  // of a prompt: more is a slip of the keyboard
constexpr const char* kFlags[] = {"--model",
                                  "--prompt",
                                  "--start",
                                  "--prompt-file",
                                  "--max-new-tokens",
                                  "--temperature",
                                  "--top-k",
                                  "--top-p",
                                  "--min-p",
                                  "--greedy",
                                  "--seed",
                                  "--output",
                                  "--repetition-penalty",
                                  "--num-samples",
                                  "--interactive",
                                  "--tokenizer"};

void declare(Flags& app, SampleOptions& options) {
  app.add("FILE", options.files, "YAML of GPT-NeoX, as for its generate.py; flags override it");
  app.add("-d,--conf-dir", options.folder, "folder of those files");
  app.add("--model", options.model, "run folder, step folder, Hugging Face folder, or a name on the hub such as gpt2");
  app.add("--adapter", options.adapter,
          "folder of a LoRA adapter of PEFT for this model, which is added to its weights");
  app.add("--tokenizer", options.tokenizer, "tokenizer instead of the model's own: a file or folder, as for `prepare`");
  add_tokenizer_flags(app, options.tokenizer_load);
  app.add("--prompt", options.prompt, "text to continue (default: start of a document)");
  app.add("--start", options.start, "the same as in nanoGPT; FILE:PATH uses the whole file as one prompt");
  app.add("--prompt-file", options.prompt_file,
          "file with one prompt per line; .jsonl: a line is a JSON text, or an object with \"prompt\" or \"text\"; "
          "with --chat "
          "also rows of messages, as for `trireme sft`, whose last question is answered");
  app.add("--encoding", options.encoding, "for --prompt-file and --start FILE: " + std::string(kEncodingHelp))
      .show_default();
  app.add_switch("--interactive", options.interactive, "read a prompt from each line of standard input");
  app.add_switch("--chat", options.chat,
                 "prompts are what a user says: the model's chat template makes the text, and with --interactive the "
                 "conversation continues");
  app.add("--system", options.system, "system message of the conversation");
  add_chat_template_flags(app, options.format);
  app.add("--max-new-tokens", options.generate.max_new_tokens, "maximum number of new tokens")
      .not_negative()
      .show_default();
  app.add("--temperature", options.generate.sampling.temperature,
          "logits are divided by this; below 1 prefers likely tokens, 0 means --greedy")
      .show_default();
  app.add("--top-k", options.generate.sampling.top_k, "keep the k most probable tokens (0: all)").show_default();
  app.add("--top-p", options.generate.sampling.top_p, "keep the most probable tokens up to this total probability")
      .show_default();
  app.add("--min-p", options.generate.sampling.min_p,
          "drop tokens whose probability is below this share of the most probable one's (0: none)")
      .show_default();
  app.add("--repetition-penalty", options.generate.repetition_penalty,
          "positive logits of tokens that are already in the text are divided by it, negative ones multiplied; 1: off")
      .show_default();
  app.add_switch("--greedy", options.generate.sampling.greedy, "always choose the most probable token");
  app.add("--seed", options.generate.seed, "the same seed, model and prompt give the same text").show_default();
  app.add("--num-samples", options.samples, "continuations per prompt").in_range(1, kMostSamples).show_default();
  app.add_switch(
      "--stop-at-end,!--no-stop-at-end", options.stop_at_end,
      "end a sample at the tokens that the model's folder names, otherwise at the end-of-text token (default)");
  app.add("--stop", options.stop, "end a sample before this text; may be repeated").one_value();
  app.add_switch("--jsonl", options.jsonl, "one JSON object per sample instead of streamed text");
  app.add("--output", options.output,
          "write these objects to this file instead, also those before an error; while sampling they are in "
          "FILE.partial");
  app.choice("--dtype", options.dtype, "weights and activations: f32 or bf16", {DType::f32, DType::bf16});
  app.choice("--device", options.device,
             "auto: a GPU if one can be used, else the CPU; cpu; cuda (docs/gpu.md). Several ranks use CPUs");
  app.add_switch("--force", options.force, "sample a model even if some weights are NaN or infinite");
  app.add("--threads", options.threads, "compute threads of each rank (0: its share of the physical cores)")
      .in_range(0, 1024)
      .show_default();
  options.mesh.declare(app);
  options.mesh.declare_shard(app);
  app.set_footer(
      "Settings of sampling come from flags, then from the files, then from generation_config.json and config.json of "
      "the model's "
      "folder.\n"
      "For a model that is too large for one rank: `mpirun -n 4 trireme sample --mesh.tensor 2 --mesh.pipeline 2 ...`, "
      "or with --optim.shard parameters alone (docs/layouts.md).");
}

/// The folder of a step in `folder`; NeoX's steps are named global_stepN.
std::string with_iteration(const std::string& folder, int64_t iteration) {
  for (const std::string& name : {step_name(iteration), fmt::format("global_step{}", iteration)}) {
    const fs::path step = fs::path(folder) / name;
    if (fs::is_directory(step)) return step.string();
  }
  fail(ErrorKind::io, "{} has no step {} (iteration): neither {} nor global_step{} exists", folder, iteration,
       step_name(iteration), iteration);
}

/// Sets a value that neither a flag nor an earlier file has set.
template <class T, class U>
void take(SampleOptions& options, const char* flag, T& target, U value) {
  if (options.given.insert(flag).second) target = static_cast<T>(std::move(value));
}

/// NeoX chooses the most probable token if temperature, top_k and top_p are all 0; with a filter and temperature 0 it
/// samples from the unchanged logits.
void take_sampling(const TextGeneration& text, SampleOptions& options) {
  SamplingOptions& sampling = options.generate.sampling;
  const bool flags =
      std::ranges::any_of(std::initializer_list<const char*>{"--temperature", "--top-k", "--top-p", "--min-p"},
                          [&](const char* flag) { return options.given.contains(flag); });
  const bool filters = text.top_k > 0 || text.top_p > 0;
  if (text.temperature == 0 && !filters && !flags) take(options, "--greedy", sampling.greedy, true);
  take(options, "--temperature", sampling.temperature, text.temperature == 0 && filters ? 1.0 : text.temperature);
  take(options, "--top-k", sampling.top_k, text.top_k);
  take(options, "--top-p", sampling.top_p, text.top_p == 0 ? 1.0 : text.top_p);
}

bool has_prompt(const SampleOptions& options) {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"--prompt", "--start", "--prompt-file", "--interactive"},
      [&](const char* flag) { return options.given.contains(flag); });
}

void take_files(SampleOptions& options) {
  using Kind = TextGeneration::Kind;
  std::vector<std::string> words = options.files;
  if (!options.folder.empty()) words.insert(words.end(), {"-d", options.folder});
  const std::vector<std::string> files = split_words(words).files;
  const TextGeneration text = read_text_generation(files);
  for (const std::string& note : text.notes) log::info("{}", note);
  const bool prompted = has_prompt(options);
  if (!text.model.empty() && !options.given.contains("--model"))
    take(options, "--model", options.model, text.iteration ? with_iteration(text.model, *text.iteration) : text.model);
  take_sampling(text, options);
  take(options, "--max-new-tokens", options.generate.max_new_tokens, text.maximum_tokens);
  take(options, "--seed", options.generate.seed, text.seed);
  if (!text.vocabulary.empty() && fs::exists(text.vocabulary) && !options.given.contains("--tokenizer")) {
    take(options, "--tokenizer", options.tokenizer, text.vocabulary);
    options.tokenizer_load.merges = text.merges;
  }
  options.prompt_end = text.prompt_end;
  if (!prompted && text.kind == Kind::interactive) options.interactive = true;
  if (!prompted && text.kind == Kind::input_file) {
    require(!text.input_file.empty(), ErrorKind::config,
            "{}: text-gen-type is input-file, but sample-input-file is missing", fmt::join(files, ", "));
    take(options, "--prompt-file", options.prompt_file, text.input_file);
    options.trims_prompts = true;
    take(options, "--output", options.output,
         text.output_file.empty() ? text.input_file + ".output.jsonl" : text.output_file);
  }
  if (prompted || text.kind != Kind::unconditional) return;
  take(options, "--num-samples", options.samples, text.samples);
  if (!text.output_file.empty()) take(options, "--output", options.output, text.output_file);
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlank = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

}  // namespace

std::optional<int> read_sample_options(CommandLine line, SampleOptions& options) {
  Flags app(std::move(line), "trireme sample",
            "Continues a prompt with a trained model. Text is streamed to standard output.");
  declare(app, options);
  if (const auto code = app.parse(take_sampling_dialects(app.words()))) return code;
  for (const char* flag : kFlags) {
    if (app.count(flag) > 0) options.given.insert(flag);
  }
  require(options.folder.empty() || !options.files.empty(), ErrorKind::usage,
          "-d {} is the folder of the configuration files, but no file is given", options.folder);
  if (!options.files.empty()) take_files(options);
  require(!options.model.empty(), ErrorKind::usage, "--model is required: {}",
          options.files.empty() ? "the folder of a model"
                                : "the files have neither `load` nor `save`, the folder of the model");
  const bool talks = !options.system.empty() || !options.format.name.empty() || !options.format.keywords.empty();
  require(options.chat || !talks, ErrorKind::usage, "--system, --chat-template and --template-option need --chat");
  for (const std::string& text : options.stop)
    require(!text.empty(), ErrorKind::usage, "--stop is empty; give the text before which a sample ends");
  require(!options.chat || options.interactive || has_prompt(options), ErrorKind::usage,
          "--chat needs a message of the user; add --prompt, --prompt-file or --interactive");
  require(options.samples >= 1 && options.samples <= kMostSamples, ErrorKind::config,
          "num-samples is {}, expected 1 to {}", options.samples, kMostSamples);
  options.generate.sampling.validate();
  options.jsonl = options.jsonl || !options.output.empty();
  return std::nullopt;
}

std::vector<std::string> read_all_prompts(const SampleOptions& options) {
  const char* given = nullptr;
  for (const char* source : {"--prompt", "--start", "--prompt-file"}) {
    if (!options.given.contains(source)) continue;
    require(given == nullptr, ErrorKind::usage, "{} and {} were both given; use one", given, source);
    given = source;
  }
  require(!options.interactive || given == nullptr, ErrorKind::usage,
          "--interactive reads its prompts from standard input; remove {}", given == nullptr ? "" : given);
  if (options.interactive) return {};
  if (!options.prompt_file.empty()) {
    std::vector<std::string> prompts = read_prompts(options.prompt_file, input_encoding_from(options.encoding));
    if (options.trims_prompts) std::ranges::transform(prompts, prompts.begin(), trimmed);
    return prompts;
  }
  if (!options.start.empty()) return {read_start(options.start, input_encoding_from(options.encoding))};
  constexpr std::string_view kFile = "FILE:";
  const std::string named = options.prompt.starts_with(kFile) ? options.prompt.substr(kFile.size()) : "";
  require(named.empty(), ErrorKind::usage,
          "--prompt {} would be used as text; use --start FILE:{} for the whole file as one prompt, or --prompt-file "
          "{} for one prompt per line",
          options.prompt, named, named);
  return {options.prompt};
}

std::vector<std::string> take_model_settings(const ModelFolder& folder, const Tokenizer& tokenizer,
                                             const GenerationSettings& settings, SampleOptions& options) {
  std::vector<std::string> taken, lines;
  const auto set = [&](const char* flag, auto& target, const auto& value) {
    if (!value || !options.given.insert(flag).second) return;
    target = *value;
    taken.push_back(fmt::format("{} {}", std::string_view(flag).substr(2), *value));
  };
  GenerateOptions& generate = options.generate;
  const bool drawn =
      std::ranges::any_of(std::initializer_list<const char*>{"--temperature", "--top-k", "--top-p", "--min-p"},
                          [&](const char* flag) { return options.given.contains(flag); });
  if (settings.draws == false && !drawn && !options.given.contains("--greedy")) {
    generate.sampling.greedy = true;
    taken.emplace_back("greedy");
  } else if (settings.draws != false && !options.given.contains("--greedy")) {
    set("--temperature", generate.sampling.temperature, settings.temperature);
    set("--top-k", generate.sampling.top_k, settings.top_k);
    set("--top-p", generate.sampling.top_p, settings.top_p);
    set("--min-p", generate.sampling.min_p, settings.min_p);
  }
  set("--repetition-penalty", generate.repetition_penalty, settings.repetition_penalty);
  if (settings.max_length && !settings.max_new_tokens && !options.given.contains("--max-new-tokens")) {
    options.max_length = *settings.max_length;
    taken.push_back(fmt::format("max-length {}", options.max_length));
  }
  set("--max-new-tokens", generate.max_new_tokens, settings.max_new_tokens);

  const std::optional<TokenId> end_of_text = tokenizer.end_of_text();
  const auto vocabulary = static_cast<uint64_t>(folder.spec.vocabulary);
  std::vector<TokenId> end = settings.end;
  std::erase_if(end, [&](TokenId id) { return id >= vocabulary; });
  const bool said = !end.empty();
  // Documents in Trireme's training data end with this token, also if the run began with another model.
  if (end_of_text && (end.empty() || folder.checkpoint) && std::ranges::find(end, *end_of_text) == end.end())
    end.push_back(*end_of_text);
  if (options.stop_at_end && said && end != std::vector<TokenId>{end_of_text.value_or(~TokenId{0})})
    taken.push_back(fmt::format("texts end at {}", fmt::join(end, ", ")));
  if (options.stop_at_end) generate.stop_at = std::move(end);

  generate.never = settings.suppressed;
  for (TokenId id = 0; id < vocabulary; ++id) {
    if (!tokenizer.has_token(id)) generate.never.push_back(id);
  }
  if (!taken.empty())
    lines.push_back(
        fmt::format("{}: using the model's settings: {}; flags override them", folder.path, fmt::join(taken, ", ")));
  if (!settings.without_effect.empty())
    lines.push_back(fmt::format("{}: settings of the model that are not supported and have no effect here: {}",
                                folder.path, fmt::join(settings.without_effect, ", ")));
  return lines;
}

}  // namespace trireme
