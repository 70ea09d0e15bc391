#include "base/count.h"

namespace trireme {

std::string count_text(std::string_view count, std::string_view noun) {
  std::string text = fmt::format("{} {}", count, noun);
  if (count == "1") return text;
  const auto ends = [&](std::string_view end) { return noun.ends_with(end); };
  if (ends("s") || ends("x") || (ends("ch") && !ends("epoch")) || ends("sh")) return text + "es";
  const bool vowel = noun.size() > 1 && std::string_view("aeiou").find(noun[noun.size() - 2]) != noun.npos;
  if (!ends("y") || vowel) return text + "s";
  text.back() = 'i';
  return text + "es";
}

}  // namespace trireme
