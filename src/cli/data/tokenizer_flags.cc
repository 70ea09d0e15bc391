#include "cli/data/tokenizer_flags.h"

namespace trireme {

void add_tokenizer_flags(Flags& app, TokenizerFlags& flags) {
  app.add("--lower-case", flags.lower_case,
          "whether a vocab.txt is uncased; auto: as tokenizer_config.json or the vocabulary's letters say")
      .one_of({"auto", "on", "off"})
      .show_default();
  app.add("--pattern", flags.pattern,
          "how text is cut for a tiktoken file: gpt2, r50k_base, p50k_base, cl100k_base, o200k_base, llama3 or a "
          "regular expression");
  app.add("--merges", flags.merges,
          "merges of a vocabulary of GPT-2's form (vocab.json), where they do not lie beside it under its name");
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
