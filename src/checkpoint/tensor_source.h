#pragma once
// The tensors of a Hugging Face model folder: model.safetensors, or the files that model.safetensors.index.json lists.

#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace trireme {

struct SourceTensor {
  const SafetensorsFile* file = nullptr;
  const SafetensorsEntry* entry = nullptr;
};

class TensorSource {
 public:
  /// Throws Error::io when the folder has no such file (naming what it has instead), Error::data for a bad file, an
  /// index that does not fit its files, or a tensor in two files.
  explicit TensorSource(const std::string& folder);

  /// entry is null when there is no such tensor.
  SourceTensor find(std::string_view name) const;
  /// Every tensor, file by file.
  std::vector<SourceTensor> all() const;

 private:
  void open_index(const std::string& folder, const std::string& index_path);
  std::vector<SafetensorsFile> files_;
};

}  // namespace trireme
