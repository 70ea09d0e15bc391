#pragma once
#include <string>

#include "text/tokenizer.h"

namespace trireme {

/// The id after documents: that of the token `named` or, if that is empty, the tokenizer's own. `path` of the tokenizer
/// and `purpose` of the id are for the message of the Error::data if it is missing.
TokenId end_of_text_id(const Tokenizer& tokenizer, const std::string& named, const std::string& path,
                       const std::string& purpose);

}  // namespace trireme
