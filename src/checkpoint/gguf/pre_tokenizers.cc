#include "checkpoint/gguf/pre_tokenizers.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace

const std::vector<PreTokenizerName>& known_pre_tokenizers() {
  static const std::vector<PreTokenizerName> known = {
      {"gpt-2", false, {kGpt2Pattern}, {"gpt2", "mpt", "jais", "trillion"}},
      {"olmo", false, {kGpt2Pattern}, {}, true},
      {"smollm", false, {kDigitPattern, kGpt2Pattern}, {"starcoder", "refact", "command-r", "codeshell"}},
      {"llama-bpe", true, {kLlama3}, {"llama3", "llama-v3", "falcon3", "pixtral"}},
      {"dbrx", false, {kLlama3}, {"smaug-bpe"}},
      {"qwen2", false, {kQwen2}, {"deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan"}, true},
      {"qwen35", false, {kQwen35}, {}, true},
      {"tekken", true, {kTekken}},
      {"gpt-4o", false, {kO200k}, {"llama4", "kanana2"}},
  };
  return known;
}

const PreTokenizerName* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizerName& one : known_pre_tokenizers())
    if (one.name == name || std::ranges::find(one.others, name) != one.others.end()) return &one;
  return nullptr;
}

}  // namespace trireme
