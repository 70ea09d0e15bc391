#pragma once
// Rows of a Parquet column that are lists or structures, as JSON. Source: Melnik et al. 2010, "Dremel", section 4.3;
// LogicalTypes.md of Apache Parquet for lists.

#include <memory>

#include "base/json.h"
#include "data/parquet/column.h"

namespace trireme {

/// A number without rounding it; a text must be UTF-8.
Json json_of(const ParquetCell& cell);

class ParquetNestedColumn {
 public:
  /// The file outlives it. Throws Error::data for values of an unsupported type.
  ParquetNestedColumn(const ParquetFile& file, const ParquetNested& nested);
  ParquetNestedColumn(ParquetNestedColumn&&) noexcept;
  ~ParquetNestedColumn();

  /// The next row: a list as an array, a structure as an object, a map as an array of objects; null where it is
  /// missing. False after the last. `valid`: whether all texts are UTF-8. Throws Error::data.
  bool next(Json& value, bool& valid);

 private:
  struct Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace trireme
