#pragma once
// Whether a conversation's text has what its messages say: templates leave out what they do not know.

#include <string>
#include <string_view>

#include "base/json.h"

namespace trireme::chat {

/// The text of a content: a text, or the joined texts of a list of parts.
std::string content_text(const Json& content);

/// What `text` lacks of what a message says: "content", "the call of weather"; empty: nothing. A template may trim,
/// escape or shorten: a content is there if one of its longest words is, a call if the function's name is. Reasoning
/// before </think> may be left out.
std::string missing_of(const Json& message, std::string_view text);

}  // namespace trireme::chat
