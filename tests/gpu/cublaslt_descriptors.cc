// cuBLASLt's descriptors of every kind of product that operators ask for, made as far as that goes without a GPU.

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "cuda/cublaslt.h"
#include "tests/gpu/without_gpu.h"

namespace trireme {
namespace {

constexpr int64_t kM = 24, kN = 40, kK = 56;

/// A matrix whose memory is not read: descriptors hold its shape, type and alignment.
View matrix(std::vector<std::byte>& memory, DType dtype, int64_t rows, int64_t columns) {
  memory.resize(static_cast<size_t>(rows * columns) * sizeof(float));
  return {memory.data(), dtype, {rows, columns}};
}

int check_all() {
  int made = 0, failed = 0;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const DType result : {dtype, DType::f32})
      for (const bool a_transposed : {false, true})
        for (const bool b_transposed : {false, true})
          for (const bool biased : {false, true})
            for (const bool gelu : {false, true}) {
              if (gelu && (a_transposed || !b_transposed || result != dtype)) continue;
              std::vector<std::byte> of_a, of_b, of_y, of_bias, of_pre;
              const View a = matrix(of_a, dtype, a_transposed ? kK : kM, a_transposed ? kM : kK);
              const View b = matrix(of_b, dtype, b_transposed ? kN : kK, b_transposed ? kK : kN);
              const View y = matrix(of_y, result, kM, kN);
              const View bias = biased ? matrix(of_bias, dtype, 1, kN) : View{};
              try {
                describe_product(a, a_transposed, b, b_transposed, bias, gelu ? matrix(of_pre, result, kM, kN) : View{},
                                 y);
                ++made;
              } catch (const Error& e) {
                if (e.kind() == ErrorKind::usage) throw;
                ++failed;
                fmt::print("{} to {}, {}{}{}{}: {}\n", name_of(dtype), name_of(result),
                           a_transposed ? "a transposed " : "", b_transposed ? "b transposed " : "",
                           biased ? "bias " : "", gelu ? "gelu" : "", e.what());
              }
            }
  fmt::print("descriptors of {} products made by cuBLASLt, {} refused\n", made, failed);
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace trireme

int main() { return trireme::check_without_gpu(trireme::check_all); }
