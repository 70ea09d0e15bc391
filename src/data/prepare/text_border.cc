#include "data/prepare/text_border.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "data/prepare/byte_source.h"
#include "data/prepare/document_encoder.h"
#include "data/prepare/ordered_pipeline.h"

namespace trireme {
namespace {

constexpr uint64_t kPart = uint64_t{16} << 20;  // some milliseconds for one thread

struct Item {
  size_t file = 0;
  uint64_t begin = 0, bytes = 0, result = 0;
};

}  // namespace

uint64_t sum_over_parts(const std::vector<std::string>& paths, int threads,
                        const std::function<uint64_t(FilePart)>& count) {
  Item next;
  uint64_t size = paths.empty() ? 0 : std::filesystem::file_size(paths[0]), sum = 0;
  const auto find_part = [&](Item& item) {
    while (next.begin == size) {
      if (next.file + 1 >= paths.size()) return false;
      next = {.file = next.file + 1};
      size = std::filesystem::file_size(paths[next.file]);
    }
    next.bytes = std::min(kPart, size - next.begin);
    item = next;
    next.begin += next.bytes;
    return true;
  };
  const auto count_part = [&](Item& item, int) {
    const auto source = open_bytes(paths[item.file]);
    source->skip(item.begin);
    item.result = count({*source, item.begin, item.bytes});
  };
  OrderedPipeline<Item>::run(threads, {find_part, count_part, [&](Item& item) { sum += item.result; }});
  return sum;
}

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

namespace {

bool is_cheap_to_read(const InputFile& file) {
  return (file.kind == InputKind::text || file.kind == InputKind::json_lines) &&
         compression_of(file.path) == Compression::none && file.encoding.name.empty() &&
         std::filesystem::is_regular_file(file.path);
}

/// Counts a line at its first character that is not white space.
class LineCounter {
 public:
  explicit LineCounter(bool at_line_begin) : undecided_(at_line_begin) {}

  void add(std::string_view text) {
    for (size_t at = 0;;) {
      if (undecided_) {
        at = text.find_first_not_of(" \t\r\n", at);
        if (at == std::string_view::npos) return;
        undecided_ = false;
        ++lines_;
      }
      at = text.find('\n', at);
      if (at == std::string_view::npos) return;
      undecided_ = true;
    }
  }
  /// Whether the current line may be blank.
  bool undecided() const { return undecided_; }
  uint64_t lines() const { return lines_; }

 private:
  bool undecided_;
  uint64_t lines_ = 0;
};

/// Counts lines after a line end of the part, and the first line of a file.
uint64_t count_lines(FilePart part, const std::atomic<bool>* stop) {
  LineCounter counter(part.begin == 0);
  std::vector<char> buffer(kBuffer);
  for (uint64_t left = part.bytes; left > 0;) {
    check_stop(stop);
    const size_t n = part.source.read(buffer.data(), std::min<uint64_t>(buffer.size(), left));
    if (n == 0) return counter.lines();
    counter.add({buffer.data(), n});
    left -= n;
  }
  // The last line end of the part: whether the line after it is blank is decided after the part, up to the next line
  // end.
  while (counter.undecided()) {
    const size_t n = part.source.read(buffer.data(), 64);
    const std::string_view text(buffer.data(), n);
    const size_t end = std::min(text.find('\n'), n);
    counter.add(text.substr(0, end));
    if (end < n || n == 0) break;
  }
  return counter.lines();
}

}  // namespace

std::optional<uint64_t> expected_documents(const std::vector<InputFile>& files, uint64_t most, int threads,
                                           const std::atomic<bool>* stop) {
  if (!std::all_of(files.begin(), files.end(), is_cheap_to_read)) return std::nullopt;
  uint64_t documents = 0;
  std::vector<std::string> jsonl;
  for (const InputFile& file : files) {
    if (file.kind == InputKind::json_lines)
      jsonl.push_back(file.path);
    else
      documents += file.bytes > 0;
  }
  std::atomic<uint64_t> seen{documents};
  documents += sum_over_parts(jsonl, threads, [&](FilePart part) {
    if (most > 0 && seen >= most) return uint64_t{0};
    const uint64_t lines = count_lines(part, stop);
    seen += lines;
    return lines;
  });
  return most > 0 ? std::min(documents, most) : documents;
}

}  // namespace trireme
