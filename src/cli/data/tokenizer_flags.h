#pragma once
// Settings from the user that a tokenizer file does not contain.

#include <string>

#include "cli/flags.h"
#include "text/tokenizer.h"

namespace trireme {

struct TokenizerFlags {
  std::string lower_case = "auto", pattern, merges;
};

void add_tokenizer_flags(Flags& app, TokenizerFlags& flags);
TokenizerLoadOptions load_options(const TokenizerFlags& flags);

}  // namespace trireme
