#pragma once
// The settings of GPT-NeoX's files for its generate.py.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

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
