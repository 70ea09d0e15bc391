#pragma once
// What `trireme sample` is asked for: flags, over GPT-NeoX's text generation files, over what the model's own folder
// says.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/model_folder.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/flags.h"
#include "cli/train/mesh_flags.h"
#include "generate/generator.h"

namespace trireme {

struct SampleOptions {
  MeshFlags mesh;
  std::vector<std::string> files;
  std::string folder;  ///< where the files lie
  std::string encoding = "auto";
  std::string model, prompt, start, prompt_file, output, tokenizer;
  DType dtype = DType::f32;
  TokenizerFlags tokenizer_load;
  GenerateOptions generate;
  int64_t samples = 1, threads = 0;
  int64_t max_length = 0;         ///< of prompt and new tokens together, as the model's folder says; 0: no limit
  std::string prompt_end = "\n";  ///< what ends a typed prompt
  bool trims_prompts = false;     ///< of the prompt file, as NeoX does
  bool interactive = false, jsonl = false, stop_at_end = true, force = false;
  std::set<std::string> given;  ///< flags, and what files say in their place
};

/// Flags and files into `options`; returns an exit code where there is nothing to do (--help). Throws Error::usage,
/// Error::config.
std::optional<int> read_sample_options(std::vector<std::string> arguments, SampleOptions& options);

/// What is to be continued; none with --interactive. Throws Error::usage, Error::io, Error::data.
std::vector<std::string> read_all_prompts(const SampleOptions& options);

/// Takes what the model's folder says (checkpoint/huggingface/generation_settings.h) where flags and files say nothing,
/// and the ids that have no token. Returns lines for the user. Throws Error::data.
std::vector<std::string> take_model_settings(const ModelFolder& folder, const Tokenizer& tokenizer,
                                             const GenerationSettings& settings, SampleOptions& options);

}  // namespace trireme
