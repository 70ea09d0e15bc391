#pragma once
// Sends documents to one of two sinks, by their number.

#include <cstdint>
#include <span>
#include <vector>

#include "data/prepare/document_encoder.h"

namespace trireme {

class DividingSink final : public DocumentSink {
 public:
  /// `apart`: numbers of the documents for `second`, ascending; the others are for `first`. `done`: documents sent
  /// before. All of them must outlive the object. width: bytes of an id.
  DividingSink(std::span<const uint64_t> apart, uint64_t done, uint64_t width, DocumentSink& first,
               DocumentSink& second);

  void append(std::span<const std::byte> ids, std::span<const size_t> ends) override;

 private:
  bool is_apart() const { return next_ < apart_.size() && apart_[next_] == document_; }
  /// Number of the next documents, up to `most`, that go to the same sink as the first of them.
  uint64_t alike(uint64_t most) const;

  std::span<const uint64_t> apart_;
  uint64_t document_;  // number of the current document
  size_t next_;        // the first of apart_ that is not before it
  uint64_t width_;
  DocumentSink& first_;
  DocumentSink& second_;
  std::vector<size_t> ends_;
};

}  // namespace trireme
