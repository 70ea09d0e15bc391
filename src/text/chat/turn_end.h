#pragma once
// The token that ends a turn of the assistant.

#include <optional>

#include "text/chat/chat_format.h"
#include "text/tokenizer.h"

namespace trireme::chat {

/// Whether the id is a token of its own in the text, as <|im_end|>, and not a piece of words.
bool is_marker(const Tokenizer& tokenizer, TokenId id);

/// The marker that the template writes after what the assistant says. Nothing where it writes none, or raises an error
/// for a conversation of two messages.
std::optional<TokenId> end_of_turn(const ChatFormat& format, const Tokenizer& tokenizer);

}  // namespace trireme::chat
