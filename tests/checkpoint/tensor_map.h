#pragma once
// A safetensors file as a map that tests change and write again.

#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors/safetensors.h"

namespace trireme {

struct StoredTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
  bool operator==(const StoredTensor&) const = default;

  template <class T>
  T& at(size_t i) {
    return reinterpret_cast<T*>(bytes.data())[i];
  }
};
using TensorMap = std::map<std::string, StoredTensor>;

inline TensorMap read_tensors(const std::string& path) {
  const SafetensorsFile file(path);
  TensorMap tensors;
  for (const SafetensorsEntry& entry : file.entries()) {
    const auto bytes = file.bytes(entry);
    tensors[entry.name] = {entry.dtype, entry.shape,
                           std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
  }
  return tensors;
}

inline void write_tensors(const std::string& path, const TensorMap& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors)
    entries.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape});
  SafetensorsWriter writer(path, std::move(entries), {});
  size_t i = 0;
  for (const auto& [name, tensor] : tensors) writer.write(i++, std::as_bytes(std::span(tensor.bytes)));
  writer.commit();
}

}  // namespace trireme
