#pragma once
// The metadata of a Parquet file. Source: parquet.thrift of Apache Parquet.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class ParquetType : uint8_t { boolean, int32, int64, int96, f32, f64, byte_array, fixed };
const char* name_of(ParquetType type);

/// Values of a column in one row group.
struct ParquetChunk {
  std::string_view column;  ///< of a top-level column; empty for a nested one
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
  bool flat;      ///< false: a list or a structure, which is unsupported
};

struct ParquetFooter {
  std::vector<ParquetColumnFacts> columns;
  std::vector<ParquetGroup> groups;
  int64_t rows = 0;
};

/// Of the complete file, which outlives the result. Throws Error::data naming `path`.
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
