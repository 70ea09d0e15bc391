#pragma once
// safetensors files: a bounds-checked reader over a memory map, and a writer. Malformed files give distinct errors and
// O(header) memory.

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "tensor/view.h"

namespace trireme {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;           ///< as written: "F32", "BF16", "F16", "I64", "U8", ...
  std::vector<int64_t> shape;  ///< any number of dims
  size_t begin = 0, end = 0;   ///< bytes from the start of the data section
};

class SafetensorsFile {
 public:
  /// Throws Error::io, Error::data (what is wrong, found, expected, where).
  explicit SafetensorsFile(const std::string& path);

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  ///< in file order
  const SafetensorsEntry* find(const std::string& name) const;
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  size_t header_bytes() const { return header_bytes_; }  ///< offset of the data section
  const std::string& path() const { return file_.path(); }
  /// Elements as f32 from F32, F16, BF16 or F64. Throws Error::data for other types.
  std::vector<float> read_f32(const SafetensorsEntry& entry) const;

 private:
  MappedFile file_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t> index_;
  std::map<std::string, std::string> metadata_;
  size_t header_bytes_ = 0;
};

}  // namespace trireme
