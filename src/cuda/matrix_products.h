#pragma once
// The seam to the library of matrix products: cuBLASLt (cublaslt.cc), or plain loops in the tests of the executor.

#include <string>

#include "cuda/stream.h"
#include "tensor/view.h"

namespace trireme {

class MatrixProducts {
 public:
  virtual ~MatrixProducts() = default;
  /// "cuBLASLt 130200"
  virtual std::string name() const = 0;

  /// y = beta y + op(a) op(b) + bias, in f32 arithmetic.  op(a): [m, k], op(b): [k, n], both of one type, f32, bf16 or
  /// f16; op is the transposition where a_transposed or b_transposed; y: [m, n], of that type or f32; bias: [n] of a's
  /// type or empty. beta: 0 or 1; with 1, the complete sum is added once. Throws Error::io naming the library's answer.
  virtual void multiply(gpu::Stream, ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias,
                        float beta, View y) = 0;

  /// pre = x w^T + bias, y = gelu_tanh(the sum before it is rounded to pre), in one product.  x: [m, k], w: [n, k],
  /// bias: [n] or empty, pre, y: [m, n], all of one type; n a multiple of 8. Returns false, and nothing is done, where
  /// the library has no fast method for it. Throws as multiply().
  virtual bool multiply_gelu(gpu::Stream, ConstView x, ConstView w, ConstView bias, View pre, View y) = 0;
};

}  // namespace trireme
