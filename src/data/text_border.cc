#include "data/text_border.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/byte_source.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;

bool begins_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

/// Characters that begin in the text, eight bytes at a time.
uint64_t count_characters(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  uint64_t characters = 0;
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    const uint64_t goes_on = (word & ~(word << 1)) >> 7 & kOnes;  // bytes that are 10xxxxxx
    characters += 8 - (goes_on * kOnes >> 56);
  }
  for (; at < text.size(); ++at) characters += begins_character(text[at]);
  return characters;
}

/// A place in the text, and the characters that begin before it.
struct Mark {
  uint64_t offset = 0, characters = 0;
};

/// Marks at least kBuffer bytes apart, the beginning and the end among them.
std::vector<Mark> mark(const std::string& path) {
  const auto source = open_source(path);
  std::vector<char> buffer(kBuffer);
  std::vector<Mark> marks(1);
  Mark here;
  while (const size_t n = source->read(buffer.data(), buffer.size())) {
    here.offset += n;
    here.characters += count_characters(std::string_view(buffer.data(), n));
    if (here.offset - marks.back().offset >= kBuffer) marks.push_back(here);
  }
  marks.push_back(here);
  return marks;
}

/// Where the character of that number, which is not before the mark, begins.
uint64_t find_character(const std::string& path, Mark from, uint64_t number) {
  const auto source = open_source(path);
  source->skip(from.offset);
  std::vector<char> buffer(kBuffer);
  while (const size_t n = source->read(buffer.data(), buffer.size())) {
    for (size_t i = 0; i < n; ++i, ++from.offset) {
      if (begins_character(buffer[i]) && from.characters++ == number) return from.offset;
    }
  }
  return from.offset;
}

}  // namespace

uint64_t text_border(const std::string& path, double fraction) {
  require(fraction > 0 && fraction < 1, ErrorKind::usage,
          "the training part of a text is {}, a number between 0 and 1 was expected", fraction);
  const std::vector<Mark> marks = mark(path);
  const uint64_t characters = marks.back().characters;
  const auto train = static_cast<uint64_t>(fraction * static_cast<double>(characters));
  require(train > 0 && train < characters, ErrorKind::data,
          "{} has {} characters, too few to divide into training and validation", path, characters);
  const auto after =
      std::partition_point(marks.begin(), marks.end(), [&](const Mark& mark) { return mark.characters <= train; });
  return find_character(path, *std::prev(after), train);
}

}  // namespace trireme
