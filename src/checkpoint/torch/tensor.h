#pragma once
// A tensor of a file of torch.save(), as a view of the file.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct TorchTensor {
  std::string name;
  std::string dtype;  ///< as safetensors calls it: "F32", "BF16", ...
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;       ///< elements
  std::span<const std::byte> values;  ///< of the storage, from the tensor's first element on
};

/// Elements of a shape; the largest number there is when that overflows.
uint64_t element_count(std::span<const int64_t> shape);

/// Row-major, without gaps.
bool is_contiguous(const TorchTensor& tensor);

/// Elements as f32, in row order. Throws Error::data for types other than F32, F16, BF16 and F64; `where` names the
/// file.
std::vector<float> read_f32(const TorchTensor& tensor, std::string_view where);

/// out = the elements of a contiguous tensor of a float type from the `first` one on, in row order.
void read_run(const TorchTensor& tensor, uint64_t first, std::span<float> out);

}  // namespace trireme
