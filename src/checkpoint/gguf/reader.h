#pragma once
// Reads GGUF files: a bounds-checked reader over a memory map. Malformed files give distinct errors and memory for what
// the file really has.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "checkpoint/gguf/file.h"

namespace trireme {

/// A value of the metadata; numbers are widened, arrays of bool are of integers.
using GgufValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;

struct GgufHeader {
  std::string where;  ///< the file, for errors
  std::map<std::string, GgufValue, std::less<>> values;
  std::vector<GgufTensor> tensors;  ///< begin: from the start of the data
  uint64_t data_offset = 0;         ///< bytes before the data

  const GgufTensor* find(std::string_view name) const;
  bool has(std::string_view key) const { return values.contains(key); }
  /// The value of a key, or `otherwise`, or nothing. Throw Error::data for another type, and where nothing is there and
  /// no `otherwise`.
  int64_t integer(std::string_view key, std::optional<int64_t> otherwise = {}) const;
  double number(std::string_view key, std::optional<double> otherwise = {}) const;
  bool flag(std::string_view key, bool otherwise) const;
  const std::string& text(std::string_view key) const;
  /// An array, or null where the key is missing. Throws Error::data for another type.
  template <class T>
  const std::vector<T>* array(std::string_view key) const;

 private:
  template <class T>
  const T* get(std::string_view key, const char* expected) const;
  template <class T>
  const T& need(std::string_view key, const char* expected, const std::optional<T>& otherwise) const;
};

/// Parses and checks the complete file image: versions 2 and 3, little endian. Throws Error::data.
GgufHeader parse_gguf(std::span<const std::byte> file, std::string_view where);

class GgufFile {
 public:
  /// Throws Error::io, Error::data.
  explicit GgufFile(const std::string& path) : file_(path), header_(parse_gguf(file_.bytes(), path)) {}

  const GgufHeader& header() const { return header_; }
  std::vector<float> read(const GgufTensor& tensor) const;
  std::span<const std::byte> bytes(const GgufTensor& tensor) const;

 private:
  MappedFile file_;
  GgufHeader header_;
};

}  // namespace trireme
