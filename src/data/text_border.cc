#include "data/text_border.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/byte_source.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;

bool begins_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

/// Calls part(text) with the file's bytes until it returns false.
template <class Part>
void read_parts(const std::string& path, Part part) {
  const auto source = open_source(path);
  std::vector<char> buffer(kBuffer);
  while (const size_t n = source->read(buffer.data(), buffer.size())) {
    if (!part(std::string_view(buffer.data(), n))) return;
  }
}

}  // namespace

uint64_t text_border(const std::string& path, double fraction) {
  require(fraction > 0 && fraction < 1, ErrorKind::usage,
          "the training part of a text is {}, a number between 0 and 1 was expected", fraction);
  uint64_t characters = 0;
  read_parts(path, [&](std::string_view text) {
    characters += static_cast<uint64_t>(std::count_if(text.begin(), text.end(), begins_character));
    return true;
  });
  const auto train = static_cast<uint64_t>(fraction * static_cast<double>(characters));
  require(train > 0 && train < characters, ErrorKind::data,
          "{} has {} characters, too few to divide into training and validation", path, characters);
  uint64_t seen = 0, offset = 0;
  read_parts(path, [&](std::string_view text) {
    for (const char byte : text) {
      if (begins_character(byte) && seen++ == train) return false;
      ++offset;
    }
    return true;
  });
  return offset;
}

}  // namespace trireme
