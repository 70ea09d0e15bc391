#include "data/prepare/document_count.h"

#include <algorithm>
#include <filesystem>

#include "data/prepare/compressed_source.h"
#include "data/prepare/document_encoder.h"
#include "data/prepare/file_parts.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{256} << 10;  // stays in the core's own cache

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
