#pragma once
#include <string>

#include "text/tokenizer.h"

namespace trireme {

/// The id that stands after documents: that of the token `named`, or where that is empty the tokenizer's own. `path` is
/// the tokenizer's, `purpose` says what the id is for; both for the message of the Error::data when there is none.
TokenId end_of_text_id(const Tokenizer& tokenizer, const std::string& named, const std::string& path,
                       const std::string& purpose);

}  // namespace trireme
