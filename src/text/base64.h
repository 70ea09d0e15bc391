#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

/// Decodes standard base64 with padding; empty for other text.
std::optional<std::string> decode_base64(std::string_view text);
/// Appends the bytes to `out` and returns true; for other text appends nothing and returns false.
bool decode_base64(std::string_view text, std::string& out);

}  // namespace trireme
