#pragma once
// Special tokens for a tokenizer that `trireme tokenizer train` made.

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace trireme {

/// Adds <s> and </s> to a tokenizer.json, with ids from `first` plus the number of tokens that were added before.
inline void add_special_tokens(Json& json, size_t first) {
  for (const char* name : {"<s>", "</s>"}) {
    json["added_tokens"].push_back({{"id", first + json["added_tokens"].size()},
                                    {"content", name},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  }
}

}  // namespace trireme
