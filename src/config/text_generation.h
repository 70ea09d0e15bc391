#pragma once
// What GPT-NeoX's files say to its generate.py.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct TextGeneration {
  enum class Kind { unconditional, input_file, interactive };
  Kind kind = Kind::unconditional;
  std::string model;                    ///< load, else save; empty: neither is there
  std::optional<int64_t> iteration;     ///< of the checkpoints in `model`
  std::string vocabulary, merges;       ///< of the tokenizer; empty: not said
  std::string input_file, output_file;  ///< empty: not said
  std::string prompt_end;               ///< text that ends a typed prompt
  double temperature = 0, top_p = 0;    ///< a top_p of 0: off
  int64_t top_k = 0, maximum_tokens = 64, samples = 1, seed = 1234;
  std::vector<std::string> notes;  ///< what a user should know, a line each
};

/// Reads YAML files of GPT-NeoX; a key may stand in one of them only. NeoX's defaults count for what is not given; keys
/// of training are not looked at. Throws Error::config naming file, line and key.
TextGeneration read_text_generation(const std::vector<std::string>& files);

}  // namespace trireme
