// Any bytes: the reader of torch.save()'s files either throws Error::data or returns tensors that lie inside the file.
#include <cstdlib>

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/torch/file.h"

namespace {

/// Every element's bytes: touching the last one is enough for the sanitizer.
void check(const trireme::TorchTensor& tensor, std::span<const std::byte> file) {
  size_t last = 0;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] == 0) return;
    last += static_cast<size_t>(tensor.shape[d] - 1) * static_cast<size_t>(tensor.strides[d]);
  }
  const size_t element = trireme::safetensors_element_bytes(tensor.dtype);
  if (element == 0 || (last + 1) * element > tensor.values.size()) std::abort();
  if (tensor.values.data() < file.data() || tensor.values.data() + tensor.values.size() > file.data() + file.size())
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  try {
    for (const trireme::TorchTensor& tensor : trireme::parse_torch(file, "fuzzed").tensors) check(tensor, file);
  } catch (const trireme::Error& e) {
    if (e.kind() != trireme::ErrorKind::data) std::abort();
  }
  return 0;
}
