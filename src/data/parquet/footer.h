#pragma once
// The metadata of a Parquet file. Source: parquet.thrift of Apache Parquet.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Logical types of Parquet: what the stored numbers and bytes mean. Source: LogicalTypes.md of Apache Parquet.

struct ParquetMeaning {
  enum class Kind : uint8_t {
    plain,      ///< the stored type's: numbers, truth values, texts
    natural,    ///< an integer >= 0
    date,       ///< days from 1970-01-01
    time,       ///< of a day
    timestamp,  ///< from 1970-01-01
    decimal,
    other,  ///< not supported
  } kind = Kind::plain;
  int64_t digits = 0;  ///< of a second's fraction, 3, 6 or 9; after the point of a decimal
  bool utc = false;    ///< of a timestamp; otherwise its time zone is not known
  int64_t length = 0;  ///< bytes of a value of the type `fixed`
};

/// A date, time, timestamp or decimal as Python's str() writes it, "2024-02-29 12:30:00.250000+00:00"; a decimal never
/// has an exponent. Nothing: outside of the years 1 to 9999 or of a day.
std::optional<std::string> parquet_text(const ParquetMeaning& meaning, int64_t value);

/// A decimal from its two's complement, the most significant byte first, at most 32 bytes; nothing for more or none.
std::optional<std::string> parquet_decimal(std::span<const std::byte> bytes, int64_t digits);

/// A timestamp in the 12 bytes of an int96: nanoseconds of the day, then its Julian number.
std::optional<std::string> parquet_julian(std::span<const std::byte> bytes);

enum class ParquetType : uint8_t { boolean, int32, int64, int96, f32, f64, byte_array, fixed };
const char* name_of(ParquetType type);
/// Texts, numbers, truth values, dates, times and decimals.
bool is_readable(ParquetType type, const ParquetMeaning& meaning);

/// Values of a column in one row group.
struct ParquetChunk {
  std::string_view column;  ///< of a top-level column; empty for a nested one
  std::string path = {};    ///< of a nested one: its names, joined by line breaks
  int64_t codec = 0, values = 0, bytes = 0;
  int64_t first_page = 0;  ///< offset in the file: the dictionary, if there is one
};

struct ParquetGroup {
  std::vector<ParquetChunk> chunks;
  int64_t rows = 0;
};

/// A top-level column.
struct ParquetColumnFacts {
  std::string name;
  ParquetType type;
  bool optional;  ///< may have nulls
  bool flat;      ///< false: a list or a structure (nested.h)
  ParquetMeaning meaning;
};

/// Values of one kind: a flat column, or what a list or a structure contains.
struct ParquetLeaf {
  std::string name;  ///< of its top-level column, for messages
  ParquetType type;
  std::string path;  ///< as in ParquetChunk
  /// Levels of a value that is there; of a list's items.
  uint32_t definition = 0, repetition = 0;
  ParquetMeaning meaning = {};
};

/// A column, or a part of a nested one.
struct ParquetNode {
  enum class Kind : uint8_t { required, optional, repeated } kind = Kind::required;
  std::string name;
  std::vector<ParquetNode> children = {};  ///< empty: values
  size_t first_leaf = 0, leaves = 0;       ///< of those of its column
  uint32_t definition = 0, repetition = 0;
};

/// A column whose rows are lists or structures.
struct ParquetNested {
  ParquetNode root;
  std::vector<ParquetLeaf> leaves;
};

struct ParquetFooter {
  std::vector<ParquetColumnFacts> columns;
  std::vector<ParquetNested> nested;  ///< columns that are not flat
  std::vector<ParquetGroup> groups;
  int64_t rows = 0;
};

/// Reads the complete file, which outlives the result. Throws Error::data naming `path`.
ParquetFooter read_parquet_footer(std::span<const std::byte> file, const std::string& path);

struct ParquetPage {
  enum class Kind : uint8_t { data, index, dictionary, data_v2 } kind = Kind::data;
  int64_t bytes = 0, compressed_bytes = 0, values = 0, encoding = 0;
  int64_t definition_bytes = 0, repetition_bytes = 0;  ///< data_v2
  bool compressed = true;                              ///< data_v2
  bool has_checksum = false;
  uint32_t checksum = 0;    ///< CRC-32 of the compressed bytes
  size_t header_bytes = 0;  ///< of this header itself
};

/// Throws Error::data naming `path`.
ParquetPage read_page_header(std::span<const std::byte> bytes, const std::string& path);

}  // namespace trireme
