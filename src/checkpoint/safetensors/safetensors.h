#pragma once
// safetensors files: a bounds-checked reader over a memory map, and a streaming writer. Malformed files give distinct
// errors and O(header) memory. Layout: u64 little-endian header length, that many bytes of JSON, then the data section,
// which the tensors' offsets tile without holes or overlap.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/view.h"

namespace trireme {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;           ///< as written: "F32", "BF16", "F16", "I64", "U8", ...
  std::vector<int64_t> shape;  ///< any number of dims
  size_t begin = 0, end = 0;   ///< bytes from the start of the data section
  bool operator==(const SafetensorsEntry&) const = default;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

/// The header of a safetensors file.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in header order
  std::vector<size_t> by_name;            ///< entries' indices sorted by name
  SafetensorsMetadata metadata;
  size_t data_offset = 0;  ///< bytes before the data section
};

/// Throws Error::data for a file of a clone without Git LFS: a few lines in place of the weights.
void refuse_lfs_pointer(std::span<const std::byte> file, std::string_view where);
/// Name of another format that a file's first bytes belong to ("GGUF", "npz", "ONNX", "pickle", ...); empty: not known.
std::string other_format(std::span<const std::byte> file);

/// Parses and checks the whole file image; `where` names it in errors. Throws Error::data: what is wrong, found,
/// expected; files of other known formats (GGUF, pickle, npz, ...) are named.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view where);

/// Lays the entries' data out in the given order (sets begin and end from dtype and shape) and returns the bytes before
/// it: length and JSON, padded with spaces to a multiple of 8.
std::string plan_safetensors(std::vector<SafetensorsEntry>& entries, const SafetensorsMetadata& metadata);

/// Bytes of one element ("F32": 4), 0 for a type that is not known.
size_t safetensors_element_bytes(std::string_view dtype);

/// F32, F16, BF16 or F64.
bool is_float_type(std::string_view dtype);
/// out = the elements of a float type, of which out has the same number.
void widen_elements(std::span<const std::byte> raw, std::string_view dtype, std::span<float> out);
/// Elements as f32 from F32, F16, BF16 or F64; `what` names them in the error (Error::data) for other types.
std::vector<float> elements_as_f32(std::span<const std::byte> raw, std::string_view dtype, std::string_view what);

class SafetensorsFile {
 public:
  /// Throws Error::io, Error::data.
  explicit SafetensorsFile(const std::string& path);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }  ///< in header order
  const SafetensorsEntry* find(std::string_view name) const;
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;
  const SafetensorsMetadata& metadata() const { return header_.metadata; }
  size_t header_bytes() const { return header_.data_offset; }  ///< offset of the data section
  std::span<const std::byte> file_bytes() const { return file_.bytes(); }
  const std::string& path() const { return file_.path(); }
  /// Elements as f32 from F32, F16, BF16 or F64. Throws Error::data for other types.
  std::vector<float> read_f32(const SafetensorsEntry& entry) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
};

/// Writes a file whose tensors are known beforehand; their data may be written in any order. The file appears at
/// commit().
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, std::vector<SafetensorsEntry> entries,
                    const SafetensorsMetadata& metadata);

  const std::string& header() const { return header_; }                      ///< every byte before the data
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  ///< with their offsets
  /// All bytes of one tensor.
  void write(size_t entry, std::span<const std::byte> bytes);
  /// fsync, rename. Throws Error::io; writing every tensor first is the caller's part (assert).
  void commit();

 private:
  std::vector<SafetensorsEntry> entries_;
  std::string header_;
  AtomicFile file_;
  size_t written_ = 0;
};

}  // namespace trireme
