#include "text/pipeline/origins.h"

#include <algorithm>

#include "text/byte_alphabet.h"

namespace trireme {

void Origins::add(size_t bytes, const TextSpan& from) {
  spans_.insert(spans_.end(), bytes, {static_cast<uint32_t>(from.begin), static_cast<uint32_t>(from.end)});
}

void Origins::keep(size_t bytes, size_t begin) {
  for (size_t i = begin; i < begin + bytes; ++i)
    spans_.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(i + 1)});
}

TextSpan Origins::of(const TextSpan& span) const {
  if (spans_.empty()) return {0, 0};
  if (span.begin >= span.end) {  // between two bytes
    const size_t at = span.begin < spans_.size() ? spans_[span.begin].begin : spans_.back().end;
    return {at, at};
  }
  return {spans_[span.begin].begin, std::max(spans_[span.begin].end, spans_[span.end - 1].end)};
}

void Origins::follow(const Origins& later) {
  std::vector<Span> spans(later.size());
  for (size_t i = 0; i < later.size(); ++i) {
    const TextSpan from = of({later.spans_[i].begin, later.spans_[i].end});
    spans[i] = {static_cast<uint32_t>(from.begin), static_cast<uint32_t>(from.end)};
  }
  spans_ = std::move(spans);
}

std::string spell_bytes(std::string_view bytes, Origins* origins) {
  if (origins == nullptr) return spell_bytes(bytes);
  Rewriting rewriting(bytes, origins);
  for (size_t i = 0; i < bytes.size(); ++i) {
    append_spelling(bytes.substr(i, 1), rewriting.out);
    rewriting.took(1);
  }
  return std::move(rewriting.out);
}

}  // namespace trireme
