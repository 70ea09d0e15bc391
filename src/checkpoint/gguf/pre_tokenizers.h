#pragma once
// llama.cpp cuts a text, before the merges of byte-level BPE, as the name of a pre-tokenizer says; here are the
// patterns of those names.

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* kDigitPattern = R"(\p{N})";

struct PreTokenizerName {
  const char* name;  ///< that is written
  bool ignores_merges;
  std::vector<std::string> steps;     ///< each cuts the pieces of the one before
  std::vector<std::string> others{};  ///< other names that cut alike
  bool composes = false;              ///< the models with it make a text NFC first
};

const std::vector<PreTokenizerName>& known_pre_tokenizers();
/// By any of its names; null: not known.
const PreTokenizerName* find_pre_tokenizer(std::string_view name);

}  // namespace trireme
