#include "comm/check.h"

#include "base/error.h"

namespace trireme::comm_check {

void reducible(std::string_view call, ConstView x) {
  const DType type = x.dtype();
  require(type == DType::f32 || type == DType::f64 || type == DType::i32 || type == DType::i64, ErrorKind::shape,
          "{}: got {}, expected f32, f64, i32 or i64", call, name_of(type));
}

void parts(std::string_view call, ConstView small, ConstView large, int parts) {
  require(small.dtype() == large.dtype() && large.count() == small.count() * parts, ErrorKind::shape,
          "{}: got {} {} and {} {}, expected the same type and {} times the elements in the second", call,
          name_of(small.dtype()), small.shape().to_string(), name_of(large.dtype()), large.shape().to_string(), parts);
}

void tag(std::string_view call, int tag) {
  require(tag >= 0 && tag <= kMostTag, ErrorKind::shape, "{}: got tag {}, expected 0 to {}", call, tag, kMostTag);
}

void rank(std::string_view call, int rank, int size) {
  require(rank >= 0 && rank < size, ErrorKind::shape, "{}: got rank {}, expected 0 to {}", call, rank, size - 1);
}

}  // namespace trireme::comm_check
