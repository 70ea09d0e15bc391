#pragma once
// What a text that is not JSON seems to be.

#include <string>
#include <string_view>

namespace trireme::chat {

/// What helps where `text`, a line or a value, could not be read as JSON: "; ..."; empty: nothing known.
std::string advice_on_json(std::string_view text);

}  // namespace trireme::chat
