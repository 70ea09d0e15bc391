#pragma once
// A tensor of a file of torch.save(), as a view of the file.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/torch/zip_archive.h"

namespace trireme {

/// The memory of tensors: a member of a ZIP container. It is compared with its checksum once, when a tensor is read.
class TorchStorage {
 public:
  TorchStorage(const ZipMember& member, std::string_view where) : member_(member), where_(where) {}
  std::span<const std::byte> bytes() const { return member_.data; }
  /// Throws Error::data naming file and member if the bytes are damaged.
  void check() const;

 private:
  ZipMember member_;
  std::string where_;
  mutable std::once_flag checked_;
};

struct TorchTensor {
  std::string name;
  std::string dtype;  ///< as safetensors calls it: "F32", "BF16", ...
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;       ///< elements
  std::span<const std::byte> values;  ///< of the storage, from the tensor's first element on
  std::shared_ptr<const TorchStorage> storage = {};
};

/// Elements of a shape; the largest number there is when that overflows.
uint64_t element_count(std::span<const int64_t> shape);

/// Row-major, without gaps.
bool is_contiguous(const TorchTensor& tensor);

/// Elements as f32, in row order. Throws Error::data for damaged bytes, and for types other than F32, F16, BF16 and
/// F64; `where` names the file.
std::vector<float> read_f32(const TorchTensor& tensor, std::string_view where);

/// out = the elements of a contiguous tensor of a float type from the `first` one on, in row order. Who reads the first
/// element of all checks the bytes of the whole storage: of many ranks that each read a part, one does. Throws
/// Error::data.
void read_run(const TorchTensor& tensor, uint64_t first, std::span<float> out);

}  // namespace trireme
