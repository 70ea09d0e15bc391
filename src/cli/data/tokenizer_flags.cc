#include "cli/data/tokenizer_flags.h"

namespace trireme {

void add_tokenizer_flags(Flags& app, TokenizerFlags& flags) {
  app.add("--lower-case", flags.lower_case,
          "whether a vocab.txt is uncased; auto: from tokenizer_config.json or the letters of the vocabulary")
      .one_of({"auto", "on", "off"})
      .show_default();
  app.add("--pattern", flags.pattern,
          "how text is split for a tiktoken file: gpt2, r50k_base, p50k_base, cl100k_base, o200k_base, llama3 or a "
          "regular expression");
  app.add("--merges", flags.merges,
          "merges file of a vocabulary in GPT-2's format (vocab.json), if it is not beside it under the usual name");
}

TokenizerLoadOptions load_options(const TokenizerFlags& flags) {
  using LowerCase = TokenizerLoadOptions::LowerCase;
  TokenizerLoadOptions options;
  options.pattern = flags.pattern;
  options.merges = flags.merges;
  options.lower_case = flags.lower_case == "on"    ? LowerCase::on
                       : flags.lower_case == "off" ? LowerCase::off
                                                   : LowerCase::automatic;
  return options;
}

}  // namespace trireme
