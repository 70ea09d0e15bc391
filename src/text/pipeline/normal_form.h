#pragma once
// Unicode normal forms and case, on UTF-8 that may have invalid bytes, which stay unchanged.

#include <string>
#include <string_view>

namespace trireme {

/// Appends NFC, NFD, NFKC or NFKD of text.
void append_normal_form(std::string_view text, bool compose, bool compatible, std::string& out);

/// Appends the lower-case form of a character: one character, two for U+0130.
void append_lower_case(char32_t code, std::string& out);

}  // namespace trireme
