#pragma once
// Unicode normal forms and case, on UTF-8 that may have invalid bytes: those stay where they are.

#include <string>
#include <string_view>

namespace trireme {

/// Appends NFC, NFD, NFKC or NFKD of text.
void append_normal_form(std::string_view text, bool compose, bool compatible, std::string& out);

/// Appends the lower-case form of a character: one, but for U+0130, which gives two.
void append_lower_case(char32_t code, std::string& out);

}  // namespace trireme
