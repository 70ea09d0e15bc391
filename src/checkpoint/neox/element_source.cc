#include "checkpoint/neox/element_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"

namespace trireme {

void ElementSource::add(const TorchTensor& tensor, uint64_t count, std::string_view where) {
  require(is_float_type(tensor.dtype), ErrorKind::data, "{}: {} has type {}, expected F32, F16, BF16 or F64", where,
          tensor.name, tensor.dtype);
  Part part{count_, count, tensor, {}};
  if (!is_contiguous(tensor)) part.gathered = read_f32(tensor, where);
  parts_.push_back(std::move(part));
  count_ += count;
}

uint64_t ElementSource::read(uint64_t first, std::span<float> out) const {
  uint64_t bytes = 0;
  auto part = std::upper_bound(parts_.begin(), parts_.end(), first,
                               [](uint64_t element, const Part& p) { return element < p.begin + p.count; });
  while (!out.empty()) {
    const uint64_t at = first - part->begin;
    const size_t count = std::min<uint64_t>(out.size(), part->count - at);
    if (part->gathered.empty()) {
      read_run(part->tensor, at, out.first(count));
    } else {
      std::copy_n(part->gathered.begin() + static_cast<std::ptrdiff_t>(at), count, out.begin());
    }
    bytes += count * safetensors_element_bytes(part->tensor.dtype);
    out = out.subspan(count);
    first += count;
    ++part;
  }
  return bytes;
}

}  // namespace trireme
