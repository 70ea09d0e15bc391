#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

/// Bytes of standard base64 with padding; nothing if the text is not that.
std::optional<std::string> decode_base64(std::string_view text);
/// Appends them to `out` and returns true; appends nothing, and returns false, if the text is not that.
bool decode_base64(std::string_view text, std::string& out);

}  // namespace trireme
