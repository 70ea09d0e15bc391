#pragma once
// Reads the values of one column of a Parquet file in row order, page by page: memory holds a page and a dictionary.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/parquet/footer.h"

namespace trireme {

// Parquet's mixture of runs and packed bits, for levels and dictionary indices. Source: Encodings.md of Apache Parquet,
// "RLE / Bit-Packing Hybrid".

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

/// An open file.
struct ParquetFile {
  /// Throws Error::io, Error::data.
  explicit ParquetFile(const std::string& path);

  MappedFile file;
  ParquetFooter footer;

  const std::string& path() const { return file.path(); }
  /// nullptr if no column has that name.
  const ParquetColumnFacts* find(std::string_view name) const;
  /// "id (int32), text (byte_array)", for messages.
  std::string describe() const;
};

/// A value; neither text nor number: null.
struct ParquetCell {
  enum class Exact : uint8_t { none, truth, integer, natural };

  std::optional<std::string_view> text;  ///< valid until the next value is read; also a date, time or decimal
  std::optional<double> number;          ///< also for truth values
  Exact exact = Exact::none;             ///< of a number that is a truth value or whole: what `bits` are
  uint64_t bits = 0;                     ///< the two's complement of a number that `number` may have rounded
};

class ParquetColumn {
 public:
  /// The file outlives it. Throws Error::data if the column is a list, a structure or of an unsupported type.
  ParquetColumn(const ParquetFile& file, const ParquetColumnFacts& facts);
  /// Values within lists or structures, of which a row may have any number.
  ParquetColumn(const ParquetFile& file, ParquetLeaf leaf);

  /// The next row's value; false after the last. Throws Error::data.
  bool next(ParquetCell& cell);
  /// The next value with its levels: Parquet's definition and repetition.
  bool next(ParquetCell& cell, uint32_t& definition, uint32_t& repetition);
  /// Bytes of the file used by its pages so far.
  uint64_t consumed() const { return consumed_; }

 private:
  bool open_group();
  void open_page();
  void read_dictionary(std::span<const std::byte> bytes, int64_t values);
  void begin_values(int64_t encoding);
  std::span<const std::byte> unpack(const ParquetPage& page, std::span<const std::byte> bytes);
  std::span<const std::byte> cut(size_t size);
  ParquetCell plain();
  ParquetCell value();
  ParquetCell meant(ParquetCell cell);
  void count_repeated();
  [[noreturn]] void damaged(const char* what) const;

  const ParquetFile& file_;
  ParquetLeaf leaf_;
  size_t group_ = 0;
  int64_t codec_ = 0;
  int64_t group_values_ = 0, page_values_ = 0;  // remaining
  std::span<const std::byte> chunk_;            // rest of the group's pages
  std::vector<std::byte> page_, dictionary_page_;
  std::vector<ParquetCell> dictionary_;
  std::span<const std::byte> values_;           // rest of the page's
  std::string text_;                            // of the last value that is a date, time or decimal
  uint64_t repeated_ = 0, repeated_large_ = 0;  // bytes of all texts that a dictionary gave
  HybridReader definitions_, repetitions_, places_;
  bool in_dictionary_ = false, packed_truth_ = false;
  uint64_t consumed_ = 0;
};

// The compressions of Parquet's pages.

/// Fills `to` from `from`: codec 0 none, 1 snappy, 2 gzip, 6 zstd. Throws Error::data naming `path` for other codecs,
/// and for contents of another size.
void decompress_page(int64_t codec, std::span<const std::byte> from, std::span<std::byte> to, const std::string& path);

/// Snappy's raw format; false if it is damaged or does not fill `to` exactly. Source: format_description.txt of
/// google/snappy.
bool decompress_snappy(std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace trireme
