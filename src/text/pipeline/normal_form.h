#pragma once
// Unicode normal forms and case, on UTF-8 that may have invalid bytes, which stay unchanged.

#include <string>
#include <string_view>

#include "text/pipeline/origins.h"

namespace trireme {

/// NFC, NFD, NFKC or NFKD of text. origins: gets where the bytes of the result come from, character by character (as a
/// reader counts them) where that is possible; may be null.
std::string normal_form(std::string_view text, bool compose, bool compatible, Origins* origins = nullptr);

/// Appends the lower-case form of a character: one character, two for U+0130.
void append_lower_case(char32_t code, std::string& out);

}  // namespace trireme
