#pragma once
// Consecutive elements in tensors of mapped files: those of one tensor, or of a flat array that is split over files.

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/torch/tensor.h"

namespace trireme {

class ElementSource {
 public:
  /// Appends the first `count` elements of a tensor. Throws Error::data for other types than F32, F16, BF16 and F64;
  /// `where` names the file. Tensors that are not contiguous are gathered here.
  void add(const TorchTensor& tensor, uint64_t count, std::string_view where);

  uint64_t count() const { return count_; }
  /// Elements [first, first + out.size()). Returns the bytes that were read of the files.
  uint64_t read(uint64_t first, std::span<float> out) const;

 private:
  struct Part {
    uint64_t begin, count;
    TorchTensor tensor;
    std::vector<float> gathered;  ///< instead of the tensor's
  };
  std::vector<Part> parts_;
  uint64_t count_ = 0;
};

}  // namespace trireme
