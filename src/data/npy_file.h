#pragma once
// numpy's .npy files of integers in C order: written atomically (as format 1.0), mapped for reading.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace trireme {

/// The header of a .npy file.
struct NpyHeader {
  std::string type;             ///< in numpy's notation, "<u2"
  bool fortran = false;         ///< the first dimension is the dense one
  std::vector<uint64_t> shape;  ///< empty: a single element
  size_t data = 0;              ///< bytes before the first element
};

bool is_npy(std::string_view file);
/// Formats 1.0, 2.0 and 3.0. Throws Error::data naming the path.
NpyHeader read_npy_header(std::string_view file, const std::string& path);

enum class NpyType { i32, u32, i64 };

/// Writes `values` as one dimension, or as rows of `columns` if that is not 0.
void write_npy(const std::string& path, std::span<const int32_t> values, uint64_t columns = 0);
void write_npy(const std::string& path, std::span<const uint32_t> values, uint64_t columns = 0);
void write_npy(const std::string& path, std::span<const int64_t> values, uint64_t columns = 0);

/// One array, memory mapped.
class NpyArray {
 public:
  NpyArray() = default;
  /// Throws Error::io, Error::data (not a .npy file of integers in C order, or truncated).
  explicit NpyArray(const std::string& path);

  const std::vector<uint64_t>& shape() const { return shape_; }
  NpyType type() const { return type_; }
  /// Number of elements.
  uint64_t size() const { return size_; }
  /// The bytes of all elements, in C order.
  std::span<const std::byte> bytes() const { return data_; }
  /// Element `index` in C order; index < size().
  int64_t at(uint64_t index) const;

 private:
  MappedFile file_;
  std::span<const std::byte> data_;
  std::vector<uint64_t> shape_;
  NpyType type_ = NpyType::i32;
  uint64_t size_ = 0;
};

}  // namespace trireme
