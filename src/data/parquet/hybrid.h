#pragma once
// Parquet's mixture of runs and packed bits, for levels and dictionary indices. Source: Encodings.md of Apache Parquet,
// "RLE / Bit-Packing Hybrid".

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

class HybridReader {
 public:
  HybridReader() = default;
  /// width: bits of a value, 0 to 32.
  HybridReader(std::span<const std::byte> bytes, unsigned width) : bytes_(bytes), width_(width) {}
  /// Packed bits only, `count` values.
  static HybridReader packed(std::span<const std::byte> bytes, unsigned width, uint64_t count) {
    HybridReader reader(bytes, width);
    reader.packed_ = true;
    reader.left_ = count;
    return reader;
  }
  /// False at the end of the bytes.
  bool next(uint32_t& value) {
    while (left_ == 0) {
      if (!begin_run()) return false;
    }
    --left_;
    if (!packed_) {
      value = run_value_;
      return true;
    }
    uint64_t bits = 0;
    const size_t first = bit_ / 8, last = (bit_ + width_ + 7) / 8;
    if (last > bytes_.size()) return false;
    for (size_t i = first; i < last; ++i) bits |= std::to_integer<uint64_t>(bytes_[i]) << (8 * (i - first));
    value = static_cast<uint32_t>(bits >> (bit_ % 8) & ((uint64_t{1} << width_) - 1));
    bit_ += width_;
    if (left_ == 0) at_ = (bit_ + 7) / 8;
    return true;
  }

 private:
  bool begin_run() {
    uint64_t head = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (at_ >= bytes_.size() || shift > 35) return false;
      const auto next = std::to_integer<uint64_t>(bytes_[at_++]);
      head |= (next & 0x7F) << shift;
      if (next < 0x80) break;
    }
    packed_ = (head & 1) != 0;
    if (packed_) {
      left_ = (head >> 1) * 8;
      bit_ = at_ * 8;
      return true;
    }
    left_ = head >> 1;
    run_value_ = 0;
    const size_t size = (width_ + 7) / 8;
    if (size > bytes_.size() - at_) return false;
    for (size_t i = 0; i < size; ++i) run_value_ |= std::to_integer<uint32_t>(bytes_[at_ + i]) << (8 * i);
    at_ += size;
    return true;
  }

  std::span<const std::byte> bytes_;
  unsigned width_ = 0;
  size_t at_ = 0, bit_ = 0;
  uint64_t left_ = 0;
  bool packed_ = false;
  uint32_t run_value_ = 0;
};

}  // namespace trireme
