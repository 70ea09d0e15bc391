#pragma once
// Added tokens that the files beside a tokenizer declare: tokenizer_config.json (added_tokens_decoder, the special
// tokens by their roles, extra_special_tokens, additional_special_tokens) and, where it has no added_tokens_decoder,
// special_tokens_map.json and added_tokens.json. As transformers 5 reads them (tokenization_utils_base.py).

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/added_tokens.h"

namespace trireme {

struct DeclaredToken {
  AddedToken token;           ///< its id is not set
  std::optional<TokenId> id;  ///< that a file names
  bool replaces = false;      ///< its flags count where the tokenizer has a token of this text, too
};

/// In the order in which transformers adds them; texts are unique. Throws Error::data for a file that is not as it
/// should be, naming the place.
std::vector<DeclaredToken> declared_tokens(const std::string& folder);

/// The tokens that a tokenizer has with the declared ones. A new one has the id that the vocabulary has for its text,
/// else the next one from `next` on. where: in a warning about ids that a file declares otherwise.
std::vector<AddedToken> with_declared(std::vector<AddedToken> added, const std::vector<DeclaredToken>& declared,
                                      const std::function<std::optional<TokenId>(std::string_view)>& find, size_t next,
                                      std::string_view where);

/// A tokenizer.json with the tokens that the files of the folder declare; unchanged where it has all of them. Text that
/// is not a tokenizer.json is returned unchanged; its reader reports the error.
std::string with_declared_tokens(std::string json, const std::string& folder, std::string_view where);

/// The text of tokenizer.json in a folder that has one, with_declared_tokens().
std::string read_tokenizer_json(const std::string& folder);

}  // namespace trireme
