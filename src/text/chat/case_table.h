#pragma once
// Characters whose upper or title case is several characters.

#include <span>

namespace trireme::chat {

struct SpecialCase {
  char32_t code;
  const char* upper;
  const char* title;
};

/// By rising code.
std::span<const SpecialCase> special_cases();

}  // namespace trireme::chat
