#include "data/prepare/end_of_text.h"

#include "base/error.h"

namespace trireme {

TokenId end_of_text_id(const Tokenizer& tokenizer, const std::string& named, const std::string& path,
                       const std::string& purpose) {
  if (named.empty() && path == kCharLevelTokenizer) return 0;  // NeoX's choice
  const auto id = named.empty() ? tokenizer.end_of_text() : tokenizer.token_to_id(named);
  require(id.has_value(), ErrorKind::data, "tokenizer {} has no {} {}{}", path,
          named.empty() ? "end-of-text token" : fmt::format("token \"{}\"", named), purpose,
          named.empty() ? "; name one with --end-of-text TOKEN" : "");
  return *id;
}

}  // namespace trireme
