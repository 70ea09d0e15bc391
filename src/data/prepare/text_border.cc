#include "data/prepare/text_border.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "data/prepare/byte_source.h"
#include "data/prepare/compressed_source.h"
#include "data/prepare/document_encoder.h"
#include "data/prepare/file_parts.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{1} << 18;  // stays in the core's own cache

uint64_t count_in(ByteSource& source, uint64_t bytes, const std::atomic<bool>* stop) {
  std::vector<char> buffer(kBuffer);
  uint64_t characters = 0;
  while (const size_t n = source.read(buffer.data(), std::min<uint64_t>(buffer.size(), bytes))) {
    check_stop(stop);
    characters += count_characters(std::string_view(buffer.data(), n));
    bytes -= n;
  }
  return characters;
}

bool begins_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

}  // namespace

size_t count_characters(std::string_view text) {
  // Eight bytes at a time, with one counter per byte; a block is short enough that no 8-bit counter overflows.
  constexpr uint64_t kOnes = 0x0101010101010101, kEven = 0x00FF00FF00FF00FF;
  constexpr size_t kWords = 64;
  uint64_t words[kWords];
  size_t characters = 0, at = 0;
  for (; at + sizeof words <= text.size(); at += sizeof words) {
    std::memcpy(words, text.data() + at, sizeof words);
    uint64_t go_on = 0;  // bytes that are 10xxxxxx
    for (size_t i = 0; i < kWords; ++i) go_on += (words[i] & ~(words[i] << 1)) >> 7 & kOnes;
    const uint64_t pairs = (go_on & kEven) + (go_on >> 8 & kEven);
    characters += sizeof words - (pairs * 0x0001000100010001 >> 48);
  }
  for (; at < text.size(); ++at) characters += begins_character(text[at]);
  return characters;
}

size_t find_character(std::string_view text, size_t number) {
  constexpr size_t kStep = 4096;
  size_t at = 0;
  while (at + kStep < text.size()) {
    const size_t characters = count_characters(text.substr(at, kStep));
    if (characters > number) break;
    number -= characters;
    at += kStep;
  }
  for (;; ++at) {
    if (begins_character(text[at]) && number-- == 0) return at;
  }
}

uint64_t training_characters(const std::string& path, double fraction, int threads, const std::atomic<bool>* stop,
                             const InputEncoding& encoding) {
  require(fraction > 0 && fraction < 1, ErrorKind::usage,
          "--train-fraction is {}, expected a number above 0 and up to 1 (no val.bin)", fraction);
  const bool converted = compression_of(path) != Compression::none || !encoding.name.empty();
  const uint64_t characters =
      converted
          ? count_in(*as_utf8(open_source(path), encoding, path, false), UINT64_MAX, stop)
          : sum_over_parts({path}, threads, [stop](FilePart part) { return count_in(part.source, part.bytes, stop); });
  const auto train = static_cast<uint64_t>(fraction * static_cast<double>(characters));
  require(train > 0 && train < characters, ErrorKind::data,
          "{} has {} characters, too few to split into training and validation", path, characters);
  return train;
}

}  // namespace trireme
