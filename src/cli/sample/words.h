#pragma once
// Other programs' words and files for sampling: arguments of nanoGPT's and Intel's sample.py, files of GPT-NeoX.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// nanoGPT's: a configuration file as the first word, --out_dir or --init_from; then its defaults apply, and the model
/// is that of out_dir or the GPT-2 that init_from names. Intel's: --ckpt_path, whose ckpt.pt means the link `ckpt` that
/// training creates for `model_path: ckpt.pt`. Other words stay unchanged. Throws Error::config for values of another
/// type, Error::usage if --model is also given.
std::vector<std::string> take_sampling_dialects(std::vector<std::string> words);

/// The settings of GPT-NeoX's files for its generate.py.
struct TextGeneration {
  enum class Kind { unconditional, input_file, interactive };
  Kind kind = Kind::unconditional;
  std::string model;                    ///< load, otherwise save; empty: neither is given
  std::optional<int64_t> iteration;     ///< of the checkpoints in `model`
  std::string vocabulary, merges;       ///< of the tokenizer; empty: not given
  std::string input_file, output_file;  ///< empty: not given
  std::string prompt_end;               ///< text that ends a typed prompt
  double temperature = 0, top_p = 0;    ///< a top_p of 0: off
  int64_t top_k = 0, maximum_tokens = 64, samples = 1, seed = 1234;
  std::vector<std::string> notes;  ///< notes for the user, one line each
};

/// Reads YAML files of GPT-NeoX; each key may be in only one of them. Missing keys have NeoX's defaults; keys of
/// training are ignored. Throws Error::config naming file, line and key.
TextGeneration read_text_generation(const std::vector<std::string>& files);

}  // namespace trireme
