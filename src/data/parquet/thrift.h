#pragma once
// Thrift's compact protocol, as far as Parquet's headers need it. Source: thrift-compact-protocol.md of Apache Thrift.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Reads from bytes that may be damaged. Throws Error::data naming `where`.
class ThriftReader {
 public:
  /// `where` outlives the reader.
  ThriftReader(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  enum class Type : uint8_t { stop, yes, no, i8, i16, i32, i64, f64, binary, list, set, map, structure };

  /// A structure: calls `field` for each of its fields; it reads the field or returns false to skip it.
  void structure(const std::function<bool(int id, Type type)>& field);
  /// A list of at most `most` elements: `element` reads each.
  void list(size_t most, const std::function<void(Type type)>& element);
  int64_t integer(Type type);
  bool boolean(Type type) const { return type == Type::yes; }
  std::string_view binary(Type type);
  /// Bytes read.
  size_t at() const { return at_; }

 private:
  uint8_t byte();
  uint64_t varint();
  void skip(Type type);
  [[noreturn]] void refuse(const char* what) const;

  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace trireme
