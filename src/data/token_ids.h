#pragma once
// Ids of a token file in memory: little-endian numbers of 16 or 32 bits.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

/// Ids that 16 bits can express.
constexpr uint64_t kNarrowIds = uint64_t{1} << 16;
/// Bytes per id of a token file: 2 where they can express every id of the vocabulary, otherwise 4.
constexpr uint64_t id_width(uint64_t vocabulary) { return vocabulary <= kNarrowIds ? 2 : 4; }

/// A view; the memory must outlive it.
class TokenIds {
 public:
  TokenIds() = default;
  /// bytes: complete ids of `width` 2 or 4.
  TokenIds(std::span<const std::byte> bytes, uint64_t width) : bytes_(bytes), width_(width) {
    assert((width == 2 || width == 4) && bytes.size() % width == 0);
  }
  TokenIds(std::span<const uint16_t> ids) : TokenIds(std::as_bytes(ids), 2) {}  // NOLINT(*-explicit-*)
  TokenIds(std::span<const TokenId> ids) : TokenIds(std::as_bytes(ids), 4) {}   // NOLINT(*-explicit-*)
  TokenIds(const std::vector<uint16_t>& ids) : TokenIds(std::span(ids)) {}      // NOLINT(*-explicit-*)
  TokenIds(const std::vector<TokenId>& ids) : TokenIds(std::span(ids)) {}       // NOLINT(*-explicit-*)

  uint64_t size() const { return bytes_.size() / width_; }
  uint64_t width() const { return width_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  TokenId operator[](uint64_t index) const { return width_ == 2 ? at<uint16_t>(index) : at<TokenId>(index); }
  /// Ids from `first` on; they must exist.
  void copy(uint64_t first, std::span<int32_t> to) const {
    assert(first + to.size() <= size());
    width_ == 2 ? copy_as<uint16_t>(first, to) : copy_as<TokenId>(first, to);
  }

 private:
  template <class Id>
  Id at(uint64_t index) const {
    Id id;
    std::memcpy(&id, bytes_.data() + index * sizeof id, sizeof id);
    return id;
  }
  template <class Id>
  void copy_as(uint64_t first, std::span<int32_t> to) const {
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<int32_t>(at<Id>(first + i));
  }

  std::span<const std::byte> bytes_;
  uint64_t width_ = 2;
};

}  // namespace trireme
