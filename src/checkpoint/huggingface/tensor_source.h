#pragma once
// The tensors of a model, whatever files they are in: safetensors or those of torch.save(), one or several.

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/torch/file.h"

namespace trireme {

struct SourceTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::function<std::vector<float>()> read;                ///< elements as f32; throws Error::data for other types
  std::function<std::span<const std::byte>()> bytes = {};  ///< as stored; only of safetensors
};

class TensorSource {
 public:
  /// A Hugging Face folder: model.safetensors (an index beside it must list the same tensors), or the files of its
  /// index, or pytorch_model.bin, or the files of its index, or what find_unnamed_weights() (folder_kind.h) finds; the
  /// first of these that exists. Throws Error::io if none exists, Error::data for a bad file, an index that does not
  /// fit its files, or a tensor in two files.
  static TensorSource of_folder(const std::string& folder);
  /// One file of safetensors.
  static TensorSource of_safetensors(const std::string& path);
  /// One file of torch.save().
  static TensorSource of_torch_file(const std::string& path);
  /// Those of another format.
  static TensorSource of_tensors(std::vector<SourceTensor> tensors);

  /// Every tensor, file by file; valid as long as this object.
  std::vector<SourceTensor> all() const;

 private:
  TensorSource() = default;
  void open_index(const std::string& folder, const std::string& index_path, bool safe);
  /// Throws Error::data if the index lists other tensors than these.
  void require_listed_tensors(const std::string& index_path) const;
  /// Throws Error::data naming a tensor that is in two files.
  void require_each_once() const;
  /// File and name of every tensor.
  std::vector<std::pair<std::string, std::string>> places() const;
  std::vector<SafetensorsFile> safe_;
  std::vector<TorchFile> torch_;
  std::vector<SourceTensor> others_;
};

}  // namespace trireme
