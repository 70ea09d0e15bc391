#pragma once
// Reads the values of one column of a Parquet file in row order, page by page: memory holds a page and a dictionary.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/parquet/footer.h"
#include "data/parquet/hybrid.h"

namespace trireme {

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

}  // namespace trireme
