#pragma once
// Files of torch.save() that hold a model's tensors: the ZIP container of today and the plain stream of torch before
// 1.6. They are read as data (text/files/pickle.h): nothing of them is executed, and memory is bounded.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/torch/tensor.h"

namespace trireme {

struct TorchContent {
  std::vector<TorchTensor> tensors;  ///< names are distinct
  std::string model_args;            ///< nanoGPT's, as JSON; empty: missing
};

/// Reads a complete file image: a dictionary of tensors, or one with such a dictionary under state_dict, model or
/// model_state. Tensors are views of `file`, checked to be inside their storage. `where` names it in errors. Throws
/// Error::data: what is wrong, found, expected; globals and opcodes that tensors do not need are named.
TorchContent parse_torch(std::span<const std::byte> file, std::string_view where);

class TorchFile {
 public:
  /// Throws Error::io, Error::data.
  explicit TorchFile(const std::string& path) : file_(path), content_(parse_torch(file_.bytes(), path)) {}
  const std::vector<TorchTensor>& tensors() const { return content_.tensors; }
  const std::string& model_args() const { return content_.model_args; }
  const std::string& path() const { return file_.path(); }
  /// Elements as f32, in row order. Throws Error::data for types other than F32, F16, BF16 and F64.
  std::vector<float> read_f32(const TorchTensor& tensor) const { return trireme::read_f32(tensor, path()); }

 private:
  MappedFile file_;
  TorchContent content_;
};

}  // namespace trireme
