#pragma once
// Logical types of Parquet: what the stored numbers and bytes mean. Source: LogicalTypes.md of Apache Parquet.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace trireme {

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

}  // namespace trireme
