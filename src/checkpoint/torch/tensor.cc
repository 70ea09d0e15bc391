#include "checkpoint/torch/tensor.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"

namespace trireme {
namespace {

/// Copies the elements of dim d and deeper into row order.
template <size_t kBytes>
std::byte* gather(const std::byte* from, const TorchTensor& tensor, size_t d, std::byte* to) {
  if (d == tensor.shape.size()) {
    std::memcpy(to, from, kBytes);
    return to + kBytes;
  }
  const size_t step = static_cast<size_t>(tensor.strides[d]) * kBytes;
  for (size_t i = 0; i < static_cast<size_t>(tensor.shape[d]); ++i)
    to = gather<kBytes>(from + i * step, tensor, d + 1, to);
  return to;
}

}  // namespace

void TorchStorage::check() const {
  std::call_once(checked_, [&] {
    const std::string fault = zip_fault(member_, where_);
    require(fault.empty(), ErrorKind::data, "{}", fault);
  });
}

uint64_t element_count(std::span<const int64_t> shape) {
  uint64_t count = 1;
  bool over = false;
  for (const int64_t size : shape) {
    if (size == 0) return 0;
    over |= __builtin_mul_overflow(count, static_cast<uint64_t>(size), &count);
  }
  return over ? std::numeric_limits<uint64_t>::max() : count;
}

bool is_contiguous(const TorchTensor& tensor) {
  int64_t expected = 1;
  for (size_t d = tensor.shape.size(); d-- > 0; expected *= tensor.shape[d]) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
  }
  return true;
}

std::vector<float> read_f32(const TorchTensor& tensor, std::string_view where) {
  const std::string what = fmt::format("{}: tensor {}", where, tensor.name);
  const size_t element = safetensors_element_bytes(tensor.dtype);
  const size_t bytes = element_count(tensor.shape) * element;
  if (bytes == 0) return {};
  if (tensor.storage) tensor.storage->check();
  if (is_contiguous(tensor)) return elements_as_f32(tensor.values.first(bytes), tensor.dtype, what);
  std::vector<std::byte> rows(bytes);
  if (element == 2) gather<2>(tensor.values.data(), tensor, 0, rows.data());
  if (element == 4) gather<4>(tensor.values.data(), tensor, 0, rows.data());
  if (element == 8) gather<8>(tensor.values.data(), tensor, 0, rows.data());
  return elements_as_f32(rows, tensor.dtype, what);
}

void read_run(const TorchTensor& tensor, uint64_t first, std::span<float> out) {
  if (first == 0 && tensor.storage) tensor.storage->check();
  const size_t element = safetensors_element_bytes(tensor.dtype);
  widen_elements(tensor.values.subspan(first * element, out.size() * element), tensor.dtype, out);
}

}  // namespace trireme
