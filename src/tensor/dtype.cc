#include "tensor/dtype.h"

namespace trireme {

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::u8:
      return 1;
    default:
      return 2;
  }
}

}  // namespace trireme
