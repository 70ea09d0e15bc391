#include "data/document_chunks.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

DocumentChunks::DocumentChunks(const std::vector<InputFile>& files, Cut cut, uint64_t border, size_t target_bytes)
    : files_(files), cut_(std::move(cut)), border_(border), target_(target_bytes) {}

bool DocumentChunks::next(DocumentChunk& chunk) {
  while (file_ < files_.size()) {
    const InputFile& file = files_[file_];
    if (!source_) {
      source_ = open_source(file.path);
      at_end_ = false;
      line_ = 1;
      given_ = 0;
      rest_.clear();
    }
    chunk.path = &file.path;
    chunk.kind = file.kind;
    const bool found = file.kind == InputKind::text ? next_text(chunk) : next_lines(chunk);
    given_ += chunk.size;
    chunk.progress = earlier_ + source_->consumed();
    if (at_end_ && rest_.empty()) {
      earlier_ += file.bytes;
      source_.reset();
      ++file_;
    }
    if (found) return true;
  }
  return false;
}

/// Reads until the chunk has `to` bytes; false if the source ended before. What was left over comes first.
bool DocumentChunks::fill(DocumentChunk& chunk, size_t to) {
  if (chunk.bytes.size() < to + DocumentChunk::kPadding) chunk.bytes.resize(to + DocumentChunk::kPadding);
  while (chunk.size < to && !at_end_) {
    const size_t n = source_->read(chunk.bytes.data() + chunk.size, to - chunk.size);
    chunk.size += n;
    at_end_ = n == 0;
  }
  return chunk.size >= to;
}

void DocumentChunks::keep_rest(DocumentChunk& chunk, size_t end) {
  rest_.assign(chunk.bytes, end, chunk.size - end);
  chunk.size = end;
}

/// What the last chunk left over begins the next one.
void DocumentChunks::begin_chunk(DocumentChunk& chunk) {
  chunk.bytes.resize(std::max(chunk.bytes.size(), rest_.size() + DocumentChunk::kPadding));
  std::copy(rest_.begin(), rest_.end(), chunk.bytes.begin());
  chunk.size = rest_.size();
  rest_.clear();
}

bool DocumentChunks::next_text(DocumentChunk& chunk) {
  begin_chunk(chunk);
  chunk.ends_document = true;
  size_t near = target_ - target_ / 16;  // words end often: the last sixteenth has one
  for (size_t to = target_;; to *= 2) {
    const bool full = fill(chunk, to);
    if (border_ > given_ && border_ - given_ <= chunk.size) {
      keep_rest(chunk, border_ - given_);
      return true;
    }
    if (!full) return true;
    const size_t end = cut_(chunk.text(), near);
    if (end < chunk.size) {
      keep_rest(chunk, end);
      chunk.ends_document = false;
      return true;
    }
    near = chunk.size;
  }
}

bool DocumentChunks::next_lines(DocumentChunk& chunk) {
  begin_chunk(chunk);
  chunk.first_line = line_;
  for (size_t to = std::max(target_, chunk.size); fill(chunk, to); to *= 2) {
    const size_t last = chunk.text().rfind('\n');
    if (last != std::string_view::npos) {
      keep_rest(chunk, last + 1);
      break;
    }
  }
  if (chunk.first_line == 1 && chunk.text().starts_with(kByteOrderMark))
    std::fill_n(chunk.bytes.begin(), kByteOrderMark.size(), ' ');
  line_ += static_cast<uint64_t>(
      std::count(chunk.bytes.begin(), chunk.bytes.begin() + static_cast<ptrdiff_t>(chunk.size), '\n'));
  return chunk.size > 0;
}

}  // namespace trireme
