#pragma once
// The options of `trireme sample`: flags override GPT-NeoX's text generation files, which override the settings of the
// model's folder.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/model_folder.h"
#include "cli/data/chat_flags.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/flags.h"
#include "cli/train/mesh_flags.h"
#include "data/prepare/byte_source.h"
#include "generate/generator.h"

namespace trireme {
namespace chat {
struct Conversation;
}

struct SampleOptions {
  MeshFlags mesh;
  std::vector<std::string> files;
  std::string folder;  ///< folder of the files
  std::string encoding = "auto";
  std::string model, adapter, prompt, start, prompt_file, output, tokenizer;
  DType dtype = DType::f32;
  DeviceChoice device = DeviceChoice::automatic;
  TokenizerFlags tokenizer_load;
  GenerateOptions generate;
  int64_t samples = 1, threads = 0;
  int64_t max_length = 0;         ///< of prompt and new tokens together, from the model's folder; 0: no limit
  std::string prompt_end = "\n";  ///< text that ends a typed prompt
  bool trims_prompts = false;     ///< of the prompt file, as NeoX does
  bool chat = false;              ///< prompts are what a user says, and the model's chat template makes the text
  std::string system;             ///< of a conversation
  std::vector<std::string> stop;  ///< texts before which a sample ends
  ChatTemplateFlags format;
  bool interactive = false, jsonl = false, stop_at_end = true, force = false;
  std::set<std::string> given;  ///< given flags, also through files
};

/// Reads flags and files into `options`; returns an exit code if there is nothing to do (--help). Throws Error::usage,
/// Error::config.
std::optional<int> read_sample_options(CommandLine line, SampleOptions& options);

/// The prompts; none with --interactive. Throws Error::usage, Error::io, Error::data.
std::vector<std::string> read_all_prompts(const SampleOptions& options);

/// Applies settings of the model's folder (checkpoint/huggingface/generation_settings.h) that flags and files do not
/// set, and excludes ids without a token. Returns lines for the user. Throws Error::data.
std::vector<std::string> take_model_settings(const ModelFolder& folder, const Tokenizer& tokenizer,
                                             const GenerationSettings& settings, SampleOptions& options);

/// One prompt per line, in order; lines without text are skipped. In a .jsonl file a line is a JSON string, or an
/// object with the text as "prompt", "text" or "context". Throws Error::io, Error::data naming the line.
/// The file is read in the encoding that is given.
std::vector<std::string> read_prompts(const std::string& path, const InputEncoding& encoding = {});

/// The conversations of a file that `trireme sft` reads, each up to its last question: what the assistant says after
/// that is left out. Nothing if its first row has no column of messages. Throws Error::io, Error::data naming the row.
std::vector<chat::Conversation> read_questions(const std::string& path);

/// nanoGPT's --start: the text, or with FILE:PATH the whole file. Throws Error::io.
std::string read_start(const std::string& start, const InputEncoding& encoding = {});

}  // namespace trireme
