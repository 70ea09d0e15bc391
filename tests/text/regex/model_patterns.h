#pragma once
// The expressions with which tokenizers of common models cut text.

#include <string>
#include <vector>

namespace trireme::test {

struct ModelPattern {
  const char* name;
  std::string pattern;
  std::string for_pcre2;  ///< the same without sets inside of sets; empty: the same
};

inline const std::vector<ModelPattern>& model_patterns() {
  static const std::string contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  static const std::string upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  static const std::string tail = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  static const auto words = [](const std::string& after, const std::string& numbers) {
    return R"([^\r\n\p{L}\p{N}]?)" + upper + "*" + lower + "+" + after + R"(|[^\r\n\p{L}\p{N}]?)" + upper + "+" +
           lower + "*" + after + "|" + numbers + tail;
  };
  static const auto letters = [](const std::string& numbers) {
    return contractions + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)" + numbers +
           R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  };
  static const std::vector<ModelPattern> list{
      {"GPT-2, GPT-NeoX, StarCoder, Phi-2",
       R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", ""},
      {"GPT-2 in tiktoken", R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)", ""},
      {"cl100k, Llama-3, Phi-4", letters(R"(\p{N}{1,3})"), ""},
      {"cl100k in tiktoken",
       R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
       ""},
      {"o200k, Llama-4", words(contractions + "?", R"(\p{N}{1,3})"), ""},
      {"Tekken", words("", R"(\p{N})"), ""},
      {"Qwen 2 and 3", letters(R"(\p{N})"), ""},
      {"DeepSeek-V3, numbers", R"(\p{N}{1,3})", ""},
      {"DeepSeek-V3, Chinese and Japanese", "[一-龥\u3040-ゟ゠-ヿ]+", ""},
      {"DeepSeek-V3, words",
       R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
       R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
       ""},
      {"DeepSeek-LLM, lines", R"([\r\n])", ""},
      {"DeepSeek-LLM, letters", R"(\s?\p{L}+)", ""},
      {"DeepSeek-LLM, punctuation", R"(\s?\p{P}+)", ""},
      {"DeepSeek-LLM, Chinese", "[一-龥ࠀ-一가-\ud7ff]+", ""},
      {"DeepSeek-Coder, punctuation", "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", ""},
      {"Falcon, three digits", "[0-9][0-9][0-9]", ""},
      {"BLOOM", " ?[^(\\s|[.,!?…。，、।۔،])]+", " ?[^(\\s|.,!?…。，、।۔،)]+"},
  };
  return list;
}

}  // namespace trireme::test
