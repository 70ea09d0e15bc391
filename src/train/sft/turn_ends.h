#pragma once
// With which token the turns end that a training on conversations counts.

#include <optional>

#include "data/chat/training_rows.h"
#include "text/tokenizer.h"

namespace trireme {

/// The marker (text/chat/turn_end.h) that ends more than half of the runs of counted ids, white space after it left
/// out; nothing if there is none.
std::optional<TokenId> end_of_counted_turns(const chat::CodedIds& conversations, const Tokenizer& tokenizer);

}  // namespace trireme
